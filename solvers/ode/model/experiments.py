"""Several experiments in one forward model: each observes the same system, or another, under conditions of its own."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, mapping, numbers, shown, store, text
from invsamp.solvers.ode.integrators.solution import SensitiveSolution, Solution
from invsamp.solvers.ode.model.observation import OdeObservation
from invsamp.solvers.ode.model.observation_base import TimedModel, checked_theta
from invsamp.solvers.ode.model.ode_solver import OdeSolver

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Experiments(TimedModel):
    """Observations of several experiments, one after the other, as one forward model.

    Parameters that have the same name are shared, all others are an experiment's own; what is known or named otherwise
    in one of them is said by ``given`` of `OdeModel.observe`. The columns of theta are `parameters`, in the order in
    which the experiments bring them in. Experiments of one model are solved in one batch, in which each trajectory has
    the numbers that it has by itself.

    Parameters
    ----------
    observations : mapping from name to OdeObservation
        Coarse ones that predict a part of the data only are refused: `coarsen` the whole.
    rows : array of int, shape (m,), optional
        Which of all observations each of the data is, where they come in another order or more than once, as
        replicates do. All of them, once, by default.

    Attributes
    ----------
    parameters : tuple of str
    slices : mapping from name to slice
        Where the observations of each experiment are among all, before ``rows`` chooses among them.

    Raises
    ------
    ValueError
        For no experiment, one that is no observation of an ODE, or rows that are not there.

    Examples
    --------
    Two doses of a drug that decays at one rate.

    >>> from invsamp.solvers.ode import Experiments, OdeModel
    >>> decay = OdeModel(lambda t, x, p: [-p[0] * x[0]], ["drug"], ["rate"])
    >>> low, high = decay.observe([1.0, 2.0], [1.0]), decay.observe([1.0, 2.0], [5.0])
    >>> model = Experiments({"low": low, "high": high})
    >>> model.parameters, model([[0.5]]).round(3)
    (('rate',), array([[1.   , 0.607, 5.   , 3.033]]))
    """

    observations: Mapping[str, OdeObservation]
    rows: npt.NDArray[np.intp] | None = None
    parameters: tuple[str, ...] = field(init=False)
    slices: Mapping[str, slice] = field(init=False)
    _timing: list[float] = field(default_factory=lambda: [0.0, 0.0], init=False, repr=False)

    def __post_init__(self) -> None:
        given = mapping("observations", self.observations, "a mapping from names to observations")
        if not given:
            raise ValueError("observations must have at least one entry, got none")
        for name, observation in given.items():
            text("observations: a name", name)
            instance(f"observations[{name!r}]", observation, OdeObservation, "an observation of an ODE")
            if observation.data_indices is not None:
                raise ValueError(f"observations[{name!r}] must predict all its data: coarsen the experiments together")
        names = dict.fromkeys(name for observation in given.values() for name in observation.parameters)
        ends = np.cumsum([observation.n_observations for observation in given.values()]).tolist()
        parts = {name: slice(begin, end) for name, begin, end in zip(given, [0, *ends], ends, strict=False)}
        if self.rows is not None:
            rows = numbers("rows", self.rows)
            if rows.ndim != 1 or not rows.size or not (np.isin(rows, np.arange(ends[-1]))).all():
                raise ValueError(f"rows must be indices of the {ends[-1]} observations, got {shown(self.rows)}")
            store(self, rows=rows.astype(np.intp))
        store(self, observations=given, parameters=tuple(names), slices=parts)

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, n_parameters)."""
        began = time.perf_counter()
        theta = checked_theta(theta, len(self.parameters))
        y = np.empty((len(theta), self._whole))
        for names in self._groups:
            batch = self._begun(names, theta)
            solution = batch.model.solve(batch.p, batch.x0, batch.times, t0=batch.start)
            for k, name in enumerate(names):
                part = batch.part(solution, k)
                y[:, self.slices[name]] = self.observations[name].seen(part, *batch.at(k))
        self._note_time(began, len(theta))
        return self._chosen(y)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, n_observations) and their Jacobian (batch, n_observations, n_parameters)."""
        theta = checked_theta(theta, len(self.parameters))
        y = np.empty((len(theta), self._whole))
        matrix = np.zeros((*y.shape, len(self.parameters)))
        for names in self._groups:
            batch, moving = self._begun(names, theta), self.observations[names[0]].moving
            solution = batch.model.solve_from(batch.p, batch.x0, *batch.seeds(), batch.times, batch.start, moving)
            for k, name in enumerate(names):
                each, own = self.observations[name], self.slices[name]
                part = batch.part(solution, k)
                cut = solution.sensitivities[batch.rows(k), : len(each.times)]
                sensitive = SensitiveSolution(part.states, cut, *part[1:])
                y[:, own], matrix[:, own, self._columns(each)] = each.seen_with_slopes(sensitive, *batch.at(k))
        return self._chosen(y), self._chosen(matrix)

    def coarsen(self, *, rtol: float | None = None, atol: float | None = None) -> Experiments:
        """A cheaper fidelity with the same unknowns and data: looser tolerances."""
        coarse, models = {}, {id(each.model): each.coarsen(rtol=rtol, atol=atol).model for each in self._all}
        for name, each in self.observations.items():
            coarse[name] = dataclasses.replace(each, model=models[id(each.model)])
        return Experiments(coarse, self.rows)

    @property
    def n_observations(self) -> int:
        """Length of a row of observations."""
        return self._whole if self.rows is None else len(self.rows)

    @property
    def derivative_error(self) -> float:
        """The largest of the experiments'."""
        return max(each.derivative_error for each in self.observations.values())

    @property
    def message(self) -> str | None:
        """The message of the last failure of one of the experiments."""
        said = [f"{name}: {each.message}" for name, each in self.observations.items() if each.message is not None]
        return said[0] if said else None

    @property
    def no_derivatives(self) -> str | None:
        """Why there is no Jacobian; None if there is one."""
        reasons = (each.no_derivatives for each in self.observations.values())
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def work(self) -> float:
        """Of all experiments."""
        return math.fsum(each.work for each in self.observations.values())

    @property
    def _all(self) -> list[OdeObservation]:
        return list(self.observations.values())

    @property
    def _whole(self) -> int:
        return sum(each.n_observations for each in self._all)

    @cached_property
    def _groups(self) -> list[list[str]]:
        """Experiments of one model, with derivatives by the same of its parameters: solved in one batch."""
        found: dict[object, list[str]] = {}
        for name, each in self.observations.items():
            found.setdefault((id(each.model), each.moving, len(each.initial.names)), []).append(name)
        return list(found.values())

    def _begun(self, names: list[str], theta: Array) -> _Batch:
        each = [self.observations[name] for name in names]
        return _Batch.of(each, [theta[:, self._columns(one)] for one in each])

    def _chosen(self, found: Array) -> Array:
        return found if self.rows is None else found[:, self.rows]

    def _columns(self, observation: OdeObservation) -> list[int]:
        return [self.parameters.index(name) for name in observation.parameters]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Trajectories of some experiments at the same points, one experiment below the other."""

    observations: Sequence[OdeObservation]
    points: int
    p: Array
    x0: Array
    more: Array  # (trajectories, new parameters)

    @staticmethod
    def of(observations: Sequence[OdeObservation], thetas: Sequence[Array]) -> _Batch:
        """At each experiment's own theta (points, n_parameters)."""
        begun = [each.begin(theta) for each, theta in zip(observations, thetas, strict=True)]
        p, x0, more = (np.concatenate(parts) for parts in zip(*begun, strict=True))
        return _Batch(observations, len(thetas[0]), p, x0, more)

    @property
    def model(self) -> OdeSolver:
        """That of all."""
        return self.observations[0].model

    @property
    def times(self) -> Array:
        """Output times (trajectories, n_times), those of shorter experiments padded with NaN."""
        grid = np.full((len(self.observations), max(len(each.times) for each in self.observations)), np.nan)
        for row, each in zip(grid, self.observations, strict=True):
            row[: len(each.times)] = each.times
        return np.repeat(grid, self.points, axis=0)

    @property
    def start(self) -> Array:
        """Initial times (trajectories,)."""
        return np.repeat([each.t0 for each in self.observations], self.points)

    def seeds(self) -> tuple[Array, Array]:
        """Of `OdeModel.solve_from`."""
        parts = [each.seeds(*self.at(k), self.more[self.rows(k)]) for k, each in enumerate(self.observations)]
        seeds, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return seeds, values

    def rows(self, k: int) -> slice:
        """Trajectories of the k-th experiment."""
        return slice(k * self.points, (k + 1) * self.points)

    def at(self, k: int) -> tuple[Array, Array]:
        """Its parameters and initial values."""
        return self.p[self.rows(k)], self.x0[self.rows(k)]

    def part(self, solution: Solution | SensitiveSolution, k: int) -> Solution:
        """Part of a solution that belongs to experiment k."""
        rows, own = self.rows(k), len(self.observations[k].times)
        return Solution(
            solution.states[rows, :own],
            solution.status[rows],
            solution.evaluations[rows],
            solution.steps[rows],
            solution.ended[rows],
            solution.switched[rows],
        )
