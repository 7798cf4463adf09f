"""Cost of a sampler's step on gradient matching of Lorenz: all data, minibatches of them, and sufficient statistics.

    python benchmarks/gradient_matching.py [--data N] [--repeats N]

Prints medians of repeats, measured in turns so that a noisy machine slows all alike, of one step of SGLD (energy,
gradient and move) for each way to see the data: all of them, a minibatch whose rows alone are evaluated, the same
minibatch cut out of the whole Jacobian, and the sufficient statistics. Also the cost of making those.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import invsamp as iv
from invsamp.contract import Array
from invsamp.engine.rung import RungAtWork
from invsamp.evaluate.counted import CountedPotential
from invsamp.posing.adapters import with_jacobian
from invsamp.solvers.gradient_matching import GradientMatching, linear_in_parameters, match
from invsamp.solvers.ode import OdeModel

STATES, PARAMETERS, TRUTH = ("x", "y", "z"), ("sigma", "rho", "beta"), (10.0, 28.0, 8.0 / 3.0)
MINIBATCH = 4096


def lorenz(t, x, p):  # type: ignore[no-untyped-def]
    """Right-hand side."""
    return p[0] * (x[1] - x[0]), x[0] * (p[1] - x[2]) - x[1], x[0] * x[1] - p[2] * x[2]


def pose(n: int) -> GradientMatching:
    """States at n // 3 times, derivatives with unit noise."""
    times = 0.01 * np.arange(n // 3)
    states = OdeModel(lorenz, STATES, PARAMETERS).solve(np.array([TRUTH]), np.ones(3), times).states[0]
    slope = np.stack(lorenz(0.0, states.T, TRUTH), axis=1)
    noise = np.random.default_rng(0).standard_normal(slope.shape)
    return match(linear_in_parameters(lorenz, STATES, PARAMETERS), times, states, slope + noise)


def step_of(forward: object, data: Array, estimator: object, chains: int) -> Callable[[], None]:
    """One step of SGLD."""
    prior = iv.Prior(**{name: iv.Normal(10.0, 30.0) for name in PARAMETERS})
    posterior = iv.Posterior(prior, forward, data, iv.GaussianNoise(1.0))  # type: ignore[arg-type]
    sampler = iv.sgld(1e-8, estimator=estimator)  # type: ignore[arg-type]
    rung = RungAtWork(
        sampler.rungs[0],
        CountedPotential(posterior.potential(), "model"),
        posterior.sampling_domain,
        np.random.SeedSequence(1),
    )
    rung.start(np.tile(TRUTH, (chains, 1)))
    rung.step_size = 1e-8
    return rung.step


def medians(steps: dict[str, Callable[[], None]], calls: int, repeats: int) -> dict[str, float]:
    """Median microseconds of a call of each, measured in turns."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            step()
            count = calls if name == "sufficient statistics" else max(1, calls // 50)
            begin = time.process_time()  # other work on the machine does not count
            for _ in range(count):
                step()
            spent[name].append((time.process_time() - begin) / count * 1e6)
    return {name: statistics.median(values) for name, values in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=int, default=30_003)
    parser.add_argument("--repeats", type=int, default=15)
    settings = parser.parse_args()
    model = pose(settings.data)
    begin = time.process_time()
    compressed = model.compressed(1.0)
    print(f"{len(model.data)} data, sufficient statistics made in {(time.process_time() - begin) * 1e3:.1f} ms")
    whole = with_jacobian(model, lambda theta: model.jacobian(theta)[1], PARAMETERS)
    for chains in (1, 16):
        found = medians(
            {
                "all data": step_of(model, model.data, iv.exact(), chains),
                f"minibatch of {MINIBATCH}, its rows": step_of(model, model.data, iv.minibatch(MINIBATCH), chains),
                f"minibatch of {MINIBATCH}, whole model": step_of(whole, model.data, iv.minibatch(MINIBATCH), chains),
                "sufficient statistics": step_of(compressed, compressed.data, iv.exact(), chains),
            },
            1000,
            settings.repeats,
        )
        for name, spent in found.items():
            ratio = spent / found["sufficient statistics"]
            print(f"{chains:3d} chains  {name:32s} {spent:10.1f} microseconds a step, {ratio:7.1f} x the least")


if __name__ == "__main__":
    main()
