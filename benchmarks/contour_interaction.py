"""Variance of chains that learn one theta together, compared with one of as many steps: section 6.4.1 of Deng's thesis.

The claim: with a gain that decreases as k^-alpha, the variance of theta is smaller by P^(1 - alpha). Both run on two
modes ten apart, from either. Printed are the sums of theta's variances over the bins, over independent runs, and their
ratio with its bootstrap sd. The mean mass of the lowest bin is beside the mean field's equilibrium, Z^(1 / zeta).

    python benchmarks/contour_interaction.py [--step 0.01] [--draws 10000]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import invsamp as iv
from invsamp.problems.mixtures import far_modes

CHAINS, RUNS, ALPHA, ZETA = 10, 20, 0.6, 0.9
ENDS = np.arange(2.5, 20.0)


def start(rng: np.random.Generator, n: int) -> np.ndarray:
    """Either mode."""
    return np.where(rng.random((n, 1)) < 0.5, -6.0, 4.0)


def learned(sampler: iv.ladder.Sampler, steps: int, chains: int, seed: int) -> np.ndarray:
    """Theta of each learned distribution, (n, bins)."""
    target = iv.Target(far_modes(), start=start)
    settings = {"draws": 2, "thin": steps // 2, "warmup": 0, "progress": False, "check_gradient": False}
    run = iv.sample(target, sampler, chains=chains, seed=seed, **settings)
    return np.exp(np.array(run.report["learned_targets"][0]["log_psi"]))


def equilibrium() -> float:
    """Mass of the lowest bin at the mean field's equilibrium, by quadrature."""
    x = np.linspace(-16.0, 14.0, 300_001)
    energy = far_modes().energy(x[:, None])
    mass = np.bincount(np.searchsorted(ENDS, energy), np.exp(-energy), len(ENDS) + 1) ** (1 / ZETA)
    return float(mass[0] / mass.sum())


def main() -> None:
    """Run both, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=float, default=0.01)
    parser.add_argument("--draws", type=int, default=10_000, help="steps of each of the chains that learn together")
    given = parser.parse_args()
    together = iv.samplers.icsgld(given.step, ENDS, zeta=ZETA, gain=iv.tempering.gain(1.0, 100.0, ALPHA))
    target = together.rungs[0].target
    alone = iv.ladder.Sampler(
        (iv.ladder.Rung(replace(target, learning=replace(target.learning, shared=False)), step_size=given.step),)
    )
    one = learned(alone, CHAINS * given.draws, RUNS, 1)
    many = np.concatenate([learned(together, given.draws, CHAINS, 100 + k) for k in range(RUNS)])
    rng = np.random.default_rng(0)
    again = [
        spread(one[rng.integers(RUNS, size=RUNS)]) / spread(many[rng.integers(RUNS, size=RUNS)]) for _ in range(400)
    ]
    print(f"variance of theta: one chain {spread(one):.3g}, {CHAINS} chains {spread(many):.3g}")
    print(f"ratio {spread(one) / spread(many):.3g} ± {np.std(again):.2g}; claimed {CHAINS ** (1 - ALPHA):.3g}")
    print(
        f"mass of the lowest bin: {one[:, 0].mean():.3f}, {many[:, 0].mean():.3f}; at equilibrium {equilibrium():.3f}"
    )


def spread(theta: np.ndarray) -> float:
    """Sum of the variances."""
    return float(theta.var(axis=0, ddof=1).sum())


if __name__ == "__main__":
    main()
