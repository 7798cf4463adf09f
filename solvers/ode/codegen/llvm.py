"""Machine code of a graph of operations: LLVM gets these one by one, numba calls what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.codegen.llvm_tables import looped
from invsamp.solvers.ode.codegen.operation_graph import COMPARISONS, Graph, reachable, trace_graph
from invsamp.solvers.ode.codegen.sympy_tracing import Rhs

_LLVM = {
    **{"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"},
    **{"and": "and_", "or": "or_", "not": "not_"},  # of conditions
}
_DOUBLE = ir.DoubleType()
#: Operations in a function: what LLVM needs grows faster than their number.
_MOST_OPERATIONS = 600
#: Operations that are written out, at some 0.1 ms of LLVM's time each; more of them are loops over tables, of so many
#: entries at the most, which stand on the stack.
_MOST_WRITTEN_OUT, _MOST_IN_TABLES = 8000, 30_000
#: Which argument of a function, its position there, and the node that is written to it.
Wanted = tuple[int, int, int]
#: The same after what it belongs to, in whose order it is computed.
Planned = tuple[int, int, int, int]


def graph_source(rhs: Rhs, n: int, q: int, columns: int, own: Sequence[int]) -> str:
    """Source of ``evaluate(t, y, p, out)``: states, and ``columns`` of sensitivities, first to the parameters ``own``.

    It reads the name ``operations``, which is that of `operations`.
    """
    if not columns:
        return "import numpy as np\n\n\ndef evaluate(t, y, p, out):\n    operations(t, y, p, out, np.empty(0))\n"
    traced = trace_graph(rhs, n, q)
    starts = np.searchsorted(traced.by_states.rows, np.arange(n + 1)).tolist()
    entries = len(traced.by_states.nodes)
    column = {parameter: k for k, parameter in enumerate(own)}
    by_own = [
        (entries + e, row, column[parameter])
        for e, (row, parameter) in enumerate(zip(*traced.by_parameters[:2], strict=True))
        if parameter in column
    ]
    return f"""import numpy as np

STARTS = np.array({starts})
COLUMNS = np.array({list(traced.by_states.columns)}, dtype=np.int64)
BY_OWN = np.array({by_own}, dtype=np.int64).reshape(-1, 3)


def evaluate(t, y, p, out):
    v = np.empty({entries + len(traced.by_parameters.nodes)})
    operations(t, y, p, out, v)
    for first in range({n}, {n * (1 + columns)}, {n}):
        for i in range({n}):
            total = 0.0
            for e in range(STARTS[i], STARTS[i + 1]):
                total += v[e] * y[first + COLUMNS[e]]
            out[first + i] = total
    for k in range({len(by_own)}):
        out[{n} + BY_OWN[k, 2] * {n} + BY_OWN[k, 1]] += v[BY_OWN[k, 0]]
"""


def values_source(function: Rhs, n: int, q: int, slopes: bool) -> str:
    """Source of ``evaluate(t, y, p, out)`` for any function of (t, x, p): its values, then, row by row, its Jacobian.

    It reads the name ``operations``, which is that of `operations`.
    """
    traced = trace_graph(function, n, q, whole=False)
    count, by = len(traced.outputs), (traced.by_states, traced.by_parameters)
    rows = [row for each in by for row in each.rows]
    columns = [*by[0].columns, *(n + column for column in by[1].columns)]
    places = [count + row * (n + q) + column for row, column in zip(rows, columns, strict=True)]
    fill = f"""
    for k in range({count}, {count * (1 + n + q)}):
        out[k] = 0.0
    for e in range({len(places)}):
        out[PLACES[e]] = v[e]
"""
    return f"""import numpy as np

PLACES = np.array({places}, dtype=np.int64)


def evaluate(t, y, p, out):
    v = np.empty({len(places)})
    operations(t, y, p, out, v)
{fill if slopes else ""}"""


def operations(rhs: Rhs, n: int, q: int, slopes: bool, *, whole: bool = True) -> Jitted:
    """Compiled ``operations(t, y, p, out, v)``: the right-hand side to out, its derivatives by states and p to v."""

    def planned() -> tuple[Graph, list[Planned]]:
        traced = trace_graph(rhs, n, q, whole=whole)
        wanted = [(k, 3, k, node) for k, node in enumerate(traced.outputs)]
        if slopes:
            rows = traced.by_states.rows + traced.by_parameters.rows
            nodes = traced.by_states.nodes + traced.by_parameters.nodes
            wanted += [(row, 4, k, node) for k, (row, node) in enumerate(zip(rows, nodes, strict=True))]
        return traced.graph, wanted

    return emitted(planned)


def emitted(planned: Callable[[], tuple[Graph, list[Planned]]]) -> Jitted:
    """Compiled ``operations(t, y, p, out, v)`` that computes what is planned when it is compiled."""

    def typed(typingctx: Llvm, t: Llvm, y: Llvm, p: Llvm, out: Llvm, v: Llvm) -> Llvm:
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            t, y, p, out, v = values
            table = context.make_array(signature.args[4])(context, builder, v).data
            graph, wanted = planned()
            written_out = len(reachable(graph, [node for *_, node in wanted])) <= _MOST_WRITTEN_OUT
            most = _MOST_OPERATIONS if written_out else _MOST_IN_TABLES
            for piece in _pieces(graph, [entry[1:] for entry in sorted(wanted)], most):
                function = _function(builder.module, graph, piece, written_out)
                builder.call(function, [t, y, p, out, table])
            return context.get_dummy_value()

        return types.void(t, y, p, out, v), codegen

    return intrinsic(typed)


def _pieces(graph: Graph, wanted: Sequence[Wanted], most: int) -> list[list[Wanted]]:
    """What is wanted, in pieces; what several of them need is computed in each."""
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


def _function(module: Llvm, graph: Graph, wanted: Sequence[Wanted], written_out: bool) -> Llvm:
    """LLVM's function ``f(t, y, p, out, v)`` that computes what is wanted."""
    pointer = _DOUBLE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [_DOUBLE, pointer, pointer, pointer, pointer])
    function = ir.Function(module, kind, module.get_unique_name("operations"))
    function.linkage = "internal"
    function.attributes.add("noinline")
    if not written_out:
        looped(module, function, graph, wanted, _operation)
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
            values[index] = _operation(builder, name, [values[k] for k in operands])
    # read all, then write: the arrays need not lie apart
    for target, k, node in wanted:
        builder.store(values[node], place(target, k))


def _operation(builder: Llvm, name: str, operands: Sequence[Llvm]) -> Llvm:
    """The value of an operation on values."""
    if name in _LLVM:
        return getattr(builder, _LLVM[name])(*operands)
    if name in COMPARISONS:
        return builder.fcmp_ordered(name, *operands)
    if name == "select":
        return builder.select(*operands)
    known = {"fabs": "llvm.fabs.f64", "sqrt": "llvm.sqrt.f64"}.get(name, name)
    kind = ir.FunctionType(_DOUBLE, [_DOUBLE] * len(operands))
    function = builder.module.globals.get(known) or ir.Function(builder.module, kind, known)
    return builder.call(function, operands)
