"""Tangents of problems in UFL: both products against each other, against gradients, and against differences."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import pde_cases
from mpi4py import MPI

from invsamp.solvers.pde import operator as operators

pytestmark = pytest.mark.dolfinx
COMM = MPI.COMM_SELF


def functionals():
    problem = pde_cases.everything_unknown(COMM, 4)
    return problem.observe([*pde_cases.functionals(problem)])


def mixed():
    channel = pde_cases.channel(COMM)
    return channel.observe(pde_cases.channel_sensors(channel))


MODELS = {
    "everything unknown": lambda: pde_cases.everything_unknown(COMM, 4).observe(pde_cases.SENSORS),
    "functionals": functionals,
    "in time": lambda: pde_cases.evolution(COMM, 4).observe(pde_cases.SENSORS, [0.0, 0.05, 0.1]),
    "moving edge": lambda: pde_cases.moving_edge(COMM)[0].observe(pde_cases.SENSORS, [0.02, 0.1]),
    "mixed element": mixed,
    "nonlinear": lambda: pde_cases.bratu(COMM, 4),
}


@pytest.mark.parametrize("name", MODELS)
def test_products(name):
    model = MODELS[name]()
    rng = np.random.default_rng(3)
    p, m = sum(model.sizes), model.n_observations
    theta = np.concatenate([pde_cases.near_reference(model, seed) for seed in (1, 2)])
    y, jvp, vjp = model.tangent(theta)
    directions, cotangents = rng.standard_normal((2, 3, p)), rng.standard_normal((2, 4, m))
    along, back = jvp(directions), vjp(cotangents)
    np.testing.assert_array_equal(y, model(theta))
    np.testing.assert_allclose(
        np.einsum("bkm,blm->bkl", along, cotangents), np.einsum("bkp,blp->bkl", directions, back), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(model.linearize(theta)[1](cotangents[:, 0]), back[:, 0], rtol=1e-10, atol=1e-12)
    step = 1e-5
    ends = [model(theta + sign * step * directions[:, 0]) for sign in (1.0, -1.0)]
    difference = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose(along[:, 0], difference, rtol=1e-5, atol=1e-6 * np.abs(along).max())
    # still right after the model was solved elsewhere
    np.testing.assert_allclose(jvp(directions), along, rtol=1e-9, atol=1e-12)


def test_the_factor_is_kept(monkeypatch):
    """Products of a linear equation factor nothing."""
    model = pde_cases.evolution(COMM, 4, linear=True).observe(pde_cases.SENSORS)
    theta = pde_cases.near_reference(model, 1)
    _, jvp, vjp = model.tangent(theta)
    factored = []
    own = operators.Operator.factor
    monkeypatch.setattr(operators.Operator, "factor", lambda self, values: factored.append(1) or own(self, values))
    jvp(np.ones((1, 5, theta.shape[1])))
    vjp(np.ones((1, 5, model.n_observations)))
    assert not factored


def test_a_row_that_failed_is_nan():
    model = MODELS["nonlinear"]()
    theta = np.array([[9.0], [1.0]])
    y, jvp, vjp = model.tangent(theta)
    found = jvp(np.ones((2, 1, 1))), vjp(np.ones((2, 1, model.n_observations)))
    for values in (y, *found):
        assert np.isnan(values[0]).all() and np.isfinite(values[1]).all()


def test_other_shapes_are_refused():
    model = MODELS["nonlinear"]()
    _, jvp, _ = model.tangent(np.ones((1, 1)))
    with pytest.raises(ValueError, match=r"directions must have shape \(1, k, 1\)"):
        jvp(np.ones((1, 1)))
