"""Fixed references, SAGA and snapshots of energies alone: unbiased, of their orders; one batch for both chains of a
swap."""

from __future__ import annotations

import numpy as np
import pytest
from asking import Asked
from data_terms import DATA, HERE, PAIRS, POSTERIOR, POTENTIAL, SIZE, THERE, X, all_pairs, curve, slopes
from scipy.special import log_ndtr, ndtr

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.swap_acceptance import SwapAttempt
from invsamp.estimators import minibatch
from invsamp.estimators.contract import Pairing
from invsamp.estimators.control_variates import COEFFICIENT_GAIN
from invsamp.evaluate.requests import answered
from invsamp.problems import reactions

__all__ = ["all_pairs"]  # a fixture
BATCHES = len(PAIRS)
TABLES = {
    "snapshot": iv.estimators.control_variate(SIZE, 5, order="constant"),
    "adaptive": iv.estimators.control_variate(SIZE, 5, order="constant", adaptive=True),
    "saga": iv.estimators.saga(SIZE),
    "linear": iv.estimators.fixed_control(SIZE, [THERE], order="linear"),
    "Gauss-Newton": iv.estimators.fixed_control(SIZE, [THERE], order="gauss_newton"),
    "quadratic": iv.estimators.fixed_control(SIZE, [THERE]),
}
#: By how many powers of the distance the noise of energies and of gradients falls.
ORDERS = {
    "snapshot": (1, 0),
    "adaptive": (1, 0),
    "saga": (1, 1),
    "linear": (2, 1),
    "Gauss-Newton": (2, 1),
    "quadratic": (3, 2),
}


def asked(estimator, snapshot=THERE, rows=BATCHES):
    """A bound estimator, and what it remembers of chains that began at the snapshot."""
    found = Asked(estimator, POTENTIAL, "full")
    memory = answered(found.bound.init(np.random.default_rng(0), np.tile(snapshot, (rows, 1))), found.source.answer_all)
    return found, memory


def estimate(estimator, position, snapshot=THERE):
    one, memory = asked(estimator, snapshot, len(position))
    return answered(one.bound.estimate(np.random.default_rng(0), position, True, memory), one.source.answer_all)


@pytest.mark.parametrize("name", TABLES)
class TestEstimates:
    def test_are_unbiased_and_so_are_their_variances(self, all_pairs, name):
        found = estimate(TABLES[name], np.tile(HERE, (len(PAIRS), 1)))
        energy, gradient = POTENTIAL.energy_and_gradient(HERE[None])
        np.testing.assert_allclose(found.energy.mean(), energy[0], rtol=1e-12)
        np.testing.assert_allclose(found.gradient.mean(axis=0), gradient[0], rtol=1e-9)
        assert found.energy.std() > 1e-4
        np.testing.assert_allclose(found.energy_variance.mean(), found.energy.var(), rtol=1e-8)
        covariance = np.cov(found.gradient.T, ddof=0)
        np.testing.assert_allclose(found.gradient_variance.mean(axis=0), covariance, rtol=1e-8, atol=1e-14)

    def test_noise_falls_with_the_distance(self, all_pairs, name):
        distances, direction = np.array([0.01, 0.02, 0.04]), np.array([0.6, 0.8])
        found = [estimate(TABLES[name], np.tile(THERE + r * direction, (len(PAIRS), 1))) for r in distances]
        sds = [f.energy.std() for f in found], [f.gradient.std(axis=0).max() for f in found]
        for order, sd in zip(ORDERS[name], sds, strict=True):
            assert abs(np.polyfit(np.log(distances), np.log(sd), 1)[0] - order) < 0.12

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_is_resumed_to_the_bit(self, tmp_path, name):
        sampler = iv.resgld((1.0, 4.0), 5e-4, estimator=TABLES[name], swap_fraction=0.5)
        settings = {"warmup": 130, "chains": 3, "seed": 7, "progress": False}
        whole = iv.sample(POSTERIOR, sampler, draws=20, **settings)
        iv.sample(POSTERIOR, sampler, draws=8, directory=tmp_path / "run", **settings)
        run = iv.resume(tmp_path / "run", draws=20, progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        assert run.report["evaluations"] == whole.report["evaluations"]


class TestCoefficient:
    def test_follows_what_is_best_and_stays_near_minus_one(self):
        one, memory = asked(TABLES["adaptive"], rows=200)
        rng, position = np.random.default_rng(1), np.tile(THERE + 0.002, (200, 1))
        after = answered(one.bound.updated(rng, memory, position, 5), one.source.answer_all)
        moved = (after["coefficient"] + 1.0) / COEFFICIENT_GAIN
        assert (np.abs(moved) > 1e-6).all() and np.abs(moved.mean()) < 0.2
        np.testing.assert_array_equal(after["snapshot"], position)
        assert answered(one.bound.updated(rng, memory, position, 4), one.source.answer_all) is memory

    def test_at_a_snapshot_there_is_nothing_to_estimate(self):
        """The published order, renewal first, would find no variance at all."""
        one, memory = asked(TABLES["adaptive"], rows=5)
        after = answered(
            one.bound.updated(np.random.default_rng(1), memory, np.tile(THERE, (5, 1)), 5), one.source.answer_all
        )
        assert np.isfinite(after["coefficient"]).all()

    def test_estimates_use_it(self, all_pairs):
        one, memory = asked(TABLES["adaptive"])
        memory = memory | {"coefficient": np.full(len(PAIRS), 0.0)}
        position = np.tile(HERE, (len(PAIRS), 1))
        found = answered(one.bound.estimate(np.random.default_rng(0), position, True, memory), one.source.answer_all)
        plain = Asked(minibatch(SIZE), POTENTIAL).estimate(np.random.default_rng(0), position)
        np.testing.assert_allclose(found.energy, plain.energy, rtol=1e-12)


def test_saga_remembers_what_it_sees_and_sums_stay_right():
    one, memory = asked(TABLES["saga"], rows=4)
    rng, position = np.random.default_rng(2), np.tile(HERE, (4, 1))
    for k in range(60):
        memory = answered(one.bound.updated(rng, memory, position, k), one.source.answer_all)
    terms = POTENTIAL.terms(position, np.tile(np.arange(DATA), (4, 1)))
    np.testing.assert_allclose(memory["terms"][:, :, 0], terms.energies, rtol=1e-12)
    np.testing.assert_allclose(memory["terms"][:, :, 1:], terms.gradients, rtol=1e-12)


class TestReferences:
    def test_the_nearest_counts(self):
        two = iv.estimators.fixed_control(SIZE, [THERE, HERE])
        found = estimate(two, np.stack([THERE, HERE]))
        np.testing.assert_allclose(found.energy, POTENTIAL.energy(np.stack([THERE, HERE])), rtol=1e-10)
        np.testing.assert_allclose(found.energy_variance, 0.0, atol=1e-20)

    def test_groups_and_the_cost_of_a_batch(self):
        estimator = iv.estimators.fixed_control(2, [THERE], groups=[0, 0, 1, 1, 2, 2])
        one, memory = asked(estimator, rows=3)
        assert memory["hessians"].shape == (3, 1, 3, 2, 2)
        before = one.source.evaluations
        answered(
            one.bound.estimate(np.random.default_rng(0), np.tile(HERE, (3, 1)), True, memory), one.source.answer_all
        )
        assert one.source.evaluations == before + 3

    @pytest.mark.parametrize("kind", ["Gaussian", "Poisson", "of single data"])
    def test_gauss_newton_is_without_the_models_second_derivatives(self, kind):
        """J' W J of each group, W the second derivatives of the misfits; in logs of the parameters."""
        rate = np.array([[1.3, 0.7]])
        y, jacobian = curve(rate)[0], slopes(rate)[0] * rate[0]
        noise, bends = {
            "Gaussian": (iv.GaussianNoise(0.3), np.full(DATA, 1.0 / 0.09)),
            "Poisson": (iv.PoissonNoise(), (counts := np.arange(1.0, 7.0)) / y**2),
            "of single data": (iv.GaussianNoise(X), 1.0 / X**2),
        }[kind]
        prior = iv.Prior(a=iv.LogNormal(0, 1), b=iv.LogNormal(0, 1))
        data = POSTERIOR.data if kind != "Poisson" else counts
        posterior = iv.Posterior(prior, iv.with_jacobian(curve, slopes), data, noise)
        groups = None if kind == "of single data" else [0, 0, 0, 1, 1, 2]
        estimator = iv.estimators.fixed_control(2, np.log(rate), groups, order="gauss_newton")
        one = Asked(estimator, posterior.potential())
        memory = answered(one.bound.init(np.random.default_rng(0), np.log(rate)), one.source.answer_all)
        labels = np.arange(DATA) if groups is None else np.array(groups)
        wanted = [jacobian[labels == g].T * bends[labels == g] @ jacobian[labels == g] for g in range(labels.max() + 1)]
        np.testing.assert_allclose(memory["hessians"][0, 0], wanted, rtol=1e-6)
        assert one.source.evaluations == 2 * len(wanted)

    def test_refused(self):
        class Bare:
            dimension, size = 2, DATA
            energy, energy_and_gradient, terms = POTENTIAL.energy, POTENTIAL.energy_and_gradient, POTENTIAL.terms

        bare = iv.Target(Bare())
        with pytest.raises(
            ValueError, match="order must not be 'gauss_newton' for a potential without `sensitivities`"
        ):
            iv.sample(
                bare,
                iv.samplers.sgld(0.1, estimator=iv.estimators.fixed_control(2, [[0.0, 0.0]], order="gauss_newton")),
                warmup=0,
            )
        with pytest.raises(ValueError, match="references must"):
            iv.estimators.fixed_control(2, [1.0, 2.0])
        with pytest.raises(ValueError, match="references must have the problem's 2 coordinates, got 3"):
            iv.sample(
                POSTERIOR,
                iv.samplers.sgld(0.1, estimator=iv.estimators.fixed_control(2, [[0.0, 0.0, 0.0]])),
                draws=1,
                warmup=0,
            )
        with pytest.raises(ValueError, match="adaptive must be False unless order is 'constant'"):
            iv.estimators.control_variate(2, 5, adaptive=True)
        with pytest.raises(ValueError, match="order must be one of"):
            iv.estimators.control_variate(2, 5, order="cubic")


class TestExperiments:
    """Sixty-four experiments with a solve each, eight in a batch."""

    def sds(self, estimator, distance):
        """Root mean squares of the sds of an energy over directions, at so many posterior sds from the mode."""
        posterior = reactions.slow_or_fast()
        mode = posterior.to_position(np.array([[1.26188232, 0.79271877, 1.01104688]]))[0]
        potential = posterior.potential()
        one = Asked(estimator([mode]), potential)
        steps = 1e-4 * np.eye(3)
        bent = [potential.energy_and_gradient(mode + side * steps)[1] for side in (1, -1)]
        factor = np.linalg.cholesky(np.linalg.inv((bent[0] - bent[1]) / 2e-4))
        directions = np.random.default_rng(1).standard_normal((100, 3))
        at = np.repeat(mode + distance * (directions / np.linalg.norm(directions, axis=1)[:, None]) @ factor.T, 20, 0)
        more = ()
        if hasattr(one.bound, "init"):
            memory = answered(one.bound.init(np.random.default_rng(0), mode[None]), one.source.answer_all)
            more = ({name: np.repeat(values, len(at), axis=0) for name, values in memory.items()},)
        asking = one.bound.estimate(np.random.default_rng(2), at, False, *more)
        found = answered(asking, one.source.answer_all).energy.reshape(100, 20)
        return float(np.sqrt(found.var(axis=1, ddof=1).mean()))

    def test_noise_one_and_three_sds_from_the_mode(self):
        """The figures of docs/validation/papers, to a quarter: 2,000 draws give each to some 5%."""
        groups = reactions.GROUPS
        estimators = {
            "plain": lambda at: iv.estimators.minibatch(8, groups),
            "snapshot": lambda at: iv.estimators.control_variate(8, 1, groups, order="constant"),
            "linear": lambda at: iv.estimators.fixed_control(8, at, groups, order="linear"),
            "Gauss-Newton": lambda at: iv.estimators.fixed_control(8, at, groups, order="gauss_newton"),
            "quadratic": lambda at: iv.estimators.fixed_control(8, at, groups),
        }
        found = {name: [self.sds(make, r) for r in (1.0, 3.0)] for name, make in estimators.items()}
        wanted = {
            "plain": (37.0, 38.0),
            "snapshot": (2.2, 6.9),
            "linear": (0.21, 1.9),
            "Gauss-Newton": (0.16, 1.5),
            "quadratic": (0.011, 0.31),
        }
        for name, sds in wanted.items():
            np.testing.assert_allclose(found[name], sds, rtol=0.25, err_msg=name)


class TestPairs:
    """One batch for both chains of a swap."""

    @pytest.mark.parametrize(
        "estimator", [iv.estimators.minibatch(SIZE), TABLES["quadratic"], TABLES["linear"]], ids=str
    )
    def test_differences_are_unbiased_and_symmetric(self, all_pairs, estimator):
        one = Asked(estimator, POTENTIAL)
        assert isinstance(one.bound, Pairing)
        here, there = (np.tile(at, (len(PAIRS), 1)) for at in (HERE, THERE + 0.3))
        memory = asked(estimator)[1] if hasattr(one.bound, "init") else None
        more = () if memory is None else (memory, memory)
        answer = one.source.answer_all
        forward = answered(one.bound.pair(np.random.default_rng(0), here, there, *more), answer)
        back = answered(one.bound.pair(np.random.default_rng(0), there, here, *more), answer)
        difference = POTENTIAL.energy(here[:1]) - POTENTIAL.energy(there[:1])
        misfits = [found.energy - found.prior for found in (forward, back)]
        prior = [POTENTIAL.terms(at[:1], np.zeros((1, 1), int)).prior_energy[0] for at in (here, there)]
        np.testing.assert_allclose(misfits[0].mean(), difference[0] - prior[0] + prior[1], rtol=1e-9)
        np.testing.assert_allclose(misfits[0], -misfits[1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(forward.energy_variance, back.energy_variance, rtol=1e-7)
        np.testing.assert_allclose(forward.energy_variance.mean(), misfits[0].var(), rtol=1e-8)

    def test_of_neighbors_noise_nearly_cancels(self):
        one = Asked(iv.estimators.minibatch(SIZE), POTENTIAL)
        here, rng = np.tile(HERE, (50, 1)), np.random.default_rng(0)
        found = answered(one.bound.pair(rng, here, here + 1e-3), one.source.answer_all)
        plain = one.estimate(rng, here)
        assert np.sqrt(found.energy_variance).max() < 0.1 * np.sqrt(plain.energy_variance).mean()

    def test_refused_before_a_solve(self):
        coarse = iv.with_jacobian(lambda theta: 1.05 * curve(theta), lambda theta: 1.05 * slopes(theta))
        two = iv.Posterior(
            POSTERIOR.prior, {"a": coarse, "b": iv.with_jacobian(curve, slopes)}, POSTERIOR.data, iv.GaussianNoise(0.3)
        )
        pair = {"estimator": iv.estimators.minibatch(2), "swap_energies": "paired"}
        for problem, sampler in (
            (
                two,
                iv.resgld(
                    (1.0, 2.0),
                    0.01,
                    **pair,
                    fidelities=(0, 1),
                    swap=iv.swaps.state_dependent_penalty(assume_unbiased=True),
                ),
            ),
            (POSTERIOR, iv.resgld((1.0, 2.0), 0.01, **pair, swap=iv.swaps.product_target())),
            (
                POSTERIOR,
                iv.resgld((1.0, 2.0), 0.01, estimator=iv.estimators.control_variate(2, 5), swap_energies="paired"),
            ),
            (
                POSTERIOR,
                iv.resgld(
                    (1.0, 2.0),
                    0.01,
                    estimator=(iv.estimators.minibatch(2), iv.estimators.minibatch(3)),
                    swap_energies="paired",
                ),
            ),
        ):
            with pytest.raises(ValueError, match="swap energies 'paired' need rungs of one fidelity with equal"):
                Engine(problem, sampler, Plan(1, 100, 1, 2, 0))


class TestTarget:
    """Two modes, connected by swaps with a hotter rung, by minibatches: the distribution of exact energies."""

    X = np.random.default_rng(1).uniform(0.5, 1.5, 60)
    NOISE = np.sqrt((X**2).sum() / 12.0)
    POSTERIOR = iv.Posterior(
        iv.Prior(t=iv.Normal(0.2, 1.0)),
        iv.with_jacobian(lambda theta: TestTarget.X * theta**2, lambda theta: (2.0 * TestTarget.X * theta)[:, :, None]),
        data=X + 0.3 * NOISE * np.random.default_rng(2).standard_normal(60),
        noise=iv.GaussianNoise(NOISE),
    )

    def run(self, draw, sampler, seed):
        run = draw(self.POSTERIOR, sampler, draws=50, thin=4, warmup=100, chains=128, seed=seed)
        theta = run.theta[..., 0]
        return run, np.stack([theta, theta**2, np.abs(theta) < 0.5], axis=-1).mean(axis=1)

    def test_of_paired_minibatches_is_that_of_exact_energies(self, draw, agrees, monkeypatch):
        steps = (5e-4, 2e-3)
        _, exact = self.run(draw, iv.resgld((1.0, 6.0), steps, swap_fraction=0.5), 1)
        truth = exact.mean(axis=0), exact.std(axis=0, ddof=1) / np.sqrt(len(exact))
        sampler = iv.samplers.paired_resgld([[-1.0], [1.0]], (1.0, 6.0), steps, size=6, swap_fraction=0.5)
        run, found = self.run(draw, sampler, 2)
        assert agrees(found, *truth)
        assert run.report["swap_accepts"][0] > 0.1 * run.report["swap_attempts"][0]

        both = SwapAttempt._both  # an energy with the wrong sign

        def wrong(attempt, rows):
            found = yield from both(attempt, rows)
            one, variance, after = found["cold", "cold"]
            return found | {("cold", "cold"): (one._replace(energy=2.0 * one.prior - one.energy), variance, after)}

        monkeypatch.setattr(SwapAttempt, "_both", wrong)
        assert not agrees(self.run(draw, sampler, 2)[1], *truth)


def test_penalty_of_a_pair_keeps_detailed_balance():
    """E min(1, e^R) of the noisy log ratio over that of its reverse is e^D, for the variance that both have."""
    gap, v = 0.7, 1.3
    accept = [
        ndtr((s * gap - v / 2) / v**0.5) + np.exp(s * gap + log_ndtr(-(s * gap + v / 2) / v**0.5)) for s in (1, -1)
    ]
    assert accept[0] / accept[1] == pytest.approx(np.exp(gap), rel=1e-12)


class TestPresets:
    def test_vr_resgld(self):
        sampler = iv.samplers.vr_resgld((1.0, 100.0), (1e-7, 1e-6), size=1000, refresh=40)
        for rung in sampler.rungs:
            assert rung.estimator == iv.estimators.control_variate(1000, 40, order="constant")
            assert rung.energy_variance == iv.variances.running_average() and rung.gradient_noise is None
            assert rung.kernel == iv.kernels.Langevin()
        assert sampler.swap.rule == iv.swaps.noise_penalty()
        assert iv.samplers.vr_resgld(adaptive=True).rungs[0].estimator.adaptive
        assert iv.samplers.vr_resgld(friction=0.1).rungs[1].kernel == iv.kernels.Momentum(0.1)

    def test_paired_resgld(self):
        sampler = iv.samplers.paired_resgld(
            [[0.0, 1.0]], (1.0, 6.0), 0.1, size=4, groups=[0, 0, 1, 1, 2, 3], friction=0.5
        )
        for rung in sampler.rungs:
            assert rung.estimator == iv.estimators.fixed_control(4, [[0.0, 1.0]], [0, 0, 1, 1, 2, 3])
            assert rung.gradient_noise == iv.ladder.GradientNoise() and rung.kernel == iv.kernels.Momentum(0.5)
        assert sampler.swap.energies == "paired" and "one batch for both" in str(sampler)
