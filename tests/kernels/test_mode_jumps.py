"""Jumps between modes: exact for any known modes, within bounds too, and never without modes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import invsamp as iv
from invsamp.domains import HalfSpaces
from invsamp.kernels import Langevin
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Rung, Sampler
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target

CENTERS, SDS = np.array([[-4.0, 0.0], [4.0, 0.0]]), np.array([1.0, 0.3])
#: About where the modes are, and about as wide; correlated, as they are not.
KNOWN = np.array([[-3.7, -0.2], [4.1, 0.1]])
FACTORS = np.array([[[1.2, 0.0], [0.3, 0.8]], [[0.4, 0.0], [-0.1, 0.3]]])


def mixture(x):
    """.4 and .6 of two round modes."""
    apart = x[:, None, :] - CENTERS
    logs = np.log([0.4, 0.6] / SDS**2) - 0.5 * (apart**2).sum(axis=2) / SDS**2
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    slope = ((shares / total / SDS**2)[:, :, None] * apart).sum(axis=1)
    return -(top + np.log(total))[:, 0], slope


def run(draw, domain=None, factors=FACTORS, **settings):
    """Chains begin in either mode; MALA does not pass between them."""
    kernel = ModeJumps(Langevin(adjusted=True), KNOWN, factors)
    potential = FunctionPotential(mixture, 2)
    target = Target(potential) if domain is None else Target(potential, domain, np.array([[-4.0, 0.0]]))
    start = {"theta": np.repeat(CENTERS, 128, axis=0)}
    return draw(target, Sampler((Rung(kernel=kernel, step_size=0.1),)), draws=400, warmup=20, start=start, **settings)


def estimates(found):
    """Of each chain: how much is on the right, and the first and second moment of y."""
    x, y = found.theta[..., 0], found.theta[..., 1]
    return np.column_stack([(x > 0.0).mean(axis=1), y.mean(axis=1), (y**2).mean(axis=1)])


TRUTH = (0.6, 0.0, 0.4 + 0.6 * 0.09)


class TestTarget:
    def test_is_exact_whatever_is_known(self, draw, agrees):
        found = run(draw)
        assert 0.1 < found.data.sample_stats["jumped"].values.mean() < 0.9
        assert agrees(estimates(found), TRUTH)

    def test_jumps_whose_volume_does_not_count_are_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(ModeJumps, "_volumes", np.zeros(2))
        assert not agrees(estimates(run(draw)), TRUTH)

    def test_jumps_that_are_never_refused_are_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr("invsamp.kernels.mode_jumps.decided", lambda accept, there, here: there)
        assert not agrees(estimates(run(draw)), TRUTH)

    def test_within_bounds(self, draw, agrees):
        """Of the left mode a half is cut off."""
        found = run(draw, HalfSpaces([[-1.0, 0.0]], [4.0]))
        left, right = 0.4 * 0.5, 0.6 * norm.cdf(8.0 / 0.3)
        weights = np.array([left, right]) / (left + right)
        assert found.theta[..., 0].min() >= -4.0
        assert agrees(estimates(found), (weights[1], 0.0, weights @ [1.0, 0.09]))


def test_of_gaussians_that_are_known_every_jump_passes(draw):
    kernel = ModeJumps(Langevin(adjusted=True), CENTERS, SDS[:, None, None] * np.eye(2))
    found = draw(
        Target(FunctionPotential(mixture, 2)), Sampler((Rung(kernel=kernel, step_size=0.1),)), draws=100, warmup=20
    )
    jumped = found.data.sample_stats["jumped"].values
    # with even proposals from the mode of .6, two in three
    assert 0.7 < jumped[:, 50:].mean() < 0.9


class TestArguments:
    def test_say_what_is_wrong(self):
        inner = Langevin(adjusted=True)
        with pytest.raises(ValueError, match="kernel must be adjusted"):
            ModeJumps(Langevin(), KNOWN, FACTORS)
        with pytest.raises(ValueError, match="centers must be of at least two modes, got 1"):
            ModeJumps(inner, KNOWN[:1], FACTORS[:1])
        with pytest.raises(ValueError, match="factors must"):
            ModeJumps(inner, KNOWN, FACTORS[:1])
        with pytest.raises(ValueError, match="positive diagonal"):
            ModeJumps(inner, KNOWN, -FACTORS)

    def test_of_another_number_of_unknowns(self, draw):
        kernel = ModeJumps(Langevin(adjusted=True), KNOWN, FACTORS)
        target = iv.Target(FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 3))
        with pytest.raises(ValueError, match="centers must have 3 columns, one for each unknown, got 2"):
            draw(target, Sampler((Rung(kernel=kernel, step_size=0.1),)), draws=5, warmup=0)

    def test_compare_and_print(self):
        one, other = (ModeJumps(Langevin(adjusted=True), KNOWN, FACTORS) for _ in range(2))
        assert one == other and hash(one) == hash(other)
        assert one != ModeJumps(Langevin(adjusted=True), KNOWN, 2.0 * FACTORS)
        assert str(one).endswith("with jumps between 2 modes")
