from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from invsamp.problems import conductivity as problem


@pytest.fixture(scope="module")
def posterior():
    return problem.posterior({"coarse": 8, "middle": 16, "fine": 32})


def test_meshes_share_the_unknowns_and_converge_to_the_mesh_of_the_data(posterior):
    z = problem.true_coefficients()[None]
    clean = problem.equation(problem.DATA_CELLS).observe(problem.SENSORS)(z)
    errors = [np.abs(model(z) - clean).max() for model in posterior.forward.values()]
    # near sensors beside the inflow the field is rough: order 1.5 and more
    assert errors[0] > 2.5 * errors[1] > 2.5**2 * errors[2]
    assert errors[2] < problem.NOISE_SD
    assert posterior.names == ("z",) and posterior.forward["fine"].sizes == (problem.MODES,)


def test_readings_are_the_truth_with_noise(posterior):
    clean = posterior.forward["fine"](problem.true_coefficients()[None])[0]
    square = np.sum(((problem.readings() - clean) / problem.NOISE_SD) ** 2)
    low, high = chi2.ppf([0.001, 0.999], len(problem.SENSORS))
    assert low < square < high


def test_gradient_is_that_of_central_differences(posterior):
    potential = posterior.potential("coarse")
    z = problem.true_coefficients()[None]
    gradient = potential.energy_and_gradient(z)[1][0]
    step = 1e-4
    moves = step * np.eye(problem.MODES)
    differences = (potential.energy(z + moves) - potential.energy(z - moves)) / (2 * step)
    np.testing.assert_allclose(gradient, differences, atol=1e-6 * np.abs(gradient).max())


def test_map_is_the_field_that_the_models_take():
    equation = problem.equation(8)
    z = problem.true_coefficients()
    space = equation.space
    values = equation.conductivity.at(space.midpoints).values(z[None])[0]
    np.testing.assert_allclose(np.log(values), problem.log_conductivity(z, space.midpoints), rtol=1e-10, atol=1e-12)
    assert 0.9 < problem.modes().share < 1


def test_reference_is_reproducible_and_starts_around_the_mode(posterior):
    first = problem.reference(posterior, 3, 8, 1, "coarse")
    assert first.shape == (8, 3, problem.MODES)
    np.testing.assert_array_equal(first, problem.reference(posterior, 3, 8, 1, "coarse"))
    energy = posterior.potential("coarse").energy(first[:, -1])
    # 20 unknowns: the energy of a draw is about 10 above the mode's, that of the prior's mean hundreds
    assert energy.mean() < posterior.potential("coarse").energy(np.zeros((1, problem.MODES)))[0] - 100
