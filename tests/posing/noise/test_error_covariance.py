"""Gaussian noise of data that depend on each other, against the dense formulas."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from noise_checks import check_derivatives
from scipy import sparse, stats

import invsamp as iv
from invsamp.protocols import TermwisePotential

RNG = np.random.default_rng(0)
TIMES = np.array([0.0, 0.4, 0.5, 1.5, 1.7, 3.0])
SIX = np.arange(6)
ROOT = RNG.normal(size=(6, 6))
MATRIX = ROOT @ ROOT.T + np.eye(6)
BAND = sparse.diags_array([np.full(5, -1.0), np.full(6, 2.5), np.full(5, -1.0)], offsets=[-1, 0, 1])


def autoregressive(rho):
    return rho ** np.abs(SIX[:, None] - SIX)


#: Covariance, values of its quantities, and the same as a matrix.
CASES = {
    "matrix": (MATRIX, (), lambda: MATRIX),
    "precision": (iv.noise.Precision(np.linalg.inv(MATRIX)), (), lambda: MATRIX),
    "sparse": (iv.noise.Precision(BAND), (), lambda: np.linalg.inv(BAND.toarray())),
    "autoregressive": (iv.noise.AutoRegressive("r"), (0.7,), lambda: autoregressive(0.7)),
    "alternating": (iv.noise.AutoRegressive("r"), (-0.6,), lambda: autoregressive(-0.6)),
    "exponential": (
        iv.noise.ExponentialCorrelation("r", TIMES), (0.8,), lambda: np.exp(-np.abs(TIMES[:, None] - TIMES) / 0.8)
    ),
}  # fmt: skip
Y, DATA = RNG.uniform(1.0, 2.0, (3, 6)), RNG.uniform(1.0, 2.0, 6)
SCALE = RNG.uniform(0.5, 1.5, 6)


def bound(name, chosen=SIX):
    return iv.GaussianNoise("s", covariance=CASES[name][0]).bind((6,), chosen)


@pytest.mark.parametrize("chosen", [SIX, [0, 2, 3, 5], [4], [5, 1, 2]], ids=str)
@pytest.mark.parametrize("name", CASES)
class TestDensity:
    def test_joint_and_conditional(self, name, chosen) -> None:
        noise, values = bound(name, np.asarray(chosen)), CASES[name][1]
        covariance = (CASES[name][2]() * SCALE[:, None] * SCALE)[np.ix_(chosen, chosen)]
        y, data = Y[:, chosen], DATA[chosen]
        full = [np.full((1, len(chosen)), value) for value in values]
        found = noise.evaluate(y, data, SCALE[None, chosen], *full)[0]
        wanted = [stats.multivariate_normal(row, covariance).logpdf(data) for row in y]
        np.testing.assert_allclose(found.sum(axis=1), wanted, rtol=1e-10)

        each = noise.log_likelihood(y, data, SCALE[None, chosen], *full)
        for i in range(len(chosen)):
            others = np.delete(np.arange(len(chosen)), i)
            gain = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, i])
            mean = y[:, i] + (data - y)[:, others] @ gain
            sd = np.sqrt(covariance[i, i] - covariance[i, others] @ gain)
            np.testing.assert_allclose(each[:, i], stats.norm(mean, sd).logpdf(data[i]), rtol=1e-9)

    def test_derivatives(self, name, chosen) -> None:
        values = [np.full(len(chosen), value) for value in CASES[name][1]]
        check_derivatives(bound(name, np.asarray(chosen)), Y[:, chosen], DATA[chosen], SCALE[chosen], *values)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_covariance(within, name) -> None:
    noise, values = bound(name), [np.full((1, 6), value) for value in CASES[name][1]]
    n = 40_000
    draws = noise.sample(np.random.default_rng(1), np.zeros((n, 6)), np.full((1, 6), 2.0), *values)
    wanted = 4.0 * CASES[name][2]()
    error = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / n)
    assert within((draws.T @ draws / n - wanted) / error, 5.5)
    loose = np.random.default_rng(2).permuted(draws, axis=0)
    assert not within((loose.T @ loose / n - wanted) / error, 5.5)


def test_a_row_has_its_own_bits() -> None:
    for name, (_, values, _) in CASES.items():
        noise, full = bound(name), [np.full((1, 6), value) for value in values]
        whole = noise.evaluate(Y, DATA, SCALE[None], *full)
        for row in range(3):
            for part, single in zip(whole, noise.evaluate(Y[row : row + 1], DATA, SCALE[None], *full), strict=True):
                np.testing.assert_array_equal(np.broadcast_to(part, Y.shape)[row], single[0])


def line(theta):
    return (theta[:, :1] + theta[:, 1:] * np.arange(4.0))[:, :, None].repeat(2, axis=2).reshape(-1, 8)


class TestPosterior:
    """Two series of four times, two data of which are missing."""

    PRIOR = iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1), s=iv.HalfNormal(1, shape=2), r=iv.Uniform(-0.9, 0.9))
    DATA = np.ma.masked_invalid([[0.1, 0.3], [0.5, np.nan], [1.5, 0.9], [np.nan, 1.2]])

    def posterior(self, covariance=None):
        noise = iv.GaussianNoise("s", covariance=iv.noise.AutoRegressive("r") if covariance is None else covariance)
        return iv.Posterior(self.PRIOR, iv.finite_differences(line, parameters=("a", "b")), self.DATA, noise)

    def test_series_are_independent_and_skip_what_is_missing(self) -> None:
        posterior = self.posterior()
        theta = self.PRIOR.sample(np.random.default_rng(0), 3)
        position = posterior.to_position(theta)
        energy, _ = posterior.potential().energy_and_gradient(position)
        wanted = -posterior.log_prior(theta) - posterior.coordinates.evaluate(position).log_jacobian
        for row, point in enumerate(theta):
            for series, steps in enumerate(([0, 1, 2], [0, 2, 3])):
                covariance = point[2 + series] ** 2 * point[4] ** np.abs(np.subtract.outer(steps, steps))
                mean = point[0] + point[1] * np.array(steps)
                wanted[row] -= stats.multivariate_normal(mean, covariance).logpdf(self.DATA.data[steps, series])
        np.testing.assert_allclose(energy, wanted, rtol=1e-9)
        check = posterior.check_gradient()
        assert check.passed, check
        assert not posterior.log_likelihood(theta)[:, 1, 1].any()

    def test_draws_pickle_and_scales_per_series(self, within) -> None:
        posterior = pickle.loads(pickle.dumps(self.posterior()))
        theta = np.tile([0.0, 1.0, 0.5, 2.0, 0.8], (40_000, 1))
        noisy = posterior.sample_noise(np.random.default_rng(0), posterior.predict(theta), theta)
        wanted = [0.5, 2.0, 0.8, 0.8]
        e = noisy - posterior.predict(theta)
        sds = e.std(axis=0)[1]
        neighbors = [np.corrcoef(e[:, 1, k], e[:, 2, k])[0, 1] for k in range(2)]
        error = np.array([0.5, 2.0, 0.36 * np.sqrt(2), 0.36 * np.sqrt(2)]) / np.sqrt(80_000)
        assert within((np.concatenate([sds, neighbors]) - wanted) / error, 5.0)
        assert not within((np.concatenate([sds[::-1], neighbors]) - wanted) / error, 5.0)

    def test_minibatches_are_refused(self) -> None:
        assert not isinstance(self.posterior().potential(), TermwisePotential)
        with pytest.raises(
            ValueError, match=r"minibatch needs a potential with data terms .* data that are independent"
        ):
            iv.sample(
                self.posterior(), iv.samplers.sgld(0.01, estimator=iv.estimators.minibatch(2)), draws=5, progress=False
            )

    def test_a_precision_of_what_was_seen(self) -> None:
        root = np.random.default_rng(5).normal(size=(8, 8))
        matrix = root @ root.T + np.eye(8)
        dense, precise = self.posterior(matrix), self.posterior(iv.noise.Precision(np.linalg.inv(matrix)))
        precise = pickle.loads(pickle.dumps(precise))
        theta = self.PRIOR.sample(np.random.default_rng(0), 3)
        np.testing.assert_allclose(dense.log_likelihood(theta), precise.log_likelihood(theta), rtol=1e-8)
        position = dense.to_position(theta)
        for part in zip(*(p.potential().energy_and_gradient(position) for p in (dense, precise)), strict=True):
            np.testing.assert_allclose(*part, rtol=1e-8)


def test_a_large_sparse_precision_stays_sparse() -> None:
    n = 20_000
    precision = sparse.diags_array([np.full(n - 1, -1.0), np.full(n, 2.01), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])
    noise = iv.GaussianNoise(covariance=iv.noise.Precision(precision)).bind((n,), np.arange(n))
    e = noise.sample(np.random.default_rng(0), np.zeros((2, n)), np.ones((1, n)))
    # the sum over a chain of these has this variance at each point
    assert abs(e.var() * np.sqrt(2.01**2 - 4) - 1.0) < 0.2
    assert np.isfinite(noise.evaluate(e, np.zeros(n), np.ones((1, n)))[0]).all()


def test_covariances_compare_and_print() -> None:
    assert iv.GaussianNoise(covariance=MATRIX) == iv.GaussianNoise(covariance=MATRIX.copy())
    assert iv.GaussianNoise(covariance=MATRIX) != iv.GaussianNoise(covariance=np.eye(6))
    assert iv.noise.Precision(BAND) == iv.noise.Precision(BAND.toarray()) != iv.noise.Precision(np.eye(6))
    assert len({iv.noise.Precision(BAND), iv.noise.Precision(BAND.toarray())}) == 1
    assert repr(iv.GaussianNoise("s", iv.noise.AutoRegressive(0.5))) == (
        "GaussianNoise(covariance=AutoRegressive(correlation=0.5), scale='s')"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.GaussianNoise(covariance=[[1, 2], [2, 1]]), "positive definite, got smallest eigenvalue -1"),
        (lambda: iv.GaussianNoise(covariance=[[1, 0.5], [0, 1]]), "covariance must be symmetric"),
        (lambda: iv.GaussianNoise(covariance=np.ones(3)), r"covariance must have shape \(m, m\), got \(3,\)"),
        (lambda: iv.GaussianNoise(covariance=BAND), r"covariance must be an array, or iv\.noise\.Precision\(matrix\)"),
        (lambda: iv.GaussianNoise(covariance=iv.noise.AutoRegressive), "covariance must be a matrix or AutoRegressive"),
        (lambda: iv.GaussianNoise(0.1, covariance=MATRIX), "scale must be left out beside a covariance.*got 0.1"),
        (
            lambda: iv.GaussianNoise(SCALE, covariance=iv.noise.Precision(BAND)),
            "scale must be left out beside a covariance",
        ),
        (lambda: iv.noise.Precision([[1, 2], [2, 1]]), "matrix must be positive definite"),
        (lambda: iv.noise.Precision([[0, 1], [1, 0]]), "matrix must be positive definite"),
        (lambda: iv.noise.Precision(sparse.eye_array(3) * 0), "matrix must be positive definite"),
        (lambda: iv.noise.Precision(sparse.eye_array(3, k=1)), "matrix must be symmetric"),
        (lambda: iv.noise.Precision(sparse.csr_array(np.ones((2, 3)))), r"matrix must have shape \(m, m\)"),
        (lambda: iv.noise.Precision(np.diag([1, np.nan])), "matrix must be finite numbers"),
        (lambda: iv.noise.AutoRegressive(1.0), r"correlation must be numbers in \(-1, 1\), or the name"),
        (lambda: iv.noise.ExponentialCorrelation(-1.0, [0, 1]), "time must be positive finite numbers, or the name"),
        (lambda: iv.noise.ExponentialCorrelation(1.0, [0, 0]), "times must increase, got 0.0 after 0.0 at index 1"),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (MATRIX, r"covariance must have a row for each of the 8 data \(shape \(4, 2\)\), got shape \(6, 6\)"),
        (iv.noise.Precision(BAND), "precision must have a row for each of the 8 data"),
        (
            iv.noise.ExponentialCorrelation(1.0, TIMES),
            "times must have one entry for each of the data's first axis, got 6",
        ),
        (iv.noise.AutoRegressive("q"), r"correlation must use the prior's parameters .* got \['q'\]"),
        (iv.noise.AutoRegressive("a"), r"a is the correlation of the noise: its prior must have support in \[-1, 1\]"),
    ],
)
def test_what_does_not_fit_the_data(covariance, message) -> None:
    with pytest.raises(ValueError, match=message):
        TestPosterior().posterior(covariance)
