"""Cost of energies and steps of an ODE posterior, in compiled loops and by Python.

    python benchmarks/ode_steps.py [--turns N]

The posterior is that of the hare-lynx record: two states, eight unknowns, RK45 at a relative tolerance of 1e-6. Prints
microseconds of CPU for an energy with its gradient of 1, 4 and 16 chains, and seconds of CPU for runs of `iv.sample`.
Each chain makes so many draws after 500 steps of warm-up. Each figure is the median of turns, in which both ways
alternate, without compilation; in brackets the least and the largest. The draws of both ways are compared.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence

import numba
import numpy as np

import invsamp as iv
from invsamp.engine.ensemble import compiled_blocks
from invsamp.kernels.compiled.block import evaluated
from invsamp.problems.lotka_volterra import hare_lynx

THETA = np.array([0.547, 0.0277, 0.8, 0.0241, 34.0, 5.94, 0.25, 0.25])
SAMPLERS = {
    "sgld, 10,000 draws": (iv.samplers.sgld(1e-6), 10_000),
    "mala, 5,000 draws": (iv.samplers.mala(), 5_000),
    "hmc, 2,000 draws": (iv.samplers.hmc(), 2_000),
    "mams, 2,000 draws": (iv.samplers.mams(), 2_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    warnings.simplefilter("ignore")
    print("| case | compiled | Python | ratio |")
    print("|---|---:|---:|---:|")
    for chains in (1, 4, 16):
        compare(f"energy and gradient, {chains} chains, microseconds", turns, *energies(chains))
    for chains in (1, 4):
        for name, (sampler, draws) in SAMPLERS.items():
            compare(f"{name}, {chains} chains, seconds", turns, *runs(sampler, draws, chains))


def compare(name: str, turns: int, compiled: Callable[[], float], python: Callable[[], float]) -> None:
    """Print a row: both ways in turn."""
    compiled(), python()
    found = [(compiled(), python()) for _ in range(turns)]
    ours, theirs = zip(*found, strict=True)
    print(
        f"| {name} | {shown(ours)} | {shown(theirs)} | {statistics.median(map(float.__truediv__, theirs, ours)):.1f} |"
    )


def shown(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def energies(chains: int) -> tuple[Callable[[], float], Callable[[], float]]:
    posterior = hare_lynx()
    potential = posterior.potential("fine")
    spread = 0.05 * np.random.default_rng(0).standard_normal((chains, len(THETA)))
    position = posterior.to_position(THETA) + spread
    pointer = potential.compiled_energy().compiled()
    parts = np.empty(position.shape), np.empty(chains), np.empty(position.shape), np.empty(chains)
    times = 4000 // chains

    def compiled() -> float:
        begin = time.process_time()
        assert often(times, pointer.address, pointer.context, position, *parts)
        return (time.process_time() - begin) / times * 1e6

    def python() -> float:
        begin = time.process_time()
        for _ in range(times):
            potential.parts(position, True)
        return (time.process_time() - begin) / times * 1e6

    return compiled, python


@numba.njit
def often(times, address, context, position, given, energy, gradient, prior):  # type: ignore[no-untyped-def]
    fine = True
    for _ in range(times):
        fine = evaluated(address, context, position, given, energy, gradient, prior)
    return fine


def runs(sampler: iv.samplers.Sampler, draws: int, chains: int) -> tuple[Callable[[], float], Callable[[], float]]:
    posterior = hare_lynx()
    kept = []

    def run(patience: float) -> float:
        compiled_blocks.PATIENCE = patience
        begin = time.process_time()
        found = iv.sample(
            posterior, sampler, draws=draws, warmup=500, chains=chains, seed=1, start=THETA, progress=False
        )
        seconds = time.process_time() - begin
        kept.append(found.theta)
        assert all(np.array_equal(kept[0], one) for one in kept)
        return seconds

    return lambda: run(0.0), lambda: run(math.inf)


if __name__ == "__main__":
    main()
