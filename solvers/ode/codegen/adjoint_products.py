r"""Products of a right-hand side's transposed Jacobians, as compiled functions for the adjoint of a step.

With weights v of the values f the products are :math:`J^T v` and :math:`f_p^T v`. A linearly implicit step needs the
derivatives of :math:`v \cdot (J u + \tau f_t)` by states and parameters, too. Both are the reverse mode of automatic
differentiation of the traced graph (Griewank and Walther 2008, "Evaluating Derivatives", section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from invsamp.solvers.ode.codegen.compile_cache import Compiled, compiled
from invsamp.solvers.ode.codegen.compile_rhs import key_of
from invsamp.solvers.ode.codegen.llvm import OUT, Plan, emitted, source_of
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import RULES, Graph, Node, Row, operands_of, reachable, trace_graph
from invsamp.solvers.ode.codegen.rosenbrock_jacobians import tangent_nodes


@lru_cache(maxsize=256)
def has_pullback(rhs: Rhs, n: int, q: int) -> bool:
    """Whether the products can be had: ``rhs`` traces, and chooses between no values."""
    try:
        traced = trace_graph(rhs, n, q)
    except ValueError:
        return False
    return not any(traced.graph.rows[index][0] == "select" for index in reachable(traced.graph, traced.outputs))


@lru_cache(maxsize=256)
def prepare_pullback(rhs: Rhs, n: int, q: int) -> Compiled:
    """Compile ``f(t, y, p, out)``: from y = x (n,), v (n,) to out = J^T v (n,), f_p^T v (q,)."""

    def plan() -> Plan:
        traced = trace_graph(rhs, n, q)
        graph = traced.graph
        return graph, _wanted(graph, [(node, graph.node("y", n + i)) for i, node in enumerate(traced.outputs)], n)

    return compiled(
        source_of(n + q), "pullback", key=key_of("pullback", rhs, n, q), scope={"operations": emitted(plan)}
    )


@lru_cache(maxsize=256)
def prepare_second_pullback(rhs: Rhs, n: int, q: int) -> Compiled:
    """Compile ``f(t, y, p, out)``: from y = x (n,), u (n,), tau, v (n,) to the derivatives of v . (J u + tau f_t)."""

    def plan() -> Plan:
        traced = trace_graph(rhs, n, q)
        graph = traced.graph
        direction: dict[tuple[object, ...], Node] = {("t",): graph.node("y", 2 * n)}
        direction |= {("y", i): graph.node("y", n + i) for i in range(n)}
        moved = tangent_nodes(graph, traced.outputs, direction)
        return graph, _wanted(graph, [(each.index, graph.node("y", 2 * n + 1 + i)) for i, each in enumerate(moved)], n)

    key = key_of("second_pullback", rhs, n, q)
    return compiled(source_of(n + q), "second", key=key, scope={"operations": emitted(plan)})


def _wanted(graph: Graph, weights: list[tuple[int, Node]], n: int) -> list[tuple[int, int, int, int]]:
    """Derivatives of a weighted sum of nodes by the first n states, and by the parameters after them."""
    found = _pulled_back(graph, weights)
    return [
        (row[1], OUT, row[1] if row[0] == "y" else n + row[1], node.index)
        for row, node in found.items()
        if (row[0] == "y" and row[1] < n) or row[0] == "p"
    ]


def _pulled_back(graph: Graph, weights: list[tuple[int, Node]]) -> Mapping[Row, Node]:
    """Derivatives of a weighted sum of nodes by all inputs, by their rows."""
    terms: dict[int, list[Node]] = {}
    for node, weight in weights:
        terms.setdefault(node, []).append(weight)
    found: dict[Row, Node] = {}
    for index in reversed(reachable(graph, list(terms))):
        if index not in terms:
            continue
        outer, row = _sum(terms.pop(index)), graph.rows[index]
        if row[0] in ("y", "p"):
            found[row] = outer
        operands = [Node(graph, k) for k in operands_of(row)]
        if operands:
            for operand, inner in zip(operands, RULES[row[0]](Node(graph, index), *operands), strict=True):
                if operand.value is None:
                    terms.setdefault(operand.index, []).append(outer * inner)
    return found


def _sum(terms: list[Node]) -> Node:
    """Sum of nodes by halves: a chain of a thousand sums would be a thousand operations that wait for each other."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return _sum(terms[:middle]) + _sum(terms[middle:])
