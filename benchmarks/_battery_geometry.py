"""Curved, funnel-shaped and heavy-tailed distributions, with moments exact or by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from _battery_case import Case
from _battery_hard import funnel_sd
from scipy.stats import t as student

import invsamp as iv
from invsamp.protocols import Array


def _case(
    name: str,
    function: Callable[[Array], tuple[Array, Array]],
    dimension: int,
    known: dict[str, tuple[float, float, float]],
    quantities: Callable[[Array], Array] = lambda x: x,
) -> Case:
    def guarded(x: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            energy, gradient = function(x)
        failed = ~(np.isfinite(energy) & np.isfinite(gradient).all(axis=1))
        gradient[failed] = 0.0
        return np.where(failed, np.inf, energy), gradient

    return Case(name, iv.Target(iv.extending.FunctionPotential(guarded, dimension)), known, quantities)


def banana(name: str, mean: float, sd: float, curve: float, width: float) -> Case:
    """x ~ N(mean, sd^2), y ~ N(curve x^2, width^2)."""

    def function(z: Array) -> tuple[Array, Array]:
        x, away = z[:, 0] - mean, (z[:, 1] - curve * z[:, 0] ** 2) / width**2
        energy = 0.5 * (x / sd) ** 2 + 0.5 * (away * width) ** 2
        return energy, np.column_stack([x / sd**2 - 2.0 * curve * z[:, 0] * away, away])

    spread = np.sqrt(curve**2 * (2.0 * sd**4 + 4.0 * mean**2 * sd**2) + width**2)
    known = {"x": (mean, sd, 0.0), "y": (curve * (mean**2 + sd**2), float(spread), 0.0)}
    return _case(name, function, 2, known)


def funnel(dimension: int) -> Case:
    """Neal (2003): v ~ N(0, 9), the others N(0, e^v), whose asinh is assessed."""

    def function(x: Array) -> tuple[Array, Array]:
        v, rest = x[:, 0], x[:, 1:]
        count, precision = rest.shape[1], np.exp(-v)
        squares = np.square(rest).sum(axis=1) * precision
        slope = np.column_stack([v / 9.0 - 0.5 * squares + 0.5 * count, rest * precision[:, None]])
        return v**2 / 18.0 + 0.5 * squares + 0.5 * count * v, slope

    known = {"v": (0.0, 3.0, 0.0)} | {f"asinh x{k}": (0.0, funnel_sd(), 0.0) for k in range(1, dimension)}
    return _case(
        f"funnel_{dimension}",
        function,
        dimension,
        known,
        lambda x: np.column_stack([x[:, 0], np.arcsinh(x[:, 1:])]),
    )


def heavy(name: str, together: bool) -> Case:
    """Ten variables of Student's t with three degrees of freedom, independent or joint; their asinh is assessed."""

    def function(x: Array) -> tuple[Array, Array]:
        if together:
            squares = np.square(x).sum(axis=1)
            return 6.5 * np.log1p(squares / 3.0), 13.0 * x / (3.0 + squares)[:, None]
        return 2.0 * np.log1p(x**2 / 3.0).sum(axis=1), 4.0 * x / (3.0 + x**2)

    sd = float(np.sqrt(student.expect(lambda x: np.arcsinh(x) ** 2, args=(3,))))
    return _case(name, function, 10, {f"asinh x{k}": (0.0, sd, 0.0) for k in range(10)}, np.arcsinh)


def donut() -> Case:
    """A ring of radius 2.6 and width .13."""

    def function(x: Array) -> tuple[Array, Array]:
        radius = np.maximum(np.linalg.norm(x, axis=1), 1e-300)
        away = (radius - 2.6) / 0.033
        return away * (radius - 2.6), (2.0 * away / radius)[:, None] * x

    radius = np.linspace(1.5, 3.7, 20_001)
    density = radius * np.exp(-np.square(radius - 2.6) / 0.033)
    density /= density.sum()
    mean, square = float(density @ radius), float(density @ radius**2)
    sd = float(np.sqrt(0.5 * square))
    known = {"x": (0.0, sd, 0.0), "y": (0.0, sd, 0.0), "r": (mean, float(np.sqrt(square - mean**2)), 0.0)}
    return _case("donut", function, 2, known, lambda x: np.column_stack([x, np.linalg.norm(x, axis=1)]))


BUILDERS: dict[str, Callable[[], Case]] = {
    "rosenbrock_narrow": partial(banana, "rosenbrock_narrow", 1.0, float(np.sqrt(0.5)), 1.0, float(np.sqrt(0.1))),
    "twisted": partial(banana, "twisted", 0.0, 1.0, 5.0, 1.0),
    "funnel_50": partial(funnel, 50),
    "product_t3": partial(heavy, "product_t3", False),
    "multivariate_t3": partial(heavy, "multivariate_t3", True),
    "donut": donut,
}
