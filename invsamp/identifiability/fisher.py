"""Identifiability by the Fisher information: directions from the most informed to those not informed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, integer, optional
from invsamp.maximizing import SCALE_DRAWS, maximize
from invsamp.modes import Modes
from invsamp.posing.expressions.variable_names import check_modes, labels_of
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import (
    Array,
    ForwardModel,
    JacobianForwardModel,
    SplitPotential,
    TermwisePotential,
    VectorJacobianProduct,
    no_derivatives,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A direction is informed by the data where they leave at most half of the prior's variance.
INFORMED = 1.0
#: Shares of a parameter in directions without information, up to which it counts as informed.
ROUNDING = 1e-12
#: Parameters of a direction that are printed, and the share of it below which they are not.
MOST_NAMED, LEAST_SHARE = 4, 0.1


@dataclass(frozen=True)
class Information:
    r"""Fisher information of data at a point; prints as a table of directions.

    With the standard deviations :math:`s` of the prior in positions, in which samplers move (logarithms, where
    parameters are positive), the directions are the eigenvectors of :math:`s_i I_{ij} s_j`. An eigenvalue is how many
    times as much information the data have on a direction as the prior.

    Attributes
    ----------
    theta : dict of str to ndarray
        The point.
    labels : tuple of str
        Of the d coordinates.
    matrix : ndarray, shape (d, d)
        Fisher information in positions.
    scale : ndarray, shape (d,)
        Standard deviations of the prior in positions.
    values : ndarray, shape (d,)
        Eigenvalues, the largest first.
    directions : ndarray, shape (d, d)
        Unit eigenvectors, in rows, in units of `scale`.
    datasets : int
        Simulated data sets of which it is the mean.
    """

    theta: dict[str, Array]
    labels: tuple[str, ...]
    matrix: Array
    scale: Array
    values: Array
    directions: Array
    datasets: int

    @property
    def informed(self) -> int:
        """How many directions the data inform: those of eigenvalues of 1 or more."""
        return int((self.values >= INFORMED).sum())

    def standard_deviations(self) -> dict[str, float]:
        """The least that unbiased estimates have (Cramer and Rao), from the data alone; inf where they do not inform.

        In positions: of a parameter that is sampled as its logarithm, that of the logarithm.
        """
        known = self.values > self.values[0] * len(self.values) * np.finfo(float).eps
        variances = (self.directions[known] ** 2 / self.values[known, None]).sum(axis=0)
        variances[(self.directions[~known] ** 2).sum(axis=0) > ROUNDING] = np.inf
        return dict(zip(self.labels, (np.sqrt(variances) * self.scale).tolist(), strict=True))

    def plot(self) -> Figure:
        """Eigenvalues, and what each direction is made of."""
        from invsamp.plots.fisher import plotted

        return plotted(self.values, self.directions, self.labels, INFORMED)

    def __str__(self) -> str:
        lines = [
            f"Fisher information in units of the prior's, from {self.datasets} simulated data sets: the data inform "
            f"{self.informed} of {len(self.values)} directions"
        ]
        for value, direction in zip(self.values, self.directions, strict=True):
            order = [k for k in np.argsort(-np.abs(direction))[:MOST_NAMED] if direction[k] ** 2 >= LEAST_SHARE**2]
            signed = direction * np.sign(direction[order[0]])
            parts = " ".join(f"{signed[k]:+.2f} {self.labels[k]}" for k in order)
            lines.append(f"{value:10.3g}{'' if value >= INFORMED else ' (the prior)':12s}  {parts}")
        return "\n".join(lines)


def information(
    posterior: Posterior,
    at: Mapping[str, npt.ArrayLike] | Modes | None = None,
    *,
    datasets: int = 200,
    seed: int | None = None,
) -> Information:
    r"""Fisher information of the data, for any noise, and which combinations of parameters they inform.

    .. math:: I = E\Bigl[\sum_i g_i g_i^T\Bigr], \qquad g_i = \nabla \log p(y_i \mid \theta)

    over data sets :math:`y` simulated at :math:`\theta`, in positions; of data that depend on each other, with the
    gradient of all in place of the sum. The forward model is solved once. An estimate, whose relative standard error is
    about :math:`\sqrt{2 / N}` in each direction at worst, for N data sets.

    Parameters
    ----------
    posterior : Posterior
        With a forward model and data.
    at : mapping from name to value, or Modes, optional
        The point; of modes the highest. Default: that of `maximize`.
    datasets : int
        Simulated data sets.
    seed : int, optional
        Of these, of the prior's draws, and of `maximize`.

    Returns
    -------
    Information

    Raises
    ------
    ValueError
        If the posterior was posed by its log likelihood, names at the point are missing or unknown, or the point lies
        outside, or its solve fails.

    Notes
    -----
    It is local, and about data like these: nonlinear models may leave more open than it says, which `profile` and draws
    show. At a maximum with parameters that are not identifiable it says which directions are flat, at once.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> posterior = iv.Posterior(
    ...     iv.Prior(a=iv.Normal(0.0, 1.0)),
    ...     iv.with_jacobian(lambda a: a, lambda a: np.ones((len(a), 1, 1))),
    ...     data=[1.0],
    ...     noise=iv.GaussianNoise(0.5),
    ... )
    >>> matrix = iv.information(posterior, at={"a": 1.0}, seed=1).matrix
    >>> bool(abs(matrix[0, 0] - 1 / 0.5**2) < 1.5)  # from 200 simulated data sets
    True
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    integer("datasets", datasets, least=10)
    if not posterior.predicts:
        raise ValueError("posterior must have a forward model and data, got one posed by its log likelihood")
    if (reason := no_derivatives(posterior.potential())) is not None:
        raise ValueError(f"posterior must have derivatives for an information matrix, but {reason}")
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    theta = point_of(posterior, at, seed)
    position = posterior.to_position(theta)
    name = posterior.fidelities[-1]
    if not np.isfinite(posterior.potential(name).energy(position)).all():
        reason = posterior.failure_message(name)
        point = ", ".join(f"{label}={value:.4g}" for label, value in zip(labels_of(posterior), theta[0], strict=True))
        raise ValueError(
            f"at must lie within the prior and the domain, where the model can be solved, got {point}"
            f"{f': {reason}' if reason else ''}"
        )
    simulated = posterior.sample_data(rng, np.repeat(theta, datasets, axis=0))
    simulated[:, np.isnan(posterior.data)] = np.nan
    solved = posterior.with_forward({name: _Solved(posterior.forward[name])})
    matrix = np.mean([_outer(solved.with_data(data), position) for data in simulated], axis=0)
    scale = posterior.sample_start(rng, SCALE_DRAWS).std(axis=0)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    return Information(
        theta=posterior.prior.unpack(theta[0]),
        labels=labels_of(posterior),
        matrix=matrix,
        scale=scale,
        values=np.maximum(values[::-1], 0.0),
        directions=vectors.T[::-1],
        datasets=datasets,
    )


def point_of(posterior: Posterior, at: Mapping[str, npt.ArrayLike] | Modes | None, seed: int | None) -> Array:
    """Theta (1, dimension) of values by name, or of the lowest of the modes, by default those that are found now."""
    right = "a mapping from names to values, or Modes as maximize() returns them"
    optional(instance, "at", at, (Mapping, Modes), right)
    where = maximize(posterior, seed=seed) if at is None else at
    if isinstance(where, Modes):
        check_modes("at", where.labels, posterior)
        return where.theta[:1]
    theta: Array = np.atleast_2d(posterior.packed("at", where))
    if len(theta) != 1:
        raise ValueError(f"at must be one point, got {len(theta)}")
    return theta


def _outer(posterior: Posterior, position: Array) -> Array:
    """Of one data set: the sum of outer products of its terms' gradients, or that of the gradient of all."""
    potential: SplitPotential = posterior.potential()
    if isinstance(potential, TermwisePotential):
        gradients = potential.terms(position, np.arange(potential.size)[None]).gradients[0]
    else:
        parts = potential.parts(position, "apart")
        assert parts.gradient is not None and parts.prior_gradient is not None  # as they were asked for
        gradients = parts.gradient - parts.prior_gradient
    return gradients.T @ gradients


class _Solved:
    """A forward model that is solved once at each point, with its Jacobian."""

    def __init__(self, model: ForwardModel) -> None:
        self.model, self.known = model, (b"", np.empty(0), np.empty(0))
        for name in ("parameters", "n_observations", "data_indices"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def __call__(self, theta: Array) -> Array:
        return self.jacobian(theta)[0]

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and Jacobian (batch, m, p)."""
        if self.known[0] != theta.tobytes():
            self.known = (theta.tobytes(), *self._derived(theta))
        return self.known[1], self.known[2]

    def _derived(self, theta: Array) -> tuple[Array, Array]:
        if isinstance(self.model, JacobianForwardModel):
            return self.model.jacobian(theta)
        y, vjp = self.model.linearize(theta)
        rows = [vjp(np.tile(row, (len(theta), 1))) for row in np.eye(y.shape[1])]
        return y, np.stack(rows, axis=1)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product."""
        y, matrix = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("bm,bmp->bp", cotangent, matrix)
