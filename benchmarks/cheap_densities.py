"""Cost of a step on very cheap densities, in compiled loops and by Python, compared with BlackJAX.

    python benchmarks/cheap_densities.py [--turns N] [--blackjax PYTHON]

Prints microseconds of CPU for each case:

- a step of SGLD and MALA on a mixture of two normal distributions in two dimensions, all chains together;
- a gradient of MAMS on normal distributions of 10 and 100 dimensions with variances 1, 2, ...;
- a step of a ladder of two temperatures that attempt a swap after every step.

Each row is the median of turns, in which the contestants alternate, without compilation. Draws are kept. ``target`` is
the time of the density with its gradient alone. BlackJAX runs as one scan in double precision, by the interpreter of
another environment that ``--blackjax`` names; otherwise it is skipped.

Goals: at most three times BlackJAX for one chain, less than it for 64, and at most 10 microseconds for a gradient of
MAMS above the target.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SERVE = "serve"
#: Sampler, dimension, chains, and steps of a turn.
CASES: dict[str, tuple[str, int, int, int]] = {
    "sgld, mixture, 1 chain": ("sgld", 2, 1, 100_000),
    "sgld, mixture, 64 chains": ("sgld", 2, 64, 5_000),
    "mala, mixture, 1 chain": ("mala", 2, 1, 100_000),
    "mala, mixture, 64 chains": ("mala", 2, 64, 5_000),
    "mams, normal, 10 unknowns": ("mams", 10, 1, 4_000),
    "mams, normal, 100 unknowns": ("mams", 100, 1, 2_000),
    "sgld, ladder of 2, 1 chain": ("ladder", 2, 1, 30_000),
    "sgld, ladder of 2, 64 chains": ("ladder", 2, 64, 3_000),
}
STEP, SGLD_STEP, LEAPS, APART = 0.3, 0.05, 8, 2.0
#: Steps by Python for each in a loop, and uncounted steps at the start.
SHARE, WARM = 20, 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--blackjax", type=Path, help="interpreter of an environment with blackjax")
    parser.add_argument("serve", nargs="?", choices=[SERVE], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    peer = None if given.blackjax is None else Peer(given.blackjax)
    if peer is None:
        print("BlackJAX: skipped, as no interpreter is given by --blackjax")
    print("| case | compiled | Python | target | BlackJAX | compiled / BlackJAX |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, case in CASES.items():
        ours, python, target = (
            Contestant(*case, patience=0.0),
            Contestant(*case, patience=math.inf),
            density_time(*case),
        )
        turns = []
        for _ in range(given.turns):
            other = math.nan if peer is None or case[0] == "ladder" else peer.microseconds(name)
            turns.append((ours.microseconds(), python.microseconds(), target(), other))
        compiled, by_python, alone, beside = (statistics.median(times) for times in zip(*turns, strict=True))
        low, high = min(turn[0] for turn in turns), max(turn[0] for turn in turns)
        shown = "" if math.isnan(beside) else f"{beside:.2f}"
        ratio = "" if math.isnan(beside) else f"{compiled / beside:.2f}"
        numbers = f"{compiled:.2f} ({low:.2f} to {high:.2f}) | {by_python:.1f} | {alone:.2f}"
        print(f"| {name} | {numbers} | {shown} | {ratio} |", flush=True)


class Contestant:
    """A run of invsamp that continues from turn to turn."""

    def __init__(self, kind: str, d: int, chains: int, steps: int, patience: float) -> None:
        import invsamp as iv
        from invsamp.engine.driver.draw_buffer import Draws
        from invsamp.engine.driver.engine import Engine
        from invsamp.engine.ensemble import compiled_blocks
        from invsamp.engine.ensemble.run_settings import Plan

        target = iv.Target(iv.LogDensity(density(d), True, dimension=d))
        sampler = {
            "sgld": iv.samplers.sgld(SGLD_STEP),
            "mala": iv.samplers.mala(STEP),
            "mams": iv.samplers.mams(STEP, length=LEAPS * math.sqrt(2.0 * STEP) / 2.0),
            "ladder": iv.samplers.parallel_tempering((1.0, 4.0), SGLD_STEP, adjusted=False, swap_fraction=None),
        }[kind]
        self.patience, self.blocks = patience, compiled_blocks
        self.steps = steps if patience == 0.0 else max(100, steps // SHARE)
        self.engine = Engine(target, sampler, Plan(10**9, 0, 1, chains, 1, check_gradient=False))
        self.engine.begin(np.zeros((chains, d)))
        self.draws = Draws(self.engine, max(WARM, self.steps))
        self.by_gradient = kind == "mams"
        self._go(WARM if patience == 0.0 else 50)

    def microseconds(self) -> float:
        """Time of a step, or of a gradient."""
        before, begin = self._evaluations, time.process_time()
        self._go(self.steps)
        seconds = time.process_time() - begin
        return seconds / ((self._evaluations - before) if self.by_gradient else self.steps) * 1e6

    @property
    def _evaluations(self) -> int:
        return sum(counted["evaluations"] for counted in self.engine.counts.values())

    def _go(self, steps: int) -> None:
        self.blocks.PATIENCE = self.patience
        end = self.engine.done + steps
        while self.engine.done < end:
            self.engine.step(end - self.engine.done, self.draws)
            self.draws.after_step()
        self.draws.take()


def density(d: int) -> Any:
    """Log density and gradient: the mixture in two dimensions, the normal distribution in others."""
    import numba

    @numba.njit
    def mixture(x: Any) -> Any:
        values, slopes = np.empty(len(x)), np.empty(x.shape)
        for i in range(len(x)):
            left, right, y = x[i, 0] + APART, x[i, 0] - APART, x[i, 1]
            p, q = math.exp(-0.5 * left * left), math.exp(-0.5 * right * right)
            values[i] = math.log(p + q) - 0.5 * y * y
            slopes[i, 0], slopes[i, 1] = -(left * p + right * q) / (p + q), -y
        return values, slopes

    @numba.njit
    def normal(x: Any) -> Any:
        values, slopes = np.zeros(len(x)), np.empty(x.shape)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                slopes[i, j] = -x[i, j] / (1.0 + j)
                values[i] += 0.5 * x[i, j] * slopes[i, j]
        return values, slopes

    return mixture if d == 2 else normal


def density_time(kind: str, d: int, chains: int, steps: int) -> Callable[[], float]:
    """Microseconds of the density with its gradient, called from compiled code."""
    import numba

    function = density(d)

    @numba.njit
    def often(x: Any, times: int) -> float:
        total = 0.0
        for k in range(times):
            x[0, 0] = 1e-3 * (k % 7)
            values, _ = function(x)
            total += values[0]
        return total

    x = np.ones((chains, d))
    often(x, 1)

    def microseconds() -> float:
        begin = time.process_time()
        often(x, steps)
        return (time.process_time() - begin) / steps * 1e6

    return microseconds


class Peer:
    """This script in an environment with BlackJAX."""

    def __init__(self, python: Path) -> None:
        environment = os.environ | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
        environment["JAX_PLATFORMS"] = "cpu"
        command = [str(python), "-P", __file__, SERVE]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def microseconds(self, name: str) -> float:
        """Time of a step, or of a gradient."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def serve() -> None:
    """Answer the name of a case with microseconds."""
    scans: dict[str, Callable[[int], float]] = {}
    for number, line in enumerate(sys.stdin):
        name = line.strip()
        if name not in scans:
            scans[name] = scan(*CASES[name])
            scans[name](0)
        print(scans[name](number + 1), flush=True)


def scan(kind: str, d: int, chains: int, steps: int) -> Callable[[int], float]:
    """Microseconds of a step, or of a gradient, of one scan of BlackJAX."""
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    variances = jnp.arange(1.0, d + 1.0)

    def log_density(x: Any) -> Any:
        if d > 2:
            return -0.5 * jnp.sum(x * x / variances)
        left, right = x[0] + APART, x[0] - APART
        return jnp.log(jnp.exp(-0.5 * left * left) + jnp.exp(-0.5 * right * right)) - 0.5 * x[1] ** 2

    if kind == "sgld":
        sampler = blackjax.sgld(lambda position, _: jax.grad(log_density)(position))

        def one(key: Any, state: Any) -> Any:
            return sampler.step(key, state, None, SGLD_STEP)

        def position(state: Any) -> Any:
            return state
    else:
        if kind == "mala":
            chosen = blackjax.mala(log_density, STEP)
        else:
            chosen = blackjax.adjusted_mclmc(
                log_density, step_size=math.sqrt(2.0 * STEP * d), num_integration_steps=LEAPS
            )

        def one(key: Any, state: Any) -> Any:
            return chosen.step(key, state)[0]

        def position(state: Any) -> Any:
            return state.position

    many = one if chains == 1 else jax.vmap(one)

    @jax.jit
    def run(key: Any, state: Any) -> Any:
        def body(state: Any, key: Any) -> Any:
            state = many(key if chains == 1 else jax.random.split(key, chains), state)
            return state, position(state)

        return jax.lax.scan(body, state, jax.random.split(key, steps))

    start = jnp.zeros((chains, d))
    if kind != "sgld":
        keys = jax.random.split(jax.random.key(0), chains)
        initial = chosen.init if kind == "mala" else (lambda x, key=None: chosen.init(x, keys[0]))
        start = jax.vmap(lambda x: initial(x))(start)
    state = jax.tree.map(lambda part: part[0], start) if chains == 1 else start

    def microseconds(seed: int) -> float:
        begin = time.process_time()
        jax.block_until_ready(run(jax.random.key(seed), state))
        return (time.process_time() - begin) / (steps * (LEAPS if kind == "mams" else 1)) * 1e6

    return microseconds


if __name__ == "__main__":
    main()
