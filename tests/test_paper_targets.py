"""Samplers of the papers against their operators in one dimension: no limit of small steps, no Monte Carlo in truth.

Two bumps that overlap, so that chains forget quickly. What a row of the table in docs/validation/papers is
compared with if not here: `DISTRIBUTIONS` in `test_papers.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
from operator_oracle import Level, TwoRungs, grid, on_grid, transition

import invsamp as iv
from invsamp.engine.exchange.replica_pair import Pair
from invsamp.evaluate.requests import Estimate
from invsamp.problems.mixtures import GaussianMixture

BUMPS = GaussianMixture((0.4, 0.6), (-1.2, 1.0), (0.6, 0.4))
POINTS, EDGES = grid(-7.0, 7.0, 170), np.array([-1.3, -0.4, 0.7, 1.1])
FINE = grid(-7.0, 7.0, 700)  # for drifts that jump
LOWER, UPPER = -1.5, 1.2
INSIDE = grid(LOWER, UPPER, 90)
STEP, PAIR = 0.1, (1.0, 4.0)
COLD, HOT = Level(BUMPS, 1.0, STEP), Level(BUMPS, 4.0, STEP)
NOISE = (1.5, 2.5), (2.0, 3.0)  # of energies and gradients
NOISY = [replace(level, energy_sd=e, gradient_sd=g) for level, (e, g) in zip((COLD, HOT), NOISE, strict=True)]
LENGTH = {"draws": 400, "thin": 2, "warmup": 100}


def shares(points, target):
    """Probabilities (5,) of the intervals between the edges."""
    ends = points + 0.5 * (points[1] - points[0])
    return np.diff(np.interp(EDGES, ends, np.cumsum(target), left=0.0, right=1.0), prepend=0.0, append=1.0)


def bounded(level):
    """Transition matrix of a reflected step: its Gaussian, folded into the interval."""
    _, gradient = BUMPS.energy_and_gradient(INSIDE[:, None])
    mean = (INSIDE - level.step_size * gradient[:, 0])[:, None]
    width = UPPER - LOWER
    images = [INSIDE + 2.0 * k * width for k in (-1, 0, 1)] + [2.0 * (LOWER + k * width) - INSIDE for k in (0, 1)]
    kernel = sum(np.exp(-0.25 * (y - mean) ** 2 / (level.step_size * level.temperature)) for y in images)
    return kernel / kernel.sum(axis=1, keepdims=True)


class ReflectingDomain(TwoRungs):
    """Both rungs within the bounds."""

    @cached_property
    def kernels(self):
        return bounded(self.cold), bounded(self.hot)


def periodic(matrices):
    """Distribution, averaged over the steps of a cycle, of a chain that repeats it forever."""
    target = np.full(len(matrices[0]), 1.0 / len(matrices[0]))
    for _ in range(max(10, 1000 // len(matrices))):
        found = 0.0
        for matrix in matrices:
            target = target @ matrix
            found = found + target / len(matrices)
    return found


def cycle(make, step, length=90):
    """Matrices of the cosine's steps."""
    steps = 0.5 * step * (1.0 + np.cos(np.pi * np.arange(length) / length))
    return [make(replace(COLD, step_size=max(h, 0.003))) for h in steps]  # below, the grid is too coarse


def noisy_ladder(preset, **more):
    estimators = [iv.estimators.noisy(e, g) for e, g in NOISE]
    settings = {"estimator": estimators, "energy_variance": iv.variances.known(), "swap_fraction": 1.0}
    return preset(PAIR, STEP, fidelities=(0, 0), **settings, **more)


def marginal(rule, rungs=(COLD, HOT), kind=TwoRungs, points=POINTS):
    return points, kind(*rungs, rule, points=points).marginal


def without_variance(rule):
    return marginal(rule, [replace(level, energy_variance=0.0) for level in NOISY])


def plain(level):
    return transition(level, POINTS)


def contour(target):
    """Matrix of SGLD's step under a target that is a function of the energy."""
    energy, gradient = BUMPS.energy_and_gradient(FINE[:, None])
    mean = FINE - STEP * target.gradient(Estimate(energy, gradient), target.init())[:, 0]
    kernel = np.exp(-0.25 * (FINE - mean[:, None]) ** 2 / STEP)
    return kernel / kernel.sum(axis=1, keepdims=True)


#: Of AWSGLD, with masses that rise as they do, and are known.
RISING = iv.samplers.awsgld(STEP, np.arange(1.0, 4.0, 0.5)).rungs[0].target.frozen(np.log(np.linspace(0.1, 1.0, 7)))
TRUNCATED = INSIDE, on_grid(BUMPS, INSIDE)
#: Row -> sampler, whether in the interval, its distribution, another distribution.
CASES = {
    "reLD: reLD, unadjusted": lambda: (
        iv.samplers.parallel_tempering(PAIR, STEP, adjusted=False, swap_fraction=1.0),
        False,
        marginal(iv.swaps.metropolis()),
        (POINTS, on_grid(BUMPS, POINTS)),
    ),
    "reLD: reSGLD": lambda: (
        noisy_ladder(iv.resgld),
        False,
        marginal(iv.swaps.noise_penalty(), NOISY),
        without_variance(iv.swaps.metropolis()),
    ),
    "reLD: naive reSGLD": lambda: (
        noisy_ladder(iv.resgld, swap=iv.swaps.metropolis()),
        False,
        marginal(iv.swaps.metropolis(), NOISY),
        marginal(iv.swaps.noise_penalty(), NOISY),
    ),
    "VR: SGLD": lambda: (
        iv.samplers.sgld(STEP, estimator=iv.estimators.noisy(0.0, 3.0)),
        False,
        (POINTS, periodic([plain(replace(COLD, gradient_sd=3.0))])),
        (POINTS, periodic([plain(COLD)])),
    ),
    "VR: cycSGLD": lambda: (
        iv.samplers.cyclic_sgld(0.2, cycles=10),
        False,
        (POINTS, periodic(cycle(plain, 0.2))),
        (POINTS, periodic([plain(replace(COLD, step_size=0.2))])),
    ),
    "thesis: AWSGLD": lambda: (
        iv.ladder.Sampler((iv.ladder.Rung(RISING, step_size=STEP),)),
        False,
        (FINE, periodic([contour(RISING)])),
        (POINTS, periodic([plain(COLD)])),
    ),
    "f-reSGLD: m-reSGLD": lambda: (
        noisy_ladder(iv.samplers.multi_variance_resgld, weight=0.5),
        False,
        marginal(iv.swaps.multi_variance(0.5), NOISY),
        marginal(iv.swaps.multi_variance(0.5)),
    ),
    "r2SGLD: R-SGLD": lambda: (iv.samplers.sgld(STEP), True, (INSIDE, periodic([bounded(COLD)])), TRUNCATED),
    "r2SGLD: R-cycSGLD": lambda: (
        iv.samplers.cyclic_sgld(0.25, cycles=10),
        True,
        (INSIDE, periodic(cycle(bounded, 0.25))),
        (INSIDE, periodic([bounded(replace(COLD, step_size=0.25))])),
    ),
    "r2SGLD: reSGLD without bounds": lambda: (
        iv.resgld(PAIR, STEP, boundary="ignore", swap_fraction=1.0),
        True,
        marginal(iv.swaps.metropolis()),
        marginal(iv.swaps.metropolis(), kind=ReflectingDomain, points=INSIDE),
    ),
    "r2SGLD: r2SGLD": lambda: (
        iv.samplers.r2sgld(PAIR, STEP, swap_fraction=1.0),
        True,
        marginal(iv.swaps.metropolis(), kind=ReflectingDomain, points=INSIDE),
        TRUNCATED,
    ),
    "r2SGLD: r2SGHMC": lambda: (
        iv.samplers.r2sgld(PAIR, 0.004, friction=0.2, swap_fraction=1.0),
        True,
        TRUNCATED,
        (POINTS, on_grid(BUMPS, POINTS)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_distribution_is_that_of_the_operator(name, draw, agrees):
    sampler, bounded, right, wrong = CASES[name]()
    target = iv.Target(BUMPS, domain=iv.Box([LOWER], [UPPER]) if bounded else None)
    start = np.random.default_rng(0).uniform(LOWER, UPPER, (256, 1))
    found = of_draws(draw(target, sampler, start=start, **LENGTH))
    assert agrees(found, shares(*right))
    assert not agrees(found, shares(*wrong))


@pytest.mark.parametrize(
    "scheme", [iv.swaps.adjacent(), iv.swaps.sweep(), iv.swaps.seo(), iv.swaps.deo(), iv.swaps.all_pairs()], ids=str
)
def test_every_rung_samples_its_target_for_every_scheme(scheme, draw, agrees, monkeypatch):
    """Adjusted, on three rungs with three swap attempts after each step; with too many accepted, all become alike."""
    temperatures = (1.0, 2.5, 6.0)
    sampler = iv.samplers.parallel_tempering(temperatures, 0.3, scheme=scheme, preconditioner=None)
    wide = grid(-14.0, 14.0, 600)
    right = np.concatenate([shares(wide, on_grid(BUMPS, wide, t)) for t in temperatures])
    length = LENGTH | {"draws": 100}
    found = draw(iv.Target(BUMPS), sampler, **length)
    assert agrees(np.concatenate([of_draws(found, k) for k in range(3)], axis=1), right)
    fair = Pair.log_uniform
    monkeypatch.setattr(Pair, "log_uniform", lambda pair: fair(pair) - 1.0)
    found = draw(iv.Target(BUMPS), sampler, **length)
    assert not agrees(np.concatenate([of_draws(found, k) for k in range(3)], axis=1), right)


def test_a_cycle_with_momentum(draw, agrees):
    """Of N(0, 1): the second moment by its recurrence through a cycle, on average; not that of the longest step."""
    step, friction, length = 1.2, 0.3, 70

    def moment(steps):
        joint, found = np.eye(2), 0.0
        for k in range(20 * len(steps)):
            root = np.sqrt(steps[k % len(steps)])
            # r' = (1 - a) r - sqrt(h) x + sqrt(2 a) xi, x' = x + sqrt(h) r'
            kick = np.array([[1.0 - root**2, (1.0 - friction) * root], [-root, 1.0 - friction]])
            noise = np.sqrt(2.0 * friction) * np.array([root, 1.0])
            joint = kick @ joint @ kick.T + np.outer(noise, noise)
            found += joint[0, 0] * (k >= 19 * len(steps)) / len(steps)
        return found

    cosine = 0.5 * step * (1.0 + np.cos(np.pi * np.arange(length) / length))
    target = iv.Target(GaussianMixture((1.0,), (0.0,), (1.0,)))
    run = draw(target, iv.samplers.cyclic_sgld(step, cycles=30, friction=friction), draws=2030, warmup=70)
    second = (run.theta[..., 0] ** 2).mean(axis=1)
    assert agrees(second, moment(cosine))
    assert not agrees(second, moment(np.array([step])))


def of_draws(run, rung=0):
    """Shares (chains, 5) of the intervals."""
    within = np.searchsorted(EDGES, run.rung_theta(rung)[..., 0])
    return np.stack([(within == k).mean(axis=1) for k in range(len(EDGES) + 1)], axis=1)
