"""Observation models of ordinary differential equations: which functions of the trajectory are data."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import function, increasing, integer, optional, real, sequence, shown
from invsamp.compiled_calls import CompiledRows
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode.codegen.observable_functions import Function, StateFunction
from invsamp.solvers.ode.events.parameter_functions import state_formulas
from invsamp.solvers.ode.integrators.batch import plain
from invsamp.solvers.ode.integrators.solution import BoolArray, SensitiveSolution, Solution
from invsamp.solvers.ode.model.adjoint import has_adjoint, solve_with_adjoint
from invsamp.solvers.ode.model.compiled_rows import compiled_rows, initial_obstacle
from invsamp.solvers.ode.model.initial_values import Initial, InitialValues
from invsamp.solvers.ode.model.jacobian_products import observed_slopes
from invsamp.solvers.ode.model.observation_base import ObservedTrajectories, checked_theta
from invsamp.solvers.ode.model.ode_solver import OdeSolver
from invsamp.solvers.ode.model.parameter_mapping import Naming
from invsamp.solvers.ode.model.steady_state import SteadyStart, SteadyState

Array = npt.NDArray[np.float64]


#: Columns of sensitivities from which on gradients are those of the adjoint.
LEAST_ADJOINT = 50


def observe(
    model: OdeSolver,
    times: npt.ArrayLike,
    initial: Initial | SteadyState,
    *,
    t0: float | None = None,
    given: Mapping[str, float | str] | None = None,
    states: Sequence[str] | None = None,
    of: Function | Sequence[str] | None = None,
    jacobian: Callable[[Term, Term, Term], npt.ArrayLike] | None = None,
    mask: npt.ArrayLike | None = None,
) -> OdeObservation:
    """The method `OdeModel.observe`, whose arguments these are."""
    grid = increasing("times", times)
    start = float(grid[0]) if t0 is None else real("t0", t0)
    if not start <= grid[0]:
        raise ValueError(f"t0 must not be after the first of times, {grid[0]}, got {t0}")
    begin: InitialValues | SteadyStart
    if isinstance(initial, SteadyState):
        begin = SteadyStart.of(initial, model)
    else:
        begin = InitialValues.of(initial, model.states, model.parameters)
    names = Naming.of(given, model.parameters, begin.names)
    if of is not None and states is not None:
        raise ValueError(f"states and of exclude each other: of sees all states, got states {tuple(states)}")
    if of is None and jacobian is not None:
        raise ValueError("jacobian is the derivative of of, but of was not given")
    if isinstance(of, list | tuple):
        of = state_formulas(sequence("of", of, "of formulas"), model.states, model.parameters)
    (
        optional(function, "of", of, "(t, x, p), or a list of formulas of names"),
        optional(function, "jacobian", jacobian, "(t, x, p)"),
    )
    output: tuple[int, ...] | StateFunction = observed_states(model, states)
    if of is not None:
        output = StateFunction(cast(Function, of), len(model.states), len(model.parameters), jacobian)
    width = output.n_outputs if isinstance(output, StateFunction) else len(output)
    return OdeObservation(model, grid, start, begin, output, names, as_mask(mask, (len(grid), width)))


@dataclass(frozen=True, eq=False)
class OdeObservation(ObservedTrajectories):
    """Observed states of an `OdeModel`, or functions of them, as a forward model; made by `OdeModel.observe`.

    Observations are ordered by time, then by output, without those that the mask leaves out. The columns of theta are
    `parameters`: the model's that are not known here, then those that are initial values. Rows that fail are NaN, and
    `message` says why.

    Observations are the same to the bit with and without their derivatives: a posterior has one energy. Where the
    states can be solved and their sensitivities cannot, only the derivatives are NaN. For a kernel that asks for
    gradients such a point is a failed solve; for other kernels it is an ordinary point.

    Attributes
    ----------
    output : tuple of int, or StateFunction
        Indices of the observed states, or the function of states that is observed.
    mask : ndarray of bool, shape (n_times, n_outputs)
    data_indices : ndarray of int or None
        Where the observations are among those of the model that this one was made from by `coarsen`; None: all.
    """

    model: OdeSolver
    times: Array
    t0: float
    initial: InitialValues | SteadyStart
    output: tuple[int, ...] | StateFunction
    naming: Naming
    mask: BoolArray
    data_indices: npt.NDArray[np.intp] | None = None
    _timing: list[float] = field(default_factory=lambda: [0.0, 0.0], init=False, repr=False)
    _said: list[str] = field(default_factory=list, init=False, repr=False)
    _switched: list[int] = field(default_factory=lambda: [0, 0], init=False, repr=False)

    @property
    def solver(self) -> str:
        """Which method solves, and how many of the trajectories so far it left to another one."""
        switched, solved = self._switched
        left = f", but another one for {switched} of {solved} trajectories" if switched else ""
        return f"{self.model.method}{left}"

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, n_parameters)."""
        began = time.perf_counter()
        p, x0, _ = self.begin(theta)
        y = self.seen(self.model.solve(p, x0, self.times, t0=self.t0), p, x0)
        self._note_time(began, len(p))
        return y

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, n_observations) and their Jacobian (batch, n_observations, n_parameters)."""
        p, x0, more = self.begin(theta)
        seeds, values = self.seeds(p, x0, more)
        start = np.full(len(p), self.t0)
        solution = self.model.solve_from(p, x0, seeds, values, self.times[None], start, self.moving)
        return self.seen_with_slopes(solution, p, x0)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations and the product of a cotangent with their Jacobian, by the adjoint of many parameters."""
        p, x0, more = self.begin(theta)
        by_adjoint = self._takes_adjoint and solve_with_adjoint(
            self.model, p, x0, self.times[None], np.full(len(p), self.t0)
        )
        if not by_adjoint:
            return super().linearize(theta)
        solution, pullback = by_adjoint

        def product(cotangent: Array) -> Array:
            n, q = len(self.model.states), p.shape[1]
            outer = np.zeros((len(p), self.mask.size))
            outer[:, self.mask.ravel()] = cotangent
            outer, direct = outer.reshape(len(p), *self.mask.shape), np.zeros(q)
            if isinstance(self.output, StateFunction):
                slopes = self.output.jacobians(self.times, solution.states, p)
                with np.errstate(all="ignore"):
                    weights = np.einsum("btk,btkn->btn", outer, slopes[..., :n])
                    direct = np.einsum("btk,btkn->bn", outer, slopes[..., n:])
            else:
                weights = np.zeros(solution.states.shape)
                weights[:, :, self.output] = outer
            by_start, by_p = np.split(pullback(weights), [n], axis=1)
            gradient = np.zeros((len(p), q + len(self.initial.names)))
            if self.initial.names or self.initial.parameters_read:
                gradient += np.matmul(self.initial.slopes(p, more, x0), by_start[:, :, None])[:, :, 0]
            gradient[:, :q] += by_p + direct
            return self.naming.gathered(gradient)

        return self.seen(solution, p, x0), product

    @property
    def _takes_adjoint(self) -> bool:
        """Whether there are so many columns of sensitivities that the adjoint of the steps costs less."""
        columns = len(self.moving) + len(self.initial.names)
        return columns >= LEAST_ADJOINT and not isinstance(self.initial, SteadyStart) and has_adjoint(self.model)

    def begin(self, theta: Array) -> tuple[Array, Array, Array]:
        """The model's parameters (batch, q), initial values (batch, n), and what else of theta these are made of."""
        p, more = self._split(theta)
        return p, self.initial.values(p, more), more

    def seeds(self, p: Array, x0: Array, more: Array) -> tuple[Array, Array]:
        """Of `OdeModel.solve_from`: derivatives of the initial values, and the quantities by which."""
        kept = self._kept(more.shape[1])
        return self.initial.slopes(p, more, x0)[:, kept], np.concatenate([p, more], axis=1)[:, kept]

    def seen(self, solution: Solution, p: Array, x0: Array) -> Array:
        """Observations (batch, n_observations) of trajectories at `times`."""
        self._note(solution, x0)
        return self._observed(solution.states, p)

    def seen_with_slopes(self, solution: SensitiveSolution, p: Array, x0: Array) -> tuple[Array, Array]:
        """Those and their Jacobian (batch, n_observations, n_parameters)."""
        self._note(solution, x0)
        q, known = p.shape[1], solution.sensitivities.shape[-1] - len(self.moving)
        states, y = solution.states, self._observed(solution.states, p)
        if not isinstance(self.output, StateFunction):
            width = states.shape[2] * solution.sensitivities.shape[3]
            values = solution.sensitivities.swapaxes(2, 3).reshape(*states.shape[:2], width)
            matrix = np.empty((*y.shape, len(self.parameters)))
            observed_slopes(plain(values), 0, *self.arrangement, matrix)
            return y, matrix
        slopes = np.zeros((*states.shape, q + known))
        slopes[..., self._kept(known)] = solution.sensitivities
        slopes[np.isnan(solution.sensitivities).any(axis=-1)] = np.nan
        n, outer = len(self.model.states), self.output.jacobians(self.times, states, p)
        with np.errstate(all="ignore"):
            matrix = np.matmul(outer[..., :n], slopes)
            matrix[..., : p.shape[1]] += outer[..., n:]
        return y, self.naming.gathered(matrix.reshape(len(p), self.mask.size, -1)[:, self.mask.ravel()])

    def coarsen(
        self, *, rtol: float | None = None, atol: float | None = None, until: float | None = None, every: int = 1
    ) -> OdeObservation:
        """A cheaper fidelity with the same unknowns: looser tolerances, or a part of the times.

        A part of the times predicts a part of the data, and the energy is that of this part, without a factor for
        what is missing; `data_indices` informs a posterior which it is.

        Parameters
        ----------
        rtol, atol : float, optional
            Of the integrator.
        until : float, optional
            Leave out later times: the integration ends earlier. Of a chaotic or oscillating system this also makes
            the energy smoother.
        every : int, >= 1
            Keep every so many times, from the first on. That hardly saves time: the solver steps over the same span.

        Raises
        ------
        ValueError
            If no time is left, or ``every`` is less than 1.
        """
        model = self.model.with_tolerances(rtol, atol)
        kept = np.arange(len(self.times)) % integer("every", every, least=1) == 0
        if until is not None:
            kept &= self.times <= real("until", until, finite=False)
        if not (kept[:, None] & self.mask).any():
            raise ValueError(f"until must leave at least one datum of the times from {self.times[0]}, got {until}")
        if kept.all():
            return dataclasses.replace(self, model=model)
        chosen = np.flatnonzero(np.broadcast_to(kept[:, None], self.mask.shape)[self.mask])
        indices = chosen if self.data_indices is None else self.data_indices[chosen]
        return dataclasses.replace(
            self, model=model, times=self.times[kept], mask=self.mask[kept], data_indices=indices
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the columns of theta."""
        return self.naming.names

    @property
    def derivatives(self) -> str | None:
        """Source of the derivatives of ``of``: "symbolic", "given" or "complex step"; None if states are observed."""
        return self.output.derivatives if isinstance(self.output, StateFunction) else None

    @property
    def series(self) -> tuple[str, ...] | None:
        """Names of the observed states; None for functions of them."""
        output = self.output
        return None if isinstance(output, StateFunction) else tuple(self.model.states[k] for k in output)

    @property
    def n_observations(self) -> int:
        """Length of a row of observations."""
        return int(self.mask.sum())

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Times and outputs; None where the mask, or `coarsen`, leaves some of these out."""
        return self.mask.shape if self.mask.all() and self.data_indices is None else None

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """Parameters of the model that are unknown here, and on which the trajectory depends."""
        unknown = np.flatnonzero(self.naming.columns[: len(self.model.parameters)] >= 0).tolist()
        return tuple(sorted({*self.model.moving(unknown), *(set(unknown) & self.initial.parameters_read)}))

    @property
    def compilation_obstacle(self) -> str | None:
        """Why `compiled_rows` cannot take the place of `linearize`; None if it can."""
        if type(self) is not OdeObservation:
            return "the forward model has a class of its own"
        if isinstance(self.output, StateFunction):
            return "functions of the states of the ODE are observed"
        if self._takes_adjoint:
            return "gradients come from the adjoint of the ODE"
        return initial_obstacle(self.initial) or self.model.row_obstacle

    def compiled_rows(self) -> CompiledRows:
        """Observations and their Jacobian as compiled functions of one theta, for loops over steps of samplers.

        To the bit those of `linearize`, or a status other than 0 for anything unusual. Anew at each call.
        """
        assert isinstance(self.initial, InitialValues)  # nothing is in the way
        return compiled_rows(self.model, self.times, self.t0, self.initial, self.naming, self.moving, self.arrangement)

    @cached_property
    def arrangement(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Arguments of `invsamp.solvers.ode.model.jacobian_products.observed_slopes`, where states are observed."""
        assert not isinstance(self.output, StateFunction)
        observed = np.argwhere(self.mask)
        observed[:, 1] = np.array(self.output)[observed[:, 1]]
        kept = np.array(self._kept(len(self.initial.names)), dtype=np.intp)
        return plain(observed), kept, plain(self.naming.columns)

    def _kept(self, more: int) -> list[int]:
        """Which of the model's parameters, then of so many others, have columns in the sensitivities."""
        q = len(self.model.parameters)
        return [*self.moving, *range(q, q + more)]

    def _note(self, solution: Solution | SensitiveSolution, x0: Array) -> None:
        self._switched[0] += int(solution.switched.sum())
        self._switched[1] += len(solution.switched)
        said = self.initial.failure(x0) or self.model.failure(solution, float(self.times[-1]))
        if said is not None:
            self._said[:] = [said]

    def _observed(self, states: Array, p: Array) -> Array:
        if isinstance(self.output, StateFunction):
            values = self.output(self.times, states, p)
        else:
            values = states[:, :, self.output]
        return values.reshape(len(p), -1)[:, self.mask.ravel()]

    def _split(self, theta: Array) -> tuple[Array, Array]:
        q, whole = len(self.model.parameters), self.naming.spread(checked_theta(theta, len(self.parameters)))
        return whole[:, :q], whole[:, q:]


def observed_states(model: OdeSolver, states: Sequence[str] | None) -> tuple[int, ...]:
    """Indices of the states observed, all by default; ValueError for names that are unknown or repeated."""
    names = model.states if states is None else arguments.names("states", states)
    if not set(names) <= set(model.states):
        raise ValueError(f"states must be distinct names out of {model.states}, got {states!r}")
    return tuple(model.states.index(name) for name in names)


def as_mask(mask: npt.ArrayLike | None, shape: tuple[int, int]) -> BoolArray:
    """The mask as an array of that shape, all true by default; ValueError if it does not fit or is true nowhere."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    try:
        array = np.asarray(mask)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.dtype != bool or array.shape != shape or not array.any():
        raise ValueError(
            f"mask must be an array of bool of shape {shape} (times, observed), true somewhere, got {shown(mask)}"
        )
    return array
