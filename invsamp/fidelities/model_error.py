"""The error of a coarse model as noise: the Bayesian approximation error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from invsamp.arguments import instance, integer, one_of, optional
from invsamp.posing.forward_models.affine_correction import CorrectedModel
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.noise.known_covariance import gaussian_covariance
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, ForwardModel


@dataclass(frozen=True, eq=False, repr=False)
class ApproximationError:
    """Mean and covariance of what a fine model predicts more than a coarse one; made by `approximation_error`.

    Attributes
    ----------
    coarse, fine : str
        The fidelities.
    differences : ndarray, shape (draws, m)
        Fine minus coarse predictions, at draws of the prior.
    noise_covariance : ndarray, shape (m,) or (m, m)
        Of the noise alone.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def jacobian(a):
    ...     return np.ones((len(a), 1, 1))
    ...
    >>> coarse = iv.with_jacobian(lambda a: a + 0.3, jacobian)
    >>> fine = iv.with_jacobian(lambda a: a, jacobian)
    >>> prior, noise = iv.Prior(a=iv.Normal(0.0, 1.0)), iv.GaussianNoise(0.5)
    >>> posterior = iv.Posterior(prior, {"coarse": coarse, "fine": fine}, data=[1.0], noise=noise)
    >>> error = iv.fidelities.approximation_error(posterior, draws=10, seed=1)
    >>> error.mean.round(3)
    array([-0.3])
    """

    coarse: str
    fine: str
    differences: Array
    noise_covariance: Array
    _model: ForwardModel

    @property
    def mean(self) -> Array:
        """Of the differences, (m,)."""
        return np.asarray(self.differences.mean(axis=0))

    @property
    def covariance(self) -> Array:
        """Of the differences, (m, m); the relative standard error of its entries is about the root of 2 / draws."""
        return np.atleast_2d(np.cov(self.differences, rowvar=False))

    @property
    def model(self) -> CorrectedModel:
        """The coarse model with the mean added."""
        return CorrectedModel(self._model, self.mean)

    @cached_property
    def noise(self) -> GaussianNoise:
        """Gaussian noise with the covariances of noise and approximation error added."""
        own = self.noise_covariance
        total = self.covariance + (np.diag(own) if own.ndim == 1 else own)
        return GaussianNoise(covariance=0.5 * (total + total.T))

    def __repr__(self) -> str:
        own = self.noise_covariance
        noise = np.sqrt(own if own.ndim == 1 else np.diag(own))
        mean, sd = np.abs(self.mean / noise).max(), (np.sqrt(np.diag(self.covariance)) / noise).max()
        return (
            f"ApproximationError({self.fine!r} - {self.coarse!r} at {len(self.differences)} draws: "
            f"mean up to {mean:.2g}, sd up to {sd:.2g} times that of the noise)"
        )


def approximation_error(
    posterior: Posterior,
    coarse: str | None = None,
    fine: str | None = None,
    *,
    draws: int = 200,
    seed: int | None = None,
) -> ApproximationError:
    r"""Statistics of what a coarse model misses, for a posterior of it alone.

    With predictions :math:`F` and :math:`f` of a fine and a coarse model, data are
    :math:`y = f(\theta) + \epsilon + e` with :math:`\epsilon = F(\theta) - f(\theta)`. As if independent of theta,
    :math:`\epsilon` counts as noise with its mean and covariance over the prior. That is an approximation: the exact
    posterior is that of the fine model.

    Parameters
    ----------
    posterior : Posterior
        With both models, and Gaussian noise of known covariance.
    coarse, fine : str, optional
        Fidelities; by default the first and the last.
    draws : int, >= 10
        Of the prior; each takes a solve of both.
    seed : int, optional

    Returns
    -------
    ApproximationError
        With ``model`` and ``noise`` for `invsamp.Posterior`.

    Raises
    ------
    ValueError
        If a fidelity is unknown, both are the same or predict different data, the noise is another, data are missing,
        or fewer than ten of the draws can be solved.

    References
    ----------
    Kaipio and Somersalo (2007), Journal of Computational and Applied Mathematics 198, 493-504, section 3: the
    approximation by which the error is independent of the unknowns ("enhanced error model").

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> models = {"line": lambda t: t * np.arange(3.0), "curve": lambda t: t * np.arange(3.0) + 0.1 * t**2}
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(1, 0.1)), models, [0.1, 1.2, 2.1], iv.GaussianNoise(0.1))
    >>> error = iv.fidelities.approximation_error(posterior, seed=1)
    >>> cheap = iv.Posterior(posterior.prior, error.model, posterior.data, error.noise)
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    names = posterior.fidelities
    low = names[0] if optional(one_of, "coarse", coarse, names) is None else str(coarse)
    high = names[-1] if optional(one_of, "fine", fine, names) is None else str(fine)
    if low == high:
        raise ValueError(f"coarse and fine must be two fidelities, got {low!r} twice, of {list(names)}")
    integer("draws", draws, least=10)
    if not np.isfinite(posterior.data).all():
        raise ValueError(f"data must be complete, got {int((~np.isfinite(posterior.data)).sum())} missing")
    covariance = gaussian_covariance(posterior.noise, posterior.data.shape)
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    theta = posterior.sample_prior(rng, draws)
    rough, exact = (posterior.predict(theta, name).reshape(draws, -1) for name in (low, high))
    solved = np.isfinite(exact).all(axis=1) & np.isfinite(rough).any(axis=1)
    difference = (exact - rough)[solved]
    if np.isnan(difference).any():
        raise ValueError(f"coarse must predict all data that fine does, got {low!r} with fewer")
    if len(difference) < 10:
        raise ValueError(f"at least ten draws must be solved by both models, got {len(difference)} of {draws}")
    return ApproximationError(low, high, difference, covariance, posterior.forward[low])
