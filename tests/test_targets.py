"""The laws of the samplers on targets whose moments are known, each beside a wrong sampler that the check rejects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import truncnorm

import invsamp.engine.replica
from invsamp.domains import Box, HalfSpaces, Reflection, Unbounded
from invsamp.estimators import minibatch, noisy
from invsamp.kernels import Proposal, propose_within_budget
from invsamp.ladder import GradientNoise
from invsamp.posing.potential import FunctionPotential, SumPotential, Target
from invsamp.presets import fast_resgld, mala, relangevin, resgld, sgld
from invsamp.problems.mixtures import GaussianMixture, two_modes
from invsamp.swap import rules
from invsamp.variances.models import kernel_ridge, known, running_average


def gaussian(precision, mean=0.0):
    """Potential of a Gaussian with this precision, a number or a matrix."""
    precision = np.atleast_2d(precision)
    d = len(precision)
    mean = np.broadcast_to(mean, (d,))

    def function(position):
        pull = (position - mean) @ precision
        return 0.5 * (pull * (position - mean)).sum(axis=1), pull

    return FunctionPotential(function, d)


def second_moments(run):
    """Mean of theta theta^T over each chain, its upper triangle: (chains, d (d + 1) / 2)."""
    theta = run.theta
    moments = np.einsum("cni,cnj->cij", theta, theta) / theta.shape[1]
    return moments[:, *np.triu_indices(theta.shape[2])]


def upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


CORRELATED = np.array([[1.0, 0.9], [0.9, 2.0]])


class TestSgld:
    """SGLD with step h on N(0, 1) has variance 1 / (1 - h/2)."""

    @pytest.mark.parametrize("step", [0.1, 0.5, 1.2])
    def test_variance_is_that_of_its_step(self, draw, agrees, step):
        run = draw(Target(gaussian(1.0)), sgld(step), draws=500, thin=max(2, round(0.5 / step)), warmup=200)
        assert agrees(second_moments(run), 1.0 / (1.0 - step / 2.0))
        # the target's own variance, and an injected noise 5% off, are told apart
        assert not agrees(second_moments(run), 1.0)
        assert not agrees(second_moments(run), 1.05 / (1.0 - step / 2.0))

    def test_preconditioned_steps_whiten_a_correlated_gaussian(self, draw, agrees):
        precision = np.linalg.inv(CORRELATED)
        run = draw(Target(gaussian(precision)), sgld(0.5, preconditioner="dense"), draws=1000, warmup=300)
        assert agrees(second_moments(run), upper(sgld_covariance(precision, run, 0.5)))
        assert not agrees(second_moments(run), upper(CORRELATED))

    def test_gradient_noise_adds_its_own_variance(self, draw, agrees):
        step, sd = 0.5, 1.0
        run = draw(Target(gaussian(1.0)), sgld(step, estimator=noisy(0.0, sd)), draws=1000, warmup=200)
        assert agrees(second_moments(run), (1.0 + step * sd**2 / 2.0) / (1.0 - step / 2.0))
        assert not agrees(second_moments(run), 1.0 / (1.0 - step / 2.0))


def sgld_covariance(precision, run, step):
    """Stationary covariance of SGLD, in the coordinates that the run's preconditioner P = L L^T whitens.

    With M = L^T A L: w' = (1 - h M) w + sqrt(2 h) xi has covariance (M - h M^2 / 2)^-1.
    """
    (matrix,) = run.report["preconditioner_matrices"]
    d = len(precision)
    matrix = np.eye(d) if matrix is None else np.asarray(matrix)
    factor = np.linalg.cholesky(np.diag(matrix) if matrix.ndim == 1 else matrix)
    whitened = factor.T @ precision @ factor
    return factor @ np.linalg.inv(whitened - step * whitened @ whitened / 2.0) @ factor.T


def printed_budget(gradient, noise, step_size, temperature, gradient_variance):
    """The budget as f-reSGLD prints it, tau eta where 2 tau eta is right."""
    left = np.maximum(temperature * step_size - step_size**2 * gradient_variance, 0.0)
    return Proposal(np.sqrt(left)[:, None] * noise - step_size * gradient, 0)


class TestNoiseBudget:
    """With the gradient's noise taken out of the injected noise, SGLD's law is that of exact gradients."""

    step = 0.5

    @pytest.mark.parametrize(
        "variance", [known(), known(1.0), running_average(), kernel_ridge()], ids=lambda v: type(v).__name__
    )
    def test_each_variance_model(self, draw, agrees, variance):
        # 1,000 probes at 100 states and more: the learnt variance is right to 0.5%
        run = self.run(draw, noisy(0.0, 1.0), GradientNoise(variance), gaussian(1.0))
        truth = 1.0 / (1.0 - self.step / 2.0)
        learnt = self.step / 2.0 * 0.005 * truth
        assert agrees(second_moments(run), truth, learnt)
        assert run.report["clipped_noise"] == [0.0]

    def test_no_budget_is_rejected(self, draw, agrees):
        run = self.run(draw, noisy(0.0, 1.0), None, gaussian(1.0))
        assert not agrees(second_moments(run), 1.0 / (1.0 - self.step / 2.0))

    def test_printed_budget_is_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(invsamp.engine.replica, "propose_within_budget", printed_budget)
        run = self.run(draw, noisy(0.0, 1.0), GradientNoise(), gaussian(1.0))
        assert not agrees(second_moments(run), 1.0 / (1.0 - self.step / 2.0))

    @pytest.mark.parametrize("preconditioner", [None, "diagonal", "dense"])
    @pytest.mark.parametrize("structure", ["isotropic", "diagonal", "full"])
    def test_each_structure_in_each_metric(self, draw, agrees, structure, preconditioner):
        precision = np.linalg.inv(CORRELATED)
        noise = GradientNoise(known(), structure)
        run = self.run(draw, noisy(0.0, 0.8), noise, gaussian(precision), preconditioner=preconditioner)
        assert agrees(second_moments(run), upper(sgld_covariance(precision, run, self.step)))

    def test_correlated_noise_of_a_minibatch(self, draw, agrees):
        target, precision, noise = bivariate_mean()
        step = 0.4 / np.linalg.eigvalsh(precision).max()

        def moments(variance, structure):
            budget = GradientNoise(variance, structure)
            run = draw(
                target, sgld(step, estimator=minibatch(50), gradient_noise=budget), draws=100, thin=2, warmup=100
            )
            truth = upper(sgld_covariance(precision, run, step))
            return second_moments(run) / truth, run.report["clipped_noise"]

        full, clipped = moments(known(noise), "full")
        assert clipped == [0.0]
        assert agrees(full, np.ones(3))
        stated, _ = moments(known(), "full")  # each batch's own covariance: its error is noise of second order
        assert agrees(stated, np.ones(3), 0.02)
        # the same total noise without its correlation
        isotropic, _ = moments(known(np.trace(noise) / 2.0), "isotropic")
        assert not agrees(isotropic, np.ones(3), 0.02)

    def test_state_dependent_noise_needs_a_state_dependent_variance(self, draw, agrees):
        def gradient_sd(position, energy):
            return 1.8 / (1.0 + np.exp(-2.0 * position[:, 0]))

        runs = {
            model: self.run(draw, noisy(0.0, gradient_sd), GradientNoise(model), gaussian(1.0))
            for model in (known(), kernel_ridge(), running_average())
        }
        right = np.array([1.0 / (1.0 - self.step / 2.0), 0.0])
        # an average keeps the variance whatever the noise depends on; the third moment shows the difference
        moments = {m: np.stack([(r.theta[..., 0] ** k).mean(axis=1) for k in (2, 3)], axis=1) for m, r in runs.items()}
        assert agrees(moments[known()], right)
        # the regression is right to about 2% where the law lies
        assert agrees(moments[kernel_ridge()], right, self.step / 2.0 * 0.02 * 1.8**2)
        assert not agrees(moments[running_average()], right, self.step / 2.0 * 0.02 * 1.8**2)

    def test_overspent_budget_is_counted(self, draw, agrees):
        # 2 tau / eta = 4 < 5: nothing may be injected, and the law is that of the gradient's noise alone
        noise = GradientNoise(beyond="clip")
        # no warm-up, which would refuse
        run = self.run(draw, noisy(0.0, math.sqrt(5.0)), noise, gaussian(1.0), warmup=0)
        assert run.report["clipped_noise"] == [1.0]
        assert agrees(second_moments(run), self.step * 5.0 / 2.0 / (1.0 - self.step / 2.0))

    def run(self, draw, estimator, noise, potential, preconditioner=None, warmup=500):
        sampler = sgld(self.step, estimator=estimator, gradient_noise=noise, preconditioner=preconditioner)
        (rung,) = sampler.rungs
        sampler = type(sampler)((type(rung)(**{**rung.__dict__, "probes": 1000}),), sampler.swap, preconditioner)
        return draw(Target(potential), sampler, draws=500, thin=2, warmup=warmup)


def bivariate_mean():
    """Posterior of a bivariate mean, 200 data: target centred on its mean, precision, covariance of batches of 50."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((200, 2)) @ np.linalg.cholesky(CORRELATED).T
    data -= data.mean(axis=0)
    precision = np.linalg.inv(CORRELATED)

    def term(position, batch):
        away = position[:, None] - batch
        pull = away @ precision
        return 0.5 * (pull * away).sum(axis=2), pull

    spread = precision @ np.cov(data.T) @ precision
    covariance = 200**2 / 50 * (1.0 - 50 / 200) * spread
    target = Target(SumPotential(data, term, 2), start=lambda rng, n: 0.1 * rng.standard_normal((n, 2)))
    return target, 200 * precision, covariance


class TestMinibatch:
    """Posterior of a Gaussian mean: variance (1 + eps r/2) / (1 - eps/2) in its own units, r = (N/n)(1 - n/N)."""

    size, batch, eps = 100, 50, 0.5
    ratio = size / batch * (1.0 - batch / size)
    #: Standard error of the variance from warm-up: 5 batches of each of 256 chains, 49 degrees of freedom.
    learnt = math.sqrt(2.0 / (5 * 256 * 49)) * eps * ratio / 2.0

    @pytest.fixture
    def target(self):
        data = np.random.default_rng(0).standard_normal(self.size)
        data = (data - data.mean()) / data.std(ddof=1)

        def term(position, batch):
            away = position - batch
            return 0.5 * away**2, away[:, :, None]

        start = lambda rng, n: rng.standard_normal((n, 1)) / math.sqrt(self.size)  # noqa: E731
        return Target(SumPotential(data, term, 1), start=start)

    def moments(self, run):
        return self.size * second_moments(run)

    def test_plain_sgld(self, draw, agrees, target):
        run = draw(target, sgld(self.eps / self.size, estimator=minibatch(self.batch)), draws=400, thin=2)
        truth = (1.0 + self.eps * self.ratio / 2.0) / (1.0 - self.eps / 2.0)
        assert agrees(self.moments(run), truth)
        without_replacement_forgotten = (1.0 + self.eps * self.size / self.batch / 2.0) / (1.0 - self.eps / 2.0)
        assert not agrees(self.moments(run), without_replacement_forgotten)

    def test_corrected_by_what_batches_show(self, draw, agrees, target):
        sampler = sgld(
            self.eps / self.size, estimator=minibatch(self.batch), gradient_noise=GradientNoise(running_average())
        )
        run = draw(target, sampler, draws=400, thin=2)
        assert agrees(self.moments(run), 1.0 / (1.0 - self.eps / 2.0), self.learnt)

    def test_fast_resgld_corrects_and_resgld_does_not(self, draw, agrees, target):
        eps = 0.2
        # hardly hotter: the energies of these batches have sd 7
        settings = {"temperatures": (1.0, 1.2), "step_size": eps / self.size, "estimator": minibatch(self.batch)}
        # swaps pull towards 1, steps towards 1 / (1 - eps/2): in between
        low, high = 1.0, 1.0 / (1.0 - eps / 2.0)
        truth = (low + high) / 2.0, (high - low) / (2.0 * 4.8)
        corrected = draw(target, fast_resgld(**settings, variance=running_average()), draws=200, thin=2, warmup=300)
        plain = draw(target, resgld(**settings), draws=200, thin=2, warmup=300)
        assert corrected.report["swap_accepts"][0] > 0.1 * corrected.report["swap_attempts"][0]
        assert agrees(self.moments(corrected), *truth)
        assert not agrees(self.moments(plain), *truth)


def simplex(vertices):
    """Half-spaces of a simplex (d + 1 vertices), and quadrature points (n, d) with weights on it."""
    vertices = np.asarray(vertices, dtype=float)
    d = vertices.shape[1]
    normals, offsets = [], []
    for k in range(d + 1):
        facet = np.delete(vertices, k, axis=0)
        _, _, rows = np.linalg.svd(np.vstack([facet[1:] - facet[0], np.zeros((1, d))]))
        normal = rows[-1] if (vertices[k] - facet[0]) @ rows[-1] < 0.0 else -rows[-1]
        normals.append(normal)
        offsets.append(normal @ facet[0])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    nodes, weights = (nodes + 1.0) / 2.0, weights / 2.0
    grids = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    jacobian = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    # collapse the cube onto the simplex one axis after the other
    barycentric, left = np.empty((len(grids), d)), np.ones(len(grids))
    for k in range(d):
        barycentric[:, k] = left * grids[:, k]
        jacobian = jacobian * left
        left = left * (1.0 - grids[:, k])
    return HalfSpaces(normals, offsets), vertices[0] + barycentric @ (vertices[1:] - vertices[0]), jacobian


def box(lower, upper_bounds):
    """A box, and quadrature points with weights on it."""
    d = len(lower)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    axes = [lo + (hi - lo) * (nodes + 1.0) / 2.0 for lo, hi in zip(lower, upper_bounds, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    jacobian = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    return Box(lower, upper_bounds), points, jacobian


def true_moments(potential, points, weights):
    """Mean and covariance of the target restricted to the quadrature points."""
    density = tempered(potential, points, weights)
    mean = density @ points
    return mean, (points - mean).T @ ((points - mean) * density[:, None])


def tempered(potential, points, weights):
    """Probabilities of the quadrature points."""
    energy = potential.energy(points)
    density = weights * np.exp(-(energy - energy.min()))
    return density / density.sum()


def moments_about(run, mean):
    """Per chain: means, and second moments about the true mean."""
    away = run.theta - mean
    second = np.einsum("cni,cnj->cij", away, away) / away.shape[1]
    return np.concatenate([run.theta.mean(axis=1), second[:, *np.triu_indices(len(mean))]], axis=1)


TRUNCATED = {
    "box 1-D": (gaussian(1.0, 0.5), box([-0.5], [1.0])),
    "interval": (gaussian(1.0, 0.5), simplex([[-0.5], [1.0]])),
    "box 2-D": (gaussian(np.linalg.inv(CORRELATED), (1.0, 0.0)), box([-1.0, -0.5], [1.2, 1.5])),
    "triangle": (gaussian(np.linalg.inv(CORRELATED), (1.0, 0.0)), simplex([[-1.0, -1.0], [2.0, 0.0], [0.5, 1.5]])),
    "tetrahedron": (
        gaussian([[2.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 3.0]], (0.5, 0.5, 0.0)),
        simplex([[-1.0, -1.0, -1.0], [1.5, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 2.0]]),
    ),
}


class TestTruncatedGaussian:
    """MALA along specular paths has exactly the restricted law."""

    @pytest.mark.parametrize("preconditioner", [None, "dense"])
    @pytest.mark.parametrize("case", TRUNCATED)
    def test_mala(self, draw, agrees, case, preconditioner):
        potential, (domain, points, weights) = TRUNCATED[case]
        mean, covariance = true_moments(potential, points, weights)
        sampler = mala(0.5 if preconditioner is None else 0.8, preconditioner=preconditioner)
        run = draw(Target(potential, domain), sampler, draws=400, thin=2, warmup=300)
        assert run.report["reflections"][0] > 1000
        assert agrees(moments_about(run, mean), np.append(mean, upper(covariance)))

    def test_quadrature_against_scipy(self):
        potential, (_, points, weights) = TRUNCATED["interval"]
        mean, covariance = true_moments(potential, points, weights)
        law = truncnorm(-1.0, 0.5, loc=0.5)
        np.testing.assert_allclose([mean[0], covariance[0, 0]], [law.mean(), law.var()], rtol=1e-10)

    def test_projection_is_rejected(self, draw, agrees):
        potential, (domain, points, weights) = TRUNCATED["box 2-D"]
        mean, covariance = true_moments(potential, points, weights)
        run = draw(Target(potential, Projecting(domain.lower, domain.upper)), mala(0.5), draws=400, thin=2, warmup=300)
        assert not agrees(moments_about(run, mean), np.append(mean, upper(covariance)))


class Projecting(Box):
    """Wrong on purpose: moves that leave are put on the nearest wall."""

    def reflect(self, position, move, metric=None):
        end = np.clip(position + move, self.lower, self.upper)
        outside = (end != position + move).any(axis=1)
        return Reflection(end, move, outside.astype(np.int64), np.zeros(len(end), dtype=bool))


class Euclidean(HalfSpaces):
    """Wrong on purpose: forgets the preconditioner at the walls."""

    def reflect(self, position, move, metric=None):
        return super().reflect(position, move)


class TestReflectedSgld:
    """Without adjustment the bar is 0.03 sd on the mean at step 0.02, with a standard error four times below that."""

    law = truncnorm(-0.5, 1.5)

    def mean_error(self, draw, domain):
        target = Target(gaussian(1.0), domain, start=lambda rng, n: self.law.rvs((n, 1), random_state=rng))
        run = draw(target, sgld(0.02), draws=100, thin=20, warmup=200, chains=2000)
        means = run.theta.mean(axis=(1, 2))
        assert means.std() / math.sqrt(len(means)) < 0.0075 * self.law.std()
        return abs(means.mean() - self.law.mean()) / self.law.std()

    def test_specular(self, draw):
        assert self.mean_error(draw, Box(-0.5, 1.5)) <= 0.03

    def test_projection_is_rejected(self, draw):
        assert self.mean_error(draw, Projecting(-0.5, 1.5)) > 0.03

    @pytest.mark.parametrize("right", [True, False])
    def test_walls_turn_preconditioned_moves_in_whitened_coordinates(self, draw, right):
        potential, (domain, points, weights) = TRUNCATED["triangle"]
        mean, covariance = true_moments(potential, points, weights)
        start = points[np.random.default_rng(0).choice(len(points), 4000, p=tempered(potential, points, weights))]
        domain = domain if right else Euclidean(domain.normals, domain.offsets)
        sampler = sgld(0.02, preconditioner="dense")
        run = draw(Target(potential, domain, start), sampler, draws=100, thin=10, warmup=200, chains=1000)
        errors = np.abs(run.theta.mean(axis=(0, 1)) - mean) / np.sqrt(np.diag(covariance))
        assert (errors.max() <= 0.03) == right


def mixture_moments(run):
    """Per chain: P(right mode), and second moment about each mode's mean within it, by its share of all draws."""
    x = run.theta[..., 0]
    right = x > -0.5
    return np.stack([right.mean(1), (right * (x - 3.0) ** 2).mean(1), (~right * (x + 4.0) ** 2).mean(1)], axis=1)


MIXTURE = np.array([0.6, 0.6 * 0.5**2, 0.4 * 0.7**2])


def spread_start(rng, n):
    return rng.uniform(-7.0, 6.0, (n, 1))


class TestReplicaExchange:
    """The cold rung's law with exact energies; a coarse model that is badly wrong must not change it."""

    @pytest.fixture
    def two_fidelities(self):
        coarse = GaussianMixture((0.8, 0.2), (-4.6, 2.5), (0.9, 0.8))
        return Target({"coarse": coarse, "fine": two_modes()}, start=spread_start)

    def run(self, draw, target, rule=None, temperatures=(1.0, 10.0)):
        steps = [0.3 + 0.05 * t for t in temperatures]
        sampler = relangevin(temperatures, steps, swap=rule, swap_fraction=0.3)
        return draw(target, sampler, draws=250, thin=8, warmup=400)

    @pytest.mark.parametrize("rule", [rules.product_target(), rules.delayed_acceptance(), None])
    def test_two_fidelities(self, draw, agrees, two_fidelities, rule):
        run = self.run(draw, two_fidelities, rule)
        assert run.report["fidelities"] == ["fine", "coarse"]
        assert agrees(mixture_moments(run), MIXTURE)

    def test_own_energies_of_two_fidelities_are_rejected(self, draw, agrees, two_fidelities):
        run = self.run(draw, two_fidelities, rules.fast(assume_unbiased=True))
        assert not agrees(mixture_moments(run), MIXTURE)

    def test_four_rungs(self, draw, agrees, two_fidelities):
        run = self.run(draw, two_fidelities, temperatures=(1.0, 2.5, 5.0, 12.0))
        assert run.report["fidelities"] == ["fine", "coarse", "coarse", "coarse"]
        assert agrees(mixture_moments(run), MIXTURE)

    def test_hot_rung_has_the_tempered_law(self, draw, agrees):
        run = draw(Target(gaussian(1.0)), relangevin((1.0, 4.0), 1.0), draws=500, thin=2, warmup=100)
        hot = run.rung_theta(1)
        assert agrees((hot**2).mean(axis=(1, 2)), 4.0)
        assert not agrees((hot**2).mean(axis=(1, 2)), 4.0 / (1.0 - 0.05))

    @pytest.mark.parametrize(("rule", "right"), [(rules.corrected(), True), (rules.naive(), False)])
    def test_noisy_energies_need_the_penalty(self, draw, agrees, rule, right):
        sampler = resgld(
            (1.0, 10.0), 0.03, estimator=noisy(2.0, 0.0), swap=rule, energy_variance=known(), swap_fraction=0.3
        )
        run = draw(Target(two_modes(), start=spread_start), sampler, draws=200, thin=15, warmup=1000)
        weight = (run.theta[..., 0] > -0.5).mean(axis=1)
        # plain steps of 0.03 with exact swaps give 0.587, by the transition operator on a grid
        assert bool(agrees(weight, 0.587, 0.002)) == right


def test_failed_solves_cut_the_target(draw, agrees):
    """A potential that cannot be solved on one side is sampled on the other, by MALA exactly."""

    def function(position):
        x = position[:, 0]
        failed = x > 0.7
        return np.where(failed, np.nan, 0.5 * x**2), np.where(failed, np.inf, x)[:, None]

    potential = FunctionPotential(function, 1)
    run = draw(Target(potential), mala(0.8), draws=500, thin=2)
    law = truncnorm(-np.inf, 0.7)
    truth = [law.mean(), law.var()]
    assert run.report["failed_solves"]["target"] > 1000
    assert (run.theta < 0.7).all()
    assert agrees(moments_about(run, law.mean() * np.ones(1)), truth)
    # a reflecting wall at the same place, walked without adjustment at a large step, is another law
    walled = draw(Target(gaussian(1.0), Box(-np.inf, 0.7)), sgld(0.8), draws=500, thin=2)
    assert not agrees(moments_about(walled, law.mean() * np.ones(1)), truth)


def test_budget_of_zero_variance_is_plain_sgld(draw):
    """Limit case: the same draws, bit for bit."""
    target = Target(gaussian(np.eye(2)), Unbounded())
    plain = draw(target, sgld(0.3, estimator=noisy(0.0, 0.0)), draws=50, warmup=0)
    budgeted = draw(
        target, sgld(0.3, estimator=noisy(0.0, 0.0), gradient_noise=GradientNoise(known(0.0))), draws=50, warmup=0
    )
    np.testing.assert_array_equal(plain.theta, budgeted.theta)
    assert propose_within_budget is invsamp.engine.replica.propose_within_budget
