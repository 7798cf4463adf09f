"""Interval of the fine rung's local moves in an exchange: their cost, and the result without them.

    python benchmarks/local_moves.py [--seeds N...] [--draws N]

A linear model of three unknowns and six data. Its coarse model is right except on a tenth of the posterior, where all
observations are off by six standard deviations of the noise. There the fine chains rarely arrive by exchanges, and do
not leave. `iv.samplers.surrogate_exchange` of 64 chains, every second step, one draw per exchange. Reported are fine
energies per draw, R-hat, and the share of draws in that tenth with its standard error over the chains. Fine energies
per effective draw are given for the unknowns and for the indicator of that tenth.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import norm

import invsamp as iv
from invsamp.diagnostics import ess, rhat
from invsamp.protocols import Array

NOISE, SHARE, OFF, CHAINS, EVERY = 0.5, 0.1, 6.0, 64, 2
#: Exchanges between two local moves of the fine rung; the last one: no local moves.
OFTEN = (1, 5, 10, 20, 50, 10**6)
_RNG = np.random.default_rng(7)
MATRIX = _RNG.normal(size=(6, 3))
DATA = MATRIX @ [0.4, -0.3, 0.2] + NOISE * _RNG.normal(size=6)
PRECISION = np.eye(3) + MATRIX.T @ MATRIX / NOISE**2
MEAN = np.linalg.solve(PRECISION, MATRIX.T @ DATA / NOISE**2)
#: Value of the first unknown above which the coarse model is off.
LIMIT = MEAN[0] + norm.isf(SHARE) * np.sqrt(np.linalg.inv(PRECISION)[0, 0])


class Line:
    """A linear model; beyond the limit its observations are off by ``off``."""

    def __init__(self, off: float) -> None:
        self.off = off

    def __call__(self, theta: Array) -> Array:
        """Observations (n, 6)."""
        return theta @ MATRIX.T + self.off * (theta[:, :1] > LIMIT)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        return self(theta), lambda cotangent: cotangent @ MATRIX


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--draws", type=int, default=500, help="of each chain")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    models = {"coarse": Line(OFF * NOISE), "fine": Line(0.0)}
    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 1.0, shape=3)), models, DATA, iv.GaussianNoise(NOISE))
    print(
        f"| exchanges for a move | seed | fine energies of a draw | R-hat | share ({SHARE:g}) | each | of the tenth |"
    )
    print("|---|---:|---:|---:|---|---:|---:|")
    for local in OFTEN:
        for seed in given.seeds:
            sampler = iv.samplers.surrogate_exchange(exchange_interval=EVERY, local_move_interval=local)
            settings = {"draws": given.draws, "thin": EVERY, "warmup": 300, "chains": CHAINS, "seed": seed}
            run = iv.sample(posterior, sampler, **settings, progress=False)
            report, theta = run.report, run.theta
            fine = report["evaluations"]["fine"] - report["warmup_evaluations"]["fine"]
            tenth = (theta[..., 0] > LIMIT).astype(float)
            share, error = tenth.mean(), tenth.mean(axis=1).std(ddof=1) / np.sqrt(CHAINS)
            counts = f"{fine / ess(theta).min():.2f} | {fine / ess(tenth):.1f}"
            figures = f"{fine / tenth.size:.2f} | {rhat(theta).max():.3f} | {share:.3f} ± {error:.3f} | {counts}"
            print(f"| {local if local < OFTEN[-1] else 'none'} | {seed} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
