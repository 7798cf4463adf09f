r"""Gradient matching: the parameters of an ODE from the derivative of its trajectory, by linear regression.

Where the right-hand side is linear in its parameters, :math:`x' = f_0(t, x) + F(t, x)\, p`, states and derivatives at
given times make linear equations for p. `match` makes them a forward model. Under Gaussian noise of known standard
deviation the likelihood is Gaussian in p, and all that the data say are p numbers and a triangular matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from invsamp.arguments import array, increasing, instance, one_of, sequence
from invsamp.solvers.gradient_matching.derivatives import Array, Derivatives, Given, finite_differences, savitzky_golay
from invsamp.solvers.gradient_matching.library import Library
from invsamp.solvers.gradient_matching.weak_form import weak

_METHODS: dict[str, Callable[[], Derivatives]] = {
    "finite_differences": finite_differences,
    "savitzky_golay": savitzky_golay,
    "weak": weak,
}
#: Scaled singular values below this part of the largest leave a combination of parameters undetermined.
_RANK = 1e-10


class Gaussian(NamedTuple):
    """A normal distribution."""

    mean: Array  # (p,)
    covariance: Array  # (p, p)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Forward model y = known + design @ theta, with its data.

    Attributes
    ----------
    parameters : tuple of str
        The columns of theta and of the design.
    design : ndarray, shape (m, p)
    known : ndarray, shape (m,)
    data : ndarray, shape (m,)
    """

    parameters: tuple[str, ...]
    design: Array
    known: Array
    data: Array

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m) at theta (batch, p)."""
        return np.asarray(theta @ self.design.T + self.known)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m), and the design for every row of theta, (batch, m, p), not to be written to."""
        return self(theta), np.broadcast_to(self.design, (len(theta), *self.design.shape))

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, p)."""
        return self(theta), lambda cotangent: cotangent @ self.design

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Observations (batch, k) and Jacobian (batch, k, p) of the data ``indices`` (batch, k) alone."""
        # a fifth of the time of self.design[indices]
        design = self.design.take(indices, axis=0)
        return self.known.take(indices) + np.einsum("bkp,bp->bk", design, theta), design


@dataclass(frozen=True, eq=False)
class Compressed(LinearModel):
    """Sufficient statistics: p observations with unit noise that give the likelihood of all data.

    Pose it with `data` and ``GaussianNoise(1.0)``. Minibatches of it make no sense.

    Attributes
    ----------
    constant : float
        Energy (minus log-likelihood) of all the data minus that of this model, the same for every theta.
    """

    constant: float


@dataclass(frozen=True, eq=False)
class GradientMatching(LinearModel):
    """Derivatives of an ODE's states as observations, linear in its parameters; made by `match`.

    Observations are ordered by time, then by state.

    Attributes
    ----------
    states : tuple of str
    times : ndarray, shape (M,)
        Of the equations; m = M * n_states.
    gain : ndarray, shape (M,)
        Standard deviation of the data's noise, for a unit standard deviation of what was measured.
    ratios : ndarray, shape (n_states,), optional
        The states' standard deviations up to a factor, where the equations were whitened with them.
    """

    states: tuple[str, ...]
    times: Array
    gain: Array
    ratios: Array | None = None

    def scale(self, sd: npt.ArrayLike) -> Array:
        """Standard deviations (m,) of the data's noise, for `GaussianNoise`.

        Parameters
        ----------
        sd : float or array, shape (n_states,)
            Standard deviation of the noise of what was measured: the derivatives where those are given, else the
            states. One per state where their noise differs, in the units of each.

        Raises
        ------
        ValueError
            If it is not positive, of another shape, or not a multiple of ``ratios``.
        """
        sds = array("sd", sd, above=0)
        n = len(self.states)
        if sds.shape not in ((), (n,)):
            raise ValueError(f"sd must be a number or one per state {self.states}, got shape {sds.shape}")
        sds = np.broadcast_to(sds, (n,))
        if self.ratios is not None and not np.allclose(sds / self.ratios, sds[0] / self.ratios[0], rtol=1e-6):
            raise ValueError(
                f"sd must be a multiple of {self.ratios.tolist()}, with which the equations were whitened, got "
                f"{sds.tolist()}: pass derivatives=weak(noise={sds.tolist()}) to match"
            )
        return np.asarray(self.gain[:, None] * sds).ravel()

    def compressed(self, sd: npt.ArrayLike) -> Compressed:
        r"""Equivalent model with p observations, for noise of known standard deviation.

        With W the inverse standard deviations and :math:`W F = Q R` the likelihood depends on p through
        :math:`|R p - Q^T W (d - f_0)|^2` alone.

        Parameters
        ----------
        sd : float or array, shape (n_states,)
            As in `scale`.
        """
        scale = self.scale(sd)
        m, p = self.design.shape
        weighted = np.column_stack([self.design, self.data - self.known]) / scale[:, None]
        # the last column of R is Q^T W d, and below it what no parameters can fit
        upper = np.zeros((p + 1, p + 1))
        factor = np.linalg.qr(weighted, mode="r")
        upper[: len(factor)] = factor
        rest = 0.5 * upper[p, p] ** 2 + float(np.log(scale).sum()) + 0.5 * (m - p) * math.log(2.0 * math.pi)
        return Compressed(self.parameters, upper[:p, :p].copy(), np.zeros(p), upper[:p, p].copy(), float(rest))

    def gaussian(self, sd: npt.ArrayLike, prior: tuple[npt.ArrayLike, npt.ArrayLike] | None = None) -> Gaussian:
        """Exact posterior of the parameters, without constraints.

        Parameters
        ----------
        sd : float or array, shape (n_states,)
            As in `scale`.
        prior : (mean (p,), covariance (p, p) or standard deviations (p,)), optional
            A Gaussian prior; flat by default.

        Raises
        ------
        ValueError
            If the data leave a parameter undetermined under a flat prior, which is then named, or the prior does
            not fit.
        """
        compressed = self.compressed(sd)
        design, data = compressed.design, compressed.data
        if prior is not None:
            mean, root = _prior_rows(prior, len(self.parameters))
            design, data = np.vstack([design, root]), np.concatenate([data, root @ mean])
        size = np.linalg.norm(design, axis=0)
        _, values, directions = np.linalg.svd(design / np.where(size > 0, size, 1.0))
        if (size == 0).any() or values[-1] < _RANK * values[0]:
            worst = int(np.argmin(size)) if (size == 0).any() else int(np.argmax(np.abs(directions[-1])))
            raise ValueError(
                f"parameters must be determined by the data or a prior, got {self.parameters[worst]!r} undetermined: "
                "its terms vanish, or are a combination of others"
            )
        q, r = np.linalg.qr(design)
        inverse = solve_triangular(r, np.eye(len(r)))
        return Gaussian(inverse @ (q.T @ data), inverse @ inverse.T)


def match(
    library: Library, times: npt.ArrayLike, states: npt.ArrayLike, derivatives: object = "weak"
) -> GradientMatching:
    """Gradient matching of a sampled trajectory.

    Parameters
    ----------
    library : Library
        Terms of the right-hand side.
    times : array, shape (N,)
        Increasing.
    states : array, shape (N, n_states)
        Measured at the times, in the order of ``library.states``.
    derivatives : array (N, n_states), {"finite_differences", "savitzky_golay", "weak"}, or part
        Time derivatives of the states, or how they are found: a name, or the part of that name from
        `invsamp.solvers.gradient_matching.derivatives` with other settings, such as ``weak(radius=10)``.

    Returns
    -------
    GradientMatching
        A forward model: ``Posterior(prior, model, model.data, GaussianNoise(model.scale(sd)))``.

    Raises
    ------
    ValueError
        If times or states have a wrong shape, are not finite, or times do not increase (or are uneven, for a method
        that cannot take that). If a term is not finite at the states, or ``derivatives`` is unknown.

    Notes
    -----
    Noise in the states is noise in the regressors too, which biases the parameters. Bias of Lorenz's sigma with 5%
    noise and time step 0.05: finite differences -7%, of which -5% are there without noise, at 24 of their stated
    standard deviations; weak form -0.2%, at 1 standard deviation. Multiple shooting has no such bias.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> from invsamp.solvers.gradient_matching import linear_in_parameters, match
    >>> times = np.linspace(0, 5, 501)
    >>> decay = linear_in_parameters(lambda t, x, p: [-p[0] * x[0]], ["x"], ["rate"])
    >>> model = match(decay, times, np.exp(-times)[:, None])
    >>> noise = iv.GaussianNoise(model.scale(0.01))
    >>> posterior = iv.Posterior(iv.Prior(rate=iv.LogNormal(0, 1)), model, model.data, noise)
    >>> model.gaussian(0.01).mean.round(3)
    array([1.])
    """
    instance("library", library, Library, "a Library, as linear_in_parameters returns it")
    t = increasing("times", times)
    if len(t) < 2:
        raise ValueError(f"times must be at least two, got {t.tolist()}")
    x = array("states", states, (len(t), len(library.states)))
    equations = _part(derivatives).equations(library, t, x)
    return GradientMatching(
        parameters=library.parameters,
        design=np.ascontiguousarray(equations.design.reshape(-1, len(library.parameters))),
        known=equations.known.ravel(),
        data=equations.data.ravel(),
        states=library.states,
        times=equations.times,
        gain=equations.gain,
        ratios=equations.ratios,
    )


def _part(derivatives: object) -> Derivatives:
    if isinstance(derivatives, str):
        found: Derivatives = _METHODS[one_of("derivatives", derivatives, _METHODS)]()
        return found
    if hasattr(derivatives, "equations") and not isinstance(derivatives, type):
        part: Derivatives = derivatives
        return part
    return Given(array("derivatives", derivatives, also=f", or one of {', '.join(map(repr, _METHODS))}"))


def _prior_rows(prior: Sequence[npt.ArrayLike], p: int) -> tuple[Array, Array]:
    """Mean (p,), and a matrix A (p, p) such that the prior is exp(-|A (theta - mean)|^2 / 2)."""
    parts = [array("prior", part) for part in sequence("prior", prior, "a pair of mean and spread")]
    if len(parts) != 2:
        raise ValueError(f"prior must be a pair of mean and spread, got {len(parts)} parts")
    mean, spread = parts
    if mean.shape != (p,) or spread.shape not in ((p,), (p, p)):
        raise ValueError(f"prior must be a mean ({p},) and sds ({p},) or covariance ({p}, {p}), got {prior}")
    try:
        lower = np.diag(spread) if spread.ndim == 1 else np.linalg.cholesky(spread)
        if not (np.diag(lower) > 0).all():
            raise np.linalg.LinAlgError
    except np.linalg.LinAlgError:
        raise ValueError(f"prior must have a positive definite covariance, got {spread.tolist()}") from None
    return mean, solve_triangular(lower, np.eye(p), lower=True)
