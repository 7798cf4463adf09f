"""Distributions that are hard for one reason each, with moments in closed form or by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _battery_case import Case, Linear, by_likelihood
from scipy.special import expit, log_expit
from scipy.stats import chi2

import invsamp as iv
from invsamp.problems.mixtures import GaussianMixture
from invsamp.protocols import Array

Function = Callable[[Array], tuple[Array, Array]]


def _target(function: Function, dimension: int, **rest: object) -> iv.Target:
    return iv.Target(iv.extending.FunctionPotential(function, dimension), **rest)  # type: ignore[arg-type]


def _alike(mean: float, sd: float, dimension: int) -> dict[str, tuple[float, float, float]]:
    return {f"x{k}": (mean, sd, 0.0) for k in range(dimension)}


def funnel() -> Case:
    """Neal (2003): v ~ N(0, 9), nine x ~ N(0, e^v). The variance of x is huge, so asinh(x) is assessed."""

    def function(x: Array) -> tuple[Array, Array]:
        v, rest = x[:, 0], x[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            precision = np.exp(-v)
            squares = np.square(rest).sum(axis=1) * precision
            energy = v**2 / 18.0 + 0.5 * squares + 4.5 * v
            gradient = np.column_stack([v / 9.0 - 0.5 * squares + 4.5, rest * precision[:, None]])
        failed = ~(np.isfinite(energy) & np.isfinite(gradient).all(axis=1))
        gradient[failed] = 0.0
        return np.where(failed, np.inf, energy), gradient

    known = {"v": (0.0, 3.0, 0.0)} | {f"asinh x{k}": (0.0, funnel_sd(), 0.0) for k in range(1, 10)}
    return Case("funnel", _target(function, 10), known, lambda x: np.column_stack([x[:, 0], np.arcsinh(x[:, 1:])]))


def funnel_sd() -> float:
    """Sd of asinh(x) for x ~ N(0, e^v) in a funnel, v ~ N(0, 9).

    By the trapezoidal rule: asinh(s n) is far steeper in n than the polynomials of Gauss-Hermite quadrature.
    """
    node = np.linspace(-10.0, 10.0, 2001)
    weight = np.exp(-0.5 * node**2) / np.exp(-0.5 * node**2).sum()
    return float(np.sqrt(weight @ np.square(np.arcsinh(np.exp(1.5 * node)[:, None] * node)) @ weight))


def rosenbrock() -> Case:
    """A banana: x ~ N(1, 10), y ~ N(x^2, 1/10)."""

    def function(z: Array) -> tuple[Array, Array]:
        x, away = z[:, 0], z[:, 1] - z[:, 0] ** 2
        gradient = np.column_stack([(x - 1.0) / 10.0 - 20.0 * x * away, 10.0 * away])
        return (x - 1.0) ** 2 / 20.0 + 5.0 * away**2, gradient

    known = {"x": (1.0, np.sqrt(10.0), 0.0), "y": (11.0, np.sqrt(240.1), 0.0)}  # var x^2 is 2 s^4 + 4 m^2 s^2
    return Case("rosenbrock", _target(function, 2, names=("x", "y")), known)


def student_t() -> Case:
    """Ten independent variables with Student's t of five degrees of freedom."""

    def function(x: Array) -> tuple[Array, Array]:
        return 3.0 * np.log1p(x**2 / 5.0).sum(axis=1), 6.0 * x / (5.0 + x**2)

    return Case("student_t", _target(function, 10), _alike(0.0, np.sqrt(5.0 / 3.0), 10))


def scales() -> Case:
    """Thirteen independent normal variables with sds from 1e-6 to 1e6."""
    sd = 10.0 ** np.arange(-6.0, 7.0)

    def function(x: Array) -> tuple[Array, Array]:
        z = x / sd
        return 0.5 * np.square(z).sum(axis=1), z / sd

    return Case("scales", _target(function, 13), {f"x{k}": (0.0, float(s), 0.0) for k, s in enumerate(sd)})


def correlated() -> Case:
    """Twenty normal variables with all correlations .999."""
    precision = np.linalg.inv(np.full((20, 20), 0.999) + 0.001 * np.eye(20))

    def function(x: Array) -> tuple[Array, Array]:
        gradient = np.einsum("jk,ik->ij", precision, x)
        return 0.5 * np.einsum("ij,ij->i", x, gradient), gradient

    return Case("correlated", _target(function, 20), _alike(0.0, 1.0, 20))


def conditioned(dimension: int) -> Case:
    """A Gaussian of condition number 1e4 (variances from 1e-2 to 1e2), rotated by four reflections."""
    variance = np.logspace(-2.0, 2.0, dimension)
    normals = np.random.default_rng(0).standard_normal((4, dimension))
    normals /= np.linalg.norm(normals, axis=1)[:, None]

    def turned(x: Array, order: Array) -> Array:
        for normal in order:
            x = x - 2.0 * np.einsum("ij,j->i", x, normal)[:, None] * normal
        return x

    def function(x: Array) -> tuple[Array, Array]:
        z = turned(x, normals)
        gradient = z / variance
        return 0.5 * (z * gradient).sum(axis=1), turned(gradient, normals[::-1])

    axes = turned(np.eye(dimension), normals)  # rows: coordinates of x
    sds = np.sqrt(np.square(axes) @ variance)
    known = {f"x{k}": (0.0, float(sd), 0.0) for k, sd in enumerate(sds)}
    return Case(f"condition_{dimension}", _target(function, dimension), known)


def _modes(name: str, spread: float, mixture: GaussianMixture, radius: float) -> Case:
    """A mixture as the posterior under N(0, spread^2): the likelihood is their ratio.

    Besides the means, probabilities of disjoint balls about the modes are assessed.
    """
    weights, means, sds = mixture._arrays  # type: ignore[attr-defined]
    d = mixture.dimension

    def likelihood(x: Array) -> tuple[Array, Array]:
        energy, gradient = mixture.energy_and_gradient(x)
        return np.square(x).sum(axis=1) / (2.0 * spread**2) - energy, x / spread**2 - gradient

    def quantities(x: Array) -> Array:
        return np.column_stack([x, *((np.linalg.norm(x - center, axis=1) < radius) * 1.0 for center in means)])

    mean = weights @ means
    sd = np.sqrt(weights @ (np.square(means) + np.square(sds)[:, None]) - mean**2)
    known = {f"x{k}": (float(mean[k]), float(sd[k]), 0.0) for k in range(d)}
    for k, p in enumerate(weights * chi2.cdf(np.square(radius / sds), d)):
        known[f"P(mode {k})"] = (float(p), float(np.sqrt(p * (1.0 - p))), 0.0)
    prior = iv.Prior(x=iv.Normal(0.0, spread, shape=d))
    return Case(name, by_likelihood(prior, likelihood), known, quantities)


def modes_5() -> Case:
    """.3 N(-5, 1) + .7 N(5, 1) under N(0, 5)."""
    return _modes("modes_5", 5.0, GaussianMixture((0.3, 0.7), (-5.0, 5.0), (1.0, 1.0)), 5.0)


def modes_10() -> Case:
    """.3 N(-10, I) + .7 N(10, I) along the diagonal of two dimensions, under N(0, 10)."""
    return _modes("modes_10", 10.0, GaussianMixture((0.3, 0.7), ((-10.0, -10.0), (10.0, 10.0)), (1.0, 1.0)), 10.0)


def three_modes() -> Case:
    """Modes of equal weight and widths .1, .3 and 1 in three dimensions, under N(0, 5)."""
    centers = ((4.0, 0.0, 0.0), (-2.0, 3.5, 0.0), (-2.0, -3.5, 0.0))
    return _modes("three_modes", 5.0, GaussianMixture((1.0, 1.0, 1.0), centers, (0.1, 0.3, 1.0)), 3.0)


def ring() -> Case:
    """A ring of radius 5 and width .1."""

    def function(x: Array) -> tuple[Array, Array]:
        radius = np.linalg.norm(x, axis=1)
        away = (radius - 5.0) / 0.1
        return 0.5 * away**2, (away / 0.1 / np.maximum(radius, 1e-300))[:, None] * x

    # the density of the radius is r exp(-(r - R)^2 / (2 s^2))
    radius = np.linspace(4.0, 6.0, 20_001)
    density = radius * np.exp(-0.5 * np.square((radius - 5.0) / 0.1))
    density /= density.sum()
    mean, square = float(density @ radius), float(density @ radius**2)
    sd = np.sqrt(0.5 * square)
    known = {"x": (0.0, sd, 0.0), "y": (0.0, sd, 0.0), "r": (mean, np.sqrt(square - mean**2), 0.0)}
    problem = _target(function, 2, names=("x", "y"))
    return Case("ring", problem, known, lambda x: np.column_stack([x, np.linalg.norm(x, axis=1)]))


def slab() -> Case:
    """Five standard normal variables, the first of them between 0 and 1e-6."""

    def function(x: Array) -> tuple[Array, Array]:
        return 0.5 * np.square(x).sum(axis=1), x

    width = 1e-6
    known = {"x0": (0.5 * width, width / np.sqrt(12.0), 0.0)} | {f"x{k}": (0.0, 1.0, 0.0) for k in range(1, 5)}
    bounds = iv.Box([0.0, *[-np.inf] * 4], [width, *[np.inf] * 4])

    def inside(z: Array) -> Array:
        return np.column_stack([width * expit(z[:, 0]), z[:, 1:]])

    def unconstrained(z: Array) -> tuple[Array, Array]:
        x, share = inside(z), expit(z[:, 0])
        energy = 0.5 * np.square(x).sum(axis=1) - log_expit(z[:, 0]) - log_expit(-z[:, 0])
        slope = x[:, 0] * width * share * (1.0 - share) + 2.0 * share - 1.0
        return energy, np.column_stack([slope, x[:, 1:]])

    smooth = iv.extending.FunctionPotential(unconstrained, 5)
    return Case("slab", _target(function, 5, domain=bounds), known, smooth=smooth, of_smooth=inside)


def regression() -> Case:
    """1,000 data, four uncentered regressors, b ~ N(0, 10), sigma ~ LogNormal(0, 1)."""
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((1000, 4)) + np.array([5.0, 20.0, -10.0, 50.0])
    y = columns @ np.array([1.0, -2.0, 0.5, 0.3]) + 0.9 * rng.standard_normal(1000)
    prior = iv.Prior(b=iv.Normal(0.0, 10.0, shape=4), sigma=iv.LogNormal(0.0, 1.0))
    posterior = iv.Posterior(prior, Linear(columns), y, iv.GaussianNoise("sigma"))
    # Gaussian given sigma; integrated over sigma by quadrature
    log_sigma = np.linspace(-0.6, 0.4, 2001)
    gram, right = columns.T @ columns, columns.T @ y
    log_weight, means, squares = np.empty(len(log_sigma)), [], []
    for k, s in enumerate(log_sigma):
        precision = gram / np.exp(2.0 * s) + np.eye(4) / 100.0
        mean = np.linalg.solve(precision, right / np.exp(2.0 * s))
        quadratic = y @ y / np.exp(2.0 * s) - mean @ precision @ mean
        log_weight[k] = -1000.0 * s - 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * quadratic - 0.5 * s**2
        means.append([*mean, np.exp(s)])
        squares.append([*(mean**2 + np.diag(np.linalg.inv(precision))), np.exp(2.0 * s)])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ np.array(means)
    sd = np.sqrt(weight @ np.array(squares) - mean**2)
    known = {label: (float(m), float(s), 0.0) for label, m, s in zip(posterior.labels, mean, sd, strict=True)}
    return Case("regression", posterior, known)


def narrow() -> Case:
    """Four parameters known to 1e-6 of their priors' widths."""
    columns = np.random.default_rng(0).standard_normal((8, 4))
    y = columns @ np.array([0.3, -1.2, 0.7, 0.1])
    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 1.0, shape=4)), Linear(columns), y, iv.GaussianNoise(1e-6))
    covariance = np.linalg.inv(columns.T @ columns * 1e12 + np.eye(4))
    mean, sd = covariance @ (columns.T @ y) * 1e12, np.sqrt(np.diag(covariance))
    known = {label: (float(m), float(s), 0.0) for label, m, s in zip(posterior.labels, mean, sd, strict=True)}
    return Case("narrow", posterior, known)


BUILDERS: dict[str, Callable[[], Case]] = {
    "funnel": funnel,
    "rosenbrock": rosenbrock,
    "student_t": student_t,
    "scales": scales,
    "correlated": correlated,
    "condition_100": lambda: conditioned(100),
    "condition_1000": lambda: conditioned(1000),
    "modes_5": modes_5,
    "modes_10": modes_10,
    "three_modes": three_modes,
    "ring": ring,
    "slab": slab,
    "regression": regression,
    "narrow": narrow,
}
