"""Small models of kinds that occur in practice, with moments by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _battery_case import Case, by_likelihood
from scipy.special import expit, log_expit

import invsamp as iv
from invsamp.problems.mixtures import GaussianMixture
from invsamp.protocols import Array


def five_modes(slope: bool = False) -> Case:
    """A ring of five modes of widths .1 to 1, each 8 from the next, in a box; optionally with a faint slope.

    The slope has 5e-5 of the mass, and a minimum at the box, along which it is flat.
    """
    angle = 0.4 * np.pi * np.arange(5)
    centers = 4.0 / np.sin(0.2 * np.pi) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sds = np.array([0.1, 0.2, 0.4, 0.7, 1.0])
    mixture = GaussianMixture(5 * (0.2,), tuple(map(tuple, centers)), tuple(sds))

    def likelihood(x: Array) -> tuple[Array, Array]:
        energy, gradient = mixture.energy_and_gradient(x)
        if not slope:
            return -energy, -gradient
        total = np.logaddexp(-energy, x[:, 0] - 25.0)
        share = np.exp(-energy - total)[:, None]
        return total, -share * gradient + (1.0 - share) * [1.0, 0.0]

    mean = centers.mean(axis=0)
    sd = np.sqrt((np.square(centers) + np.square(sds)[:, None]).mean(axis=0) - mean**2)
    known = {f"x{k}": (float(mean[k]), float(sd[k]), 0.0) for k in range(2)}
    known |= {f"P(mode {k})": (0.2, 0.4, 0.0) for k in range(5)}  # balls of radius 4: less 3e-4 of the widest

    def quantities(x: Array) -> Array:
        return np.column_stack([x, *((np.linalg.norm(x - center, axis=1) < 4.0) * 1.0 for center in centers)])

    prior = iv.Prior(x=iv.Uniform(-12.0, 12.0, shape=2))
    return Case("five_modes_slope" if slope else "five_modes", by_likelihood(prior, likelihood), known, quantities)


def aliased() -> Case:
    """A damped oscillation at so few times that two frequencies fit; its amplitude is conditionally Gaussian."""
    t = np.array([0.0, 1.02, 1.97, 3.01, 4.03, 4.98, 6.02, 6.99])

    def model(theta: Array) -> Array:
        a, w, k = theta.T[:, :, None]
        return np.asarray(a * np.exp(-k * t) * np.cos(w * t))

    def jacobian(theta: Array) -> Array:
        a, w, k = theta.T[:, :, None]
        decay = np.exp(-k * t)
        slow, fast = decay * np.cos(w * t), decay * np.sin(w * t)
        return np.stack([slow, -a * t * fast, -a * t * slow], axis=2)

    data = model(np.array([[1.0, 2.0, 0.1]]))[0] + 0.2 * np.random.default_rng([3]).standard_normal(8)
    prior = iv.Prior(a=iv.Normal(1.0, 1.0), w=iv.Normal(3.0, 4.0), k=iv.HalfNormal(0.5))
    bounds = [iv.constraint("w > 0"), iv.constraint("w < 7.9")]
    posterior = iv.Posterior(prior, iv.with_jacobian(model, jacobian), data, iv.GaussianNoise(0.2), domain=bounds)
    w, k = (part.ravel() for part in np.meshgrid(_middles(0.0, 7.9, 3000), _middles(0.0, 3.0, 600), indexing="ij"))
    shapes = np.exp(-k[:, None] * t) * np.cos(w[:, None] * t) / 0.2
    precision = 1.0 + np.square(shapes).sum(axis=1)
    center = (1.0 + shapes @ data / 0.2) / precision
    log = 0.5 * center**2 * precision - 0.5 * np.log(precision) - (w - 3.0) ** 2 / 32.0 - 2.0 * k**2
    weight = np.exp(log - log.max())
    means, squares = np.column_stack([center, w, k]), np.column_stack([center**2 + 1.0 / precision, w**2, k**2])
    return Case("aliased", posterior, _moments(posterior.labels, weight, means, squares))


def michaelis_menten() -> Case:
    """Rates at substrate concentrations below saturation: a curved ridge with heavy tails of both constants."""
    s = np.array([0.1, 0.2, 0.4, 0.7, 1.0, 1.5])

    def model(theta: Array) -> Array:
        v, k = theta.T[:, :, None]
        return np.asarray(v * s / (k + s))

    def jacobian(theta: Array) -> Array:
        v, k = theta.T[:, :, None]
        return np.stack([s / (k + s), -v * s / (k + s) ** 2], axis=2)

    data = model(np.array([[2.0, 1.5]]))[0] + 0.06 * np.random.default_rng([5]).standard_normal(6)
    prior = iv.Prior(v=iv.LogNormal(0.5, 1.0), k=iv.LogNormal(0.0, 1.5))
    posterior = iv.Posterior(prior, iv.with_jacobian(model, jacobian), data, iv.GaussianNoise(0.06))
    log_v, log_k = (
        part.ravel() for part in np.meshgrid(_middles(-2.0, 6.0, 2000), _middles(-6.0, 7.0, 2000), indexing="ij")
    )
    log = -0.5 * (log_v - 0.5) ** 2 - 0.5 * (log_k / 1.5) ** 2
    for at, y in zip(s, data, strict=True):
        log -= 0.5 * ((np.exp(log_v) * at / (np.exp(log_k) + at) - y) / 0.06) ** 2
    weight, logs = np.exp(log - log.max()), np.column_stack([log_v, log_k])
    return Case("michaelis_menten", posterior, _moments(["log v", "log k"], weight, logs, logs**2), np.log)


def horseshoe() -> Case:
    """Logistic regression on eight groups with a horseshoe prior: the asinh of tau lambda_j z_j is assessed."""
    trials, successes = np.full(8, 40), np.array([20, 22, 17, 19, 36, 21, 18, 5])
    prior = iv.Prior(tau=iv.HalfCauchy(0.5), scale=iv.HalfCauchy(1.0, shape=8), z=iv.Normal(0.0, 1.0, shape=8))

    def likelihood(theta: Array) -> tuple[Array, Array]:
        tau, scale, z = theta[:, :1], theta[:, 1:9], theta[:, 9:]
        b = tau * scale * z
        value = (successes * log_expit(b) + (trials - successes) * log_expit(-b)).sum(axis=1)
        by_b = successes - trials * expit(b)
        slope = (by_b * scale * z).sum(axis=1), by_b * tau * z, by_b * tau * scale
        return value, np.column_stack(slope)

    # A coefficient is s z with z normal, at nodes of log |z|: those of z itself miss a likelihood that is narrow
    # beside s. Its moments for each width s are summed over the local widths, then over tau.
    log_z, log_s = _middles(-20.0, 3.0, 230), _middles(-16.0, 12.0, 280)
    size = np.exp(log_z - 0.5 * np.exp(2.0 * log_z))
    b, weight_z = np.exp(log_s)[:, None] * np.concatenate([-np.exp(log_z), np.exp(log_z)]), np.tile(size, 2)
    known_b = []
    for n, m in zip(trials, successes, strict=True):
        mass = weight_z * np.exp(m * log_expit(b) + (n - m) * log_expit(-b) + 0.7 * n)
        known_b.append(np.stack([(mass * value).sum(axis=1) for value in (1.0, np.arcsinh(b), np.arcsinh(b) ** 2)]))
    log_tau = _middles(-9.0, 6.0, 500)
    local = 1.0 / np.cosh(log_s[None] - log_tau[:, None])  # half-Cauchy, over the logarithm
    parts = np.stack([local @ each.T for each in known_b])  # (group, tau, moment)
    log = np.log(parts[:, :, 0]).sum(axis=0) + log_tau - np.log1p((np.exp(log_tau) / 0.5) ** 2)
    weight, given = np.exp(log - log.max()), parts / parts[:, :, :1]
    means = np.column_stack([log_tau, *given[:, :, 1]])
    squares = np.column_stack([log_tau**2, *given[:, :, 2]])
    labels = ["log tau", *(f"asinh b{k}" for k in range(8))]

    def quantities(theta: Array) -> Array:
        return np.column_stack([np.log(theta[:, 0]), np.arcsinh(theta[:, :1] * theta[:, 1:9] * theta[:, 9:])])

    posterior = by_likelihood(prior, likelihood)
    return Case("horseshoe", posterior, _moments(labels, weight, means, squares), quantities)


def _middles(low: float, high: float, n: int) -> Array:
    return low + (high - low) * (np.arange(n) + 0.5) / n


def _moments(labels: list[str], weight: Array, means: Array, squares: Array) -> dict[str, tuple[float, float, float]]:
    """Moments from conditional means and squares (n, q) at nodes with weights (n,)."""
    weight = weight / weight.sum()
    mean = weight @ means
    sd = np.sqrt(weight @ squares - mean**2)
    return {label: (float(m), float(s), 0.0) for label, m, s in zip(labels, mean, sd, strict=True)}


BUILDERS: dict[str, Callable[[], Case]] = {
    "five_modes": five_modes,
    "five_modes_slope": lambda: five_modes(slope=True),
    "aliased": aliased,
    "michaelis_menten": michaelis_menten,
    "horseshoe": horseshoe,
}
