"""The heat equation on scikit-fem and on dolfinx: the same discrete problem, so the same numbers."""

from __future__ import annotations

import heat_checks
import numpy as np
import pytest
import space_checks
from heat_checks import PROBLEMS, SCHEMES, evaluated, model, parameters

BACKENDS = ["skfem", pytest.param("dolfinx", marks=pytest.mark.dolfinx)]


def need(backend):
    if backend == "dolfinx":
        pytest.importorskip("dolfinx")


@pytest.mark.dolfinx
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_backends_agree(name, scheme):
    need("dolfinx")
    ours, theirs = (model(name, backend, scheme) for backend in ("skfem", "dolfinx"))
    assert ours.parameters == theirs.parameters
    for mine, other in zip(evaluated(ours, name), evaluated(theirs, name), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10 * np.abs(other).max())
        assert np.ptp(other) > 0.01  # they see different things, so that an exchange would show


@pytest.mark.dolfinx
def test_one_rank_agrees():
    """With scikit-fem; several ranks, of the same launch as other equations: `pde/test_on_several_ranks.py`."""
    need("dolfinx")
    from mpi4py import MPI

    space_checks.check_ranks(MPI.COMM_WORLD)
    heat_checks.check_ranks(MPI.COMM_WORLD, 1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_taylor_remainder_is_of_second_order_over_five_decades(name, backend):
    need(backend)
    forward = model(name, backend)
    theta, direction = parameters(name, rows=1)
    y, vjp = forward.linearize(theta)
    cotangent = np.random.default_rng(8).normal(size=y.shape) / np.abs(y).max()
    gradient = vjp(cotangent)[0]
    steps = 10.0 ** np.arange(-1, -7, -1)
    moved = forward(theta + steps[:, None] * direction)
    remainder = np.abs((moved - y) @ cotangent[0] - steps * (gradient @ direction))
    # 1e-14 is rounding's; linear observations leave nothing else
    assert (remainder <= np.maximum(2 * remainder[0] * (steps / steps[0]) ** 2, 2e-14)).all()
    error = 1e-3 * np.linalg.norm(gradient) * np.linalg.norm(direction)  # of no direction that might miss it
    wrong = np.abs((moved - y) @ cotangent[0] - steps * (gradient @ direction + error))
    assert (wrong > np.maximum(2 * wrong[0] * (steps / steps[0]) ** 2, 2e-14)).any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_adjoint_agrees_with_central_differences(name, backend):
    need(backend)
    forward = model(name, backend)
    theta, _ = parameters(name, rows=1)
    jacobian = forward.jacobian(theta)[1][0]
    for column in range(theta.shape[1]):
        move = np.zeros_like(theta)
        move[0, column] = 2e-5 * max(1.0, abs(theta[0, column]))
        slope = (forward(theta + move) - forward(theta - move))[0] / (2 * move[0, column])
        assert np.abs(slope - jacobian[:, column]).max() < 1e-6 * np.abs(jacobian).max()


@pytest.mark.dolfinx
@pytest.mark.parametrize("name", PROBLEMS)
def test_precomputed_weights_equal_the_solve(name):
    need("dolfinx")
    quick, honest = model(name, "dolfinx"), model(name, "dolfinx", precompute=False)
    for mine, other in zip(evaluated(quick, name), evaluated(honest, name), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-11 * np.abs(other).max())
