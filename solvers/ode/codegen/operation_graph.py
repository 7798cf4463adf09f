"""Tracing of right-hand sides: a graph of operations without repetitions, and its derivatives.

An operation is a row of a table, which finds common subexpressions as they arise. Derivatives are taken backwards from
each output, so that their cost is proportional to what the output depends on; and LLVM gets the operations themselves,
without a detour by Python (`invsamp.solvers.ode.codegen.llvm`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from invsamp.solvers.foreign import Called, Term
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs, Untraceable, converter, vector, vector_entries
from invsamp.solvers.ode.codegen.rebind_globals import copied

Array = npt.NDArray[np.float64]


#: An operation: its name, and the places of its operands; of inputs their number, of a constant its value.
Row = tuple[Any, ...]


class Graph:
    """Operations in the order in which they can be computed: (name, operands), or ("constant", value)."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.places: dict[Row, int] = {}

    def node(self, name: str, *operands: object) -> Node:
        """The node of an operation, which exists once."""
        row = (name, *operands)
        if row not in self.places:
            self.places[row] = len(self.rows)
            self.rows.append(row)
        return self.at(self.places[row])

    def at(self, place: int) -> Node:
        """The node at a place."""
        return Node(self, place)

    def constant(self, value: object) -> Node:
        """A number as a node; one that is a node stays."""
        return value if isinstance(value, Node) else self.node("constant", float(value))  # type: ignore[arg-type]

    def number(self, value: object) -> Node:
        """The same where a number is wanted: a condition is 1 or 0."""
        node = self.constant(value)
        return _selected(node, 1.0, 0.0) if self.rows[node.index][0] in CONDITIONS else node

    def truth(self, condition: Node) -> bool:
        """Which way a branch goes; TypeError, as that depends on numbers that are not known."""
        raise TypeError("a branch on a quantity; np.where(condition, a, b) traces instead")


class Node:
    """A number that is not known yet."""

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph, self.index = graph, index

    @property
    def value(self) -> float | None:
        """Value of a constant; None for anything else."""
        row = self.graph.rows[self.index]
        return row[1] if row[0] == "constant" else None

    def __add__(self, other: object) -> Node:
        return _binary("add", self, other)

    def __radd__(self, other: object) -> Node:
        return _binary("add", other, self)

    def __sub__(self, other: object) -> Node:
        return _binary("sub", self, other)

    def __rsub__(self, other: object) -> Node:
        return _binary("sub", other, self)

    def __mul__(self, other: object) -> Node:
        return _binary("mul", self, other)

    def __rmul__(self, other: object) -> Node:
        return _binary("mul", other, self)

    def __truediv__(self, other: object) -> Node:
        return _binary("div", self, other)

    def __rtruediv__(self, other: object) -> Node:
        return _binary("div", other, self)

    def __pow__(self, other: object) -> Node:
        return _binary("pow", self, other)

    def __rpow__(self, other: object) -> Node:
        return _binary("pow", other, self)

    def __floordiv__(self, other: object) -> Node:
        return floor(self / other)

    def __rfloordiv__(self, other: object) -> Node:
        return floor(other / self)

    def __mod__(self, other: object) -> Node:
        return self - other * floor(self / other)

    def __rmod__(self, other: object) -> Node:
        return other - self * floor(other / self)

    def __neg__(self) -> Node:
        return 0.0 - self

    def __pos__(self) -> Node:
        return self

    def __abs__(self) -> Node:
        return _unary("fabs", self)

    def __bool__(self) -> bool:
        return self.graph.truth(self)

    def __float__(self) -> float:
        raise TypeError("a number was asked for")

    # whoever asks for the answer gets it from __bool__
    def __lt__(self, other: object) -> Node:
        return _compared("<", self, other)

    def __le__(self, other: object) -> Node:
        return _compared("<=", self, other)

    def __gt__(self, other: object) -> Node:
        return _compared(">", self, other)

    def __ge__(self, other: object) -> Node:
        return _compared(">=", self, other)


class Slopes(NamedTuple):
    """Entries of a Jacobian that are not zero."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    nodes: tuple[int, ...]


class Traced(NamedTuple):
    """A right-hand side as a graph."""

    graph: Graph
    outputs: tuple[int, ...]
    by_states: Slopes
    by_parameters: Slopes


@functools.lru_cache(maxsize=8)
def trace_graph(rhs: Rhs, n: int, q: int, *, whole: bool = True, name: str = "rhs") -> Traced:
    """Run a right-hand side of n states and q parameters on nodes, and differentiate it.

    ``whole`` says that it has to have one value per state. Another function of (t, x, p), which errors call ``name``,
    has as many as it likes, and may return a number in place of a sequence.

    Raises
    ------
    Untraceable
        A ValueError, if it does not run on nodes, for instance because it branches on its arguments, or if it rounds
        states or parameters, which has no derivative.
    """
    graph = Graph()
    try:
        outputs = run_on_nodes(graph, rhs, n, q)
    except Exception as error:
        taken = ", ".join(sorted(functions_of_nodes()))
        raise Untraceable(
            f"{name} must be traceable (arithmetic, arrays, and {taken}; no branches), but tracing raised "
            f"{type(error).__name__}: {error}"
        ) from error
    if whole and len(outputs) != n:
        raise ValueError(f"{name} must return {n} values, one per state, got {len(outputs)}")
    if _rounds(graph, outputs):
        raise Untraceable(
            f"{name} must be traceable, but rounding (floor, %) of states or parameters has no derivative"
        )
    slopes: dict[str, list[tuple[int, int, int]]] = {"y": [], "p": []}
    for row, output in enumerate(outputs):
        for (kind, column), node in sorted(derivatives(graph, output).items()):
            slopes[kind].append((row, column, node))
    by_states, by_parameters = (
        Slopes(*(zip(*slopes[kind], strict=True) if slopes[kind] else ((),) * 3)) for kind in "yp"
    )
    return Traced(graph, outputs, by_states, by_parameters)


def _rounds(graph: Graph, outputs: Sequence[int]) -> bool:
    """Whether values, apart from the conditions among them, depend on states or parameters that are rounded."""
    stack, seen = list(outputs), set()
    while stack:
        index = stack.pop()
        row = graph.rows[index]
        if index in seen or row[0] in CONDITIONS:
            continue
        seen.add(index)
        if row[0] == "floor" and any(graph.rows[k][0] in ("y", "p") for k in reachable(graph, [index])):
            return True
        stack += row[2:] if row[0] == "select" else operands_of(row)
    return False


def run_on_nodes(
    graph: Graph,
    function: Called,
    n: int,
    q: int,
    builtins: Mapping[str, object] | None = None,
) -> tuple[int, ...]:
    """Places of the values of a function of (t, x, p) that is run on nodes; raises whatever it raises for them.

    ``builtins`` has what stands in for builtins.
    """
    t, x, p = graph.node("t"), [graph.node("y", i) for i in range(n)], [graph.node("p", j) for j in range(q)]
    runnable = copied(function, converter(functions_of_nodes), builtins=builtins)
    values = runnable(t, vector(x), vector(p))
    listed = vector_entries(values) if hasattr(values, "__len__") or isinstance(values, Iterable) else (values,)
    return tuple(graph.constant(each).index for each in list(listed))


COMPARISONS = ("<", "<=", ">", ">=")


def reachable(graph: Graph, nodes: Sequence[int], known: Collection[int] = ()) -> list[int]:
    """All operations on the way to some, in order, but for those that are ``known``."""
    found: set[int] = set()
    stack = list(nodes)
    while stack:
        index = stack.pop()
        if index not in found and index not in known:
            found.add(index)
            stack += operands_of(graph.rows[index])
    return sorted(found)


#: Functions of NumPy and SciPy that do operations with other names than theirs.
_BY_NUMPY: dict[str, Called] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "select": np.where},
    **{"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal},
    **{"and": np.logical_and, "or": np.logical_or, "not": np.logical_not},
    **{"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2},
    **{"asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": erf},
}


def run_graph(graph: Graph, nodes: Sequence[int], times: Array, states: Array, parameters: Array) -> dict[int, Term]:
    """Values of some operations, by their places, that broadcast to (batch, n_times).

    At times (n_times,), for states (batch, n_times, n) and parameters (batch, q).
    """
    found: dict[int, Term] = {}
    with np.errstate(all="ignore"):
        for index in reachable(graph, nodes):
            name, *operands = graph.rows[index]
            if name == "constant":
                found[index] = operands[0]
            elif name == "t":
                found[index] = times
            elif name in ("y", "p"):
                found[index] = states[:, :, operands[0]] if name == "y" else parameters[:, operands[0], None]
            else:
                function = _BY_NUMPY.get(name) or getattr(np, name)
                found[index] = function(*(found[k] for k in operands))
    return found


def operands_of(row: Row) -> tuple[int, ...]:
    """Indices of the nodes on which an operation depends; none for constants, time, states and parameters."""
    return () if row[0] in ("constant", "t", "y", "p") else row[1:]


def derivatives(graph: Graph, output: int, by: tuple[str, ...] = ("y", "p")) -> dict[Row, int]:
    """Nodes of the derivatives of one node by the states and parameters (or time) that it depends on, by their rows."""
    adjoint: dict[int, Node] = {output: graph.constant(1.0)}
    found: dict[Row, int] = {}
    for index in reversed(reachable(graph, [output])):
        row, outer = graph.rows[index], adjoint.pop(index, None)
        if outer is None:
            continue
        if row[0] in by and outer.value != 0.0:
            found[row] = outer.index
        operands = [Node(graph, k) for k in operands_of(row)]
        if not operands or row[0] in CONDITIONS:
            continue
        if row[0] == "select":
            for place, slope in _of_either_side(graph, by, *operands).items():
                moved = chained(outer, slope)
                adjoint[place] = adjoint[place] + moved if place in adjoint else moved
            continue
        for operand, inner in zip(operands, RULES[row[0]](Node(graph, index), *operands), strict=True):
            if operand.value is None:
                moved = chained(outer, inner)
                adjoint[operand.index] = adjoint[operand.index] + moved if operand.index in adjoint else moved
    return found


def chained(outer: Node, inner: Node) -> Node:
    """The product of two derivatives.

    A choice that may be zero is made after the product: beyond it the other derivative may be no number, as of the root
    of max(x, 0), and zero times that is none.
    """
    for one, other in ((inner, outer), (outer, inner)):
        if one.graph.rows[one.index][0] == "select":
            condition, *sides = (Node(one.graph, k) for k in operands_of(one.graph.rows[one.index]))
            if any(side.value == 0.0 for side in sides):
                return _selected(condition, *(chained(other, side) for side in sides))
    return outer * inner


def _of_either_side(graph: Graph, by: tuple[str, ...], condition: Node, a: Node, b: Node) -> dict[int, Node]:
    """Derivatives of a choice by states, parameters or time, by their places: those of the side that is chosen.

    It is chosen between the derivatives: those of the other side may be no numbers, and zero times that is none.
    """
    sides = [derivatives(graph, side.index, by) for side in (a, b)]
    both = [[Node(graph, side[key]) if key in side else 0.0 for side in sides] for key in {**sides[0], **sides[1]}]
    return {
        graph.places[key]: _selected(condition, *pair) for key, pair in zip({**sides[0], **sides[1]}, both, strict=True)
    }


#: Of each operation, from itself and its operands: derivatives by the operands.
RULES: dict[str, Callable[..., tuple[Node, ...]]] = {
    "add": lambda z, a, b: (_one(z), _one(z)),
    "sub": lambda z, a, b: (_one(z), -_one(z)),
    "mul": lambda z, a, b: (b, a),
    "div": lambda z, a, b: (1.0 / b, -z / b),
    "pow": lambda z, a, b: (b * a ** (b - 1.0), z * _unary("log", a)),
    "atan2": lambda z, a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
    "exp": lambda z, a: (z,),
    "expm1": lambda z, a: (z + 1.0,),
    "log": lambda z, a: (1.0 / a,),
    "log1p": lambda z, a: (1.0 / (1.0 + a),),
    "sqrt": lambda z, a: (0.5 / z,),
    "sin": lambda z, a: (_unary("cos", a),),
    "cos": lambda z, a: (-_unary("sin", a),),
    "tan": lambda z, a: (1.0 + z * z,),
    "sinh": lambda z, a: (_unary("cosh", a),),
    "cosh": lambda z, a: (_unary("sinh", a),),
    "tanh": lambda z, a: (1.0 - z * z,),
    "asin": lambda z, a: (1.0 / _unary("sqrt", 1.0 - a * a),),
    "acos": lambda z, a: (-1.0 / _unary("sqrt", 1.0 - a * a),),
    "atan": lambda z, a: (1.0 / (1.0 + a * a),),
    "asinh": lambda z, a: (1.0 / _unary("sqrt", 1.0 + a * a),),
    "acosh": lambda z, a: (1.0 / _unary("sqrt", a * a - 1.0),),
    "atanh": lambda z, a: (1.0 / (1.0 - a * a),),
    "erf": lambda z, a: (2.0 / math.sqrt(math.pi) * _unary("exp", -(a * a)),),
    "fabs": lambda z, a: (_selected(a < 0.0, -1.0, 1.0),),
    "floor": lambda z, a: (z.graph.constant(0.0),),
}
CONDITIONS = (*COMPARISONS, "and", "or", "not")


def _compared(name: str, a: Node, b: object) -> Node:
    return a.graph.node(name, a.graph.number(a).index, a.graph.number(b).index)


def joined(name: str, *conditions: object) -> Node | bool:
    """The node of a logical operation, whose operands may be known."""
    unknown = [each for each in conditions if isinstance(each, Node)]
    known = [bool(each) for each in conditions if not isinstance(each, Node)]
    if name == "not":
        return unknown[0].graph.node("not", unknown[0].index) if unknown else not known[0]
    decisive = name == "or"
    if decisive in known:
        return decisive
    if len(unknown) < 2:
        return unknown[0] if unknown else not decisive
    return unknown[0].graph.node(name, *(each.index for each in unknown))


def where(condition: object, a: object, b: object) -> object:
    """The node of one of two numbers or nodes."""
    if not isinstance(condition, Node):
        return a if condition else b
    return _selected(condition, a, b)


def _selected(condition: Node, first: object, second: object) -> Node:
    a, b = condition.graph.constant(first), condition.graph.constant(second)
    return a if a.index == b.index else condition.graph.node("select", condition.index, a.index, b.index)


def _one(node: Node) -> Node:
    return node.graph.constant(1.0)


def _binary(name: str, first: object, second: object) -> Node:
    """The node of an operation of two numbers or nodes, in the simplest form that has the same value."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return NotImplemented
    graph = (first if isinstance(first, Node) else second).graph  # type: ignore[attr-defined]  # one of them is a node
    a, b = graph.number(first), graph.number(second)
    left, right = a.value, b.value
    if left is not None and right is not None:
        try:
            return graph.constant(_FOLD[name](left, right))
        except (ArithmeticError, ValueError, TypeError):
            return graph.node(name, a.index, b.index)
    if name == "add":
        if left == 0.0 or right == 0.0:
            return b if left == 0.0 else a
    elif name == "sub":
        if right == 0.0:
            return a
    elif name == "mul":
        if left == 0.0 or right == 0.0:
            return graph.constant(0.0)
        if left == 1.0 or right == 1.0:
            return b if left == 1.0 else a
    elif name == "div":
        if left == 0.0 or right == 1.0:
            return a
    elif name == "pow":
        return _power(graph, a, b)
    if name in ("add", "mul") and a.index > b.index:
        a, b = b, a  # the same bits in either order
    return graph.node(name, a.index, b.index)


_FOLD: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: float(a**b),
    "atan2": math.atan2,
}


def _power(graph: Graph, a: Node, b: Node) -> Node:
    exponent = b.value
    if exponent == 0.0:
        return graph.constant(1.0)
    if exponent == 0.5:
        return _unary("sqrt", a)
    if exponent is None or exponent != int(exponent) or abs(exponent) > 8:
        return graph.node("pow", a.index, b.index)
    product = functools.reduce(lambda left, right: left * right, [a] * int(abs(exponent)))
    return product if exponent > 0 else 1.0 / product


def _unary(name: str, a: object) -> Term:
    if not isinstance(a, Node):
        return getattr(math, name)(a)
    return a.graph.node(name, a.graph.number(a).index)


@functools.cache
def functions_of_nodes() -> dict[str, Term]:
    """Functions of `math` or `numpy` that a right-hand side may call, for nodes and for numbers."""

    def unary(name: str) -> Called:
        return lambda a: _unary(name, a)

    def angle(a: Term, b: Term) -> Term:
        return _binary("atan2", a, b) if isinstance(a, Node) or isinstance(b, Node) else math.atan2(a, b)

    # where both are equal, a number is chosen: the root of max(x, 0) has no slope at 0 by x
    def larger(a: Term, b: Term) -> Term:
        return where(a >= b if isinstance(b, Node) else a > b, a, b)

    def smaller(a: Term, b: Term) -> Term:
        return where(a <= b if isinstance(b, Node) else a < b, a, b)

    names = [name for name in RULES if name not in ("add", "sub", "mul", "div", "pow", "atan2", "fabs", "floor")]
    return {
        **{name: unary(name) for name in names},
        **{f"arc{name[1:]}": unary(name) for name in names if name.startswith("a")},
        **{name: angle for name in ("atan2", "arctan2")},
        **{name: unary("fabs") for name in ("abs", "absolute", "fabs")},
        **{name: lambda a, b: a**b for name in ("power", "pow")},
        **{"square": lambda a: a * a, "pi": math.pi, "e": math.e, "where": where},
        **{f"logical_{name}": functools.partial(joined, name) for name in ("and", "or", "not")},
        **{"maximum": larger, "minimum": smaller, "clip": lambda a, low, high: smaller(larger(a, low), high)},
        "hypot": lambda a, b: _unary("sqrt", a * a + b * b),
        "sign": lambda a: where(a > 0.0, 1.0, where(a < 0.0, -1.0, 0.0)),
        **{"floor": floor, "ceil": lambda a: -floor(-a)},
        **{name: lambda a, b: a % b for name in ("mod", "remainder")},
        "fmod": lambda a, b: where(a >= 0.0, 1.0, -1.0) * (_unary("fabs", a) % _unary("fabs", b)),
        "heaviside": lambda a, at_zero: where(a > 0.0, 1.0, where(a < 0.0, 0.0, at_zero)),
    }


def floor(a: Term) -> Term:
    """The whole number below a node or number."""
    return a.graph.node("floor", a.index) if isinstance(a, Node) else math.floor(a)
