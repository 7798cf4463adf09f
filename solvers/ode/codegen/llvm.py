"""Machine code of a graph of operations: LLVM gets these one by one, numba calls what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.codegen.llvm_tables import looped
from invsamp.solvers.ode.codegen.operation_graph import COMPARISONS, Graph, Node, Traced, derivatives, reachable

_LLVM = {
    **{"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"},
    **{"and": "and_", "or": "or_", "not": "not_"},  # of conditions
}
_DOUBLE = ir.DoubleType()
#: Operations in a function: what LLVM needs grows faster than their number.
_MOST_OPERATIONS = 600
#: Operations that are written out, at some 0.1 ms of LLVM's time each; more of them are loops over tables, of so many
#: entries at most, which stand on the stack.
_MOST_WRITTEN_OUT, _MOST_IN_TABLES = 8000, 30_000
#: Which argument of a function, its position there, and the node that is written to it.
Wanted = tuple[int, int, int]
#: The same after what it belongs to, in whose order it is computed.
Planned = tuple[int, int, int, int]
Plan = tuple[Graph, list[Planned]]
#: Rows and columns.
Pairs = list[tuple[int, int]]
#: Arguments that are written to.
OUT, TABLE = 3, 4


def source_of(size: int = 0) -> str:
    """Source of ``evaluate(t, y, p, out)``: so many zeros, but for what the name ``operations`` writes."""
    zeros = f"    for k in range({size}):\n        out[k] = 0.0\n" if size else ""
    return f"def evaluate(t, y, p, out):\n{zeros}    operations(t, y, p, out, out)\n"


def products_source(n: int, columns: int, begin: int, states: Pairs, own: Pairs) -> str:
    """Source of ``evaluate(t, y, p, out)`` for derivatives of sensitivities, whose ``columns`` are in y[begin:].

    ``operations`` writes the first n values to out, and entries of two matrices to a table. The first matrix is the
    derivative by the states, with these rows and columns, which multiplies the sensitivities. The second one is added
    to the first of them.
    """
    return f"""import numpy as np

STATES = np.array({states}, dtype=np.int64).reshape(-1, 2)
OWN = np.array({own}, dtype=np.int64).reshape(-1, 2)


def evaluate(t, y, p, out):
    v = np.empty({len(states) + len(own)})
    operations(t, y, p, out, v)
    for k in range({n}, {n * (1 + columns)}):
        out[k] = 0.0
    for e in range({len(states)}):
        row, column, slope = STATES[e, 0], STATES[e, 1], v[e]
        for k in range({columns}):
            out[{n} + k * {n} + row] += slope * y[{begin} + k * {n} + column]
    for e in range({len(own)}):
        out[{n} + OWN[e, 1] * {n} + OWN[e, 0]] += v[{len(states)} + e]
"""


def values_plan(traced: Traced) -> Plan:
    """The values of a function to out."""
    return traced.graph, [(k, OUT, k, node) for k, node in enumerate(traced.outputs)]


def slopes_plan(traced: Traced, n: int, q: int) -> Plan:
    """The values of a function, its derivatives by time, by the states (row by row), and by the parameters."""
    graph, wanted = values_plan(traced)
    count = len(wanted)
    for row, output in enumerate(traced.outputs):
        wanted += [(row, OUT, count + row, node) for node in derivatives(graph, output, ("t",)).values()]
    for first, width, by in ((2 * count, n, traced.by_states), (count * (2 + n), q, traced.by_parameters)):
        wanted += [(row, OUT, first + row * width + column, node) for row, column, node in zip(*by, strict=True)]
    return graph, wanted


def jacobian_plan(traced: Traced) -> Plan:
    """The right-hand side, then the entries of df/dx that are not zero."""
    graph, wanted = values_plan(traced)
    count, slopes = len(wanted), traced.by_states
    return graph, wanted + [(i, OUT, count + e, node) for e, (i, _, node) in enumerate(zip(*slopes, strict=True))]


def sensitivities_plan(traced: Traced, n: int, columns: int, own: Sequence[int]) -> Plan:
    """The right-hand side and the derivatives of sensitivities, which follow the states in y, as one graph."""
    graph, wanted = values_plan(traced)
    found = {(k, i): graph.constant(0.0) for k in range(columns) for i in range(n)}
    for i, j, node in zip(*traced.by_states, strict=True):
        for k in range(columns):
            found[k, i] = Node(graph, node) * graph.node("y", n + k * n + j) + found[k, i]
    for i, j, node in zip(*traced.by_parameters, strict=True):
        if j in own:
            found[own.index(j), i] = Node(graph, node) + found[own.index(j), i]
    return graph, wanted + [(i, OUT, n + k * n + i, node.index) for (k, i), node in found.items()]


def entries_plan(traced: Traced, own: Sequence[int]) -> tuple[Graph, list[Planned], Pairs, Pairs]:
    """The right-hand side, and in a table the derivatives by states and those by ``own``: for `products_source`."""
    graph, wanted = values_plan(traced)
    states = list(zip(*traced.by_states, strict=True))
    chosen = [(i, own.index(j), node) for i, j, node in zip(*traced.by_parameters, strict=True) if j in own]
    wanted += [(i, TABLE, k, node) for k, (i, _, node) in enumerate([*states, *chosen])]
    return graph, wanted, [(i, j) for i, j, _ in states], [(i, k) for i, k, _ in chosen]


def emitted(planned: Callable[[], Plan]) -> Jitted:
    """Compiled ``operations(t, y, p, out, v)`` that computes what is planned when it is compiled."""

    def typed(typingctx: Llvm, t: Llvm, y: Llvm, p: Llvm, out: Llvm, v: Llvm) -> Llvm:
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            t, y, p, out, v = values
            kind = signature.args[4]
            table = v if isinstance(kind, types.CPointer) else context.make_array(kind)(context, builder, v).data
            graph, wanted = planned()
            written_out = len(reachable(graph, [node for *_, node in wanted])) <= _MOST_WRITTEN_OUT
            most = _MOST_OPERATIONS if written_out else _MOST_IN_TABLES
            pieces = _pieces(graph, [entry[1:] for entry in sorted(wanted)], most)
            for piece in pieces:
                function = _function(builder.module, graph, piece, written_out, len(pieces) > 1)
                builder.call(function, [t, y, p, out, table])
            return context.get_dummy_value()

        return types.void(t, y, p, out, v), codegen

    return intrinsic(typed)


def _pieces(graph: Graph, wanted: Sequence[Wanted], most: int) -> list[list[Wanted]]:
    """Wanted entries in pieces; intermediate results that several pieces need are computed in each."""
    pieces: list[list[Wanted]] = [[]]
    needed: set[int] = set()
    for entry in wanted:
        more = set(reachable(graph, [entry[2]], needed))
        if pieces[-1] and len(needed) + len(more) > most:
            pieces.append([])
            needed, more = set(), set(reachable(graph, [entry[2]]))
        pieces[-1].append(entry)
        needed |= more
    return pieces


def _function(module: Llvm, graph: Graph, wanted: Sequence[Wanted], written_out: bool, apart: bool) -> Llvm:
    """LLVM's function ``f(t, y, p, out, v)`` that computes what is wanted."""
    pointer = _DOUBLE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [_DOUBLE, pointer, pointer, pointer, pointer])
    function = ir.Function(module, kind, module.get_unique_name("operations"))
    function.linkage = "internal"
    function.attributes.add("noinline" if apart else "alwaysinline")
    if not written_out:
        looped(module, function, graph, wanted, operation)
        return function
    builder = ir.IRBuilder(function.append_basic_block())
    inputs = {"t": function.args[0], "y": function.args[1], "p": function.args[2]}
    _emit(builder, graph, inputs, [(function.args[target], k, node) for target, k, node in wanted])
    builder.ret_void()
    return function


def _emit(builder: Llvm, graph: Graph, inputs: dict[str, Llvm], wanted: Sequence[tuple[Llvm, int, int]]) -> None:
    """Write the operations that are wanted as LLVM's instructions: (target, position, node)."""
    needed = reachable(graph, [node for *_, node in wanted])
    values: dict[int, Llvm] = {}

    def place(base: Llvm, k: int) -> Llvm:
        return builder.gep(base, [ir.Constant(ir.IntType(64), k)])

    for index in needed:
        name, *operands = graph.rows[index]
        if name == "constant":
            values[index] = ir.Constant(_DOUBLE, operands[0])
        elif name == "t":
            values[index] = inputs["t"]
        elif name in inputs:
            values[index] = builder.load(place(inputs[name], operands[0]))
        else:
            values[index] = operation(builder, name, [values[k] for k in operands])
    # read all, then write: the arrays need not lie apart
    for target, k, node in wanted:
        builder.store(values[node], place(target, k))


def operation(builder: Llvm, name: str, operands: Sequence[Llvm]) -> Llvm:
    """The value of an operation on values."""
    if name in _LLVM:
        return getattr(builder, _LLVM[name])(*operands)
    if name in COMPARISONS:
        return builder.fcmp_ordered(name, *operands)
    if name == "select":
        return builder.select(*operands)
    known = {"fabs": "llvm.fabs.f64", "floor": "llvm.floor.f64", "sqrt": "llvm.sqrt.f64"}.get(name, name)
    kind = ir.FunctionType(_DOUBLE, [_DOUBLE] * len(operands))
    function = builder.module.globals.get(known) or ir.Function(builder.module, kind, known)
    return builder.call(function, operands)
