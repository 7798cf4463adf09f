r"""Jacobians of a right-hand side and their derivatives, as compiled functions for linearly implicit methods.

The variational equations :math:`S' = J S + f_p` have, in a direction :math:`(u, \tau)` of states and time and at fixed
S, the derivative

.. math:: \dot J S + \dot f_p, \qquad \dot J = \sum_i u_i\, \partial J / \partial x_i + \tau\, \partial J / \partial t

Forward differentiation of the traced entries of J and :math:`f_p` gives it at a small multiple of their own cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from invsamp.solvers.foreign import Term
from invsamp.solvers.ode.codegen.compile_cache import Compiled, compiled
from invsamp.solvers.ode.codegen.compile_rhs import key_of
from invsamp.solvers.ode.codegen.llvm import (
    OUT,
    TABLE,
    Pairs,
    Planned,
    emitted,
    jacobian_plan,
    products_source,
    source_of,
)
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import (
    CONDITIONS,
    RULES,
    Graph,
    Node,
    chained,
    operands_of,
    reachable,
    trace_graph,
    where,
)


class Linearized(NamedTuple):
    """Compiled functions ``f(t, y, p, out)``."""

    jacobian: Compiled  # y = x (n,): out = f (n,), then the entries of df/dx
    tangents: Compiled  # y = x (n,), u (n,), tau, S: out = tau df/dt (n,), then the derivative of S' in (u, tau)


@lru_cache(maxsize=256)
def prepare_entries(rhs: Rhs, n: int, q: int) -> Compiled:
    """Compile f and the entries of df/dx: `Linearized.jacobian`.

    Raises
    ------
    ValueError
        If ``rhs`` does not trace.
    """
    return compiled(
        source_of(),
        "entries",
        key=key_of("entries", rhs, n, q),
        scope={"operations": emitted(lambda: jacobian_plan(trace_graph(rhs, n, q)))},
    )


@lru_cache(maxsize=256)
def prepare_linearized(rhs: Rhs, n: int, q: int, columns: int, own: tuple[int, ...]) -> Linearized:
    """Compile what belongs to ``columns`` of sensitivities, the first of them to the parameters ``own``.

    Raises
    ------
    ValueError
        If ``rhs`` does not trace.
    """
    name = f"tangents{columns}_of_{'_'.join(map(str, own))}"
    found = compiled(
        products_source(n, columns, 2 * n + 1, *_plan(rhs, n, q, own)[2:]),
        "tangents",
        key=key_of(name, rhs, n, q),
        scope={"operations": emitted(lambda: _plan(rhs, n, q, own)[:2])},
    )
    return Linearized(prepare_entries(rhs, n, q), found)


@lru_cache(maxsize=256)
def jacobian_entries(rhs: Rhs, n: int, q: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of the entries of df/dx, as `Linearized.jacobian` has them."""
    rows, columns, _ = trace_graph(rhs, n, q).by_states
    return rows, columns


@lru_cache(maxsize=256)
def is_traced(rhs: Rhs, n: int, q: int) -> bool:
    """Whether it does."""
    try:
        trace_graph(rhs, n, q)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=8)
def _plan(rhs: Rhs, n: int, q: int, own: tuple[int, ...]) -> tuple[Graph, list[Planned], Pairs, Pairs]:
    """Outputs to compute, and rows and columns of their entries: of J, then of f_p, in the columns of ``own``."""
    traced = trace_graph(rhs, n, q)
    graph, by = traced.graph, traced.by_parameters
    in_time: dict[tuple[object, ...], Node] = {("t",): graph.node("y", 2 * n)}
    everywhere = in_time | {("y", i): graph.node("y", n + i) for i in range(n)}
    moved = tangent_nodes(graph, traced.outputs, in_time)
    wanted = [(k, OUT, k, entry.index) for k, entry in enumerate(moved)]
    entries = [(i, j, node) for i, j, node in zip(*traced.by_states, strict=True)]
    column = {parameter: k for k, parameter in enumerate(own)}
    entries_own = [(i, column[j], node) for i, j, node in zip(*by, strict=True) if j in column]
    pairs: tuple[Pairs, Pairs] = ([], [])
    place = 0
    for group, found in ((entries, pairs[0]), (entries_own, pairs[1])):
        slopes = tangent_nodes(graph, [node for *_, node in group], everywhere)
        for (i, j, _), slope in zip(group, slopes, strict=True):
            if slope.value != 0.0:
                wanted.append((i, TABLE, place, slope.index))
                found.append((i, j))
                place += 1
    return graph, wanted, *pairs


def tangent_nodes(graph: Graph, nodes: Sequence[int], direction: dict[tuple[object, ...], Node]) -> list[Node]:
    """Nodes of the derivatives of some in the direction that is given for inputs."""
    slopes: dict[int, Term] = {}
    for index in reachable(graph, nodes):
        row = graph.rows[index]
        operands = [Node(graph, k) for k in operands_of(row)]
        if row in direction:
            slopes[index] = direction[row]
        elif row[0] == "select" and (operands[1].index in slopes or operands[2].index in slopes):
            slopes[index] = where(operands[0], *(slopes.get(each.index, 0.0) for each in operands[1:]))
        elif row[0] not in (*CONDITIONS, "select") and any(each.index in slopes for each in operands):
            rules = zip(operands, RULES[row[0]](Node(graph, index), *operands), strict=True)
            terms = [chained(graph.constant(slopes[each.index]), rule) for each, rule in rules if each.index in slopes]
            slopes[index] = sum(terms[1:], terms[0])
    return [slopes.get(node, graph.constant(0.0)) for node in nodes]
