"""A heat source found with the gradients of a 64 x 64 mesh that are mostly those of an 8 x 8 mesh.

Backward Euler with as many steps as cells along a side, so that one solve costs in proportion to the cells cubed.
The operators are computed beforehand: the sums cost what they cost here, and are counted at what solves would cost.
"""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.coupled_sum import coupled_sum
from invsamp.distributions import Uniform
from invsamp.hierarchy import measure_levels
from invsamp.ladder import GradientNoise
from invsamp.noise import GaussianNoise
from invsamp.posterior import Posterior
from invsamp.presets import mala, sgld
from invsamp.prior import Prior
from invsamp.problems.heat_source import END_TIME
from invsamp.solvers.heat import GaussianBump, HeatEquation
from invsamp.variance import running_average

pytestmark = pytest.mark.slow

CELLS = (8, 16, 32, 64)
COSTS = tuple(float(cells**3) for cells in CELLS)
SENSORS = ((0.35, 0.4), (0.7, 0.45), (0.45, 0.75))
TRUE_CENTRE = (0.57, 0.56)
NOISE_SD = 0.05
#: A twentieth of the stability limit, which is twice the posterior's variance.
STEP = 0.1 * 0.0067**2
CHAINS = 64
SETTINGS = {"draws": 1000, "warmup": 300, "thin": 3, "chains": CHAINS, "seed": 5, "start": np.array(TRUE_CENTRE)}


@pytest.fixture(scope="module")
def posterior():
    forward = {
        f"{cells}": HeatEquation(cells, cells, END_TIME, GaussianBump(0.06, height=50.0), "dirichlet").observe(SENSORS)
        for cells in CELLS
    }
    clean = forward["64"](np.array([TRUE_CENTRE]))[0]
    data = clean + NOISE_SD * np.random.default_rng(3).standard_normal(len(clean))
    return Posterior(Prior(x=Uniform(0.0, 1.0), y=Uniform(0.0, 1.0)), forward, data, GaussianNoise(NOISE_SD))


def sds(run):
    """Of both parameters, and their relative standard errors from the chains."""
    away = run.theta - run.theta.mean(axis=(0, 1))
    squares = (away**2).mean(axis=1)
    mean = squares.mean(axis=0)
    return np.sqrt(mean), 0.5 * squares.std(axis=0, ddof=1) / np.sqrt(CHAINS) / mean


def cost_per_gradient(run):
    """In solves of the finest level; the pilot in warm-up included."""
    solves = sum(run.report["evaluations"][f"{c}"] * cost for c, cost in zip(CELLS, COSTS, strict=True))
    return solves / COSTS[-1] / (CHAINS * (SETTINGS["warmup"] + SETTINGS["draws"] * SETTINGS["thin"]))


def test_sds_are_those_of_exact_gradients_at_a_tenth_of_the_cost(posterior, draw):
    exact, exact_error = sds(draw(posterior, sgld(STEP), **SETTINGS))
    pilot = draw(posterior, mala(fidelity="8"), **(SETTINGS | {"draws": 100}))
    measured = measure_levels(posterior, pilot.theta[:, ::10].reshape(-1, 2), noise=2.0, costs=COSTS)
    noise = GradientNoise(running_average(), "full")
    # what they save: the default a fifteenth, and more where the levels have been measured
    for probabilities, saved in ((None, 14.0), (measured.probabilities, 25.0)):
        estimator = coupled_sum(probabilities=probabilities)
        run = draw(posterior, sgld(STEP, estimator=estimator, gradient_noise=noise), **SETTINGS)
        found, error = sds(run)
        # standard errors small enough for the bound to mean something
        assert np.hypot(error, exact_error).max() < 0.011
        assert np.abs(found / exact - 1.0).max() < 0.03
        assert cost_per_gradient(run) < 1.0 / saved
        assert run.report["clipped_noise"] == [0.0]
        uncorrected, _ = sds(draw(posterior, sgld(STEP, estimator=estimator), **SETTINGS))
        assert (uncorrected / exact - 1.0).max() > 0.05
