"""The 25 modes on a flower: reflected replica exchange against its baselines, over the floor of independent draws.

A sixteenth of the published length, 40 chains. Divergences KL(truth || draws) are means over the chains; pooled over
them they show the bias that single chains are too short for.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from invsamp.diagnostics.divergences import divergence_on_grid, iid_floor
from invsamp.problems import constrained_mixtures as problem
from invsamp.samplers import r2sgld, resgld, sgld
from invsamp.sampling import sample
from invsamp.swaps.rules import Stage
from invsamp.variances.models import known

pytestmark = pytest.mark.slow

CHAINS, DRAWS = 40, 3000
WRONG = {"projected": 1500, "swaps always": 1000}  # half and a third of the draws show them


@dataclass(frozen=True)
class SwapAlways:
    """Wrong: a fixed threshold in the place of the Metropolis ratio, here one that every attempt passes."""

    factor: ClassVar[float] = 1.0
    needs_common_energy: ClassVar[bool] = False
    equalize: ClassVar[bool] = False
    discrepancy: ClassVar[None] = None

    def stages(self) -> tuple[Stage, ...]:
        """One stage in which no energy has a weight."""
        return (Stage(),)

    def resolve(self, cold_variance: float, hot_variance: float) -> SwapAlways:
        """Nothing to fill in."""
        return self


NOISE = problem.noise()
TEMPERATURES, STEPS = (1.0, 10.0), (5e-4, 1.5e-3)
PARTS = {"estimator": NOISE, "energy_variance": known(), "swap_fraction": 0.25}
SAMPLERS = {
    "r2SGLD": r2sgld(TEMPERATURES, STEPS, **PARTS),
    "reSGLD": resgld(TEMPERATURES, STEPS, **PARTS, boundary="ignore"),
    "R-SGLD": sgld(5e-4, estimator=NOISE),
    "projected": resgld(TEMPERATURES, STEPS, **PARTS, boundary="project"),
    "swaps always": r2sgld(TEMPERATURES, STEPS, **PARTS, swap=SwapAlways()),
}


@dataclass(frozen=True)
class Divergence:
    """Mean over the chains, and that of all chains' draws together; over their floors."""

    mean: float
    pooled: float


@pytest.fixture(scope="module")
def divergences():
    region = problem.domain("flower")
    truth, edges = problem.cell_probabilities(region)
    found = {}
    print(f"\nover the floors: {'mean':>8s} {'pooled':>8s} {'inside':>7s}")
    for name, sampler in SAMPLERS.items():
        draws = WRONG.get(name, DRAWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            # as many evaluations for a single chain
            settings = {"draws": draws, "thin": 10 if len(sampler.rungs) > 1 else 25, "warmup": 0, "chains": CHAINS}
            run = sample(problem.target("flower"), sampler, seed=1, progress=False, **settings)
        theta = run.theta[:, draws // 5 :]
        inside = region.contains(theta.reshape(-1, 2)).reshape(theta.shape[:2])
        kept = theta.shape[1]
        floor, pooled_floor = (iid_floor(truth, n, 20, rng=0).mean() for n in (kept, CHAINS * kept))
        by_chain = np.array([divergence_on_grid(one[at], truth, edges) for one, at in zip(theta, inside, strict=True)])
        by_chain /= floor
        pooled = float(divergence_on_grid(theta[inside], truth, edges)) / pooled_floor
        row = Divergence(by_chain.mean(), pooled)
        found[name] = row
        print(f"{name:16s} {row.mean:8.3f} {row.pooled:8.2f} {inside.mean():7.3f}  {run.report['seconds']:.0f} s")
        if name in ("r2SGLD", "R-SGLD"):
            assert inside.all()
            assert sum(run.report["reflection_fallbacks"]) < 1e-4 * draws * 10 * CHAINS
    return found


#: Times the floor: between r2SGLD, 1.23 at this length, and the nearest baseline, 2.98. At the published one it is 1.4.
BAR = 1.75


def test_bars(divergences, within):
    """A bar that no baseline passes, and how far they are from it."""
    means = {name: row.mean for name, row in divergences.items()}
    assert within(means["r2SGLD"], BAR)
    for baseline, share in (("reSGLD", 0.6), ("R-SGLD", 0.4)):
        assert within(means["r2SGLD"], share * means[baseline])
        assert not within(means[baseline], BAR)


def test_pooled_chains_show_no_bias(divergences, within):
    """Within twice the floor of 96,000 independent draws: what is left is their autocorrelation and the step size."""
    assert within(divergences["r2SGLD"].pooled, 2.0)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_samplers_are_rejected(divergences, within, wrong):
    assert not within(divergences[wrong].pooled, 2.0)
