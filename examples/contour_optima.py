"""How soon an optimum is come near: AWSGLD beside plain SGLD, as published and tuned.

Table 7.1 of Deng's thesis: ten functions of 20 to 30 unknowns, started anywhere in a box, and the iterations until the
function is within a given distance of its least value, 0. Step, temperature, bins and zeta are those of the author's
program, which ran plain SGLD at the same step alone, at the temperature and at a tenth of it. Here a plain SGLD is also
tuned, over five steps (1 to 100 times the published one) and five temperatures. The table has the best of these, and
the best with drifts of at most a hundredth of the box along each axis ("clipped"). They were found with other seeds, by
ten runs of 5,000 iterations, and stand in `TASKS` (half the temperature was tried for Ackley alone). ``--tune`` finds
them again.

As the program has it, the lowest bin lies below 0 and holds nothing, so that the multiplier of the next one grows for
ever. As here: theta begins increasing, and where the program refuses moves out of the box (Rastrigin, Ackley), these
are reflected. Times are means over runs; a run that does not arrive in time counts as the longest, and is counted.

Runs share nothing but the code: each has its own start and noise. The default, ten of 2,500 iterations, takes less than
a minute, and much is not there by then; the documentation's table is that of ``--draws 20000``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.estimators.contract import Estimator

Value = tuple[np.ndarray, np.ndarray]
PILOT = 10, 5000  # runs and iterations
LONGER, COLDER = (1.0, 3.0, 10.0, 30.0, 100.0), (1.0, 0.5, 0.3, 0.1, 0.01)
#: Names of what is tuned, and whether gradients are clipped.
TUNED = {"SGLD, tuned": False, "SGLD, clipped and tuned": True}


@dataclass(frozen=True)
class Task:
    """A function, where it starts, what is near, and the published settings."""

    function: Callable[[np.ndarray], Value]
    dimension: int
    box: tuple[float, float]
    near: float
    step: float
    temperature: float
    width: float  # of a tenth of the bins' range
    zeta: tuple[float, float]  # with 10 bins, and with 100
    best: tuple[tuple[float, float], tuple[float, float]]  # step and temperature over those, tuned; clipped, too
    bounded: bool = False
    gain: float = 100.0


def rastrigin(x: np.ndarray) -> Value:
    """20 unknowns."""
    energy = 10.0 * x.shape[1] + (x**2 - 10.0 * np.cos(2.0 * np.pi * x)).sum(axis=1)
    return energy, 2.0 * x + 20.0 * np.pi * np.sin(2.0 * np.pi * x)


def griewank(x: np.ndarray) -> Value:
    """The product's gradient by the products of all other factors."""
    root = np.sqrt(np.arange(1, x.shape[1] + 1))
    cosines = np.cos(x / root)
    ones = np.ones((len(x), 1))
    before = np.concatenate([ones, np.cumprod(cosines, axis=1)[:, :-1]], axis=1)
    after = np.concatenate([ones, np.cumprod(cosines[:, ::-1], axis=1)[:, :-1]], axis=1)[:, ::-1]
    energy = (x**2).sum(axis=1) / 4000.0 - cosines.prod(axis=1) + 1.0
    return energy, x / 2000.0 + np.sin(x / root) / root * before * after


def sum_of_squares(x: np.ndarray) -> Value:
    """i x_i^2."""
    i = np.arange(1, x.shape[1] + 1)
    return (i * x**2).sum(axis=1), 2.0 * i * x


def rosenbrock(x: np.ndarray) -> Value:
    """100 (x_i^2 - x_(i+1))^2 + (x_i - 1)^2."""
    apart, gradient = x[:, :-1] ** 2 - x[:, 1:], np.zeros(x.shape)
    gradient[:, :-1] = 400.0 * apart * x[:, :-1] + 2.0 * (x[:, :-1] - 1.0)
    gradient[:, 1:] -= 200.0 * apart
    return (100.0 * apart**2 + (x[:, :-1] - 1.0) ** 2).sum(axis=1), gradient


def zakharov(x: np.ndarray) -> Value:
    """With the program's weights, i / 2 from i = 0."""
    half = 0.5 * np.arange(x.shape[1])
    s = (x @ half)[:, None]
    return (x**2).sum(axis=1) + (s**2 + s**4)[:, 0], 2.0 * x + (2.0 * s + 4.0 * s**3) * half


def powell(x: np.ndarray) -> Value:
    """Blocks of four; the program's indices wrap round, which numbers them anew."""
    a, b, c, d = (x[:, k::4] for k in range(4))
    p, q, r, t = a + 10.0 * b, c - d, b - c, a - d
    gradient = np.empty(x.shape)
    gradient[:, 0::4] = 2.0 * p + 40.0 * t**3
    gradient[:, 1::4] = 20.0 * p + 4.0 * r**3
    gradient[:, 2::4] = 10.0 * q - 4.0 * r**3
    gradient[:, 3::4] = -10.0 * q - 40.0 * t**3
    return (p**2 + 5.0 * q**2 + r**4 + 10.0 * t**4).sum(axis=1), gradient


def dixon_price(x: np.ndarray) -> Value:
    """With the program's weights, i - 1."""
    i = np.arange(1, x.shape[1])
    apart, gradient = 2.0 * x[:, 1:] ** 2 - x[:, :-1], np.zeros(x.shape)
    gradient[:, 1:] = 8.0 * i * apart * x[:, 1:]
    gradient[:, :-1] -= 2.0 * i * apart
    gradient[:, 0] += 2.0 * (x[:, 0] - 1.0)
    return (x[:, 0] - 1.0) ** 2 + (i * apart**2).sum(axis=1), gradient


def levy(x: np.ndarray) -> Value:
    """In x itself, as the program has it."""
    y, last, first = x[:, :-1] - 1.0, x[:, -1] - 1.0, x[:, 0]
    s, e = np.sin(np.pi * x[:, :-1] + 1.0), np.sin(2.0 * np.pi * x[:, -1])
    energy = np.sin(np.pi * first) ** 2 + (y**2 * (1.0 + 10.0 * s**2)).sum(axis=1) + last**2 * (1.0 + 10.0 * e**2)
    gradient = np.empty(x.shape)
    inner = np.cos(np.pi * x[:, :-1] + 1.0)
    gradient[:, :-1] = 2.0 * y * (1.0 + 10.0 * s**2) + y**2 * 20.0 * np.pi * s * inner
    gradient[:, -1] = 2.0 * last * (1.0 + 10.0 * e**2) + last**2 * 40.0 * np.pi * e * np.cos(2.0 * np.pi * x[:, -1])
    gradient[:, 0] += np.pi * np.sin(2.0 * np.pi * first)
    return energy, gradient


def sphere(x: np.ndarray) -> Value:
    """|x|^2."""
    return (x**2).sum(axis=1), 2.0 * x


def ackley(x: np.ndarray) -> Value:
    """30 unknowns."""
    n = x.shape[1]
    radius = np.sqrt((x**2).mean(axis=1))
    outer, inner = 20.0 * np.exp(-0.2 * radius), np.exp(np.cos(2.0 * np.pi * x).mean(axis=1))
    gradient = (0.2 * outer / np.maximum(radius, 1e-300))[:, None] * x / n
    return 20.0 + np.e - outer - inner, gradient + inner[:, None] * 2.0 * np.pi * np.sin(2.0 * np.pi * x) / n


BEST = ((100.0, 0.01), (100.0, 0.01))
TASKS = {
    "Rastrigin": Task(
        rastrigin, 20, (-2.56, 5.12), 75.0, 5e-4, 5.0, 30.0, (0.02, 0.02), ((3.0, 1.0), (3.0, 1.0)), True, 200.0
    ),
    "Griewank": Task(griewank, 20, (-300.0, 600.0), 25.0, 0.1, 10.0, 50.0, (10.0, 10.0), BEST),
    "sum of squares": Task(
        sum_of_squares, 20, (-5.0, 10.0), 1.5, 0.01, 0.01, 10.0, (1.0, 1.0), ((3.0, 0.1), (3.0, 0.01))
    ),
    "Rosenbrock": Task(
        rosenbrock, 20, (-5.0, 10.0), 20.0, 1e-5, 10.0, 30.0, (100.0, 10.0), ((3.0, 0.01), (100.0, 0.01))
    ),
    "Zakharov": Task(zakharov, 20, (-5.0, 10.0), 500.0, 1e-9, 1e4, 500.0, (1.0, 0.5), ((10.0, 1.0), (100.0, 1.0))),
    "Powell": Task(powell, 24, (-4.0, 5.0), 1.0, 1e-4, 1.0, 20.0, (500.0, 200.0), ((3.0, 0.01), (30.0, 0.01))),
    "Dixon-Price": Task(
        dixon_price, 25, (-10.0, 10.0), 10.0, 1e-5, 10.0, 20.0, (100.0, 20.0), ((3.0, 0.01), (100.0, 0.01))
    ),
    "Levy": Task(levy, 30, (-10.0, 10.0), 400.0, 1e-4, 100.0, 600.0, (100.0, 10.0), ((3.0, 0.3), (100.0, 0.01))),
    "sphere": Task(sphere, 30, (-2.56, 5.12), 1e-3, 1e-2, 1e-4, 20.0, (1.0, 1.0), ((30.0, 0.1), (30.0, 0.01))),
    "Ackley": Task(ackley, 30, (-1.0, 1.0), 0.4, 0.01, 0.05, 0.4, (0.2, 0.2), ((10.0, 0.5), (10.0, 0.3)), True),
}


class Over:
    """A function over a temperature: at temperature 1 the target is its own at that one. Gradients may be clipped."""

    def __init__(self, task: Task, temperature: float, steepest: float = np.inf) -> None:
        self._function, self._over, self.dimension = task.function, temperature, task.dimension
        self._steepest = steepest

    def energy(self, position: np.ndarray) -> np.ndarray:
        """Values (runs,); infinite where they overflow."""
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: np.ndarray) -> Value:
        """The same with gradients (runs, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            energy, gradient = self._function(position)
            norm = np.linalg.norm(gradient, axis=1)
        lost = ~(np.isfinite(energy) & np.isfinite(norm))
        share = np.minimum(self._steepest / np.where(lost, 1.0, np.maximum(norm, 1e-300)), 1.0)[:, None] / self._over
        return np.where(lost, np.inf, energy / self._over), np.where(lost[:, None], 0.0, share * gradient)


def times(
    task: Task,
    sampler: iv.ladder.Sampler,
    iterations: int,
    seed: int,
    runs: int,
    *,
    over: float = 1.0,
    steepest: float = np.inf,
) -> np.ndarray:
    """Iterations (runs,) until each run is near; one more than there are where it never is.

    Runs are made again, longer, until all are near: a longer one of the same seed begins as the shorter did.
    """
    low, high = task.box
    start = np.random.default_rng(seed).uniform(low, high, (runs, task.dimension))
    domain = iv.Box([low] * task.dimension, [high] * task.dimension) if task.bounded else None
    target = iv.Target(Over(task, over, steepest), domain=domain)
    settings = {"warmup": 0, "chains": runs, "seed": seed, "start": start, "progress": False, "check_gradient": False}
    for length in sorted({max(iterations // 16, 2), max(iterations // 4, 2), iterations}):
        try:
            run = iv.sample(target, sampler, draws=length, **settings)
        except RuntimeError:  # every run has gone to infinity
            return np.full(runs, iterations + 1)
        near = over * run.data.sample_stats.energy.to_numpy() < task.near
        if near.any(axis=1).all():
            break
    return np.where(near.any(axis=1), near.argmax(axis=1) + 1, iterations + 1)


def noise(task: Task, over: float = 1.0) -> Estimator:
    """Of the gradients: a thousandth of the box."""
    return iv.estimators.noisy(0.0, (task.box[1] - task.box[0]) / 1000.0 / over)


def adaptive(task: Task, bins: int, zeta: float) -> iv.ladder.Sampler:
    """AWSGLD at the published settings."""
    ends = task.width * 10.0 / bins * np.arange(0, bins - 1)
    gain = iv.tempering.gain(task.gain, 1000.0, 0.75, max_gain=1.0)
    settings = {"zeta": zeta, "temperature": task.temperature, "gain": gain, "estimator": noise(task)}
    return iv.samplers.awsgld(task.step, ends, **settings)


def plain(
    task: Task, longer: float, colder: float, iterations: int, seed: int, runs: int, *, clipped: bool = False
) -> np.ndarray:
    """Times of SGLD at so many times step and temperature; clipped, no drift along an axis is longer than a hundredth
    of the box."""
    step, temperature = longer * task.step, colder * task.temperature
    sampler = iv.samplers.sgld(step * temperature, estimator=noise(task, temperature))
    most = 0.01 * (task.box[1] - task.box[0]) * np.sqrt(task.dimension) / step if clipped else np.inf
    return times(task, sampler, iterations, seed, runs, over=temperature, steepest=most)


def tuned(task: Task, seed: int) -> tuple[tuple[float, float], ...]:
    """Of the steps and temperatures, times the published ones, those of the least mean time; clipped, too."""
    settings = [(longer, colder) for colder in COLDER for longer in LONGER]
    found = []
    for clipped in TUNED.values():
        means = [plain(task, *each, PILOT[1], 1000 + seed, PILOT[0], clipped=clipped).mean() for each in settings]
        found.append(settings[int(np.argmin(means))])
    return tuple(found)


def hits_summary(found: np.ndarray, iterations: int) -> dict[str, Any]:
    """Mean, its standard error, and how many never came near."""
    mean, error = float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))
    return {"iterations": [mean, error], "never": int((found > iterations).sum())}


def row(task: Task, iterations: int, seed: int, runs: int) -> dict[str, Any]:
    """One function."""
    found = {
        f"AWSGLD, {bins} bins": times(task, adaptive(task, bins, zeta), iterations, seed, runs)
        for bins, zeta in zip((10, 100), task.zeta, strict=True)
    }
    for name, colder in (("SGLD, T / 10", 0.1), ("SGLD", 1.0)):
        found[name] = plain(task, 1.0, colder, iterations, seed, runs)
    for (name, clipped), best in zip(TUNED.items(), task.best, strict=True):
        found[name] = plain(task, *best, iterations, seed, runs, clipped=clipped)
    return {name: hits_summary(hits, iterations) for name, hits in found.items()}


def drawn(summary: dict[str, Any], iterations: int) -> Figure:
    """Mean times of all functions, with their errors."""
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for k, name in enumerate(next(iter(summary.values()))):
        at = np.arange(len(summary)) + 0.11 * (k - 3)
        means, errors = zip(*(cells[name]["iterations"] for cells in summary.values()), strict=True)
        axes.errorbar(at, means, yerr=errors, fmt="os^vDP"[k], label=name, capsize=2)
    axes.axhline(iterations, color="k", lw=0.6, ls=":")
    axes.set(yscale="log", ylabel="iterations until near the optimum")
    axes.set_xticks(range(len(summary)), summary, rotation=30, ha="right")
    axes.legend(fontsize=8, ncols=3)
    return figure


def main() -> dict[str, Any]:
    """Run all, show them, and save figure and summary; or find what suits plain SGLD."""
    more = {
        "runs": {"type": int, "default": 10, "help": "runs of each sampler (default 10)"},
        "tune": {"action": "store_true", "help": "find steps and temperatures of plain SGLD, and show them"},
    }
    chosen = options("contour_optima", __doc__.split("\n")[0], draws=2500, more=more)
    runs, summary = chosen.more["runs"], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, task in TASKS.items():
            tuning = chosen.more["tune"]
            summary[name] = {"best": tuned(task, chosen.seed)} if tuning else row(task, chosen.draws, chosen.seed, runs)
            chosen.show({name: summary[name]})
    if not chosen.more["tune"]:
        figure = drawn(summary, chosen.draws)
        chosen.save("times", figure)
        plt.close(figure)
    chosen.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
