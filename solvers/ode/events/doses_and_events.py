"""Interruptions of a trajectory: breakpoints, doses that are added to states, events that change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import function, instance, one_of, optional, sequence, shown, store
from invsamp.solvers.foreign import Called, OfState
from invsamp.solvers.ode.codegen.compile_rhs import prepare_function
from invsamp.solvers.ode.codegen.operation_graph import trace_graph
from invsamp.solvers.ode.codegen.signature_check import probe
from invsamp.solvers.ode.events.parameter_functions import Quantities, Quantity, check_quantity, shallow_quantity
from invsamp.solvers.ode.integrators.event_handling import Events
from invsamp.solvers.ode.integrators.trajectories import Course

Array = npt.NDArray[np.float64]
#: A time, and what is added to which states then.
Dose = tuple[Quantity, Mapping[str, Quantity] | tuple[tuple[str, Quantity], ...]]
DIRECTIONS = {"both": 0, "up": 1, "down": -1}


@dataclass(frozen=True)
class Event:
    """Something that happens to a trajectory, at a given time or when a function of the states passes zero.

    Sensitivities follow through it, also where its time depends on the parameters.

    Parameters
    ----------
    when : callable, optional
        ``when(t, x, p)``: the event happens where this changes its sign. A change and back within one step is seen
        where the values and slopes at the step's ends point to an extremum between them; `OdeModel` has ``max_step``
        for functions that go to and fro faster. Say here, too, where the right-hand side jumps as a state crosses a
        threshold: ``when=lambda t, x, p: x[0] - 1`` and no change for ``if x[0] > 1``. Where it is 0 at the initial
        time, it has the sign that it takes next, and the event does not happen then.
    at : float, str or callable, optional
        Time of the event, in place of ``when``: a number, the name of a parameter, or a function of the parameters p.
        An event before the initial time does not happen.
    change : callable, optional
        ``change(t, x, p)`` returning the new states; they stay as they are by default.
    direction : {"both", "up", "down"}
        Which change of the sign of ``when`` counts.

    Raises
    ------
    ValueError
        Unless exactly one of ``when`` and ``at`` is given.

    Notes
    -----
    ``when`` and ``change`` consist of arithmetic and elementary functions, without branches. What an event changes may
    set off others. Outputs at the time of an event are those before it. An event counts as a step for `max_steps`.

    Examples
    --------
    A ball that bounces with nine tenths of its speed.

    >>> from invsamp.solvers.ode import Event, OdeModel
    >>> bounce = Event(when=lambda t, x, p: x[0], change=lambda t, x, p: (0.0, -0.9 * x[1]), direction="down")
    >>> ball = OdeModel(lambda t, x, p: (x[1], -p[0]), ["height", "speed"], ["gravity"], events=[bounce])
    >>> ball.solve([[2.0]], [1.0, 0.0], [0.0, 0.5, 1.9]).states[0, :, 0].round(2)
    array([1.  , 0.75, 0.81])
    """

    when: OfState | None = None
    at: Quantity | None = None
    change: OfState | None = None
    direction: Literal["both", "up", "down"] = "both"

    def __post_init__(self) -> None:
        if (self.when is None) == (self.at is None):
            raise ValueError(f"when or at must be given, and not both, got {self.when!r} and {self.at!r}")
        optional(function, "when", self.when, "when(t, x, p)")
        optional(function, "change", self.change, "change(t, x, p)")
        optional(shallow_quantity, "at", self.at)
        one_of("direction", self.direction, tuple(DIRECTIONS))


def check_breakpoints(breakpoints: object, parameters: tuple[str, ...]) -> tuple[Quantity, ...]:
    """The times; ValueError unless they are finite, names of parameters, or functions of these."""
    if isinstance(breakpoints, np.ndarray):
        breakpoints = breakpoints.tolist()
    listed = sequence("breakpoints", breakpoints, "a sequence of times", least=0)
    return tuple(check_quantity(f"breakpoints[{k}]", each, parameters) for k, each in enumerate(listed))


def check_doses(doses: Any, states: tuple[str, ...], parameters: tuple[str, ...]) -> tuple[Dose, ...]:
    """Doses as pairs in place of mappings, so that a model can be hashed.

    Raises
    ------
    ValueError
        Unless they are pairs of a time and finite amounts by the names of states.
    """
    right = "doses must be pairs of a time and amounts by state, such as [(2.0, {'amount': 5.0})]"
    try:
        if isinstance(doses, str):
            raise TypeError
        pairs = [(time, dict(amounts)) for time, amounts in doses]
    except (TypeError, ValueError):
        raise ValueError(f"{right}, got {shown(doses)}") from None
    checked = []
    for index, (time, amounts) in enumerate(pairs):
        when = check_quantity(f"doses[{index}]: its time", time, parameters)
        if unknown := [state for state in amounts if state not in states]:
            raise ValueError(f"doses must name states out of {states}, got {unknown} at {when}")
        given = tuple(
            (state, check_quantity(f"doses[{index}]: {state!r}", amount, parameters))
            for state, amount in amounts.items()
        )
        checked.append((when, given))
    return tuple(checked)


def check_events(events: object, n: int, parameters: tuple[str, ...]) -> tuple[Event, ...]:
    """The events; ValueError for functions that do not fit n states and the parameters, or cannot be traced."""
    checked = []
    for k, event in enumerate(sequence("events", events, "a sequence of Event", least=0)):
        instance(f"events[{k}]", event, Event, "an Event")
        if event.at is not None:
            store(event, at=check_quantity(f"events[{k}].at", event.at, parameters))
        for name, values in (("when", 1), ("change", n)):
            if (function := getattr(event, name)) is not None:
                probe(f"events[{k}].{name}", function, n, len(parameters))
                label = f"events[{k}].{name}"
                count = len(trace_graph(function, n, len(parameters), whole=False, name=label).outputs)
                if count != values:
                    raise ValueError(f"{label} must return {values} values, got {count}")
        checked.append(event)
    return tuple(checked)


def course(
    breakpoints: tuple[Quantity, ...],
    doses: tuple[Dose, ...],
    events: tuple[Event, ...],
    states: tuple[str, ...],
    parameters: tuple[str, ...],
    p: Array,
    width: int,
    own: tuple[int, ...],
) -> Course:
    """Interruptions of trajectories of ``width`` components at parameters p (batch, q).

    The sensitivities among these are to the parameters ``own`` first.
    """
    plan = _plan(breakpoints, doses, events, states, parameters, width)
    if not plan.times.entries:
        return plan.fixed
    n, (count, columns) = len(states), (len(plan.times.entries), width // len(states) - 1)
    q, chosen = len(own), list(own)
    jumps, shifts = np.zeros((len(p), count, width)), np.zeros((len(p), count, columns))
    amounts = plan.amounts.values(p)
    for k, (entry, state) in enumerate(plan.given):
        jumps[:, entry, state] += amounts[:, k]
    if columns:
        shifts[:, :, :q] = plan.times.slopes(p)[:, :, chosen]
        slopes = plan.amounts.slopes(p)[:, :, chosen]
        for k, (entry, state) in enumerate(plan.given):
            jumps[:, entry, n + state : n * (1 + q) : n] += slopes[:, k]
    return plan.fixed.with_pauses(plan.times.values(p), jumps, shifts, plan.resets)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A course: what does not depend on the parameters, and what does."""

    fixed: Course
    times: Quantities
    resets: npt.NDArray[np.int64]  # of each of the times
    amounts: Quantities
    given: tuple[tuple[int, int], ...]  # of each amount: which of the times, and the state


@lru_cache(maxsize=64)
def _plan(
    breakpoints: tuple[Quantity, ...],
    doses: tuple[Dose, ...],
    events: tuple[Event, ...],
    states: tuple[str, ...],
    parameters: tuple[str, ...],
    width: int,
) -> _Plan:
    n, q, slopes = len(states), len(parameters), width > len(states)
    at_zero = [event for event in events if event.when is not None]
    at_times = [event for event in events if event.at is not None]

    def address(function: Called | None, slopes: bool) -> int:
        return 0 if function is None else prepare_function(function, n, q, slopes).address

    compiled = Events(
        np.array([address(event.when, False) for event in at_zero], dtype=np.int64),
        np.array([address(event.when, True) for event in at_zero], dtype=np.int64),
        np.array([DIRECTIONS[event.direction] for event in at_zero], dtype=np.int64),
        np.array([address(event.change, slopes) for event in (*at_zero, *at_times)], dtype=np.int64),
    )
    fixed = [dose for dose in doses if not _depends(dose)]
    times, jumps = _fixed(tuple(time for time in breakpoints if isinstance(time, float)), tuple(fixed), states, width)
    others = [dose for dose in doses if _depends(dose)]
    moving = [time for time in breakpoints if not isinstance(time, float)]
    amounts = [
        (k, states.index(state), amount) for k, (_, given) in enumerate(others) for state, amount in dict(given).items()
    ]
    return _Plan(
        Course(
            times[None],
            jumps[None],
            np.zeros((1, len(times), width // n - 1)),
            np.full((1, len(times)), -1),
            0,
            compiled,
        ),
        Quantities(
            (*(time for time, _ in others), *moving, *(event.at for event in at_times if event.at is not None)),
            parameters,
        ),
        np.array([-1] * (len(others) + len(moving)) + [len(at_zero) + k for k in range(len(at_times))], dtype=np.int64),
        Quantities(tuple(amount for *_, amount in amounts), parameters),
        tuple((entry, state) for entry, state, _ in amounts),
    )


def _depends(dose: Dose) -> bool:
    return not all(isinstance(each, float) for each in (dose[0], *dict(dose[1]).values()))


def _fixed(
    breakpoints: tuple[float, ...], doses: tuple[Any, ...], states: tuple[str, ...], width: int
) -> tuple[Array, Array]:
    """Times at which the integration restarts, and what y of the given width gains there."""
    times = np.array(sorted({*breakpoints, *(time for time, _ in doses)}), dtype=float)
    jumps = np.zeros((len(times), width))
    for time, amounts in doses:
        for state, amount in dict(amounts).items():
            jumps[np.searchsorted(times, time), states.index(state)] += amount
    return times, jumps
