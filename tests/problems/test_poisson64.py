"""The Poisson benchmark of 64 parameters, against what its authors published of it."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.posing.distributions.univariate import LogNormal
from invsamp.problems import poisson64
from invsamp.solvers.poisson import PoissonEquation

RNG = np.random.default_rng(64)


def published_order(a: np.ndarray) -> np.ndarray:
    """Stiffnesses (64,) in the benchmark's order, x fastest -> log a in the problem's, (1, 64)."""
    return np.log(a).reshape(8, 8).T.reshape(1, 64)


def log_likelihood(model, a: np.ndarray) -> float:
    misfit = model(published_order(a))[0] - poisson64.data()
    return -0.5 * float(misfit @ misfit) / poisson64.NOISE_SD**2


def test_the_prior_is_the_published_one() -> None:
    # known values of the benchmark: stiffnesses 1, 2, ..., 64
    assert poisson64.log_prior_of_stiffness(np.arange(1.0, 65.0)) == pytest.approx(-88.6599171951, abs=1e-9)
    # the same density, up to a constant, as log-normal in a with mean 4 and sd 2 of the logarithm ...
    a = np.geomspace(1e-3, 1e5, 30)
    published = -(np.log(a) ** 2) / 8.0
    ours = LogNormal(poisson64.PRIOR_MEAN, poisson64.PRIOR_SD).scipy().logpdf(a)
    assert np.ptp(ours - published) < 1e-10
    # ... and not with mean 0
    centered = LogNormal(0.0, poisson64.PRIOR_SD).scipy().logpdf(a)
    assert np.ptp(centered - published) > 1.0


def test_data_are_symmetric_and_near_every_solution_at_the_truth() -> None:
    data = poisson64.data()
    assert data.shape == (169,)
    assert np.abs(data - data.reshape(13, 13).T.ravel()).max() < 1e-12
    # the benchmark's first and last values, and its largest
    assert data[[0, 168]] == pytest.approx([0.06076511762259369, 0.1067965550010013], abs=1e-11)
    assert data.max() == pytest.approx(0.9439154625527653, abs=1e-11)
    error = [
        np.abs(poisson64.squares(cells)(published_order(poisson64.truth().ravel())) - data).max()
        for cells in (16, 32, 64)
    ]
    # the inclusions' corners make the solution singular: the order is well below 2
    assert error[2] < 0.5 * error[1] < 0.5 * error[0]
    assert error[2] < 0.2 * poisson64.NOISE_SD


def published(name):
    """The benchmark's own discretization by scikit-fem, by dolfinx, and posed in UFL."""
    if name != "skfem":
        pytest.importorskip("dolfinx")
    return poisson64.in_ufl() if name == "ufl" else poisson64.squares(backend=name)


@pytest.mark.parametrize(
    "name", ["skfem", *(pytest.param(name, marks=pytest.mark.dolfinx) for name in ("dolfinx", "ufl"))]
)
def test_squares_are_the_published_solutions(name) -> None:
    model = published(name)
    ones, counted = np.ones(64), np.arange(1.0, 65.0)
    z = model(published_order(counted))[0]
    known = {
        0: 2.3014200637710092e-02,
        1: 1.7227013822948514e-02,
        13: 2.6708208929557244e-02,
        168: 1.4879514379430876e-03,
    }
    assert z[list(known)] == pytest.approx(list(known.values()), rel=1e-12)
    assert model(published_order(ones))[0, 0] == pytest.approx(7.6937775560548108e-02, rel=1e-12)
    # ten digits were published, in one version of the benchmark's data with a last one other than in the next
    assert log_likelihood(model, ones) == pytest.approx(-228.510844004, abs=1e-8)
    assert log_likelihood(model, counted) == pytest.approx(-6412.82113914, abs=1e-7)
    # control: the order of parameters matters
    wrong = model(np.log(counted)[None])[0]
    assert np.abs(wrong - z).max() > 1e-3


def test_the_posterior_is_that_of_the_squares() -> None:
    theta = RNG.normal(poisson64.PRIOR_MEAN, poisson64.PRIOR_SD, (4, 64))
    energy, found = poisson64.posterior().potential().energy(theta), poisson64.squares()(theta)
    prior = 0.5 * ((theta - poisson64.PRIOR_MEAN) ** 2).sum(axis=1) / poisson64.PRIOR_SD**2

    def misfit(y):
        return 0.5 * ((y - poisson64.data()) ** 2).sum(axis=1) / poisson64.NOISE_SD**2

    assert energy - prior - misfit(found) == pytest.approx((energy - prior - misfit(found))[0] * np.ones(4), rel=1e-10)
    # control: linear elements on the same mesh's triangles are another posterior, some of a noise's sd away
    triangles = PoissonEquation(poisson64.PUBLISHED_CELLS, poisson64.COEFFICIENT, poisson64.SOURCE)
    other = triangles.observe(poisson64.POINTS)(theta)
    assert np.abs(other - found).max() > 1e-3
    assert np.ptp(energy - prior - misfit(other)) > 1e-2


@pytest.mark.dolfinx
def test_both_backends_agree_in_values_and_gradients() -> None:
    pytest.importorskip("dolfinx")
    # stiffnesses from e^-4 to e^12: what rounding leaves grows with their ratio
    theta = np.random.default_rng(1).normal(poisson64.PRIOR_MEAN, poisson64.PRIOR_SD, (5, 64))
    results = []
    for name in ("skfem", "dolfinx", "ufl"):
        y, vjp = published(name).linearize(theta)
        results.append((y, vjp((y - poisson64.data()) / poisson64.NOISE_SD**2)))
    for y, gradient in results[1:]:
        np.testing.assert_allclose(y, results[0][0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(gradient, results[0][1], atol=1e-9 * np.abs(gradient).max())


@pytest.mark.dolfinx
def test_the_data_come_from_a_finer_discretization() -> None:
    pytest.importorskip("dolfinx")
    coarse, fine = (np.abs(poisson64.measured(cells, 3) - poisson64.data()).max() for cells in (32, 64))
    assert fine < 5e-5 and fine < 0.5 * coarse


@pytest.mark.dolfinx
def test_gradients_of_both_backends_are_right() -> None:
    pytest.importorskip("dolfinx")
    theta = RNG.normal(0.0, 1.0, (1, 64))
    for backend in ("skfem", "dolfinx"):
        check = poisson64.posterior((16,), backend).check_gradient(theta[0], seed=3)
        assert check.passed and check.relative_error < 1e-6, check


def test_gradient_and_failures() -> None:
    problem = poisson64.posterior((8, 16))
    assert problem.fidelities == ("8x8", "16x16") and problem.dimension == 64
    assert problem.check_gradient(RNG.normal(0.0, 1.0, 64), seed=3).passed
    assert problem.potential().energy(np.full((1, 64), 1e6)) == np.inf


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": (12,)}, r"levels\[0\] must be a multiple of 8, so that no cell has two stiffnesses"),
        ({"levels": (0,)}, r"levels\[0\] must be an integer >= 8"),
        ({"backend": "other"}, "backend must be one of"),
        ({"comm": object()}, "comm must be left out for the backend 'skfem'"),
    ],
)
def test_bad_settings(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        poisson64.posterior(**settings)
