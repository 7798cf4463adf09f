"""Six problems with cheap models that stand for expensive ones without derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.problems import conductivity, heat_source
from invsamp.problems.lotka_volterra import hare_lynx
from invsamp.solvers.fem.fields import LogField, Modes
from invsamp.solvers.fem.random_fields import karhunen_loeve, square_rule
from invsamp.solvers.heat import GaussianBump, HeatEquation
from invsamp.solvers.poisson import PoissonEquation


class BlackBox:
    """A forward model without its derivatives, which counts its rows and may be noisy."""

    def __init__(self, model: Callable[[np.ndarray], Any], noise: float = 0.0, seed: int = 0) -> None:
        self._model, self._noise, self.rows = model, noise, 0
        self._rng = np.random.default_rng(seed)
        if (names := getattr(model, "parameters", None)) is not None:
            self.parameters = names

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        self.rows += len(theta)
        y = np.asarray(self._model(theta))
        return y + self._noise * self._rng.standard_normal(y.shape) if self._noise else y


@dataclass(frozen=True)
class SimulatorProblem:
    """A posterior with exact gradients, the budget of simulations, the simulator's noise, and a cheap fidelity."""

    posterior: iv.Posterior
    budget: int
    noise: float = 0.0
    trend: str | None = None

    def simulated(self, seed: int) -> tuple[iv.Posterior, BlackBox]:
        """The posterior of the black box, and the box."""
        name = self.posterior.fidelities[-1]
        box = BlackBox(self.posterior.forward[name], self.noise, seed)
        if self.trend is None:
            return self.posterior.alone(name).with_forward({name: box}), box
        return self.posterior.with_forward({self.trend: BlackBox(self.posterior.forward[self.trend]), name: box}), box


def hares() -> SimulatorProblem:
    """Hare and lynx: eight unknowns, two of them noise scales; most optimizations end at large noise."""
    return SimulatorProblem(hare_lynx().alone("fine"), 200)


def conducting(unknowns: int, budget: int, coarse: int | None = None) -> SimulatorProblem:
    """The conductivity of a plate by modes of a random field; ``coarse``: cells along a side of the cheap one."""
    field = karhunen_loeve(conductivity.COVARIANCE, *square_rule(20), count=unknowns)

    def on(cells: int) -> Any:
        equation = PoissonEquation(cells, LogField(Modes("z", field)), source=0.0, boundary=conductivity.BOUNDARY)
        return equation.observe(conductivity.SENSORS)

    model = on(16)
    truth = np.random.default_rng(4).standard_normal(unknowns)
    data = model(truth[None])[0] + 0.02 * np.random.default_rng(5).standard_normal(25)
    prior = iv.Prior(z=iv.Normal(0, 1, shape=unknowns))
    if coarse is None:
        return SimulatorProblem(iv.Posterior(prior, model, data, iv.GaussianNoise(0.02)), budget)
    levels = {"coarse": on(coarse), "fine": model}
    return SimulatorProblem(iv.Posterior(prior, levels, data, iv.GaussianNoise(0.02)), budget, trend="coarse")


def source() -> SimulatorProblem:
    """Position of a heat source: two modes."""
    equation = HeatEquation(32, 32, heat_source.END_TIME, GaussianBump(0.06, height=50.0), "dirichlet")
    prior = iv.Prior(x=iv.Uniform(0.0, 1.0), y=iv.truncated(iv.Normal(0.6, 0.25), lower=0.0, upper=1.0))
    model = equation.observe(heat_source.SENSORS)
    return SimulatorProblem(iv.Posterior(prior, model, heat_source.TEMPERATURES, iv.GaussianNoise(0.1)), 60)


def banana() -> SimulatorProblem:
    """Two reactions in series, whose rates can be interchanged."""
    times = np.linspace(0.25, 3.0, 12)

    def observed(theta: np.ndarray) -> np.ndarray:
        first, second, height, base = (theta[:, [i]] for i in range(4))
        apart = second - first
        apart = np.where(np.abs(apart) < 1e-6, 1e-6, apart)
        return height * (1 + (first * np.exp(-second * times) - second * np.exp(-first * times)) / apart) + base

    data = observed(np.array([[1.0, 1.6, 1.0, 0.05]]))[0] + 0.03 * np.random.default_rng(3).standard_normal(12)
    prior = iv.Prior(k1=iv.LogNormal(0, 1), k2=iv.LogNormal(0, 1), height=iv.LogNormal(0, 0.3), base=iv.Normal(0, 0.1))
    model = iv.finite_differences(observed)
    return SimulatorProblem(iv.Posterior(prior, model, data, iv.GaussianNoise(0.03)), 130)


def curved(unknowns: int = 10, outputs: int = 100, budget: int = 90) -> SimulatorProblem:
    """A slightly curved map with many outputs, whose simulator has noise of a hundredth of the data's."""
    rng = np.random.default_rng(7)
    one, two = (rng.standard_normal((outputs, unknowns)) / np.sqrt(unknowns) for _ in range(2))

    def observed(theta: np.ndarray) -> np.ndarray:
        return theta @ one.T + 0.05 * np.square(theta @ two.T)

    def jacobian(theta: np.ndarray) -> np.ndarray:
        return one[None] + 0.1 * (theta @ two.T)[:, :, None] * two[None]

    data = observed(rng.standard_normal((1, unknowns)))[0] + 0.1 * rng.standard_normal(outputs)
    prior = iv.Prior(x=iv.Normal(0, 1, shape=unknowns))
    model = iv.with_jacobian(observed, jacobian)
    return SimulatorProblem(iv.Posterior(prior, model, data, iv.GaussianNoise(0.1)), budget, 1e-3)


PROBLEMS: dict[str, Callable[[], SimulatorProblem]] = {
    "heat source": source,
    "banana": banana,
    "Gaussian, 10": curved,
    "conductivity, 8": lambda: conducting(8, 90),
    "hare-lynx": hares,
    "conductivity, 12": lambda: conducting(12, 160),
    "Gaussian, 10, 1,000 outputs": lambda: curved(outputs=1000),
    "conductivity, 8, 4 cells as trend": lambda: conducting(8, 90, 4),
}
