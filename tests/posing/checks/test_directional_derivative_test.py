"""The check at the start of a run: silent for right gradients of difficult energies; wrong ones are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from invsamp.posing.checks.directional_derivative_test import LARGEST_MISS, Probe, balanced, blame

SEEDS = range(20)
D = 5
Pair = tuple[np.ndarray, np.ndarray]


@dataclass
class Energy:
    """A potential from a function (n, d) -> energies and gradients; ``spread`` is that of the start."""

    function: Callable[[np.ndarray], Pair]
    spread: float = 1.0
    dimension: int = D

    def energy_and_gradient(self, x: np.ndarray) -> Pair:
        with np.errstate(all="ignore"):
            return self.function(x)

    def energy(self, x: np.ndarray) -> np.ndarray:
        return self.energy_and_gradient(x)[0]


def gaussian(scales, offset=0.0):
    return lambda x: (offset + 0.5 * ((x / scales) ** 2).sum(axis=1), x / scales**2)


def rosenbrock(x):
    gap = x[:, 1:] - x[:, :-1] ** 2
    gradient = -2.0 * (1.0 - x)
    gradient[:, -1] = 0.0
    gradient[:, 1:] += 200.0 * gap
    gradient[:, :-1] -= 400.0 * gap * x[:, :-1]
    return (100.0 * gap**2).sum(axis=1) + ((1.0 - x[:, :-1]) ** 2).sum(axis=1), gradient


def funnel(x):
    v, rest = x[:, :1], x[:, 1:]
    square = (rest**2).sum(axis=1, keepdims=True)
    energy = v**2 / 18 + 0.5 * np.exp(-v) * square + 0.5 * (D - 1) * v
    slope = v / 9 - 0.5 * np.exp(-v) * square + 0.5 * (D - 1)
    return energy[:, 0], np.concatenate([slope, np.exp(-v) * rest], axis=1)


def student(x):
    return 2.0 * np.log1p(x**2 / 3).sum(axis=1), 4.0 * x / (3 + x**2)


def laplace(x):
    return np.abs(x).sum(axis=1), np.where(x >= 0.0, 1.0, -1.0)


def hinge(x):
    gap = np.maximum(0.0, 1.0 - x)
    return 50.0 * gap.sum(axis=1) + 0.5 * (x**2).sum(axis=1), -50.0 * (gap > 0.0) + x


def waves(x):
    return 3.0 * np.sin(40.0 * x).sum(axis=1) + 0.5 * (x**2).sum(axis=1), 120.0 * np.cos(40.0 * x) + x


def barrier(x):
    return -np.log(2.0 - x**2).sum(axis=1), 2.0 * x / (2.0 - x**2)


def half_failing(x):
    energy, gradient = gaussian(1.0)(x)
    failed = x.sum(axis=1) > 0.3
    return np.where(failed, np.nan, energy), np.where(failed[:, None], np.nan, gradient)


def single_precision(x):
    energy, gradient = rosenbrock(x)
    return energy.astype(np.float32).astype(float), gradient.astype(np.float32).astype(float)


def forward_in_single_precision(offset=0.0, factor=1.0):
    """Misfit of a model in single precision, as that of most networks, and a prior in double precision."""
    matrix, offset = np.random.default_rng(3).standard_normal((7, D)).astype(np.float32), np.float32(offset)

    def function(x):
        angles = x.astype(np.float32) @ matrix.T
        residual = ((np.sin(angles) + offset).astype(float) - offset - 0.3) / 0.01
        energy = 0.5 * (residual**2).sum(axis=1) + 0.5 * (x**2).sum(axis=1)
        return energy, factor * (residual / 0.01 * np.cos(angles)) @ matrix + x

    return function


def rough(x):
    energy, gradient = rosenbrock(x)
    return energy * (1.0 + 1e-7 * np.sin(1e13 * energy)), gradient


def steps(x):
    energy, gradient = gaussian(1.0)(x)
    return energy + 0.3 * np.floor(3.0 * x[:, 0]), gradient


NOISE = np.random.default_rng(5)


def noisy_energies(x):
    energy, gradient = gaussian(0.1)(x)
    return energy + NOISE.standard_normal(len(x)), gradient


def noisy_gradients(x):
    energy, gradient = gaussian(0.1)(x)
    return energy, gradient + 5.0 * NOISE.standard_normal(x.shape)


SMOOTH = {
    "gaussian": Energy(gaussian(1.0)),
    "narrow": Energy(gaussian(1e-6)),
    "narrow, far from a start of its own size": Energy(gaussian(1e-6), spread=1e-6),
    "wide": Energy(gaussian(1e6), spread=1e6),
    "wide, seen from close": Energy(gaussian(1e6)),
    "stiff": Energy(gaussian(np.logspace(-6, 0, D))),
    "far away": Energy(gaussian(1e-5, offset=1e10)),
    "rosenbrock": Energy(rosenbrock, spread=2.0),
    "funnel": Energy(funnel, spread=2.0),
    "student": Energy(student, spread=10.0),
    "waves": Energy(waves),
    "many parameters": Energy(gaussian(np.linspace(0.1, 3.0, 1000)), dimension=1000),
}
NASTY = {
    "an offset that leaves few digits": Energy(gaussian(1.0, offset=1e10)),
    "laplace": Energy(laplace),
    "hinge": Energy(hinge),
    "barrier": Energy(barrier),
    "failures nearby": Energy(half_failing),
    "single precision": Energy(single_precision),
    "forward model in single precision": Energy(forward_in_single_precision()),
    "forward model in single precision, in kelvin": Energy(forward_in_single_precision(offset=300.0)),
    "rough": Energy(rough),
    "steps": Energy(steps),
    "noisy energies": Energy(noisy_energies),
    "noisy gradients": Energy(noisy_gradients),
    "flat": Energy(lambda x: (np.zeros(len(x)), np.zeros_like(x))),
    "linear": Energy(lambda x: (x @ np.arange(D), np.tile(np.arange(D, dtype=float), (len(x), 1)))),
}
WRONG = {
    "too long by half": lambda g: 1.5 * g,
    "too long by a tenth": lambda g: 1.1 * g,
    "of wrong sign": lambda g: -g,
    "missing in one coordinate": lambda g: g * (np.arange(g.shape[1]) != 1),
}


def inside(points):
    return np.full(len(points), True)


def mistakes(energy, seed, at=None):
    """Mistakes found at two starts, as `invsamp.engine.rungs.gradient_check` asks."""
    rng, found = np.random.default_rng(seed), []
    for k in range(2):
        position = energy.spread * rng.standard_normal(energy.dimension) if at is None else at
        probe = Probe(energy, position, inside)
        direction = energy.spread * rng.standard_normal(energy.dimension)
        if probe.usable:
            found.append(probe.compare(balanced(probe.gradient, direction) if k else direction).mistake)
            assert probe.solves < 40
    return [mistake for mistake in found if mistake is not None]


@pytest.mark.parametrize("name", [*SMOOTH, *NASTY])
def test_honest_gradients_pass(name) -> None:
    assert not [mistake for seed in SEEDS for mistake in mistakes((SMOOTH | NASTY)[name], seed)]


@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.parametrize("name", SMOOTH)
def test_wrong_gradients_are_reported(name, mistake) -> None:
    right = SMOOTH[name]

    def wrong(x):
        energy, gradient = right.function(x)
        return energy, WRONG[mistake](gradient)

    one_of_many = name == "many parameters" and mistake == "missing in one coordinate"
    found = [bool(mistakes(Energy(wrong, right.spread, right.dimension), seed)) for seed in SEEDS]
    assert sum(found) >= (len(found) - 1 if not one_of_many else len(found) // 2), found


def test_a_wrong_jacobian_of_a_model_in_single_precision_is_reported() -> None:
    found = [bool(mistakes(Energy(forward_in_single_precision(factor=1.5)), seed)) for seed in SEEDS]
    # if rounding hides the derivative, nothing is reported: at one seed of a hundred
    assert sum(found) >= len(found) - 2, found


@pytest.mark.parametrize("function", [laplace, hinge], ids=["laplace", "hinge"])
def test_a_kink_at_the_very_point_is_no_mistake(function) -> None:
    for seed in SEEDS:
        assert not mistakes(Energy(function), seed, at=np.full(D, 0.0 if function is laplace else 1.0))
    # control: no slope of either side
    outside = Energy(lambda x: (laplace(x)[0], 3.0 + 0.0 * x), dimension=1)
    assert all(mistakes(outside, seed, at=np.zeros(1)) for seed in SEEDS)


def test_the_least_reported_mistake_is_half_a_percent() -> None:
    def off(by):
        return Energy(lambda x: (gaussian(1.0)(x)[0], (1.0 + by) * x), dimension=1)

    for seed in SEEDS:
        assert not mistakes(off(0.9 * LARGEST_MISS), seed)
        assert mistakes(off(1.2 * LARGEST_MISS), seed)


def test_the_usual_case_takes_one_gradient_and_four_energies() -> None:
    probe = Probe(Energy(rosenbrock), np.ones(D) * 0.3, inside)
    assert probe.compare(np.ones(D)).mistake is None
    assert probe.solves == 5


def test_points_outside_the_domain_are_not_solved() -> None:
    asked = []

    def seen(x):
        asked.append(x.copy())
        return gaussian(1.0)(x)

    probe = Probe(Energy(seen), np.full(D, 1e-4), lambda points: (points > 0.0).all(axis=1))
    assert probe.compare(np.ones(D)).mistake is None
    assert all((points > 0.0).all() for points in asked)


def test_the_coordinate_is_found() -> None:
    def wrong(x):
        energy, gradient = rosenbrock(x)
        gradient[:, 3] *= 1.5
        return energy, gradient

    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        probe = Probe(Energy(wrong), rng.standard_normal(D), inside)
        direction = balanced(probe.gradient, rng.standard_normal(D))
        mistake = probe.compare(direction).mistake
        assert mistake is not None
        column, own = blame(probe, direction, mistake.length)
        assert column == 3 and own.claimed == pytest.approx(1.5 * own.measured, rel=1e-3)
        assert own.error == pytest.approx(1 / 3, rel=1e-3)


def test_approximate_derivatives_are_held_to_what_they_admit() -> None:
    off = Energy(lambda x: (rosenbrock(x)[0], 1.05 * rosenbrock(x)[1]))
    probe = Probe(off, np.linspace(-1.0, 1.0, D), inside)
    direction = np.ones(D)
    assert probe.compare(direction).mistake is not None
    assert probe.compare(direction, admitted=1e-3).mistake is not None
    assert probe.compare(direction, admitted=0.05).mistake is None
