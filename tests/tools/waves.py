"""A posterior with every kind of unknown, whose forward model is known in full."""

from __future__ import annotations

import numpy as np
from scipy import stats

from invsamp.domains import HalfSpaces, Polygon, Product
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Cauchy, Gamma, LogNormal, MultivariateNormal, Normal, Uniform
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise, StudentTNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior

MIXING = np.random.default_rng(7).normal(size=(6, 6))


class Waves:
    """y = exp(0.3 sin(A theta)) in 6 numbers, from any number of columns."""

    def __init__(self, parameters: tuple[str, ...] | None = None, gain: float = 0.3) -> None:
        self.gain = gain
        self.calls = 0
        if parameters is not None:
            self.parameters = parameters

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        self.calls += len(theta)
        return np.exp(self.gain * np.sin(theta @ MIXING[:, : theta.shape[1]].T))

    def linearize(self, theta: np.ndarray) -> tuple:
        phase = theta @ MIXING[:, : theta.shape[1]].T
        y = self(theta)
        slope = np.where(np.isfinite(y), y, 0.0) * self.gain * np.cos(phase)
        return y, lambda c: (c * slope) @ MIXING[:, : theta.shape[1]]


class WavesWithJacobian(Waves):
    def jacobian(self, theta: np.ndarray) -> tuple:
        phase = theta @ MIXING[:, : theta.shape[1]].T
        y = self(theta)
        return y, (y * self.gain * np.cos(phase))[:, :, None] * MIXING[:, : theta.shape[1]]


class WavesWithRows(Waves):
    """Evaluates chosen data only; the whole is out of bounds."""

    def __init__(self, parameters: tuple[str, ...] | None = None) -> None:
        super().__init__(parameters)
        self.evaluated = 0

    def rows(self, theta: np.ndarray, indices: np.ndarray) -> tuple:
        self.evaluated += indices.size
        if np.any(theta[:, -1] > 5.0):
            raise RuntimeError("the mesh is torn")
        mixing = MIXING[indices][:, :, : theta.shape[1]]
        phase = (mixing @ theta[:, :, None])[:, :, 0]
        y = np.exp(self.gain * np.sin(phase))
        y[theta[:, -1] < -5.0, 0] = np.nan
        return y, (y * self.gain * np.cos(phase))[:, :, None] * mixing


DATA = np.random.default_rng(8).uniform(0.7, 1.4, (3, 2))


def mixed_prior() -> Prior:
    return Prior(
        x=Uniform(-1, 2),
        s=LogNormal(-1, 0.5, shape=2),
        k=truncated(Normal(1, 0.5), lower=0.2),
        c=Cauchy(0, 1),
        g=Gamma(2.0, 1.0),
        h=MultivariateNormal([0, 0], [[1, 0.3], [0.3, 1]]),
    )


def mixed(**settings: object) -> Posterior:
    arguments = {"forward": Waves(), "noise": LogNormalNoise("s"), "data": DATA} | settings
    return Posterior(mixed_prior(), **arguments)


def by_hand(posterior: Posterior, position: np.ndarray, gain: float = 0.3) -> np.ndarray:
    """Energy from the definitions, with scipy for the likelihood."""
    theta = posterior.to_theta(position)
    values = posterior.prior.unpack(theta)
    columns = np.delete(np.arange(8), [1, 2])
    y = np.exp(gain * np.sin(theta[:, columns] @ MIXING.T)).reshape(-1, 3, 2)
    likelihood = stats.lognorm(values["s"][:, None, :], scale=y).logpdf(DATA).sum(axis=(1, 2))
    jacobian = posterior.coordinates.evaluate(position).log_jacobian
    return -(likelihood + posterior.prior.log_density(theta) + jacobian)


def start(posterior: Posterior, n: int = 6, seed: int = 0) -> np.ndarray:
    return posterior.sample_start(np.random.default_rng(seed), n)


VARIANTS = {
    "log_normal": {},
    "student_t": {"noise": StudentTNoise(4.0, "s")},
    "known_scale": {"noise": GaussianNoise(0.3), "forward": Waves(("x", "k", "c", "g", "h"))},
    "scale_per_datum": {"noise": GaussianNoise(np.full((3, 2), 0.3)), "forward": Waves(("h", "x", "g", "k"))},
    "scale_in_the_model": {"forward": Waves(("s", "x"))},
    "logit": {"transforms": {"x": "logit", "g": "identity"}},
    "log": {"transforms": {"x": "log"}},
    "polygon": {"domain": Product({("k", "g"): Polygon([[0, 0], [2, 0], [2, 3], [1, 1], [0, 3]])})},
    "half_spaces": {"domain": HalfSpaces([[1, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]], [2.5, 3.0])},
    "jacobian": {"forward": WavesWithJacobian()},
}


class Fragile(WavesWithJacobian):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        failed = theta[:, 2] < 0
        if failed.any() and self.how == "raise":
            raise RuntimeError("the mesh is torn")
        y = super().__call__(theta)
        y[failed, 1] = {"nan": np.nan, "inf": np.inf, "raise": 0.0}[self.how]
        return y
