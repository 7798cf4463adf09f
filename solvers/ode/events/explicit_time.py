"""Explicit time in a right-hand side: the times at which it switches, and operations that may make pulses.

A step sees the right-hand side at its stages alone: a pulse between two of them, or one on and off again, is stepped
over, and the estimated error is zero. So what depends on time, and on no state, is taken out of the right-hand side as
a table of operations, whose bounds over intervals show every pulse (`invsamp.solvers.ode.events.breakpoints`).
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import OfState, Term
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import (
    COMPARISONS,
    Graph,
    Node,
    derivatives,
    joined,
    operands_of,
    reachable,
    run_on_nodes,
    where,
)
from invsamp.solvers.ode.events.interval_arithmetic import Operations, table

Integers = npt.NDArray[np.int64]

#: Functions that turn a slow change of their argument into a fast one of a short duration. A quotient does where its
#: denominator depends on time. Waves (sin) are alike at all times: no integrator grows blind to them.
_LOCALIZED = frozenset(("exp", "expm1", "sinh", "cosh", "tanh", "atan", "erf", "pow", "tan", "div"))
#: Ways through a right-hand side with branches that are followed.
_MOST_WAYS = 32


@dataclass(frozen=True, eq=False)
class ExplicitTime:
    """Part of a right-hand side that depends on time and parameters alone: a table of operations, and places in it.

    A switch has the places of a condition or step, of what crosses zero (or a whole number) there, and of the slopes of
    that by time and parameters. A pulse those of a localized function, and of the condition on which it is used. A
    place is -1 where there is none: of a derivative that is zero, or of a condition that always holds.
    """

    operations: Operations
    switches: Integers  # (count, 3 + q)
    separated: int  # the first so many are those of events' functions: at their changes nothing switches
    pulses: Integers  # (count, 2)

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters that move the times of switches."""
        return frozenset(np.flatnonzero((self.switches[self.separated :, 3:] >= 0).any(axis=0)).tolist())


@lru_cache(maxsize=256)
def explicit_time(rhs: Rhs, when: tuple[OfState, ...], n: int, q: int) -> ExplicitTime:
    """The part of a right-hand side of n states and q parameters, and of events' functions, that depends on time."""
    graph, ran = _followed(rhs, n, q) if _reads_time(rhs) else (_Branching(), ())
    roots = [
        place for each in when for place in (_reads_time(each) and graph.run_if_possible(_listed(each), n, q)) or ()
    ]
    outputs = ran or ()
    timed, stateful = _dependences(graph, reachable(graph, [*outputs, *roots]))
    events = [_difference(graph, graph.at(root) < 0.0) for root in roots if root in timed]
    places = sorted(timed)
    switches = [*events, *(_difference(graph, each) for place in places for each in _switches(graph, place))]
    sources = [place for place in places if _may_pulse(graph, place, timed)]
    used = _conditions_of_use(graph, [*outputs, *roots], stateful, sources) if sources else {}
    found = [[place, level, *_slopes(graph, level, q)] for place, level in switches]
    pulses = [[place, used[place]] for place in sources if used[place] != _NEVER]
    wanted = [place for row in (*found, *pulses) for place in row if place >= 0]
    needed = reachable(graph, wanted)
    new = {old: k for k, old in enumerate(needed)} | {-1: -1}
    rows = [graph.rows[old] for old in needed]
    return ExplicitTime(
        table([(row[0], *(new[k] for k in row[1:])) if operands_of(row) else row for row in rows]),
        np.array([[new[place] for place in row] for row in found], dtype=np.int64).reshape(-1, 3 + q),
        len(events),
        np.array([[new[place] for place in row] for row in pulses], dtype=np.int64).reshape(-1, 2),
    )


@lru_cache(maxsize=256)
def may_jump(rhs: Rhs, n: int, q: int) -> tuple[bool, bool]:
    """Whether a right-hand side may jump as states or parameters move: where a state decides, and where others do.

    What jumps as time goes by is found by `explicit_time`, if the right-hand side can be followed.
    """
    graph, outputs = _followed(rhs, n, q)
    if outputs is None:
        return True, True
    places = reachable(graph, outputs)
    choices = [graph.rows[place][1] for place in places if graph.rows[place][0] == "select"]
    return bool(choices and _dependences(graph, places)[1].intersection(choices)), False


@lru_cache(maxsize=8)
def _followed(rhs: Rhs, n: int, q: int) -> tuple[_Branching, tuple[int, ...] | None]:
    graph = _Branching()
    return graph, graph.run_if_possible(rhs, n, q)


def _reads_time(function: Callable[..., object]) -> bool:
    """Whether a function may use its first argument."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None or not code.co_argcount:
        return True
    name = code.co_varnames[0]
    read = (each.argval for each in dis.get_instructions(code) if not each.opname.startswith("STORE"))
    return any(name == each or (isinstance(each, tuple) and name in each) for each in read)


class _Branching(Graph):
    """A graph on which functions may branch: each way is followed, and the outcomes are joined by conditions."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[bool] = []
        self.met: list[Node] = []
        self.ways = 0

    def at(self, place: int) -> Node:
        return _Number(self, place)

    def truth(self, condition: Node) -> bool:
        if len(self.met) == len(self.decided):
            self.decided.append(True)
        self.met.append(condition)
        return self.decided[len(self.met) - 1]

    def run_if_possible(self, function: Callable[..., object], n: int, q: int) -> tuple[int, ...] | None:
        """Places of a function's values; None if it does not run on nodes."""
        self.ways = 0
        try:
            return self.run(function, n, q)
        except Exception:  # whatever a function raises that is not made for this
            return None

    def run(self, function: Callable[..., object], n: int, q: int, decided: Sequence[bool] = ()) -> tuple[int, ...]:
        """Places of the function's values; OverflowError for too many ways through it."""
        self.ways += 1
        if self.ways > _MOST_WAYS:
            raise OverflowError
        self.decided, self.met = list(decided), []
        values = run_on_nodes(self, function, n, q, {"max": _largest, "min": _smallest})
        met = self.met
        for k in range(len(met) - 1, len(decided) - 1, -1):
            others = self.run(function, n, q, [*decided, *[True] * (k - len(decided)), False])
            pairs = zip(values, others, strict=True)
            values = tuple(self.constant(where(met[k], self.at(a), self.at(b))).index for a, b in pairs)
        return values


class _Number(Node):
    """A number or condition, for which more is defined than compiled right-hand sides can do."""

    def __and__(self, other: object) -> object:
        return joined("and", self, other)

    def __or__(self, other: object) -> object:
        return joined("or", self, other)

    def __invert__(self) -> object:
        return joined("not", self)

    __rand__, __ror__ = __and__, __or__


def _largest(*values: Term) -> Term:
    found = values if len(values) > 1 else tuple(values[0])
    return reduce(lambda a, b: where(a >= b, a, b), found)


def _smallest(*values: Term) -> Term:
    found = values if len(values) > 1 else tuple(values[0])
    return reduce(lambda a, b: where(a <= b, a, b), found)


def _listed(function: OfState) -> Rhs:
    return lambda t, x, p: (function(t, x, p),)


def _dependences(graph: Graph, places: Sequence[int]) -> tuple[set[int], set[int]]:
    """Those of some operations that depend on time and on no state, and those that depend on states."""
    timed: set[int] = set()
    stateful: set[int] = set()
    for place in places:
        row = graph.rows[place]
        operands = operands_of(row)
        if row[0] == "y" or any(k in stateful for k in operands):
            stateful.add(place)
        elif row[0] == "t" or any(k in timed for k in operands):
            timed.add(place)
    return timed, stateful


def _switches(graph: Graph, place: int) -> list[Node]:
    """Conditions and steps at which an operation jumps or bends."""
    name, *operands = graph.rows[place]
    if name == "fabs":
        return [graph.at(operands[0]) < 0.0]
    return [graph.at(place)] if name in (*COMPARISONS, "floor") else []


def _may_pulse(graph: Graph, place: int, timed: set[int]) -> bool:
    name, *operands = graph.rows[place]
    return name in _LOCALIZED and (name != "div" or operands[1] in timed)


def _difference(graph: Graph, condition: Node) -> tuple[int, int]:
    """Places of a condition or step and of what crosses zero, or a whole number, as it changes."""
    name, *operands = graph.rows[condition.index]
    if name == "floor":
        return condition.index, operands[0]
    return condition.index, (graph.at(operands[0]) - graph.at(operands[1])).index


def _slopes(graph: Graph, place: int, q: int) -> list[int]:
    """Places of the derivatives by time and by each parameter."""
    found = derivatives(graph, place, ("t", "p"))
    return [found.get(("t",), -1), *(found.get(("p", j), -1) for j in range(q))]


#: In place of the condition on which something is used, if it never is; and if it always is.
_NEVER, _ALWAYS = -2, -1


def _conditions_of_use(
    graph: Graph, outputs: Sequence[int], stateful: set[int], wanted: Sequence[int]
) -> dict[int, int]:
    """Places of the conditions, of time and parameters, on which some operations reach the outputs."""
    places = reachable(graph, outputs)
    if not any(graph.rows[place][0] == "select" for place in places):
        return dict.fromkeys(wanted, _ALWAYS)
    used: dict[int, Node | bool] = dict.fromkeys(outputs, True)
    for place in reversed(places):
        row, use = graph.rows[place], used.get(place, False)
        for k, operand in enumerate(operands_of(row)):
            if used.get(operand) is True:
                continue
            through: Node | bool = use
            if row[0] == "select" and k > 0 and row[1] not in stateful:
                chosen = graph.at(row[1])
                through = joined("and", use, chosen if k == 1 else joined("not", chosen))  # type: ignore[assignment]
            used[operand] = joined("or", used.get(operand, False), through)
    places_of = {True: _ALWAYS, False: _NEVER}
    return {
        place: each.index if isinstance(each := used.get(place, False), Node) else places_of[each] for place in wanted
    }
