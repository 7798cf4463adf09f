"""Control variates: unbiased, of second order, with snapshots that travel; a ladder that swaps by them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from asking import Asked
from data_terms import DATA, HERE, PAIRS, POSTERIOR, POTENTIAL, SIZE, THERE, all_pairs, curve, slopes

import invsamp as iv
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators import minibatch
from invsamp.evaluate.requests import answered
from invsamp.ladder import GradientNoise

__all__ = ["all_pairs"]  # a fixture


def estimate(estimator, position, snapshot, structure="full"):
    """At positions (n, d), each seen from its snapshot."""
    asked = Asked(estimator, POTENTIAL, structure)
    rng = np.random.default_rng(0)
    memory = answered(asked.bound.init(rng, np.broadcast_to(snapshot, position.shape)), asked.source.answer_all)
    return answered(asked.bound.estimate(rng, position, True, memory), asked.source.answer_all)


class TestEstimates:
    def test_are_unbiased_and_so_are_their_variances(self, all_pairs):
        found = estimate(iv.estimators.control_variate(SIZE, 5), np.tile(HERE, (len(PAIRS), 1)), THERE)
        energy, gradient = POTENTIAL.energy_and_gradient(HERE[None])
        np.testing.assert_allclose(found.energy.mean(), energy[0], rtol=1e-12)
        np.testing.assert_allclose(found.gradient.mean(axis=0), gradient[0], rtol=1e-12)
        assert found.energy.std() > 1e-3
        np.testing.assert_allclose(found.energy_variance.mean(), found.energy.var(), rtol=1e-10)
        covariance = np.cov(found.gradient.T, ddof=0)
        np.testing.assert_allclose(found.gradient_variance.mean(axis=0), covariance, rtol=1e-10)

    def test_gradients_are_those_of_the_energies(self, all_pairs):
        position, h = np.tile(HERE, (len(PAIRS), 1)), 1e-6
        estimator = iv.estimators.control_variate(SIZE, 5)
        for k in range(2):
            step = h * np.eye(2)[k]
            up, down = (estimate(estimator, position + s * step, THERE).energy for s in (1.0, -1.0))
            exact = estimate(estimator, position, THERE).gradient[:, k]
            np.testing.assert_allclose((up - down) / (2.0 * h), exact, rtol=1e-6)

    def test_at_a_snapshot_there_is_no_noise_and_that_is_stated(self):
        found = estimate(iv.estimators.control_variate(SIZE, 5), np.tile(HERE, (9, 1)), HERE)
        energy, gradient = POTENTIAL.energy_and_gradient(HERE[None])
        np.testing.assert_allclose(found.energy, np.repeat(energy, 9), rtol=1e-12)
        np.testing.assert_allclose(found.gradient, np.repeat(gradient, 9, axis=0), rtol=1e-12)
        np.testing.assert_array_equal(found.energy_variance, 0.0)
        np.testing.assert_array_equal(found.gradient_variance, 0.0)

    def test_noise_is_of_second_order_in_the_distance_that_of_gradients_of_first(self, all_pairs):
        distances = np.array([0.005, 0.01, 0.02])
        direction = np.array([0.6, 0.8])
        found = [
            estimate(iv.estimators.control_variate(SIZE, 5), np.tile(THERE + r * direction, (len(PAIRS), 1)), THERE)
            for r in distances
        ]
        plain = Asked(minibatch(SIZE), POTENTIAL).estimate(np.random.default_rng(0), np.tile(THERE, (len(PAIRS), 1)))
        for order, sds in ((2, [f.energy.std() for f in found]), (1, [f.gradient.std(axis=0).max() for f in found])):
            slope = np.polyfit(np.log(distances), np.log(sds), 1)[0]
            assert abs(slope - order) < 0.1
        assert found[0].energy.std() < 0.01 * plain.energy.std()
        assert found[0].gradient.std(axis=0).max() < 0.2 * plain.gradient.std(axis=0).max()

    def test_groups_of_one_datum_are_the_data(self):
        position = HERE + 0.1 * np.random.default_rng(3).standard_normal((20, 2))
        plain = estimate(iv.estimators.control_variate(3, 5), position, THERE)
        grouped = estimate(iv.estimators.control_variate(3, 5, groups=np.arange(DATA)), position, THERE)
        for one, other in zip(plain[:4], grouped[:4], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)

    def test_all_groups_together_are_exact(self):
        found = estimate(iv.estimators.control_variate(3, 5, groups=[0, 0, 1, 1, 1, 2]), HERE[None], THERE)
        energy, gradient = POTENTIAL.energy_and_gradient(HERE[None])
        np.testing.assert_allclose(found.energy, energy, rtol=1e-12)
        np.testing.assert_allclose(found.gradient, gradient, rtol=1e-12)

    def test_a_snapshot_is_made_in_blocks(self, monkeypatch):
        whole = estimate(iv.estimators.control_variate(2, 5), HERE[None], THERE)
        monkeypatch.setattr("invsamp.estimators.control_variates.AT_ONCE", 8)
        blocks = estimate(iv.estimators.control_variate(2, 5), HERE[None], THERE)
        np.testing.assert_allclose(blocks.energy, whole.energy, rtol=1e-12)
        np.testing.assert_allclose(blocks.gradient, whole.gradient, rtol=1e-12)


class TestFailures:
    FAILING = iv.Posterior(
        POSTERIOR.prior,
        iv.with_jacobian(lambda theta: np.where(theta[:, :1] > 1.5, np.nan, curve(theta)), slopes),
        POSTERIOR.data,
        iv.GaussianNoise(0.3),
    )

    @pytest.mark.parametrize(("position", "snapshot"), [([2.0, 0.0], [1.0, 0.0]), ([1.0, 0.0], [2.0, 0.0])])
    def test_a_solve_that_fails_is_infinite(self, monkeypatch, position, snapshot):
        monkeypatch.setitem(globals(), "POTENTIAL", self.FAILING.potential())
        found = estimate(iv.estimators.control_variate(2, 5), np.array([HERE, position]), np.array([HERE, snapshot]))
        assert found.failed
        np.testing.assert_array_equal(np.isfinite(found.energy), [True, False])
        np.testing.assert_array_equal(found.gradient[1], 0.0)

    def test_a_snapshot_that_cannot_be_had_is_not_renewed(self):
        asked = Asked(iv.estimators.control_variate(2, 5), self.FAILING.potential())
        rng, answer = np.random.default_rng(0), asked.source.answer_all
        before = answered(asked.bound.init(rng, np.array([HERE, THERE])), answer)
        position = np.array([[2.0, 0.0], HERE])
        assert answered(asked.bound.updated(rng, before, position, 4), answer) is before
        after = answered(asked.bound.updated(rng, before, position, 5), answer)
        np.testing.assert_array_equal(after["snapshot"], [HERE, HERE])
        assert np.isfinite(after["energy"]).all()


class TestRuns:
    SETTINGS: ClassVar = {"draws": 40, "warmup": 30, "chains": 3, "seed": 7, "progress": False}
    SAMPLER = iv.resgld((1.0, 4.0), 5e-4, estimator=iv.estimators.control_variate(2, 7), swap_fraction=0.5)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_it_resumes_between_two_snapshots(self, tmp_path):
        whole = iv.sample(POSTERIOR, self.SAMPLER, **self.SETTINGS)
        for k, draws in enumerate((2, 5, 11, 40)):
            run = (
                iv.resume(tmp_path / "run", draws=draws, progress=False)
                if k
                else iv.sample(
                    POSTERIOR, self.SAMPLER, directory=tmp_path / "run", **self.SETTINGS | {"draws": draws}
                )
            )  # fmt: skip
        np.testing.assert_array_equal(run.theta, whole.theta)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_snapshots_travel_with_positions(self, monkeypatch):
        """Of equal rungs: to its sums a snapshot is bound, and a swap moves both."""
        moved = []
        remember = RungChains.remember

        def watched(self, rows, memory):
            remember(self, rows, memory)
            whole = POTENTIAL.energy(self.estimator_memory["snapshot"])
            prior = POTENTIAL.terms(self.estimator_memory["snapshot"], np.zeros((3, 1), dtype=int)).prior_energy
            np.testing.assert_allclose(self.estimator_memory["energy"], whole - prior, rtol=1e-9)
            moved.append(np.abs(self.position[rows] - memory["snapshot"]).max())

        monkeypatch.setattr(RungChains, "remember", watched)
        close = iv.resgld((1.0, 1.2), 5e-4, estimator=iv.estimators.control_variate(2, 7), swap_fraction=0.5)
        run = iv.sample(POSTERIOR, close, **self.SETTINGS)
        accepted = run.report["swap_accepts"][0]
        assert len(moved) > 10 and accepted > 0
        assert max(moved) > 0.0  # they came along, and were not made where the position is

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_between_fidelities_they_are_made_anew(self, monkeypatch):
        posterior = iv.Posterior(
            POSTERIOR.prior,
            {"coarse": iv.with_jacobian(lambda theta: 1.05 * curve(theta), lambda theta: 1.05 * slopes(theta)),
             "fine": iv.with_jacobian(curve, slopes)},
            POSTERIOR.data,
            iv.GaussianNoise(0.3),
        )  # fmt: skip
        moved = []
        remember = RungChains.remember

        def watched(self, rows, memory):
            remember(self, rows, memory)
            moved.append(np.abs(self.position[rows] - memory["snapshot"]).max())

        monkeypatch.setattr(RungChains, "remember", watched)
        sampler = iv.samplers.fast_resgld(
            (1.0, 1.2),
            2e-3,
            estimator=iv.estimators.control_variate(2, 7),
            swap=iv.swaps.delayed_acceptance(),
            swap_fraction=0.5,
        )
        iv.sample(posterior, sampler, **self.SETTINGS | {"draws": 100})
        assert len(moved) > 3 and max(moved) == 0.0

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_the_budget_takes_the_stated_variances(self):
        sampler = iv.samplers.sgld(
            2e-3, estimator=iv.estimators.control_variate(2, 7), gradient_noise=GradientNoise(structure="full")
        )
        run = iv.sample(POSTERIOR, sampler, **self.SETTINGS)
        assert np.isfinite(run.theta).all()

    def test_arguments(self):
        assert iv.estimators.control_variate(4, 20) == iv.estimators.control_variate(4, refresh=20)
        assert (
            str(iv.estimators.control_variate(4, 20)) == "control variate (Minibatch(size=4), refreshed every 20 steps)"
        )
        with pytest.raises(ValueError, match="refresh must be"):
            iv.estimators.control_variate(4, 0)
        with pytest.raises(ValueError, match="size must be"):
            iv.estimators.control_variate(1, 10)


@pytest.mark.slow
class TestTarget:
    """Two modes, connected by swaps with a hotter rung: steps and distribution are those of exact gradients."""

    X = np.random.default_rng(1).uniform(0.5, 1.5, 60)
    NOISE = np.sqrt((X**2).sum() / 12.0)

    def run(self, draw, estimator, seed):
        posterior = iv.Posterior(
            iv.Prior(t=iv.Normal(0.2, 1.0)),
            iv.with_jacobian(lambda theta: self.X * theta**2, lambda theta: (2.0 * self.X * theta)[:, :, None]),
            data=self.X + 0.3 * self.NOISE * np.random.default_rng(2).standard_normal(60),
            noise=iv.GaussianNoise(self.NOISE),
        )
        sampler = iv.resgld((1.0, 6.0), (5e-4, 2e-3), estimator=estimator, swap_fraction=0.5)
        theta = draw(posterior, sampler, draws=200, thin=10, warmup=300, chains=128, seed=seed).theta[..., 0]
        return np.stack([theta, theta**2, np.abs(theta) < 0.5], axis=-1).mean(axis=1)

    def test_is_that_of_exact_energies(self, draw, agrees, monkeypatch):
        exact = self.run(draw, iv.estimators.exact(), 1)
        truth = exact.mean(axis=0), exact.std(axis=0, ddof=1) / np.sqrt(len(exact))
        assert agrees(self.run(draw, iv.estimators.control_variate(20, 5), 2), *truth)
        # wrong: sums that stay behind at swaps
        remember = RungChains.remember
        monkeypatch.setattr(
            RungChains, "remember", lambda self, rows, memory: remember(self, rows, {"snapshot": memory["snapshot"]})
        )
        assert not agrees(self.run(draw, iv.estimators.control_variate(20, 5), 2), *truth)
