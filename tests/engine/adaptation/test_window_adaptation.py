"""What warm-up finds, on targets whose right answers are known, and that it is frozen afterwards."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from invsamp.domains import Box, HalfSpaces
from invsamp.engine.adaptation.metric_estimation import DenseMetricEstimator, DiagonalMetricEstimator
from invsamp.engine.adaptation.step_size_and_metric import STABILITY_FRACTION
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.estimators import minibatch, noisy
from invsamp.kernels import Langevin
from invsamp.ladder import GradientNoise
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.problems import reactions
from invsamp.samplers import fast_resgld, ghmc, hmc, mala, mams, parallel_tempering, sghmc, sgld
from invsamp.variances.models import kernel_ridge, known, running_average

ACCEPTANCE = Langevin(adjusted=True).target_acceptance
COVARIANCE = np.array([[4.0, 1.8, 0.0], [1.8, 1.0, 0.1], [0.0, 0.1, 0.08]])


def gaussian(precision):
    def function(position):
        pull = position @ precision
        return 0.5 * (pull * position).sum(axis=1), pull

    return FunctionPotential(function, len(precision))


def flat(position):
    return np.zeros(len(position)), np.zeros_like(position)


CORRELATED = gaussian(np.linalg.inv(COVARIANCE))


class TestAcceptance:
    @pytest.mark.parametrize("preconditioner", [None, "diagonal", "dense"])
    def test_of_an_adjusted_kernel(self, draw, preconditioner):
        sampler = mala(preconditioner=preconditioner)
        run = draw(Target(CORRELATED), sampler, draws=200, warmup=600, chains=8)
        assert run.report["acceptance"] == pytest.approx([ACCEPTANCE], abs=0.05)
        assert run.report["step_size_source"] == ["found in warm-up by acceptance"]

    def test_of_every_rung(self, draw):
        run = draw(Target(CORRELATED), parallel_tempering((1.0, 5.0, 25.0)), draws=200, warmup=800, chains=8)
        assert run.report["acceptance"] == pytest.approx([ACCEPTANCE] * 3, abs=0.05)

    def test_with_momentum(self, draw):
        run = draw(Target(CORRELATED), ghmc(), draws=400, warmup=600, chains=8)
        assert run.report["acceptance"] == pytest.approx([0.93], abs=0.03)

    def test_of_one_chain(self, draw):
        run = draw(Target(CORRELATED), mala(), draws=1000, warmup=2000, chains=1)
        assert run.report["acceptance"] == pytest.approx([ACCEPTANCE], abs=0.08)

    def test_steps_that_were_given_are_kept(self, draw):
        run = draw(Target(CORRELATED), mala(0.123, preconditioner="dense"), draws=10, warmup=200, chains=8)
        assert run.report["step_sizes"] == [0.123]
        assert run.report["step_size_source"] == ["given"]


class TestStability:
    """Unadjusted kernels step by 0.1 / lambda, a twentieth of the stability limit 2 / lambda."""

    precision = np.diag([1.0, 4.0, 25.0])

    def test_of_a_known_curvature(self, draw):
        run = draw(Target(gaussian(self.precision)), sgld(preconditioner=None), draws=10, warmup=300, chains=8)
        assert run.report["step_sizes"] == pytest.approx([2.0 * STABILITY_FRACTION / 25.0], rel=0.01)
        assert "of the stability limit" in run.report["step_size_source"][0]

    def test_common_random_numbers_cancel_the_noise(self, draw):
        sampler = sgld(estimator=noisy(10.0, 3.0), preconditioner=None)
        run = draw(Target(gaussian(self.precision)), sampler, draws=10, warmup=300, chains=8)
        assert run.report["step_sizes"] == pytest.approx([2.0 * STABILITY_FRACTION / 25.0], rel=0.02)

    @pytest.mark.parametrize("temperature", [1.0, 10.0])
    def test_in_whitened_coordinates_the_curvature_is_one(self, draw, temperature):
        sampler = parallel_tempering((1.0, temperature), adjusted=False) if temperature > 1.0 else sgld()
        run = draw(Target(CORRELATED), sampler, draws=10, warmup=1000, chains=16)
        assert run.report["step_sizes"][-1] == pytest.approx(2.0 * STABILITY_FRACTION, rel=0.15)

    @pytest.mark.parametrize("friction", [1.0, 0.3])
    def test_chains_of_noisy_gradients_stay_at_their_given_starts(self, draw, friction):
        """A posterior much narrower than its prior: a first step by the prior's width would leave it for good."""
        problem = reactions.slow_or_fast()
        estimator = minibatch(8, reactions.GROUPS)
        sampler = sgld(estimator=estimator) if friction == 1.0 else sghmc(estimator=estimator, friction=friction)
        run = draw(problem, sampler, draws=10, warmup=200, chains=16, start=[1.262, 0.793, 1.011])
        energy = problem.potential().energy(np.log(run.theta[:, -1]))
        assert energy.max() < -987.1 + 60.0  # three degrees of freedom, with noise that is not taken out

    def test_the_noise_budget_is_not_overspent(self, draw):
        """Half of 2 tau / s^2 where that is less than what stability allows."""
        sampler = sgld(estimator=noisy(0.0, 20.0), gradient_noise=GradientNoise(known()), preconditioner=None)
        run = draw(Target(gaussian(np.eye(1))), sampler, draws=100, warmup=200, chains=16)
        assert run.report["step_sizes"] == pytest.approx([1.0 / 400.0])
        assert run.report["clipped_noise"] == [0.0]


class TestMetric:
    @pytest.mark.parametrize("make", [mala, sgld, lambda: parallel_tempering((1.0, 10.0))], ids=["mala", "sgld", "hot"])
    def test_dense_recovers_the_covariance(self, draw, make):
        run = draw(Target(CORRELATED), make(), draws=10, warmup=1500, chains=16)
        for matrix in run.report["preconditioner_matrices"]:
            ratios = np.linalg.eigvals(np.linalg.solve(COVARIANCE, np.array(matrix))).real
            assert ratios.min() > 0.8
            assert ratios.max() < 1.25

    def test_hessians_do_not_depend_on_how_many_points_are_solved_at_once(self, draw, monkeypatch):
        together = draw(Target(CORRELATED), mala(), draws=10, warmup=200, chains=4)
        monkeypatch.setattr("invsamp.engine.adaptation.step_size_and_metric._AT_ONCE", 2 * CORRELATED.dimension)
        apart = draw(Target(CORRELATED), mala(), draws=10, warmup=200, chains=4)
        np.testing.assert_allclose(apart.theta, together.theta, rtol=1e-9)

    def test_diagonal_is_between_the_variances_and_the_curvatures(self, draw):
        run = draw(Target(CORRELATED), mala(preconditioner="diagonal"), draws=10, warmup=1500, chains=16)
        (matrix,) = run.report["preconditioner_matrices"]
        variances, conditional = np.diag(COVARIANCE), 1.0 / np.diag(np.linalg.inv(COVARIANCE))
        np.testing.assert_allclose(matrix, np.sqrt(variances * conditional), rtol=0.2)

    def test_gradient_noise_is_no_curvature(self, draw):
        sampler = sgld(estimator=noisy(0.0, 2.0), gradient_noise=GradientNoise(known()))
        run = draw(Target(gaussian(np.diag([4.0, 4.0]))), sampler, draws=10, warmup=1500, chains=16)
        (matrix,) = run.report["preconditioner_matrices"]
        np.testing.assert_allclose(matrix, 0.25 * np.eye(2), atol=0.06)

    def test_curvatures_of_few_chains_do_not_cancel(self, draw):
        """1 and, between -1 and 1, -1: with signs the mean of four is 0 at some seed, and the metric far too wide."""

        def function(position):
            inside = np.clip(position, -1.0, 1.0)
            return (0.5 * position**2 - inside * (2.0 * position - inside))[:, 0], position - 2.0 * inside

        target = Target(FunctionPotential(function, 1))
        sampler = sgld(0.1, estimator=noisy(0.0, 0.01), preconditioner="dense")
        for seed in range(20):
            run = draw(target, sampler, draws=1, warmup=100, chains=4, seed=seed)
            assert 0.9 < run.report["preconditioner_matrices"][0][0][0] < 1.5

    def test_distance_between_modes_is_not_its_scale(self, draw):
        """Two Gaussians of sd 0.1 at -5 and 5: a covariance would say 25, the curvature says 0.01."""

        def function(position):
            side = np.where(position > 0.0, 5.0, -5.0)
            return 50.0 * ((position - side) ** 2).sum(axis=1), 100.0 * (position - side)

        target = Target(FunctionPotential(function, 1), start=np.array([[-5.0], [5.0]]))
        run = draw(target, mala(), draws=10, warmup=1000, chains=16)
        assert run.report["preconditioner_matrices"][0][0][0] == pytest.approx(0.01, rel=0.25)

    def test_units_may_differ_by_any_factor(self, draw):
        units = np.array([1e-9, 1.0, 1e11])
        scaled = gaussian(np.linalg.inv(COVARIANCE * np.outer(units, units)))
        target = Target(scaled, start=lambda rng, n: units * rng.standard_normal((n, 3)))
        run = draw(target, mala(), draws=200, warmup=1500, chains=16)
        (matrix,) = run.report["preconditioner_matrices"]
        ratios = np.linalg.eigvals(np.linalg.solve(COVARIANCE, np.array(matrix) / np.outer(units, units))).real
        assert ratios.min() > 0.8
        assert ratios.max() < 1.25
        assert run.report["acceptance"] == pytest.approx([ACCEPTANCE], abs=0.05)


class TestFlatEnergy:
    """A parameter without data: uniform between bounds, with a finite step."""

    domains = (Box(-1.0, 1.0), HalfSpaces(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4)))

    @pytest.mark.parametrize("domain", domains, ids=["box", "half-spaces"])
    @pytest.mark.parametrize("make", [mala, sgld])
    def test_uniform_distribution(self, draw, agrees, domain, make):
        run = draw(Target(FunctionPotential(flat, 2), domain), make(), draws=200, warmup=300, chains=128)
        assert agrees(np.concatenate([run.theta.mean(axis=1), (run.theta**2).mean(axis=1)], 1), [0, 0, 1 / 3, 1 / 3])
        assert run.report["reflection_fallbacks"][0] < 1e-3 * run.theta.size
        longest = run.report["step_sizes"][0] * np.max(run.report["preconditioner_matrices"][0])
        assert 0.0 < longest < 500.0

    def test_one_informed_direction(self, draw, agrees):
        def function(position):
            return 50.0 * position[:, 0] ** 2, np.column_stack([100.0 * position[:, 0], np.zeros(len(position))])

        run = draw(Target(FunctionPotential(function, 2), self.domains[0]), mala(), draws=300, thin=2, chains=128)
        assert agrees((run.theta**2).mean(axis=1), [0.01, 1 / 3])


class TestFrozen:
    @pytest.mark.parametrize(
        "sampler",
        [
            parallel_tempering((1.0, 4.0)),
            fast_resgld((1.0, 4.0), estimator=noisy(0.3, 0.5), variance=running_average()),
            fast_resgld((1.0, 4.0), estimator=noisy(0.3, 0.5), variance=kernel_ridge()),
        ],
        ids=["exact", "running average", "kernel ridge"],
    )
    def test_draws_do_not_change_what_was_found(self, draw, sampler):
        """A longer run begins with the shorter one, and both report the same settings."""
        short, long = (draw(Target(CORRELATED), sampler, draws=n, warmup=300, chains=8) for n in (20, 200))
        for key in ("step_sizes", "preconditioner_matrices", "warmup_evaluations", "swap_rules"):
            assert short.report[key] == long.report[key]
        np.testing.assert_array_equal(short.theta, long.theta[:, :20])

    def test_counts_begin_after_warm_up(self, draw):
        run = draw(Target(CORRELATED), parallel_tempering((1.0, 4.0), 0.05), draws=100, warmup=500, chains=8)
        assert run.report["swap_attempts"][0] == 8 * 100
        assert run.report["evaluations"]["target"] == run.report["warmup_evaluations"]["target"] + 2 * 8 * 100


class TestTooShort:
    """Refused before any solve: see also the sampler's tests."""

    @pytest.mark.parametrize(
        ("sampler", "warmup", "message"),
        [
            (mala(), 99, "warmup must be at least 100 steps to find step size, preconditioner or variances, got 99"),
            (sgld(0.1, preconditioner="dense"), 0, "warmup must be at least 100 steps"),
            (fast_resgld(step_size=0.1, estimator=noisy(1.0), variance=running_average()), 50, "at least 100 steps"),
            (
                fast_resgld(step_size=0.1, estimator=noisy(1.0), variance=kernel_ridge(states=400)),
                300,
                "warmup must be at least 334 steps for 200 pilot states of each of 2 chains, got 300",
            ),
        ],
    )
    def test_message(self, draw, sampler, warmup, message):
        def never(position):
            raise AssertionError("solved before the arguments were checked")

        with pytest.raises(ValueError, match=message):
            draw(Target(FunctionPotential(never, 2)), sampler, draws=10, warmup=warmup, chains=2)

    def test_nothing_to_find_needs_none(self, draw):
        run = draw(Target(CORRELATED), sgld(0.01), draws=5, warmup=0, chains=2)
        assert run.report["warmup_evaluations"] == {"target": 2}


class TestTheWayDown:
    """Starts thousands of standard deviations off in stiff directions and a few in soft ones."""

    SDS = np.geomspace(1e-3, 1.0, 20)

    def target(self, dimension=20):
        rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((dimension, dimension)))
        return Target(gaussian((rotation / self.SDS**2) @ rotation.T)), rotation

    def whitened(self, run, rotation):
        """Variances (chains, dimension) along the principal axes, in units of the right ones."""
        return (run.theta @ rotation / self.SDS).var(axis=1)

    @pytest.mark.parametrize(
        "sampler", [mala(), parallel_tempering((1.0, 2.0)), sgld()], ids=["mala", "parallel_tempering", "sgld"]
    )
    def test_ill_conditioned_gaussian(self, draw, sampler):
        target, rotation = self.target()
        run = draw(target, sampler, draws=1000, warmup=1000, chains=4, seed=2)
        matrix = np.array(run.report["preconditioner_matrices"][0])
        found = np.linalg.eigvalsh((rotation.T @ matrix @ rotation) / np.outer(self.SDS, self.SDS))
        # the covariance up to the noise of its estimate from some hundreds of steps
        assert found.min() > 0.3 and found.max() < 3.0
        # the chains have arrived: within a factor of 2 of the right variance along every axis
        variances = self.whitened(run, rotation).mean(axis=0)
        assert variances.min() > 0.5 and variances.max() < 2.0

    def test_without_a_preconditioner_it_is_not_done_in_this_time(self, draw):
        target, rotation = self.target()
        run = draw(target, mala(preconditioner=None), draws=1000, warmup=1000, chains=4, seed=2)
        variances = self.whitened(run, rotation).mean(axis=0)
        assert variances.min() < 0.5 or variances.max() > 2.0


class TestManyParameters:
    """A diagonal preconditioner: what "auto" is above 1000 parameters."""

    SDS = np.geomspace(1e-4, 1.0, 1200)

    def target(self, start=None, domain=None):
        """Independent, of standard deviations over four orders of magnitude; by default the starts are all one wide."""
        d = len(self.SDS)
        start = start or (lambda rng, n: rng.standard_normal((n, d)))

        def function(position):
            with np.errstate(over="ignore"):  # paths that are too long by far are refused
                return 0.5 * ((position / self.SDS) ** 2).sum(axis=1), position / self.SDS**2

        return Target(FunctionPotential(function, d), domain, start=start)

    @pytest.mark.parametrize(
        "make",
        [
            mala,
            sgld,
            *(pytest.param(other, marks=pytest.mark.slow) for other in (ghmc, hmc, parallel_tempering, sghmc)),
        ],
    )
    def test_finds_scales_over_four_orders_of_magnitude(self, draw, make):
        run = draw(self.target(), make(), draws=10, warmup=100, chains=4)
        for matrix in run.report["preconditioner_matrices"]:
            np.testing.assert_allclose(matrix, self.SDS**2, rtol=1e-6)

    @pytest.mark.slow
    def test_arrives(self, draw):
        run = draw(self.target(), hmc(), draws=100, warmup=600, chains=4)
        assert run.report["acceptance"] == pytest.approx([0.8], abs=0.1)
        assert self.variances(run) == pytest.approx(np.ones(12), abs=0.15)

    @pytest.mark.slow
    def test_without_it_hardly_moves_where_it_is_soft(self, draw):
        run = draw(self.target(), mala(preconditioner=None), draws=100, warmup=600, chains=4)
        assert np.ptp(run.theta[..., -100:], axis=1).mean() < 0.2

    def variances(self, run):
        """In units of the right ones, of each hundred parameters."""
        return ((run.theta / self.SDS) ** 2).mean(axis=(0, 1)).reshape(12, 100).mean(axis=1)

    def test_between_bounds(self, draw):
        """A probe moves all parameters at once, and some chain is near some bound."""
        target = self.target(lambda rng, n: rng.uniform(-self.SDS, self.SDS, (n, 1200)), Box(-self.SDS, self.SDS))
        run = draw(target, mala(), draws=10, warmup=100, chains=4)
        np.testing.assert_allclose(run.report["preconditioner_matrices"][0], self.SDS**2, rtol=1e-6)

    def test_noise_is_no_curvature(self, draw):
        run = draw(self.target(), sgld(estimator=noisy(0.0, 2.0)), draws=10, warmup=100, chains=4)
        np.testing.assert_allclose(run.report["preconditioner_matrices"][0], self.SDS**2, rtol=1e-3)

    def test_stiff_directions_that_all_share_scatter_no_scales(self, draw):
        """Estimates of the Hessian's diagonal from as many probes differ by orders of magnitude."""
        d, rng = 1200, np.random.default_rng(3)
        direction = rng.choice([-1.0, 1.0], d) / np.sqrt(d)

        def function(position):
            along = position @ direction
            return 0.5 * (position**2).sum(axis=1) + 5e3 * along**2, position + 1e4 * along[:, None] * direction

        run = draw(Target(FunctionPotential(function, d)), mala(), draws=10, warmup=100, chains=4)
        (matrix,) = run.report["preconditioner_matrices"]
        assert max(matrix) < 3.0 * min(matrix)

    def test_what_auto_came_to_is_reported(self, draw):
        large = draw(self.target(), mala(), draws=2, warmup=100, chains=1).report
        assert large["preconditioner"] == "diagonal"
        assert large["sampler"] == "MALA, preconditioner diagonal (1200 parameters, dense up to 1000)"
        small = draw(Target(CORRELATED), mala(), draws=2, warmup=100, chains=1).report
        assert (small["preconditioner"], small["sampler"]) == ("dense", "MALA, preconditioner dense")

    def test_dense_matrices_that_find_no_room_are_refused(self, draw):
        def never(position):
            raise AssertionError("solved before the arguments were checked")

        message = "preconditioner must be 'diagonal' or None for 200000 parameters, got 'dense', whose matrices take"
        with pytest.raises(ValueError, match=message):
            draw(Target(FunctionPotential(never, 200_000)), mala(preconditioner="dense"), chains=1)


class TestDiagonalTarget:
    """Correlated neighbors with a diagonal preconditioner: slower, but as exact."""

    SDS, CORRELATION = np.geomspace(1e-2, 1.0, 30), 0.7

    def squares(self, draw, sampler):
        """Means by chain: of the energy, and of products of neighbors, in units of the parameters'."""
        distance = np.abs(np.subtract.outer(range(30), range(30)))
        precision = np.linalg.inv(self.CORRELATION**distance * np.outer(self.SDS, self.SDS))
        # with a step that is given, starts that are too wide would be too stiff
        target = Target(gaussian(precision), start=lambda rng, n: self.SDS * rng.standard_normal((n, 30)))
        run = draw(target, sampler, draws=300, warmup=800, thin=2, chains=128)
        scaled = run.theta / self.SDS
        neighbors = (scaled[..., 1:] * scaled[..., :-1]).mean(axis=(1, 2))
        return np.column_stack([0.5 * ((run.theta @ precision) * run.theta).sum(axis=-1).mean(axis=1), neighbors])

    @pytest.mark.parametrize("make", [mala, hmc])
    def test_is_exact(self, draw, agrees, make):
        assert agrees(self.squares(draw, make(preconditioner="diagonal")), [15.0, self.CORRELATION])

    def test_bias_of_long_unadjusted_steps_is_rejected(self, draw, agrees):
        assert not agrees(self.squares(draw, sgld(0.2, preconditioner="diagonal")), [15.0, self.CORRELATION])


@pytest.mark.parametrize(
    "sampler",
    [
        sgld(0.1),
        *(pytest.param(other, marks=pytest.mark.slow) for other in (mala(), ghmc(), hmc())),
        parallel_tempering(),
    ],
    ids=str,
)
def test_memory_is_linear_in_the_dimension(sampler):
    def most(dimension):
        """Bytes at once, in units of the chains' positions."""
        potential = FunctionPotential(lambda position: (0.5 * (position**2).sum(axis=1), position), dimension)
        engine = Engine(Target(potential), sampler, Plan(draws=1, warmup=100, thin=1, chains=4, seed=1))
        tracemalloc.start()
        try:
            engine.begin()
            while engine.warming:
                engine.step()
            return tracemalloc.get_traced_memory()[1] / (8 * 4 * dimension)
        finally:
            tracemalloc.stop()

    # the spread of two hundred starting points takes most; a matrix of 3000 x 3000 alone would be 750 of these
    assert most(3000) < 200
    assert most(6000) < 200


class TestWhenItStops:
    """With nothing asked for it ends as soon as a window has taught nothing new."""

    def steps(self, sampler, target, chains=4):
        engine = Engine(target, sampler, Plan(1, 500, 1, chains, 1, stops_early=True))
        engine.begin()
        while engine.warmed is None:
            engine.step()
        return engine.warmed

    @pytest.mark.parametrize("preconditioner", ["dense", "diagonal"])
    def test_at_once_on_a_gaussian(self, preconditioner):
        assert self.steps(mams(preconditioner=preconditioner), Target(gaussian(np.eye(3)))) < 300

    def test_not_while_chains_do_not_agree(self):
        """They keep to parts of a ring of their own, where metric and energies do not change."""

        def ring(x):
            radius = np.linalg.norm(x, axis=1)
            return 50.0 * (radius - 5.0) ** 2, (100.0 * (radius - 5.0) / radius)[:, None] * x

        assert self.steps(mala(), Target(FunctionPotential(ring, 2))) == 500

    def test_chains_that_are_apart_disagree(self):
        rng = np.random.default_rng(1)
        for kind in (DenseMetricEstimator, DiagonalMetricEstimator):
            disagreements = []
            for apart in (0.0, 3.0):
                metric_estimator, centers = kind(100, 4, 2), apart * np.arange(4.0)[:, None]
                for x in rng.standard_normal((100, 4, 2)):
                    metric_estimator.add(centers + x, x, np.zeros(4))
                disagreements.append(metric_estimator.disagreement())
            assert disagreements[0] < 1.1 and disagreements[1] > 2.0
        alone = DiagonalMetricEstimator(100, 1, 2)
        for x in rng.standard_normal((100, 1, 2)):
            alone.add(x, x, np.zeros(1))
        assert alone.disagreement() == 1.0
