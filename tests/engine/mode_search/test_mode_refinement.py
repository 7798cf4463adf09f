"""Modes are optimized again when the target has changed."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.domains import Unbounded
from invsamp.engine.mode_search.mode_refinement import jumping, refined_modes
from invsamp.evaluate.requests import Estimate, answered
from invsamp.kernels import Microcanonical
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Rung, Sampler

CENTERS = np.array([[1.0, 0.0], [-1.0, 0.5]])
JUMPS = ModeJumps(Microcanonical(), CENTERS + 0.4, np.stack([0.2 * np.eye(2)] * 2))


def jumper(kernel=JUMPS):
    return Sampler((Rung(), Rung(fidelity=1, kernel=kernel)))


def wells(depths=(0.0, 0.5)):
    """Two wells about the centers, of sds .1 and .2."""
    stiff = np.array([100.0, 25.0])

    def energy(at):
        squares = np.square(at[:, None] - CENTERS).sum(axis=2)
        each = 0.5 * stiff * squares + depths
        nearest = each.argmin(axis=1)
        slope = stiff[nearest, None] * (at - CENTERS[nearest])
        return Estimate(each.min(axis=1), slope)

    return lambda requests: tuple(energy(request.position) for request in requests)


def test_they_are_those_of_the_target():
    centers, factors = answered(refined_modes(jumper(), "coarse", Unbounded()), wells())
    order = np.argsort(-centers[:, 0])
    np.testing.assert_allclose(centers[order], CENTERS, atol=0.02)
    sds = factors[order, 0, 0]
    np.testing.assert_allclose(sds, [0.1, 0.2], rtol=0.01)
    changed = jumping(jumper(), (centers, factors))
    assert changed.rungs[0] == jumper().rungs[0]
    np.testing.assert_array_equal(changed.rungs[1].kernel.centers, centers)


@pytest.mark.parametrize("depths", [(0.0, 40.0), (40.0, 0.0)])
def test_where_one_is_left_nothing_changes(depths):
    assert answered(refined_modes(jumper(), "coarse", Unbounded()), wells(depths)) is None
    assert jumping(jumper(), None) == jumper()


def test_kernels_that_do_not_jump_request_nothing():
    plain = Sampler((Rung(), Rung(fidelity=1, kernel=iv.kernels.Langevin(adjusted=True))))

    def refuse(requests):
        raise AssertionError(requests)

    assert answered(refined_modes(plain, "coarse", Unbounded()), refuse) is None
