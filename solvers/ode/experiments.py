"""Several experiments in one forward model: each observes the same system, or another, under conditions of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, mapping, numbers, shown, text
from invsamp.solvers.ode.observation import OdeObservation

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Experiments:
    """Observations of several experiments, one after the other, as one forward model.

    Parameters that have the same name are shared, all others are an experiment's own; what is known or named otherwise
    in one of them is said by ``given`` of `OdeModel.observe`. The columns of theta are `parameters`, in the order in
    which the experiments bring them in.

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
    """

    observations: Mapping[str, OdeObservation]
    rows: npt.NDArray[np.intp] | None = None
    parameters: tuple[str, ...] = field(init=False)
    slices: Mapping[str, slice] = field(init=False)

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
            object.__setattr__(self, "rows", rows.astype(np.intp))
        object.__setattr__(self, "observations", given)
        object.__setattr__(self, "parameters", tuple(names))
        object.__setattr__(self, "slices", parts)

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, n_parameters)."""
        theta = self._checked(theta)
        parts = [each(theta[:, self._columns(each)]) for each in self.observations.values()]
        return self._chosen(np.concatenate(parts, axis=1))

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, n_observations) and their Jacobian (batch, n_observations, n_parameters)."""
        theta = self._checked(theta)
        y = np.empty((len(theta), sum(each.n_observations for each in self.observations.values())))
        matrix = np.zeros((*y.shape, len(self.parameters)))
        for name, each in self.observations.items():
            columns, part = self._columns(each), self.slices[name]
            y[:, part], own = each.jacobian(theta[:, columns])
            matrix[:, part, columns] = own
        return self._chosen(y), self._chosen(matrix)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, n_parameters)."""
        y, jacobian = self.jacobian(theta)
        return y, lambda cotangent: np.matmul(cotangent[:, None, :], jacobian)[:, 0]

    def coarsen(self, *, rtol: float | None = None, atol: float | None = None) -> Experiments:
        """A cheaper fidelity with the same unknowns and data: looser tolerances."""
        coarse = {name: each.coarsen(rtol=rtol, atol=atol) for name, each in self.observations.items()}
        return Experiments(coarse, self.rows)

    @property
    def n_observations(self) -> int:
        """Length of a row of observations."""
        whole = sum(each.n_observations for each in self.observations.values())
        return whole if self.rows is None else len(self.rows)

    @property
    def derivative_error(self) -> float:
        """The largest of the experiments'."""
        return max(each.derivative_error for each in self.observations.values())

    @property
    def message(self) -> str | None:
        """What the last failure of one of the experiments said."""
        said = [f"{name}: {each.message}" for name, each in self.observations.items() if each.message is not None]
        return said[0] if said else None

    @property
    def no_derivatives(self) -> str | None:
        """Why there is no Jacobian; None if there is one."""
        reasons = (each.no_derivatives for each in self.observations.values())
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def cost(self) -> float:
        """Mean seconds per evaluation so far; NaN before the first."""
        return math.fsum(each.cost for each in self.observations.values())

    @property
    def work(self) -> float:
        """Of all experiments."""
        return math.fsum(each.work for each in self.observations.values())

    def _chosen(self, found: Array) -> Array:
        return found if self.rows is None else found[:, self.rows]

    def _columns(self, observation: OdeObservation) -> list[int]:
        return [self.parameters.index(name) for name in observation.parameters]

    def _checked(self, theta: Array) -> Array:
        theta = numbers("theta", theta)
        if theta.ndim != 2 or theta.shape[1] != len(self.parameters):
            raise ValueError(f"theta must have shape (batch, {len(self.parameters)}), got {theta.shape}")
        return theta
