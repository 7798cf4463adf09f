"""The heat source with a thousand readings has the posterior that it is there for."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.problems import heat_modes as problem


@pytest.fixture(scope="module")
def posterior():
    return problem.posterior()


@pytest.fixture(scope="module")
def truth(posterior):
    return {fidelity: problem.quadrature(posterior, fidelity, points=200) for fidelity in posterior.fidelities}


def test_two_modes_which_the_coarse_meshes_weigh_otherwise(truth):
    fine, coarse = truth["64x64"], truth["8x8"]
    assert fine.left.weight + fine.right.weight == pytest.approx(1.0, abs=1e-12)
    assert 0.85 < fine.right.weight < 0.89
    np.testing.assert_allclose(fine.right.sd, [0.0112, 0.0119], atol=1e-4)
    assert (fine.right.mean - fine.left.mean)[0] > 8 * (fine.right.sd + fine.left.sd)[0]
    assert fine.right.weight - coarse.right.weight > 0.1
    assert coarse.right.sd[0] > 1.4 * fine.right.sd[0]
    row = np.searchsorted(fine.points, problem.STRIP)
    # exp(-20) is 2e-9: a single chain stays where it is
    assert -np.log(fine.density[row].max() / fine.density.max()) > 20


def test_quadrature_has_converged(posterior, truth):
    finer = problem.quadrature(posterior, points=331)
    for side in ("left", "right"):
        mode, reference = getattr(truth["64x64"], side), getattr(finer, side)
        np.testing.assert_allclose(mode.weight, reference.weight, rtol=1e-6)
        np.testing.assert_allclose(mode.sd, reference.sd, rtol=1e-4)


@pytest.mark.parametrize("cells", problem.LEVELS)
def test_the_compressed_model_is_the_solver(posterior, cells):
    model = posterior.forward[f"{cells}x{cells}"]
    theta = np.random.default_rng(0).uniform(0.0, 1.0, (50, 2))
    y, jacobian = model.jacobian(theta)
    expected, slopes = model.equation.observe(problem.SENSORS).jacobian(theta)
    np.testing.assert_allclose(y, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(jacobian, slopes, atol=1e-7 * np.abs(slopes).max())
    cotangent = np.random.default_rng(1).standard_normal(y.shape)
    np.testing.assert_allclose(model.linearize(theta)[1](cotangent), np.einsum("bm,bmp->bp", cotangent, jacobian))


def test_mean_readings_are_sufficient(posterior):
    readings = problem.posterior(averaged=False)
    assert readings.data.shape == (1000,)
    theta = np.random.default_rng(2).uniform(0.2, 0.8, (20, 2))
    averaged, full = (p.potential("16x16").energy_and_gradient(theta) for p in (posterior, readings))
    difference = full[0] - averaged[0]
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9)
    np.testing.assert_allclose(full[1], averaged[1], rtol=1e-8, atol=1e-6)


def test_rows_are_those_of_the_readings():
    model = problem.posterior(levels=(8,), averaged=False).forward["8x8"]
    theta = np.random.default_rng(3).uniform(0.2, 0.8, (5, 2))
    indices = np.random.default_rng(4).integers(0, 1000, (5, 7))
    y, jacobian = model.jacobian(theta)
    chosen, slopes = model.rows(theta, indices)
    np.testing.assert_array_equal(chosen, np.take_along_axis(y, indices, axis=1))
    np.testing.assert_array_equal(slopes, np.take_along_axis(jacobian, indices[:, :, None], axis=1))


def test_gradient(posterior):
    assert posterior.check_gradient([0.58, 0.53]).passed


def test_cost_grows_with_the_mesh():
    assert [problem.relative_cost(cells) for cells in problem.LEVELS] == [1 / 64, 1 / 16, 1.0]
    assert problem.StripModel(8, np.arange(56)).cost > 0.0


def test_bad_number_of_points(posterior):
    with pytest.raises(ValueError, match="points must be an integer >= 2, got 1"):
        problem.quadrature(posterior, points=1)
