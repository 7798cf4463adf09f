"""The benchmark that calibrates the complete automatic choice: its posteriors, and its controls."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from automatic_calibration import CASES, CONTROLS, SETTINGS, Unscaled

from invsamp.transport import TransportMap
from invsamp.transport.triangular import identity


@pytest.mark.parametrize("name", CASES)
def test_one_replicate_of_each(name):
    plan = SETTINGS | {"replicates": 1, "ranks": 7, "draws": 40, "seed": 1, "progress": False}
    found = iv.calibrate(CASES[name](), **plan)
    assert not found.failed
    assert ((found.ranks >= 0) & (found.ranks <= 7)).all()


def test_the_maps_control_has_the_gradient_of_a_wrong_density():
    log_scale = np.zeros((3, 2, 2))
    log_scale[0, 0, 1] = 0.7
    core = replace(identity(2), level=np.array([0, 1]), log_scale=log_scale, right=np.array([0.3, 0.2]))
    right, z = TransportMap("triangular", np.zeros(2), np.ones(2), core), np.array([[1.0, 2.0], [-3.0, 0.5]])
    wrong = Unscaled("triangular", np.zeros(2), np.ones(2), core)
    image = wrong.forward(z)
    np.testing.assert_array_equal(right.forward(z).u, image.u)
    np.testing.assert_allclose(right.forward(z).log_det - image.log_det, 0.7 * image.u[:, 0])

    def energy(at):
        found = wrong.forward(at)
        return 0.5 * np.square(found.u).sum(axis=1) - found.log_det

    slopes = [(energy(z + 1e-6 * e) - energy(z - 1e-6 * e)) / 2e-6 for e in np.eye(2)]
    np.testing.assert_allclose(wrong.pull_back(image, image.u), np.transpose(slopes), rtol=1e-6, atol=1e-7)


def test_the_forms_control_lacks_the_scale():
    posterior = CASES["funnel"]()
    position = posterior.to_position(np.array([[2.0, 0.3, -1.0, 0.5], [0.4, 0.1, 0.0, 0.2]]))
    right, slope = posterior.potential().energy_and_gradient(position)
    with CONTROLS["form"]():
        wrong, other = posterior.potential().energy_and_gradient(position)
    np.testing.assert_allclose(right - wrong, 3.0 * position[:, 0])
    np.testing.assert_allclose((slope - other)[:, 0], 3.0)
