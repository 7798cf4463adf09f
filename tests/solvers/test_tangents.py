"""Tangents of the solvers: both products against the Jacobian, against each other, and against differences."""

from functools import cache, partial

import numpy as np
import pytest

from invsamp.solvers.fem.boundary import dirichlet, neumann
from invsamp.solvers.fem.fields import GaussianBump, LogField, Modes, PerBlock, Sum
from invsamp.solvers.heat import HeatEquation
from invsamp.solvers.poisson import PoissonEquation

SENSORS = np.array([[0.3, 0.4], [0.6, 0.7], [0.8, 0.2]])


def waves(points):
    """Two smooth modes."""
    return np.stack([np.sin(3.0 * points[:, 0]), np.cos(2.0 * points[:, 1])], axis=1)


def poisson(**given):
    """An equation with unknown conductivity, source and boundary value."""
    settings = {
        "conductivity": LogField(Sum(PerBlock("k", (2, 2)), Modes("z", waves, count=2))),
        "source": GaussianBump(width=0.3, center=("x", 0.5), height="height"),
        "boundary": {"left": dirichlet("edge"), "right": dirichlet(0.0), "top": neumann("flux")},
    }
    return PoissonEquation(6, **(settings | given)).observe(SENSORS)


def heat(scheme="backward_euler", **given):
    """A heat equation with the same unknowns, seen twice."""
    settings = {
        "initial": GaussianBump(width=0.3, center=("x", 0.5)),
        "conductivity": LogField(PerBlock("k", (2, 2))),
        "source": PerBlock("s", (2, 1)),
        "boundary": {"left": dirichlet("edge"), "bottom": neumann("flux")},
    }
    return HeatEquation(6, 5, 0.2, scheme=scheme, **(settings | given)).observe(SENSORS, times=[0.08, 0.2])


MODELS = {
    "poisson": poisson,
    "poisson, known conductivity": partial(poisson, conductivity=1.0),
    "poisson, one unknown": partial(poisson, source=1.0, boundary="dirichlet"),
    "heat": heat,
    "heat, Crank-Nicolson": partial(heat, "crank_nicolson"),
    "heat, known conductivity": partial(heat, conductivity=0.5),
}


@cache
def made(name):
    """A model; not made on import, as that compiles."""
    return MODELS[name]()


@pytest.mark.parametrize("name", MODELS)
def test_products(name):
    model = made(name)
    rng = np.random.default_rng(3)
    p, m = sum(model.sizes), model.n_observations
    theta = 0.5 + 0.1 * rng.random((2, p))
    y, jvp, vjp = model.tangent(theta)
    directions, cotangents = rng.standard_normal((2, 3, p)), rng.standard_normal((2, 4, m))
    along, back = jvp(directions), vjp(cotangents)
    np.testing.assert_allclose(y, model(theta), rtol=1e-12)
    np.testing.assert_allclose(
        np.einsum("bkm,blm->bkl", along, cotangents), np.einsum("bkp,blp->bkl", directions, back), rtol=1e-8, atol=1e-9
    )
    # the transpose is exact, so that the other one has to be, too: an error of a tenth of a percent would show
    by_jacobian = np.einsum("bkp,bmp->bkm", directions, model.jacobian(theta)[1])
    np.testing.assert_allclose(along, by_jacobian, rtol=1e-7, atol=1e-9)
    assert not np.allclose(along * 1.001, by_jacobian, rtol=1e-7, atol=1e-9)


def test_remainder_is_of_second_order():
    model = made("heat, Crank-Nicolson")
    rng = np.random.default_rng(4)
    theta = np.full((1, sum(model.sizes)), 0.6)
    direction = rng.standard_normal((1, 1, theta.shape[1]))
    y, jvp, _ = model.tangent(theta)
    steps = 0.1 * 0.5 ** np.arange(4)
    errors = [np.abs(model(theta + h * direction[:, 0]) - y - h * jvp(direction)[:, 0]).max() for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(slope - 2.0) < 0.1, errors


def test_a_failed_row_is_nan():
    model = poisson(conductivity="a")
    theta = np.full((2, sum(model.sizes)), 0.5)
    theta[1, model.parameters.index("a")] = -1.0
    y, jvp, vjp = model.tangent(theta)
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all()
    assert np.isnan(jvp(np.ones((2, 1, theta.shape[1])))[1]).all()
    assert np.isnan(vjp(np.ones((2, 1, 3)))[1]).all() and np.isfinite(vjp(np.ones((2, 1, 3)))[0]).all()


def test_wrong_shapes():
    _, jvp, vjp = made("poisson").tangent(np.full((2, sum(made("poisson").sizes)), 0.5))
    with pytest.raises(ValueError, match=r"directions must have shape \(2, k, 10\), got \(2, 10\)"):
        jvp(np.zeros((2, 10)))
    with pytest.raises(ValueError, match=r"cotangents must have shape \(2, k, 3\)"):
        vjp(np.zeros((2, 1, 4)))
