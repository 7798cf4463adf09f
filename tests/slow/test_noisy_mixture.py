"""Replica exchange with state-dependent noise on the two-mode mixture of Li, Lin, Zhang and Zhou (2023), section 5.1.

Noise of sd 1.5 sigmoid(U) on energies and 5 sigmoid(theta) on gradients of both rungs, temperatures 1 and 10, step
0.03, 64 runs of 100,000 steps. KL(truth || pooled histogram) on bins of width 0.1, with its jackknife error over runs.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from invsamp.estimators import noisy
from invsamp.potential import Target
from invsamp.presets import fast_resgld, resgld
from invsamp.problems.mixtures import sigmoid_noise_energy, sigmoid_noise_gradient, two_modes
from invsamp.sampler import sample
from invsamp.swap.rules import naive
from invsamp.variance import kernel_ridge, known, running_average

pytestmark = pytest.mark.slow

NOISE = {"estimator": noisy(sigmoid_noise_energy, sigmoid_noise_gradient)}
LADDER = ((1.0, 10.0), 0.03)
SAMPLERS = {
    "reSGLD": (resgld(*LADDER, **NOISE), 100_000),
    "f-reSGLD, constant": (fast_resgld(*LADDER, **NOISE, variance=running_average()), 100_000),
    "f-reSGLD, kernel ridge": (fast_resgld(*LADDER, **NOISE, variance=kernel_ridge(), probes=10), 100_000),
    # wrong on purpose; a fifth of the steps shows it
    "no swap penalty": (fast_resgld(*LADDER, **NOISE, variance=known(), swap=naive()), 20_000),
}
EDGES = np.linspace(-8.0, 6.0, 141)
THIN = 10  # the modes relax in about 10 steps and their weights in 200


@dataclass(frozen=True)
class Divergence:
    """KL divergence and its standard error."""

    value: float
    error: float

    def standard_errors_above(self, other: Divergence) -> float:
        return (self.value - other.value) / math.hypot(self.error, other.error)


def divergence(runs):
    """Pooled over runs (runs, draws), with the jackknife error of leaving out one run at a time."""
    truth = two_modes().probabilities(EDGES)
    counts = np.stack([np.histogram(run, EDGES)[0] for run in runs])

    def of(histogram):
        smoothed = histogram + 0.5
        return float((truth * np.log(truth * smoothed.sum() / smoothed)).sum())

    pooled, n = counts.sum(axis=0), len(counts)
    without = np.array([of(pooled - one) for one in counts])
    return Divergence(of(pooled), math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


@pytest.fixture(scope="module")
def divergences():
    target = Target(two_modes(), start=lambda rng, n: rng.uniform(-8.0, 8.0, (n, 1)))
    found = {}
    print(f"\n{'':24s} {'KL':>8s} {'+-':>8s} {'right':>7s} {'sd':>7s} {'swaps':>6s} {'clipped':>8s}")
    for name, (sampler, steps) in SAMPLERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            settings = {"draws": steps // THIN, "thin": THIN, "warmup": 2000, "chains": 64, "seed": 1}
            run = sample(target, sampler, progress=False, **settings)
        x, report = run.theta[..., 0], run.report
        found[name] = divergence(x)
        rate = report["swap_accepts"][0] / report["swap_attempts"][0]
        print(
            f"{name:24s} {found[name].value:8.5f} {found[name].error:8.5f} {(x > 0).mean():7.4f} "
            f"{x[x > 0].std():7.4f} {rate:6.3f} {report['clipped_noise'][0]:8.1e}  {report['seconds']:.0f} s"
        )
    return found


@pytest.mark.parametrize(
    ("better", "worse"), [("f-reSGLD, constant", "reSGLD"), ("f-reSGLD, kernel ridge", "f-reSGLD, constant")]
)
def test_order(divergences, better, worse):
    """Each gap above three standard errors."""
    assert divergences[worse].standard_errors_above(divergences[better]) > 3.0


def test_true_variances_without_the_swap_penalty_are_rejected(divergences):
    """Without it not even the true variance of the gradients makes f-reSGLD better than its constant form."""
    assert not divergences["f-reSGLD, constant"].standard_errors_above(divergences["no swap penalty"]) > 3.0
