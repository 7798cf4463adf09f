"""Effective draws per second of the automatic choice, of MAMS and of BlackJAX's NUTS, on cheap densities.

    python benchmarks/ess_per_second.py [--seeds N]

Without jax and blackjax installed, their column is left out. Two normal distributions, with variances 1 ... 10 in 10
dimensions and 1 ... 100 in 100, and a logistic regression (25 coefficients, 1,000 data). Four chains, one after the
other, of 1,000 draws after 1,000 steps of warm-up, which counts; compilation does not. NUTS adapts its step and a
diagonal metric. Seconds are processor time. Effective draws are the least over means and squares.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import arviz
import numba
import numpy as np

import invsamp as iv

CHAINS, DRAWS, WARMUP = 4, 1000, 1000
_RNG = np.random.default_rng(1)
X = np.concatenate([np.ones((1000, 1)), _RNG.standard_normal((1000, 24))], axis=1)
Y = (_RNG.random(1000) < 1.0 / (1.0 + np.exp(-X @ _RNG.standard_normal(25) * 0.4))).astype(float)


@numba.njit
def normal(x: Any) -> Any:
    """Log density and gradient."""
    values, slopes = np.zeros(len(x)), np.empty(x.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            slopes[i, j] = -x[i, j] / (1.0 + j)
            values[i] += 0.5 * x[i, j] * slopes[i, j]
    return values, slopes


@numba.njit
def logistic(x: Any) -> Any:
    """Log density and gradient, with a standard normal prior."""
    values, slopes = np.zeros(len(x)), np.empty(x.shape)
    for i in range(len(x)):
        eta = X @ x[i]
        weight = np.empty(len(Y))
        for k in range(len(Y)):
            small = np.exp(-abs(eta[k]))
            weight[k] = Y[k] - (1.0 / (1.0 + small) if eta[k] > 0 else small / (1.0 + small))
            values[i] += Y[k] * eta[k] - max(eta[k], 0.0) - np.log1p(small)
        slopes[i] = X.T @ weight - x[i]
        values[i] -= 0.5 * (x[i] * x[i]).sum()
    return values, slopes


def with_invsamp(function: Any, d: int, sampler: Any) -> Callable[[int], tuple[float, float]]:
    target = iv.Target(iv.LogDensity(function, True, dimension=d))

    def run(seed: int) -> tuple[float, float]:
        begin = time.process_time()
        choice = () if sampler is None else (sampler,)
        found = iv.sample(target, *choice, draws=DRAWS, warmup=WARMUP, chains=CHAINS, seed=seed, progress=False)
        seconds = time.process_time() - begin
        return effective(found.draws("theta").reshape(CHAINS, -1, d)), seconds

    return run


def with_blackjax(name: str, d: int) -> Callable[[int], tuple[float, float]]:
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    x, y, variances = jnp.asarray(X), jnp.asarray(Y), jnp.arange(1.0, d + 1.0)

    def log_density(theta: Any) -> Any:
        if name == "logistic":
            eta = x @ theta
            return jnp.sum(y * eta - jnp.logaddexp(0.0, eta)) - 0.5 * jnp.sum(theta**2)
        return -0.5 * jnp.sum(theta**2 / variances)

    def chain(key: Any) -> Any:
        first, second, third = jax.random.split(key, 3)
        warm = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, settings), _ = warm.run(first, jax.random.normal(third, (d,)), num_steps=WARMUP)
        step = blackjax.nuts(log_density, **settings).step

        def one(state: Any, key: Any) -> Any:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(second, DRAWS))[1]

    chains = jax.jit(lambda keys: jax.lax.map(chain, keys))
    chains(jax.random.split(jax.random.key(0), CHAINS)).block_until_ready()

    def run(seed: int) -> tuple[float, float]:
        begin = time.process_time()
        draws = np.asarray(chains(jax.random.split(jax.random.key(seed), CHAINS)))
        seconds = time.process_time() - begin
        return effective(draws), seconds

    return run


def effective(draws: np.ndarray) -> float:
    """The least number of effective draws of means and squares, from (chains, draws, d)."""
    both = np.concatenate([draws, draws**2], axis=2)
    return min(float(arviz.ess(np.ascontiguousarray(both[:, :, k]), method="mean")) for k in range(both.shape[2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    cases = {"normal, 10": (normal, 10), "normal, 100": (normal, 100), "logistic": (logistic, 25)}
    for name, (function, d) in cases.items():
        runs = {"automatic": with_invsamp(function, d, None), "mams": with_invsamp(function, d, iv.samplers.mams())}
        if find_spec("blackjax"):
            runs["BlackJAX NUTS"] = with_blackjax(name, d)
        for run in runs.values():
            run(0)  # compiles
        rates: dict[str, list[float]] = {contestant: [] for contestant in runs}
        for seed in range(1, given.seeds + 1):
            for contestant, run in runs.items():
                count, seconds = run(seed)
                rates[contestant].append(count / seconds)
        rows = [f"{who} {np.median(r):,.0f} ({min(r):,.0f} to {max(r):,.0f})" for who, r in rates.items()]
        print(f"{name}: effective draws per second: {'; '.join(rows)}", flush=True)


if __name__ == "__main__":
    main()
