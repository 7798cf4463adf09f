"""Modes of Gaussian fields: Newton descents and low-rank Hessians, against dense computations."""

import numpy as np
import pytest

import invsamp as iv
from invsamp.kernels.metric import LowRankMetric
from invsamp.modes.newton import KnownMode
from invsamp.modes.products import Place
from invsamp.solvers.fem.boundary import dirichlet
from invsamp.solvers.fem.fields import LogField, Modes
from invsamp.solvers.poisson import PoissonEquation

SENSORS = np.stack(np.meshgrid(*2 * [np.linspace(0.1, 0.9, 5)]), axis=-1).reshape(-1, 2)


def waves(points, side=10):
    """Cosines (n, side^2) whose sizes fall as those of a smooth field."""
    k = np.arange(side)
    x, y = (np.cos(np.pi * k * points[:, axis, None]) for axis in (0, 1))
    size = 2.0 / (1.0 + 0.6 * np.pi**2 * (k[:, None] ** 2 + k**2))
    return (x[:, :, None] * y[:, None, :] * size).reshape(len(points), -1)


def conductivity(relative=0.05, tangents=True, sensors=SENSORS):
    """Log-conductivity in 100 unknowns, seen through pressures."""
    field = LogField(Modes("z", waves, count=100))
    model = PoissonEquation(
        8, conductivity=field, source=1.0, boundary={"left": dirichlet(0.0), "right": dirichlet(0.0)}
    ).observe(sensors)
    rng = np.random.default_rng(7)
    y = model(rng.standard_normal((1, 100)))[0]
    sd = relative * np.sqrt(np.mean(y**2))
    forward = model if tangents else _Plain(model)
    return iv.Posterior(
        iv.Prior(z=iv.Normal(0.0, np.ones(100))), forward, y + sd * rng.standard_normal(len(y)), iv.GaussianNoise(sd)
    )


class _Plain:
    """A model with vector-Jacobian products alone."""

    def __init__(self, model):
        self._model, self.parameters, self.sizes = model, model.parameters, model.sizes

    def __call__(self, theta):
        return self._model(theta)

    def linearize(self, theta):
        return self._model.linearize(theta)


def smoothing(d, data, sd=0.02):
    """A linear problem whose Hessian is worse and worse conditioned, and the posterior's mean and covariance."""
    rng = np.random.default_rng(d)
    slopes = np.linalg.qr(rng.standard_normal((d, data)))[0].T * np.geomspace(5.0, 1e-3, data)[:, None]
    y = slopes @ rng.standard_normal(d) + sd * rng.standard_normal(data)
    model = iv.with_jacobian(lambda b: b @ slopes.T, lambda b: np.broadcast_to(slopes, (len(b), *slopes.shape)))
    posterior = iv.Posterior(iv.Prior(b=iv.Normal(0.0, np.ones(d))), model, y, iv.GaussianNoise(sd))
    covariance = np.linalg.inv(np.eye(d) + slopes.T @ slopes / sd**2)
    return posterior, covariance @ slopes.T @ y / sd**2, covariance


class TestConductivity:
    @pytest.fixture(scope="class")
    @classmethod
    def found(cls):
        posterior = conductivity()
        return posterior, iv.maximize(posterior, seed=1)

    def test_hessian_is_the_dense_gauss_newton_matrix(self, found):
        posterior, modes = found
        potential = posterior.potential()
        matrix = potential.curvature(modes.position).matrix[0]
        (gaussian,) = modes.gaussians
        low_rank = gaussian.metric
        vectors, values = low_rank.vectors, low_rank.values
        by_rank = np.eye(100) + (vectors * values) @ vectors.T
        assert np.abs(matrix - by_rank).max() < 0.05  # eigenvalues below .05 are left out
        np.testing.assert_allclose(
            np.linalg.eigvalsh(matrix)[::-1][: len(values)], 1.0 + values[np.argsort(-values)], rtol=1e-8
        )
        np.testing.assert_allclose(modes.sds[0] ** 2, np.diag(np.linalg.inv(matrix)), rtol=0.05)
        assert gaussian.informed == np.count_nonzero(np.linalg.eigvalsh(matrix) > 2.0)

    def test_it_is_the_minimum(self, found):
        posterior, modes = found
        energy, gradient = posterior.potential().energy_and_gradient(modes.position)
        metric = modes.gaussians[0].metric
        assert 0.5 * np.square(metric.whiten(gradient)).sum() < 1e-3
        assert energy[0] == pytest.approx(modes.energies[0], abs=1e-8)

    def test_cost_is_that_of_few_factorizations(self, found):
        _, modes = found
        assert modes.evaluations["model"] <= 20 and modes.products["model"] <= 180
        assert modes.counts.tolist() == [2]

    def test_little_noise_takes_few_more(self):
        """Steps are preconditioned by those before, and the second descent ends in the bulk of the mode."""
        modes = iv.maximize(conductivity(0.01), seed=1)
        assert modes.evaluations["model"] <= 30 and modes.products["model"] <= 300
        assert modes.counts.tolist() == [2]

    def test_without_tangents_it_takes_gradients(self, found):
        _, modes = found
        plain = iv.maximize(conductivity(tangents=False), starts=2, seed=1)
        assert not plain.products and plain.evaluations["model"] > 200
        assert plain.energies[0] == pytest.approx(modes.energies[0], abs=1e-3)
        assert "products by tangents" in str(modes) and "products by tangents" not in str(plain)
        assert "(no tangents: two gradients for each product)" in str(plain)


def test_many_data_by_krylov_products():
    """With more data than rows that are solved for one by one, the same Gaussian comes of products."""
    many = np.stack(np.meshgrid(*2 * [np.linspace(0.05, 0.95, 13)]), axis=-1).reshape(-1, 2)
    posterior = conductivity(sensors=many)
    modes = iv.maximize(posterior, starts=1, seed=1)
    matrix = posterior.potential().curvature(modes.position).matrix[0]
    np.testing.assert_allclose(modes.sds[0] ** 2, np.diag(np.linalg.inv(matrix)), rtol=0.05)


@pytest.mark.parametrize(("d", "starts"), [(81, 1), (81, 4), (1200, 2)])
def test_an_ill_conditioned_linear_field(d, starts):
    posterior, mean, covariance = smoothing(d, 64)
    modes = iv.maximize(posterior, starts=starts, seed=2)
    assert len(modes) == 1 and not modes.unfinished
    apart = modes.position[0] - mean
    assert apart @ np.linalg.solve(covariance, apart) < 1e-3
    np.testing.assert_allclose(modes.sds[0] ** 2, np.diag(covariance), rtol=0.05)


def test_two_modes_are_both_found():
    """A square of the sum has two roots: descents differ, so that all of the starts are used."""
    d = 90
    model = iv.with_jacobian(lambda b: b[:, :1] ** 2, lambda b: 2.0 * b[:, None, :1] * (np.arange(d) == 0))
    posterior = iv.Posterior(iv.Prior(b=iv.Normal(0.0, np.ones(d))), model, [4.0], iv.GaussianNoise(0.1))
    modes = iv.maximize(posterior, starts=np.random.default_rng(1).standard_normal((6, d)), seed=1)
    assert len(modes) == 2 and modes.counts.sum() == 6
    np.testing.assert_allclose(np.sort(modes.position[:, 0]), [-2.0, 2.0], atol=0.02)


class TestBulk:
    """Of a mode of a double well in one direction, whose Gaussian has the sd 0.1 there."""

    @staticmethod
    def place(x, y=0.0):
        # (x^2 - 1)^2 * 12.5 + y^2 / 2
        return Place(np.array([x, y]), 12.5 * (x**2 - 1) ** 2 + 0.5 * y**2, np.array([50 * x * (x**2 - 1), y]), None)

    @pytest.mark.parametrize(
        ("at", "within"),
        [((1.05, 0.3), True), ((0.95, 0.1), True), ((1.0, 2.0), False), ((0.6, 0.0), False), ((-1.0, 0.0), False)],
    )
    def test_it_is_what_the_gaussian_holds(self, at, within):
        metric = LowRankMetric(np.ones(2), np.eye(2)[:, :1], np.array([99.0]))
        assert KnownMode(self.place(1.0), metric).holds(self.place(*at)) == within

    def test_the_other_side_of_a_barrier_is_outside_it(self):
        """Even if so many directions are informed that the bulk reaches there."""
        d = 60
        metric = LowRankMetric(np.ones(d), np.eye(d), np.full(d, 99.0))
        found = []
        for x in (0.75, 0.2, -0.2, -0.9):
            here = self.place(x)
            rest = np.zeros(d - 1)
            position, gradient = np.r_[x, rest], np.r_[here.gradient[0], rest]
            found.append(
                KnownMode(Place(np.r_[1.0, rest], 0.0, np.zeros(d), None), metric).holds(
                    Place(position, here.energy, gradient, None)
                )
            )
        assert found == [True, False, False, False]


class Level:
    """A log likelihood with no Gaussian at the maximum: along the first unknown it cancels the prior's curvature."""

    def __init__(self, seed, d=100):
        rng = np.random.default_rng(seed)
        self.curvature, self.center = rng.uniform(1.0, 300.0, d - 1), rng.standard_normal(d - 1)
        self.slope = rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 1.0)

    def value(self, x):
        first, rest = x[:, 0], x[:, 1:] - self.center
        return 0.49 * first**2 - 1e-6 * first**4 + self.slope * first - 0.5 * (self.curvature * rest**2).sum(axis=1)

    def gradient(self, x):
        first = 0.98 * x[:, :1] - 4e-6 * x[:, :1] ** 3 + self.slope
        return np.hstack([first, -self.curvature * (x[:, 1:] - self.center)])

    def least(self):
        """Least energy of the posterior, with the prior's constant."""
        first = np.linspace(-60.0, 60.0, 400_001)
        alone = (0.01 * first**2 + 1e-6 * first**4 - self.slope * first).min()
        rest = (0.5 * self.curvature * self.center**2 / (1.0 + self.curvature)).sum()
        return alone + rest + 0.5 * (len(self.center) + 1) * np.log(2.0 * np.pi)


@pytest.mark.parametrize("seed", [2, 9, 19])
def test_without_a_gaussian_the_minimum_is_found_too(seed):
    """Optimizations that end 0.1 of energy above it, or a few times that, were several modes."""
    level = Level(seed)
    density = iv.LogDensity(level.value, level.gradient)
    modes = iv.maximize(iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(100))), log_likelihood=density), seed=seed)
    assert modes.gaussians == (None,)
    assert abs(modes.energies[0] - level.least()) < 0.02
