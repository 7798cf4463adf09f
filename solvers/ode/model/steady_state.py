r"""Steady states as initial values, with their derivatives.

A system is integrated until Newton's method takes over. With the Jacobian J at the steady state and the derivatives of
the right-hand side :math:`f_p`, those of the state solve :math:`J x_p = -f_p`. Where amounts are conserved J is
singular; its left null vectors W say which combinations of states keep their initial values :math:`x_0`, and

.. math:: \begin{pmatrix} J \\ W^T \end{pmatrix} x_p = \begin{pmatrix} -f_p \\ W^T x_{0,p} \end{pmatrix}

has one solution. It holds for conservation laws that are linear with constant coefficients: W is checked at the state
where the system comes from. Where J is singular for another reason, as at the end of an epidemic, states next to the
steady state are at rest, too. State and derivatives are then those of the integration.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, mapping, real, sequence, store, text
from invsamp.solvers.ode.codegen.compile_rhs import prepare_jacobian, prepare_sensitivities, prepare_states
from invsamp.solvers.ode.events.parameter_functions import Quantities, Quantity, check_quantity, shallow_quantity
from invsamp.solvers.ode.integrators.lsoda_jacobian import state_jacobian
from invsamp.solvers.ode.integrators.restarted_trajectory import evaluate
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.model.initial_values import Initial, InitialValues
from invsamp.solvers.ode.model.ode_solver import OdeSolver
from invsamp.solvers.ode.model.parameter_mapping import Naming

Array = npt.NDArray[np.float64]
#: Newton's method takes over when its first step is so small, relative to the states.
_NEAR = 1e-2
#: Singular values of the Jacobian below this, relative to the largest, are conservation laws.
_RANK = 1e-9
#: By how much conserved amounts may have changed, relative to the states.
_KEPT = 1e-4
_MOST_ITERATIONS = 50


@dataclass(frozen=True)
class SteadyState:
    """The state in which a system has come to rest, as `initial` of `OdeModel.observe`.

    Parameters
    ----------
    initial : sequence, callable or SteadyState
        Where the system comes from: as `initial` of `OdeModel.observe`, but without new parameters.
    given : mapping from parameter to number or name of another parameter, optional
        What differs from the experiment that follows: ``{"drug": 0.0}``.
    until : float, > 0
        Time after which the system must have come to rest.
    then : mapping from state to quantity, optional
        States that do not start from where they came to rest: ``{"drug": "dose"}``. A quantity is a number, the name of
        a parameter of the model, or a function of its parameters p.

    Notes
    -----
    Doses, events and breakpoints of the model take no part in it, and the right-hand side must not depend on time
    there. Where no stable steady state is found within ``until``, the observation's row is NaN and its `message` says
    so.

    Examples
    --------
    Production 2 and decay at rate 0.5 settle at 4. Then production stops.

    >>> from invsamp.solvers.ode import OdeModel, SteadyState
    >>> cell = OdeModel(lambda t, x, p: [p[0] - p[1] * x[0]], ["protein"], ["production", "decay"])
    >>> rest = SteadyState([0.0], given={"production": 2.0})
    >>> model = cell.observe([0.0, 1.0], rest, given={"production": 0.0})
    >>> model.parameters, model([[0.5]]).round(3)
    (('decay',), array([[4.   , 2.426]]))
    """

    initial: Initial | SteadyState
    given: Mapping[str, float | str] = field(default_factory=dict)
    until: float = 1e8
    then: Mapping[str, Quantity] = field(default_factory=dict)
    events: bool = False

    def __post_init__(self) -> None:
        given = mapping("given", self.given, "a mapping from names of parameters")
        for name, value in given.items():
            text("a name of given", name)
            if not isinstance(value, str):
                real(f"given[{name!r}]", value, also=" or the name of a parameter")
        then = mapping("then", self.then, "a mapping from names of states")
        for name, value in then.items():
            shallow_quantity(f"then[{text('a name of then', name)!r}]", value)
        store(self, given=given, until=real("until", self.until, above=0.0), then=then)
        boolean("events", self.events)
        if isinstance(self.initial, SteadyState):
            return
        if not callable(self.initial) or isinstance(self.initial, type):
            entries = sequence("initial", self.initial, "a sequence of quantities, or a function of p")
            for k, entry in enumerate(entries):
                shallow_quantity(f"initial[{k}]", entry)


@dataclass(frozen=True, eq=False)
class SteadyStart:
    """A steady state of a model; `values` and `slopes` as of `InitialValues`."""

    model: OdeSolver
    begin: InitialValues | SteadyStart
    naming: Naming
    until: float
    then: Quantities
    places: tuple[int, ...]  # states of those
    names: tuple[str, ...] = ()

    @staticmethod
    def of(steady: SteadyState, model: OdeSolver) -> SteadyStart:
        """That of a model; ValueError for what does not fit."""
        naming = Naming.of(steady.given, model.parameters, ())
        if unknown := sorted(set(naming.names) - set(model.parameters)):
            raise ValueError(f"given must have numbers or names of other parameters {model.parameters}, got {unknown}")
        begin: InitialValues | SteadyStart
        if isinstance(steady.initial, SteadyState):
            begin = SteadyStart.of(steady.initial, model)
        else:
            begin = InitialValues.of(steady.initial, model.states, model.parameters)
        if begin.names:
            raise ValueError(f"initial of a steady state must be known or of the model's parameters, got {begin.names}")
        if unknown := sorted(set(steady.then) - set(model.states)):
            raise ValueError(f"then must be of states out of {model.states}, got {unknown}")
        entries = tuple(check_quantity(f"then[{k!r}]", value, model.parameters) for k, value in steady.then.items())
        kept = tuple(each for each in model.events if steady.events and each.when is not None)
        still = dataclasses.replace(model, method="auto", breakpoints=(), doses=(), events=kept, stop=None)
        places = tuple(model.states.index(name) for name in steady.then)
        return SteadyStart(still, begin, naming, steady.until, Quantities(entries, model.parameters), places)

    def values(self, p: Array, more: Array) -> Array:
        """Steady states (batch, n) at the model's parameters (batch, q); NaN where there is none."""
        found = self._resting(p)
        if self.places:
            found[:, self.places] = np.where(np.isnan(found[:, self.places]), np.nan, self.then.values(p))
        return found

    def slopes(self, p: Array, more: Array, x0: Array) -> Array:
        """Derivatives (batch, q, n) of the values x0."""
        own = self._own(p)
        resting = self._resting(p) if self.places else x0
        none = np.empty((len(p), 0))  # all are the model's
        start = self.begin.values(own, none)
        start_slopes = self.begin.slopes(own, none, start)
        out = np.zeros((len(p), p.shape[1], x0.shape[1]))
        columns = [self.model.parameters.index(name) for name in self.naming.names]
        for row, x in enumerate(resting):
            by_own = self._derivatives(x, own[row], start_slopes[row].T, start[row])
            out[row, columns] = self.naming.gathered(by_own).T
        if self.places:
            out[:, :, self.places] = self.then.slopes(p).swapaxes(1, 2)
        return out

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters of the model on which the values may depend."""
        names, q = self.model.parameters, len(self.model.parameters)
        read = {*self.model.moving(range(q)), *self.begin.parameters_read}
        columns = self.naming.columns[sorted(read)]
        resting = {names.index(self.naming.names[column]) for column in columns if column >= 0}
        return frozenset({*resting, *self.then.parameters_read})

    def failure(self, x: Array) -> str | None:
        """Why states are NaN; None if they are not."""
        lost = int(np.isnan(x).any(axis=1).sum())
        return f"no stable steady state at t = {self.until:g} to start from ({lost} of {len(x)} rows)" if lost else None

    def _resting(self, p: Array) -> Array:
        """Where the system comes to rest, (batch, n)."""
        own = self._own(p)
        start = self.begin.values(own, np.empty((len(p), 0)))
        return np.array([self._rest(start[row], own[row]) for row in range(len(p))]).reshape(start.shape)

    def _own(self, p: Array) -> Array:
        """The model's parameters in the steady state."""
        columns = [self.model.parameters.index(name) for name in self.naming.names]
        return np.ascontiguousarray(self.naming.spread(p[:, columns]))  # compiled code reads rows

    def _rest(self, x: Array, p: Array) -> Array:
        """Steady state (n,) from x (n,), or NaN."""
        n, begin, horizon = len(x), x, 1.0
        nothing = np.full(n, math.nan)
        if not (np.isfinite(x).all() and np.isfinite(p).all()):
            return nothing
        if self.model.events:
            return self._integrated(x, p)[0]
        while True:
            found = self._newton(x, p, begin)
            if found is not None:
                return found
            if not self._linear(x, p, begin) and self._at_rest(x, p):
                return x
            if horizon > self.until:
                return nothing
            solution = self.model.solve(p[None], x, [horizon], t0=0.0)
            if solution.status[0] != Status.OK:
                return nothing
            x, horizon = solution.states[0, 0], 10.0 * horizon

    def _integrated(self, begin: Array, p: Array) -> tuple[Array, float]:
        """Where the system rests after all events, or NaN; and the time until which it was integrated."""
        horizon = 1.0
        while horizon <= 10.0 * self.until:
            solution = self.model.solve(p[None], begin, [horizon], t0=0.0)
            if solution.status[0] != Status.OK:
                break
            x = solution.states[0, 0]
            if self._at_rest(x, p):
                return x, horizon
            horizon *= 10.0
        return np.full(len(begin), math.nan), math.nan

    def _at_rest(self, x: Array, p: Array) -> bool:
        scale = np.abs(self._jacobian(x, p)) @ (np.abs(x) + self.model.atol / self.model.rtol)
        return bool((np.abs(self._slope(x, p)) <= 1e-8 * scale).all())

    def _linear(self, x: Array, p: Array, begin: Array) -> bool:
        """Whether what is conserved next to x is conserved from ``begin`` on: linear, not the tangent of a curve."""
        conserved, slope = self._bordered(x, p)[1], self._slope(begin, p)
        return bool((np.abs(conserved @ slope) <= 1e-8 * (np.abs(conserved) @ np.abs(slope))).all())

    def _newton(self, x: Array, p: Array, begin: Array) -> Array | None:
        """Steady state next to x, if there is one that is stable and keeps what is conserved since ``begin``."""
        size = np.abs(x) + self.model.atol / self.model.rtol
        last = math.inf
        for iteration in range(_MOST_ITERATIONS):
            matrix, conserved = self._bordered(x, p)
            slope = self._slope(x, p)
            if not (np.isfinite(matrix).all() and np.isfinite(slope).all()):
                return None
            step = np.linalg.lstsq(matrix, np.concatenate([-slope, conserved @ (begin - x)]), rcond=None)[0]
            change = float(np.max(np.abs(step) / size))
            if not change < (_NEAR if iteration == 0 else 1.0):
                return None
            x = x + step
            if change < 1e-13 or (change < 1e-9 and change >= 0.5 * last):
                break
            last = change
        else:
            return None
        jacobian = self._jacobian(x, p)
        rates = np.linalg.eigvals(jacobian)
        unstable = rates.real.max(initial=0.0) > 1e-8 * np.abs(rates).max(initial=1e-300)
        if unstable or (np.abs(self._slope(x, p)) > 1e-8 * (np.abs(jacobian) @ size)).any():
            return None
        kept = np.abs(self._bordered(x, p)[1] @ (begin - x)).max(initial=0.0) < _KEPT * size.max()
        return x if kept and self._linear(x, p, begin) else None

    def _derivatives(self, x: Array, p: Array, of_begin: Array, begin: Array) -> Array:
        """(n, q) at the steady state x, from those of where it comes from."""
        n, q = of_begin.shape
        if not np.isfinite(x).all():
            return np.full((n, q), math.nan)
        if self.model.events or not self._linear(x, p, begin):
            _, end = self._integrated(begin, p)
            times = np.array([[end]]), np.zeros(1)
            found = self.model.solve_from(p[None], begin[None], of_begin.T[None], p[None], *times)
            return np.asarray(found.sensitivities[0, 0])
        matrix, conserved = self._bordered(x, p)
        rhs = prepare_sensitivities(self.model.rhs, self.model.jacobian, n, q, 0).compiled.address
        y, out = np.concatenate([x, np.zeros(n * q)]), np.empty((1, n * (1 + q)))
        evaluate(rhs, 0.0, -math.inf, math.inf, y, p, np.zeros(len(y)), out)
        by_p = out[0, n:].reshape(q, n).T
        return np.asarray(np.linalg.lstsq(matrix, np.concatenate([-by_p, conserved @ of_begin]), rcond=None)[0])

    def _bordered(self, x: Array, p: Array) -> tuple[Array, Array]:
        """J with W^T below it, and W^T."""
        jacobian = self._jacobian(x, p)
        # rows in one unit: a slow state is no conservation law
        scale = np.abs(jacobian).max(axis=1, initial=0.0)
        scale[scale == 0.0] = 1.0
        left, values, _ = np.linalg.svd(jacobian / scale[:, None])
        conserved = (left / scale[:, None])[:, values <= _RANK * values.max(initial=0.0)].T
        conserved = conserved / np.linalg.norm(conserved, axis=1, keepdims=True) if len(conserved) else conserved
        return np.concatenate([jacobian, conserved]), conserved

    def _jacobian(self, x: Array, p: Array) -> Array:
        n, q = len(x), len(p)
        found = prepare_jacobian(self.model.rhs, self.model.jacobian, n, q)
        if isinstance(found, ValueError):
            raise found
        return np.asarray(state_jacobian(found.compiled.address, 0.0, x, p))

    def _slope(self, x: Array, p: Array) -> Array:
        """The right-hand side; ValueError if it depends on time."""
        rhs = prepare_states(self.model.rhs, len(x), len(p)).compiled.address
        values = []
        for t in (0.0, 1.37, 41.9):
            out = np.empty((1, len(x)))
            evaluate(rhs, t, -math.inf, math.inf, x, p, np.zeros(len(x)), out)
            values.append(out[0])
        if not all(np.array_equal(values[0], other, equal_nan=True) for other in values):
            raise ValueError("rhs must not depend on t where a steady state is asked for, as it does under `given`")
        return values[0]
