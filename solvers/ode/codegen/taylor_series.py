r"""Taylor series of the solutions of a traced right-hand side, and of their sensitivities, as machine code.

Let :math:`a_{[k]}` be the coefficient of :math:`(t - t_0)^k` of a quantity. A product has
:math:`(a b)_{[k]} = \sum_j a_{[j]} b_{[k-j]}`, a quotient :math:`c = a / b` has
:math:`c_{[k]} = (a_{[k]} - \sum_{j \ge 1} b_{[j]} c_{[k-j]}) / b_{[0]}`. A power with a constant exponent has
:math:`k\, a_{[0]} c_{[k]} = \sum_{j \ge 1} (\alpha j - k + j)\, a_{[j]} c_{[k-j]}`. The source is Jorba and Zou 2005,
"A software package for the numerical integration of ODEs by means of high-order Taylor methods", Experimental
Mathematics 14, section 2. Any other function g has :math:`k\, g_{[k]} = \sum_{j \ge 1} j\, a_{[j]} g'_{[k-j]}`, and its
derivative g'
is one more quantity of the graph. States follow from :math:`(k + 1) x_{[k+1]} = f_{[k]}`, sensitivities from

.. math:: (k + 1) S_{[k+1]} = \sum_j J_{[j]} S_{[k-j]} + f_{p[k]}

in which the coefficients of the Jacobian are shared by all columns: these are the lanes of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.codegen.compile_cache import Compiled, compiled
from invsamp.solvers.ode.codegen.compile_rhs import key_of
from invsamp.solvers.ode.codegen.llvm import operation
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import (
    CONDITIONS,
    RULES,
    Graph,
    Node,
    Row,
    operands_of,
    reachable,
    trace_graph,
)
from invsamp.solvers.ode.integrators.taylor import MOST_ORDER

#: Columns of sensitivities that one vector has, and products that are written out at most.
_LANES, _MOST_PRODUCTS = 8, 20_000
_DOUBLE, _INT = ir.DoubleType(), ir.IntType(64)


class Plan(NamedTuple):
    """Quantities to compute: right-hand side, entries of its Jacobian, derivatives by the parameters with a column."""

    graph: Graph
    nodes: list[int]  # all quantities, in order
    n: int
    outputs: tuple[int, ...]
    by_states: list[tuple[int, int, int]]  # row, column, quantity
    by_own: list[tuple[int, int, int]]  # row, column of S, quantity
    columns: int


@lru_cache(maxsize=256)
def taylor_obstacle(rhs: Rhs, n: int, q: int) -> str | None:
    """The part of a right-hand side without a Taylor series; None if all has one."""
    try:
        plan = plan_series(rhs, n, q, 0, ())
    except ValueError as error:
        return str(error)
    return None if count_products(plan) <= _MOST_PRODUCTS else "rhs has too many products for Taylor series"


@lru_cache(maxsize=256)
def prepare_series(rhs: Rhs, n: int, q: int, columns: int, own: tuple[int, ...]) -> Compiled:
    """Compile ``f(t, y, p, out)``: y has states and ``columns`` of sensitivities, the first of them to ``own``.

    On entry ``out[0]`` is the order, from 2 to `MOST_ORDER`; on return out (order, m) has the coefficients from
    that of the first power on.

    Raises
    ------
    ValueError
        If something in ``rhs`` has no Taylor series.
    """
    plan_series(rhs, n, q, columns, own)

    def typed(typingctx: Llvm, t: Llvm, y: Llvm, p: Llvm, out: Llvm) -> Llvm:
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            pointer = _DOUBLE.as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [_DOUBLE, pointer, pointer, pointer])
            function = ir.Function(builder.module, kind, builder.module.get_unique_name("series"))
            function.linkage = "internal"
            function.attributes.add("noinline")
            _Writer(function, plan_series(rhs, n, q, columns, own)).write()
            builder.call(function, values)
            return context.get_dummy_value()

        return types.void(t, y, p, out), codegen

    operations: Jitted = intrinsic(typed)
    name = f"taylor{columns}_of_{'_'.join(map(str, own))}"
    source = "def evaluate(t, y, p, out):\n    operations(t, y, p, out)\n"
    return compiled(source, "taylor", key=key_of(name, rhs, n, q), scope={"operations": operations})


@lru_cache(maxsize=8)
def plan_series(rhs: Rhs, n: int, q: int, columns: int, own: tuple[int, ...]) -> Plan:
    """Quantities to compute for ``columns`` of sensitivities.

    Raises
    ------
    ValueError
        If ``rhs`` does not trace, or something in it has no Taylor series.
    """
    traced = trace_graph(rhs, n, q)
    graph = traced.graph
    by_states, by_own = [], []
    if columns:
        by_states = list(zip(*traced.by_states, strict=True))
        by_own = [(i, own.index(j), node) for i, j, node in zip(*traced.by_parameters, strict=True) if j in own]
    wanted = [*traced.outputs, *(entry[2] for entry in (*by_states, *by_own))]
    nodes = _with_derivatives(graph, wanted)
    return Plan(graph, nodes, n, traced.outputs, by_states, by_own, columns)


def count_products(plan: Plan) -> int:
    """Products of two coefficients at the highest order."""
    series = _moving(plan.graph, plan.nodes)
    chunks = -(-plan.columns // _LANES)
    count = sum(
        len(operands_of(plan.graph.rows[k]))
        for k in series
        if plan.graph.rows[k][0] not in ("add", "sub", "t", "y", "select")
    )
    count += chunks * sum(1 for entry in plan.by_states if entry[2] in series)
    return count * MOST_ORDER * (MOST_ORDER + 1) // 2


def _with_derivatives(graph: Graph, wanted: Sequence[int]) -> list[int]:
    """The quantities on the way to some, with the derivatives that their series need."""
    known: set[int] = set()
    wanted = list(wanted)
    while more := [k for k in reachable(graph, wanted) if k not in known]:
        known.update(more)
        moving = _moving(graph, sorted(known))
        for k in more:
            wanted += _derivatives_of(graph, k, moving)
    return sorted(known)


def _derivatives_of(graph: Graph, k: int, moving: set[int]) -> list[int]:
    """Places of the derivatives of a quantity by its operands that its series needs."""
    row = graph.rows[k]
    if k not in moving or _is_elementary(graph, row):
        return []
    return [node.index for node in _derivative_nodes(graph, k)]


def _derivative_nodes(graph: Graph, k: int) -> list[Node]:
    row, node = graph.rows[k], Node(graph, k)
    operands = [Node(graph, j) for j in operands_of(row)]
    if row[0] == "pow":  # its derivative by the base without another power
        base, exponent = operands
        return [exponent * node / base, node * graph.node("log", base.index)]
    return [graph.constant(each) for each in RULES[row[0]](node, *operands)]


def _is_elementary(graph: Graph, row: Row) -> bool:
    """Whether the series of an operation needs no other quantity."""
    if row[0] == "pow":
        return graph.rows[row[2]][0] in ("constant", "p")
    return row[0] in _ELEMENTARY or row[0] in CONDITIONS


def _moving(graph: Graph, nodes: Sequence[int]) -> set[int]:
    """Quantities that change along a trajectory between its breakpoints.

    Raises
    ------
    ValueError
        If one of them has no Taylor series.
    """
    moving: set[int] = set()
    by_state: set[int] = set()
    for k in nodes:
        row = graph.rows[k]
        operands = operands_of(row)
        if row[0] == "y" or any(j in by_state for j in operands):
            by_state.add(k)
        if row[0] in ("fabs", "floor", *CONDITIONS) and k in by_state:
            raise ValueError(
                f"rhs chooses by its states ({_PIECEWISE.get(row[0], 'a comparison')}), which has no Taylor series"
            )
        if row[0] in ("floor", *CONDITIONS):  # constant between breakpoints
            continue
        if row[0] in ("t", "y") or any(j in moving for j in operands):
            moving.add(k)
    return moving


_PIECEWISE = {"fabs": "abs", "floor": "floor or %"}
_ELEMENTARY = ("constant", "t", "y", "p", "add", "sub", "mul", "div", "sqrt", "select", "fabs", "floor")


class _Writer:
    """Writes the function: coefficient k of every quantity, for one k after the other."""

    def __init__(self, function: Llvm, plan: Plan) -> None:
        self.function, self.plan, self.graph = function, plan, plan.graph
        self.t, self.y, self.p, self.out = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.moving = _moving(plan.graph, plan.nodes)
        self.found: dict[tuple[int, int], Llvm] = {}  # of (quantity, k); what is not there is zero
        self.inverses: dict[int, Llvm] = {}
        self.multiples: dict[tuple[int, int, float], Llvm] = {}
        self.spread: dict[tuple[int, int, int], Llvm] = {}
        self.derivatives = {
            k: [node.index for node in _derivative_nodes(plan.graph, k)]
            for k in plan.nodes
            if k in self.moving and not _is_elementary(plan.graph, plan.graph.rows[k])
        }

    def write(self) -> None:
        plan, b = self.plan, self.builder
        n, m = plan.n, plan.n * (1 + plan.columns)
        order = b.fptosi(b.load(self.out), _INT)
        states = {(i, 0): b.load(self._at(self.y, i)) for i in range(n)}
        self.states = states
        chunks = [range(c, min(c + _LANES, plan.columns)) for c in range(0, plan.columns, _LANES)]
        slopes = {
            (i, c, 0): self._gathered([b.load(self._at(self.y, n + k * n + i)) for k in lanes])
            for c, lanes in enumerate(chunks)
            for i in range(n)
        }
        done = self.function.append_basic_block("done")
        for k in range(MOST_ORDER):
            for node in plan.nodes:
                value = self._coefficient(node, k)
                if value is not None:
                    self.found[node, k] = value
            for i, node in enumerate(plan.outputs):
                value = self.found.get((node, k), _DOUBLE(0.0))
                states[i, k + 1] = self.builder.fmul(value, _DOUBLE(1.0 / (k + 1)))
                self.builder.store(states[i, k + 1], self._at(self.out, k * m + i))
            for c, lanes in enumerate(chunks):
                self._slopes(k, c, lanes, slopes)
                for i in range(n):
                    for lane, column in enumerate(lanes):
                        value = self.builder.extract_element(slopes[i, c, k + 1], ir.Constant(ir.IntType(32), lane))
                        self.builder.store(value, self._at(self.out, k * m + n + column * n + i))
            if k + 1 == MOST_ORDER:
                self.builder.branch(done)
            elif k > 0:
                following = self.function.append_basic_block(f"order{k + 2}")
                self.builder.cbranch(self.builder.icmp_signed("==", order, _INT(k + 1)), done, following)
                self.builder.position_at_end(following)
        self.builder.position_at_end(done)
        self.builder.ret_void()

    def _slopes(self, k: int, c: int, lanes: range, slopes: dict[tuple[int, int, int], Llvm]) -> None:
        """Coefficient k + 1 of the sensitivities of some columns."""
        plan, b, kind = self.plan, self.builder, ir.VectorType(_DOUBLE, len(lanes))
        for i in range(plan.n):
            total = None
            own = {column: node for row, column, node in plan.by_own if row == i and column in lanes}
            if any((node, k) in self.found for node in own.values()):
                total = self._gathered([self.found.get((own.get(column, -1), k), _DOUBLE(0.0)) for column in lanes])
            entries = [(column, node) for row, column, node in plan.by_states if row == i]
            # what is known for longest comes first: the newest coefficients are waited for
            for j in range(k, -1, -1):
                for column, node in entries:
                    if (node, j) in self.found:
                        total = self._sum(total, self._spread(node, j, len(lanes)), slopes[column, c, k - j])
            if total is None:
                slopes[i, c, k + 1] = ir.Constant(kind, [0.0] * len(lanes))
            else:
                slopes[i, c, k + 1] = b.fmul(total, ir.Constant(kind, [1.0 / (k + 1)] * len(lanes)))

    def _coefficient(self, node: int, k: int) -> Llvm:
        """Coefficient k of a quantity; None if it is zero whatever the numbers are."""
        row, b = self.graph.rows[node], self.builder
        name, operands = row[0], operands_of(row)
        if name == "y":
            return self.states[row[1], k]
        if name == "t":
            return (self.t, _DOUBLE(1.0))[k] if k < 2 else None
        if k == 0:
            if name == "constant":
                return _DOUBLE(row[1])
            if name == "p":
                return b.load(self._at(self.p, row[1]))
            return operation(b, name, [self.found[j, 0] for j in operands])
        if node not in self.moving:
            return None
        if name in ("add", "sub"):
            left, right = (self.found.get((j, k)) for j in operands)
            if right is None:
                return left
            if left is None:
                return right if name == "add" else b.fneg(right)
            return (b.fadd if name == "add" else b.fsub)(left, right)
        if name == "mul":
            return self._product(operands[0], operands[1], k)
        if name == "select":
            sides = [self.found.get((j, k), _DOUBLE(0.0)) for j in operands[1:]]
            return b.select(self.found[operands[0], 0], *sides)
        if name == "fabs":
            value = self.found.get((operands[0], k))
            below = b.fcmp_ordered("<", self.found[operands[0], 0], _DOUBLE(0.0))
            return None if value is None else b.select(below, b.fneg(value), value)
        if name == "div":
            total = self.found.get((operands[0], k))
            for j in range(1, k + 1):
                total = self._sum(total, self.found.get((operands[1], j)), self.found.get((node, k - j)), minus=True)
            return self._scaled(total, self._inverse(operands[1]))
        if name == "sqrt":
            total = self.found.get((operands[0], k))
            for j in range(1, (k + 1) // 2):
                twice = self._multiple(node, j, 2.0)
                total = self._sum(total, twice, self.found.get((node, k - j)), minus=True)
            if k % 2 == 0:
                half = self.found.get((node, k // 2))
                total = self._sum(total, half, half, minus=True)
            return self._scaled(self._scaled(total, self._inverse(node)), _DOUBLE(0.5))
        if name == "pow" and _is_elementary(self.graph, row):
            return self._power(node, operands[0], operands[1], k)
        total = None
        for operand, derivative in zip(operands, self.derivatives[node], strict=True):
            for j in range(1, k + 1):
                if (operand, j) in self.found:
                    times = self._multiple(operand, j, float(j))
                    total = self._sum(total, times, self.found.get((derivative, k - j)))
        return self._scaled(total, _DOUBLE(1.0 / k))

    def _product(self, a: int, b: int, k: int) -> Llvm:
        total = None
        if a == b:
            for j in range(k // 2 + k % 2 - 1, -1, -1):  # the newest coefficient last
                if (a, j) in self.found and (a, k - j) in self.found:
                    total = self._sum(total, self.found[a, j], self.found[a, k - j])
            if total is not None:
                total = self.builder.fadd(total, total)
            if k % 2 == 0:
                half = self.found.get((a, k // 2))
                total = self._sum(total, half, half)
            return total
        for j in sorted(range(k + 1), key=lambda j: max(j, k - j)):
            total = self._sum(total, self.found.get((a, j)), self.found.get((b, k - j)))
        return total

    def _power(self, node: int, base: int, exponent: int, k: int) -> Llvm:
        b, total = self.builder, None
        alpha = self.found[exponent, 0]
        for j in range(1, k + 1):
            if (base, j) in self.found and (node, k - j) in self.found:
                # (alpha j - (k - j)) / k
                if (value := Node(self.graph, exponent).value) is not None:
                    weight = _DOUBLE((value * j - (k - j)) / k)
                else:
                    weight = b.fsub(b.fmul(alpha, _DOUBLE(j / k)), _DOUBLE((k - j) / k))
                total = self._sum(total, b.fmul(weight, self.found[base, j]), self.found[node, k - j])
        return self._scaled(total, self._inverse(base))

    def _sum(self, total: Llvm, a: Llvm, b: Llvm, minus: bool = False) -> Llvm:
        """total + a b, or total - a b; None is zero."""
        if a is None or b is None:
            return total
        if minus:
            a = self.builder.fneg(a)
        if total is None:
            return self.builder.fmul(a, b)
        kind = total.type
        lanes = "" if kind == _DOUBLE else f"v{kind.count}"
        name, module = f"llvm.fmuladd.{lanes}f64", self.function.module
        fused = module.globals.get(name) or ir.Function(module, ir.FunctionType(kind, [kind] * 3), name)
        return self.builder.call(fused, [a, b, total])

    def _scaled(self, value: Llvm, factor: Llvm) -> Llvm:
        return None if value is None else self.builder.fmul(value, factor)

    def _inverse(self, node: int) -> Llvm:
        """Of coefficient 0."""
        if node not in self.inverses:
            self.inverses[node] = self.builder.fdiv(_DOUBLE(1.0), self.found[node, 0])
        return self.inverses[node]

    def _multiple(self, node: int, j: int, factor: float) -> Llvm:
        """Coefficient j times a factor, which is the same whenever it is asked for."""
        if (node, j) not in self.found:
            return None
        if (node, j, factor) not in self.multiples:
            self.multiples[node, j, factor] = self.builder.fmul(self.found[node, j], _DOUBLE(factor))
        return self.multiples[node, j, factor]

    def _gathered(self, values: Sequence[Llvm]) -> Llvm:
        vector = ir.Constant(ir.VectorType(_DOUBLE, len(values)), ir.Undefined)
        for lane, value in enumerate(values):
            vector = self.builder.insert_element(vector, value, ir.Constant(ir.IntType(32), lane))
        return vector

    def _spread(self, node: int, j: int, lanes: int) -> Llvm:
        key = (node, j, lanes)
        if key not in self.spread:
            kind = ir.VectorType(_DOUBLE, lanes)
            one = self.builder.insert_element(
                ir.Constant(kind, ir.Undefined), self.found[node, j], ir.Constant(ir.IntType(32), 0)
            )
            mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            self.spread[key] = self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), mask)
        return self.spread[key]

    def _at(self, base: Llvm, k: int) -> Llvm:
        return self.builder.gep(base, [_INT(k)])
