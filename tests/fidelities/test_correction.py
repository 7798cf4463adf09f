"""Corrected coarse models: what is learned of pairs, and what the exchange with them draws."""

from __future__ import annotations

import time

import numpy as np
import pytest

import invsamp as iv
from invsamp.posing.forward_models.affine_correction import CorrectedModel
from invsamp.surrogates.affine import ridge

RNG = np.random.default_rng(7)
#: A linear fine model of three unknowns and six data, and a coarse one that is an affine map of it.
FINE = RNG.normal(size=(6, 3))
MAP, SHIFT = np.eye(6) + 0.2 * RNG.normal(size=(6, 6)), RNG.normal(size=6)
DATA = FINE @ [0.4, -0.3, 0.2] + 0.5 * RNG.normal(size=6)
NOISE = 0.5


def fine(theta: np.ndarray) -> np.ndarray:
    return theta @ FINE.T


def fine_slopes(theta: np.ndarray) -> np.ndarray:
    return np.broadcast_to(FINE, (len(theta), 6, 3))


def coarse(theta: np.ndarray) -> np.ndarray:
    return fine(theta) @ MAP.T + SHIFT


def coarse_slopes(theta: np.ndarray) -> np.ndarray:
    return np.broadcast_to(MAP @ FINE, (len(theta), 6, 3))


COARSE = iv.with_jacobian(coarse, coarse_slopes)


def posed(**models: object) -> iv.Posterior:
    models = models or {"coarse": COARSE, "fine": iv.with_jacobian(fine, fine_slopes)}
    return iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=3)), models, DATA, iv.GaussianNoise(NOISE))


def exact() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the posterior."""
    precision = np.eye(3) + FINE.T @ FINE / NOISE**2
    return np.linalg.solve(precision, FINE.T @ DATA / NOISE**2), np.linalg.inv(precision)


def states(n: int = 40) -> np.ndarray:
    mean, covariance = exact()
    return np.random.default_rng(3).multivariate_normal(mean, covariance, n)


class TestCorrectedModel:
    def test_maps_observations_and_their_derivatives(self) -> None:
        factor, offset = RNG.normal(size=(4, 6)), RNG.normal(size=4)
        model = CorrectedModel(COARSE, offset, factor)
        theta, cotangent = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 4))
        y, vjp = model.linearize(theta)
        np.testing.assert_allclose(y, coarse(theta) @ factor.T + offset, rtol=1e-12)
        np.testing.assert_allclose(model(theta), y, rtol=1e-12)
        np.testing.assert_allclose(vjp(cotangent), cotangent @ factor @ MAP @ FINE, rtol=1e-12)
        assert model.n_observations == 4

    def test_a_row_has_bits_of_its_own(self) -> None:
        model = CorrectedModel(COARSE, RNG.normal(size=6), RNG.normal(size=(6, 6)))
        theta = RNG.normal(size=(17, 3))
        mapped = model._mapped(coarse(theta))
        assert all((model._mapped(coarse(theta)[k : k + 1])[0] == mapped[k]).all() for k in range(17))

    def test_shapes_that_do_not_fit_are_reported(self) -> None:
        with pytest.raises(ValueError, match="factor must"):
            CorrectedModel(COARSE, np.zeros(6), np.zeros((5, 6)))
        with pytest.raises(ValueError, match="offset must"):
            CorrectedModel(COARSE, [np.nan])


class TestRidge:
    SEEN = np.ones(6, dtype=bool)

    def test_finds_an_affine_map(self) -> None:
        y = RNG.normal(size=(30, 6))
        found = ridge(y, y @ MAP.T + SHIFT, self.SEEN)
        np.testing.assert_allclose(found.factor, MAP, atol=1e-6)
        np.testing.assert_allclose(found.offset, SHIFT, atol=1e-6)

    def test_few_pairs_of_noise_give_an_offset(self) -> None:
        rng = np.random.default_rng(0)
        y = rng.normal(size=(12, 6))
        found = ridge(y, y + SHIFT + 0.1 * rng.normal(size=(12, 6)), self.SEEN)
        assert np.abs(found.factor - np.eye(6)).max() < 0.1
        np.testing.assert_allclose(found.offset, SHIFT, atol=0.15)

    def test_outputs_that_a_coarse_model_has_inform_all(self) -> None:
        seen = np.array([1, 0, 1, 1, 0, 0], dtype=bool)
        y = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 6))
        found = ridge(y[:, seen], y, seen)
        assert found.factor.shape == (6, 3)
        np.testing.assert_allclose(found(y[:, seen]), y, atol=1e-5)

    def test_observations_that_do_not_vary(self) -> None:
        found = ridge(np.ones((12, 6)), np.ones((12, 6)) + SHIFT, self.SEEN)
        np.testing.assert_allclose(found.offset, SHIFT, atol=1e-12)


class TestCorrect:
    def test_learns_what_there_is(self) -> None:
        found = iv.correct(posed(), states())
        (level,) = found.levels
        assert level.kind == "affine" and level.pairs == 40 and level.failed == 0
        assert level.sd["affine"] < 1e-6 < 0.1 * level.sd["offset"] < level.sd["none"]
        assert level.efficiency == pytest.approx(1.0)
        theta = RNG.normal(size=(5, 3))
        np.testing.assert_allclose(found.posterior.predict(theta, "coarse"), fine(theta), atol=1e-6)
        assert found.posterior.forward["fine"] is not None and found.evaluations == {"coarse": 40, "fine": 40}
        assert "affine by 40 pairs" in str(found)

    def test_samples_the_coarse_model_where_no_states_are_given(self) -> None:
        found = iv.correct(posed(), pairs=20, draws=100, chains=4, seed=1, progress=False, sampler=iv.mala(0.03))
        assert found.levels[0].pairs == 20 and found.evaluations["coarse"] > 400 and found.evaluations["fine"] == 20
        starts = found.draws(30, seed=0)
        assert starts.shape == (30, 3) and len(np.unique(starts, axis=0)) == 20

    @pytest.mark.parametrize(("kind", "left"), [("none", 1.0), ("offset", 0.9)])
    def test_the_kind_that_is_asked_for(self, kind: str, left: float) -> None:
        level = iv.correct(posed(), states(), kind).levels[0]
        assert level.kind == kind and level.sd[kind] <= left * level.sd["none"]

    def test_a_part_of_the_data(self) -> None:
        part = iv.with_jacobian(lambda t: coarse(t)[:, [0, 2, 3, 5]], lambda t: coarse_slopes(t)[:, [0, 2, 3, 5]])
        object.__setattr__(part, "data_indices", [0, 2, 3, 5])
        found = iv.correct(posed(coarse=part, fine=iv.with_jacobian(fine, fine_slopes)), states())
        assert found.levels[0].kind == "affine" and found.levels[0].sd["affine"] < 1e-4
        theta = RNG.normal(size=(5, 3))
        np.testing.assert_allclose(found.posterior.predict(theta, "coarse"), fine(theta), atol=1e-4)
        check = found.posterior.check_gradient(fidelity="coarse", seed=1)
        assert check.passed

    def test_states_that_fail_are_left_out_and_counted(self) -> None:
        def failing(theta: np.ndarray) -> np.ndarray:
            return np.where(theta[:, :1] > exact()[0][0] + 0.3, np.nan, fine(theta))

        found = iv.correct(posed(coarse=COARSE, fine=iv.with_jacobian(failing, fine_slopes)), states())
        assert 0 < found.levels[0].failed < 30 and found.levels[0].failed + found.levels[0].pairs == 40
        assert found.levels[0].sd["affine"] < 1e-6

    def test_a_surrogate_is_fitted_first(self) -> None:
        class Linear:
            def __init__(self, matrix: np.ndarray) -> None:
                self.matrix = matrix

            def __call__(self, theta: np.ndarray) -> np.ndarray:
                return theta @ self.matrix

            def linearize(self, theta: np.ndarray):
                return self(theta), lambda cotangent: cotangent @ self.matrix.T

            def fit(self, theta: np.ndarray, observations: np.ndarray):
                return Linear(np.linalg.lstsq(theta, observations, rcond=None)[0])

        found = iv.correct(posed(coarse=Linear(np.zeros((3, 6))), fine=iv.with_jacobian(fine, fine_slopes)), states())
        assert found.levels[0].kind == "none" and found.levels[0].sd["none"] < 1e-8

    def test_whether_it_pays(self) -> None:
        slow, quick = iv.with_jacobian(fine, fine_slopes), iv.with_jacobian(coarse, coarse_slopes)
        object.__setattr__(slow, "work", 20.0)
        object.__setattr__(quick, "work", 1.0)
        assert iv.correct(posed(coarse=quick, fine=slow), states()).levels[0].pays
        object.__setattr__(quick, "work", 8.0)
        level = iv.correct(posed(coarse=quick, fine=slow), states()).levels[0]
        assert not level.pays and "less than 5 times cheaper" in str(level)
        level = iv.correct(posed(coarse=quick, fine=slow), states(), "none").levels[0]
        assert "the sd is above 1" in str(level)

    def test_costs_are_stated_counted_or_assumed_and_never_timed(self) -> None:
        def sleeping(theta: np.ndarray) -> np.ndarray:
            time.sleep(1e-4 * len(theta))
            return coarse(theta)

        fine_model = iv.with_jacobian(fine, fine_slopes)
        found = iv.correct(posed(coarse=iv.with_jacobian(sleeping, coarse_slopes), fine=fine_model), states())
        assert str(found) == str(iv.correct(posed(), states()))
        assert found.levels[0].relative_cost == 10.0 and found.levels[0].source == "assumed"
        stated = iv.Posterior(
            iv.Prior(x=iv.Normal(0, 1, shape=3)),
            {"coarse": COARSE, "fine": fine_model},
            DATA,
            iv.GaussianNoise(NOISE),
            costs={"coarse": 1, "fine": 3},
        )
        level = iv.correct(stated, states()).levels[0]
        assert level.relative_cost == 3.0 and level.source == "stated" and not level.pays

    def test_bad_input_is_reported(self) -> None:
        with pytest.raises(ValueError, match="posterior must have several fidelities, got 'fine' alone"):
            iv.correct(posed(fine=iv.with_jacobian(fine, fine_slopes)))
        with pytest.raises(ValueError, match=r"states must hold at least 10 states .* got 9"):
            iv.correct(posed(), states(9))
        with pytest.raises(ValueError, match="posed by its log likelihood"):
            density = iv.LogDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x)
            iv.correct(iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), log_likelihood={"coarse": density, "fine": density}))


class TestExchange:
    def test_draws_the_fine_posterior_whatever_the_coarse_model_is(self, draw, agrees) -> None:
        mean, covariance = exact()
        sampler = iv.samplers.surrogate_exchange(
            exchange_interval=3, local_move_interval=4, kernel=iv.kernels.Langevin(adjusted=True)
        )

        def moments(posterior: iv.Posterior, sampler: object) -> np.ndarray:
            run = draw(posterior, sampler, draws=120, warmup=300, thin=3, start=states(256))
            off = run.theta - mean
            return np.concatenate([off.mean(axis=1), np.square(off).mean(axis=1) / np.diag(covariance)], axis=1)

        truth = np.r_[np.zeros(3), np.ones(3)]
        assert agrees(moments(posed(), sampler), truth)
        wrong = iv.ladder.Sampler(
            sampler.rungs, iv.ladder.Swap(iv.swaps.metropolis(assume_unbiased=True), every=3), sampler.preconditioner
        )
        assert not agrees(moments(posed(), wrong), truth)

    def test_takes_one_fine_energy_for_each_attempt_and_local_move(self) -> None:
        seen = {"energies": 0, "gradients": 0}

        def slopes(theta: np.ndarray) -> np.ndarray:
            seen["gradients"] += len(theta)
            return fine_slopes(theta)

        posterior = iv.correct(posed(coarse=COARSE, fine=iv.with_jacobian(fine, slopes)), states()).posterior
        run = iv.sample(
            posterior,
            iv.samplers.surrogate_exchange(exchange_interval=5, local_move_interval=4),
            draws=100,
            warmup=100,
            thin=5,
            seed=1,
            progress=False,
            start=states(4),
            check_gradient=False,
        )
        drawn = run.report["evaluations"]["fine"] - run.report["warmup_evaluations"]["fine"]
        assert drawn == 4 * (100 + 25) and seen["gradients"] == 0
        assert run.report["swap_attempts"][0] == 400 and run.report["swap_accepts"][0] > 390

    def test_a_chain_that_stands_is_reported(self) -> None:
        far = iv.with_jacobian(lambda theta: fine(theta) + 6.0, fine_slopes)
        with pytest.warns(UserWarning, match=r"chains \d .*, \d .* exchanged with the coarse model in fewer than 10%"):
            iv.sample(
                posed(coarse=far, fine=iv.with_jacobian(fine, fine_slopes)),
                iv.samplers.surrogate_exchange(exchange_interval=5),
                draws=100,
                warmup=100,
                thin=5,
                seed=1,
                progress=False,
                start=states(4),
            )

    def test_bad_input_is_reported(self) -> None:
        with pytest.raises(ValueError, match="coarse must be another fidelity"):
            iv.samplers.surrogate_exchange(coarse=0)
        with pytest.raises(ValueError, match="exchange_interval must"):
            iv.samplers.surrogate_exchange(exchange_interval=0)
        with pytest.raises(ValueError, match="every must be None where fraction"):
            iv.ladder.Swap(fraction=0.5, every=3)
