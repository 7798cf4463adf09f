"""Machine code of a large graph as loops over tables of operands: LLVM's time does not grow with the operations.

Operations of one kind that need nothing of each other, at one depth of the graph, are one loop. A hundred thousand of
them, as of a dense matrix of 200 states, are some hundred loops. The numbers are those of the operations written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from invsamp.solvers.foreign import Llvm
from invsamp.solvers.ode.codegen.operation_graph import Graph, operands_of, reachable

_DOUBLE, _INTEGER, _PLACE, _BYTE = ir.DoubleType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)
#: One operation on values: builder, its name, operands. Conditions are bits there, and numbers in tables.
Emit = Callable[[Llvm, str, Sequence[Llvm]], Llvm]
#: Operations whose result, and those whose first operands, are conditions.
_TO_BITS, _OF_BITS = ("<", "<=", ">", ">=", "and", "or", "not"), {"and": 2, "or": 2, "not": 1, "select": 1}


def looped(module: Llvm, function: Llvm, graph: Graph, wanted: Sequence[tuple[int, int, int]], emit: Emit) -> None:
    """Write the body of LLVM's function ``f(t, y, p, out, v)`` that computes what is wanted.

    Parameters
    ----------
    module, function : ir.Module and ir.Function
    graph : Graph
    wanted : sequence of (argument, position, node)
    emit : callable
    """
    groups = _grouped(graph, [node for *_, node in wanted])
    slots: dict[int, int] = {node: slot for slot, node in enumerate(node for _, nodes in groups for node in nodes)}
    builder = ir.IRBuilder(function.append_basic_block())
    # one block of the stack: the place of each operation is that in the order in which they are computed
    table = builder.alloca(_DOUBLE, size=ir.Constant(_INTEGER, len(slots)))
    inputs, first = dict(zip(("t", "y", "p"), function.args, strict=False)), 0
    for name, nodes in groups:
        rows, to = [graph.rows[node] for node in nodes], builder.gep(table, [ir.Constant(_INTEGER, first)])
        if name == "t":
            builder.store(inputs["t"], to)
        elif name == "constant":
            values = _constant(module, np.array([row[1] for row in rows]), _DOUBLE)
            places = _constant(module, np.arange(len(rows)), _PLACE)
            _call(module, builder, "copied", emit, to, values, places, len(rows))
        elif name in inputs:
            places = _constant(module, np.array([row[1] for row in rows]), _PLACE)
            _call(module, builder, "copied", emit, to, inputs[name], places, len(rows))
        else:
            operands = np.array([[slots[k] for k in operands_of(row)] for row in rows]).T
            _call(module, builder, name, emit, to, table, _constant(module, operands, _PLACE), len(rows))
        first += len(rows)
    for argument in sorted({target for target, *_ in wanted}):
        own = [(k, slots[node]) for target, k, node in wanted if target == argument]
        places = _constant(module, np.array(own).T, _PLACE)
        _call(module, builder, "scattered", emit, function.args[argument], table, places, len(own))
    builder.ret_void()


def _grouped(graph: Graph, nodes: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Operations in an order in which they can be computed, those of one depth and kind together."""
    depths: dict[int, int] = {}
    groups: dict[tuple[int, str], list[int]] = {}
    for index in reachable(graph, nodes):
        row = graph.rows[index]
        depths[index] = 1 + max((depths[k] for k in operands_of(row)), default=-1)
        groups.setdefault((depths[index], row[0]), []).append(index)
    return [(name, groups[depth, name]) for depth, name in sorted(groups)]


def _constant(module: Llvm, values: npt.NDArray[np.generic], kind: Llvm) -> Llvm:
    """Pointer to numbers that are stored beside the code."""
    stored = np.ascontiguousarray(values, dtype=np.float64 if kind is _DOUBLE else np.int32).tobytes()
    content = ir.Constant(ir.ArrayType(_BYTE, len(stored)), bytearray(stored))
    held = ir.GlobalVariable(module, content.type, module.get_unique_name("table"))
    held.linkage, held.global_constant, held.initializer, held.align = "internal", True, content, 16
    return held.bitcast(kind.as_pointer())


def _call(module: Llvm, builder: Llvm, name: str, emit: Emit, to: Llvm, values: Llvm, places: Llvm, count: int) -> None:
    builder.call(_loop(module, name, emit), [to, values, places, ir.Constant(_INTEGER, count)])


def _loop(module: Llvm, name: str, emit: Emit) -> Llvm:
    """LLVM's function of (to, values, places, count), for each k < count: an operation, or numbers that are moved.

    The places of the first operands stand first, then those of the second. "copied" is to[k] = values[places[k]],
    "scattered" to[places[k]] = values[places[count + k]].
    """
    known = f"loop of {name}"
    if known in module.globals:
        return module.globals[known]
    double, place = _DOUBLE.as_pointer(), _PLACE.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [double, double, place, _INTEGER]), known)
    function.linkage = "internal"
    function.attributes.add("noinline")
    to, values, places, count = function.args
    entry, body, end = (function.append_basic_block(each) for each in ("entry", "body", "end"))
    builder = ir.IRBuilder(entry)
    builder.branch(body)
    builder.position_at_end(body)
    k = builder.phi(_INTEGER)
    k.add_incoming(ir.Constant(_INTEGER, 0), entry)

    def at(operand: int) -> Llvm:
        where = builder.add(k, builder.mul(count, ir.Constant(_INTEGER, operand)))
        return builder.sext(builder.load(builder.gep(places, [where])), _INTEGER)

    def read(operand: int) -> Llvm:
        return builder.load(builder.gep(values, [at(operand)]))

    if name == "copied":
        builder.store(read(0), builder.gep(to, [k]))
    elif name == "scattered":
        builder.store(read(1), builder.gep(to, [at(0)]))
    else:
        operands = [read(operand) for operand in range(_arity(name))]
        zero = ir.Constant(_DOUBLE, 0.0)
        for operand in range(_OF_BITS.get(name, 0)):
            operands[operand] = builder.fcmp_unordered("!=", operands[operand], zero)
        result = emit(builder, name, operands)
        builder.store(builder.uitofp(result, _DOUBLE) if name in _TO_BITS else result, builder.gep(to, [k]))
    following = builder.add(k, ir.Constant(_INTEGER, 1))
    k.add_incoming(following, body)
    builder.cbranch(builder.icmp_signed("<", following, count), body, end)
    builder.position_at_end(end)
    builder.ret_void()
    return function


def _arity(name: str) -> int:
    if name == "select":
        return 3
    return 2 if name in ("add", "sub", "mul", "div", "pow", "atan2", "<", "<=", ">", ">=", "and", "or") else 1
