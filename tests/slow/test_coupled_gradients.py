"""A heat source found with the gradients of a 64 x 64 mesh that are mostly those of an 8 x 8 mesh.

Backward Euler with as many steps as cells along a side, so that one solve costs in proportion to the cells cubed.
The operators are computed beforehand: the sums cost what they cost here, and are counted at what solves would cost.
"""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.estimators import exact
from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.fidelities.hierarchy import measure_levels
from invsamp.ladder import GradientNoise
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Normal, Uniform
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.problems import heat_source
from invsamp.problems.heat_source import END_TIME
from invsamp.samplers import fast_resgld, mala, sgld
from invsamp.solvers.heat import GaussianBump, HeatEquation
from invsamp.swaps.rules import state_dependent_penalty
from invsamp.variances.models import running_average

pytestmark = pytest.mark.slow

CELLS = (8, 16, 32, 64)
COSTS = tuple(float(cells**3) for cells in CELLS)
SENSORS = ((0.35, 0.4), (0.7, 0.45), (0.45, 0.75))
TRUE_CENTER = (0.57, 0.56)
NOISE_SD = 0.05
#: A twentieth of the stability limit, which is twice the posterior's variance.
STEP = 0.1 * 0.0067**2
CHAINS = 64
SETTINGS = {"draws": 1000, "warmup": 300, "thin": 3, "chains": CHAINS, "seed": 5, "start": np.array(TRUE_CENTER)}


@pytest.fixture(scope="module")
def posterior():
    forward = {
        f"{cells}": HeatEquation(cells, cells, END_TIME, GaussianBump(0.06, height=50.0), "dirichlet").observe(SENSORS)
        for cells in CELLS
    }
    clean = forward["64"](np.array([TRUE_CENTER]))[0]
    # the same data for all seeds: how much wider uncorrected noise makes a posterior depends on them
    data = clean + NOISE_SD * np.array([0.6, -0.9, 0.3])
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


def test_sds_are_those_of_exact_gradients_at_a_tenth_of_the_cost(posterior, draw, within):
    exact, exact_error = sds(draw(posterior, sgld(STEP), **SETTINGS))
    pilot = draw(posterior, mala(fidelity="8"), **(SETTINGS | {"draws": 100}))
    measured = measure_levels(posterior, pilot.theta[:, ::10].reshape(-1, 2), noise=2.0, costs=COSTS)
    noise = GradientNoise(running_average(), "full")
    # what they save: the default a fifteenth, and more where the levels have been measured
    for probabilities, saved in ((None, 14.0), (measured.probabilities, 25.0)):
        estimator = coupled_sum(probabilities=probabilities)
        run = draw(posterior, sgld(STEP, estimator=estimator, gradient_noise=noise), **SETTINGS)
        found, error = sds(run)
        # standard errors of each below 1%; of their ratio far less, because both took the same random numbers
        assert max(error.max(), exact_error.max()) < 0.01
        assert within(found / exact - 1.0, 0.03)
        assert cost_per_gradient(run) < 1.0 / saved
        assert run.report["clipped_noise"] == [0.0]
    uncorrected, _ = sds(draw(posterior, sgld(STEP, estimator=coupled_sum()), **SETTINGS))
    assert not within(uncorrected / exact - 1.0, 0.03)


@pytest.fixture(scope="module")
def two_modes():
    """The two modes of `invsamp.problems.heat_source` on these meshes: the coarsest gives them equal weights."""
    bump = GaussianBump(0.06, height=50.0)
    forward = {
        f"{cells}": HeatEquation(cells, cells, END_TIME, bump, "dirichlet").observe(heat_source.SENSORS)
        for cells in CELLS
    }
    prior = Prior(x=Uniform(0.0, 1.0), y=truncated(Normal(0.6, 0.25), lower=0.0, upper=1.0))
    return Posterior(prior, forward, heat_source.TEMPERATURES, GaussianNoise(0.1))


def test_two_modes_at_a_tenth_of_the_cost(two_modes, draw, agrees, within):
    """Coupled gradients on the cold rung, an 8 x 8 mesh on the hot one, 64 x 64 for the swaps that need it."""
    modes = heat_source.quadrature(two_modes, points=200).modes
    assert modes[1].weight - heat_source.quadrature(two_modes, "8", points=200).modes[1].weight > 0.2
    step = 0.05 * float(np.mean([mode.sd for mode in modes])) ** 2
    upper = np.random.default_rng(0).random(CHAINS) < modes[1].weight
    settings = {
        "draws": 1500, "warmup": 300, "thin": 4, "chains": CHAINS, "seed": 2,
        "start": np.where(upper[:, None], modes[1].mean, modes[0].mean),
    }  # fmt: skip
    estimators = [coupled_sum(probabilities=(1.0, 0.45, 0.05, 0.01)), exact()]

    def run(swap):
        sampler = fast_resgld(
            (1.0, 6.0), (step, 6.0 * step), estimator=estimators, structure="full", fidelities=("64", "8"), swap=swap
        )
        return draw(two_modes, sampler, **settings)

    right = run(None)
    above = heat_source.is_upper(right.theta)
    assert agrees(above.mean(axis=1), modes[1].weight)
    ratios = [right.theta[side].std(axis=0) / mode.sd for side, mode in zip((~above, above), modes, strict=True)]
    # a step of 0.05 in whitened coordinates adds 1.3%
    assert within(np.mean(ratios) - 1.013, 0.03)
    solves = right.report["evaluations"]
    steps = CHAINS * (settings["warmup"] + settings["draws"] * settings["thin"])
    spent = sum(solves[f"{c}"] * cost for c, cost in zip(CELLS, COSTS, strict=True)) / COSTS[-1] / steps
    # swaps and the hot rung included
    assert spent < 0.08
    wrong = run(state_dependent_penalty(assume_unbiased=True))
    assert not agrees(heat_source.is_upper(wrong.theta).mean(axis=1), modes[1].weight)
