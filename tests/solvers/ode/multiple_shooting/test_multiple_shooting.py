"""Multiple shooting: against single shooting and finite differences; what it does with failures and bad input."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from shooting_cases import CASES, MODEL, PATH, SD, TIMES, TRUTH, at, cases, dense_jacobian, noisy, shoot

import invsamp as iv
from invsamp.solvers.ode.model.ode_model import OdeModel
from invsamp.solvers.ode.multiple_shooting.multiple_shooting import MultipleShooting


class TestObservations:
    @cases
    def test_equal_those_of_segments_solved_separately(self, settings):
        shooting = shoot(**settings)
        theta = at(shooting)
        assert shooting.parameters == ("sigma", "rho", "beta", "starts")
        states, ends = np.empty((2, len(TIMES), 3)), []
        for k, begin in enumerate(shooting.begins):
            end = shooting.begins[k + 1] if k + 1 < len(shooting.begins) else np.inf
            own = (begin <= TIMES) & (end > TIMES)
            # the last step reaches the last time: the end of the segment, where there is a gap to observe
            wanted = np.append(TIMES[own], end) if end < np.inf and shooting.continuity is not None else TIMES[own]
            alone = MODEL.solve(theta[:, :3], theta[:, 3 + 3 * k : 6 + 3 * k], wanted, t0=begin).states
            states[:, own] = alone[:, : own.sum()]
            if len(wanted) > own.sum():
                ends.append(alone[:, -1] - theta[:, 6 + 3 * k : 9 + 3 * k])
        observed = [MODEL.states.index(name) for name in shooting.states]
        expected = states[:, :, observed].reshape(2, -1)[:, shooting.mask.ravel()]
        if shooting.continuity is not None:
            expected = np.concatenate([expected, *ends], axis=1)
        y = shooting(theta)
        assert y.shape == (2, shooting.n_observations)
        np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(shooting.trajectory(theta), states, rtol=1e-9, atol=1e-9)

    def test_of_one_segment_are_single_shooting(self):
        shooting, single = shoot(segments=1), MODEL.observe(TIMES, ("x0", "y0", "z0"))
        theta = at(shooting)
        np.testing.assert_allclose(shooting(theta), single(theta), rtol=1e-12)
        (y, vjp), (y_single, vjp_single) = shooting.linearize(theta), single.linearize(theta)
        cotangent = np.random.default_rng(1).standard_normal(y.shape)
        np.testing.assert_allclose(y, y_single, rtol=1e-12)
        np.testing.assert_allclose(vjp(cotangent), vjp_single(cotangent), rtol=1e-9)

    def test_gaps_of_one_continuous_trajectory_are_zero(self):
        shooting = shoot(segments=4, continuity=0.1)
        on_path = PATH[np.searchsorted(TIMES, shooting.begins)]
        theta = np.concatenate([TRUTH, on_path.ravel()])[None]
        gaps = shooting(theta)[0, len(TIMES) * 3 :]
        assert gaps.shape == (9,)
        np.testing.assert_allclose(gaps, 0.0, atol=1e-5)
        moved = theta.copy()
        moved[0, -3:] += [1.0, 2.0, 3.0]
        np.testing.assert_allclose(shooting(moved)[0, -3:], gaps[-3:] - [1.0, 2.0, 3.0], atol=1e-12)
        np.testing.assert_allclose(shooting.simulate(theta)[0], PATH, atol=1e-5)

    def test_begin_at_the_first_time_of_equal_parts(self):
        np.testing.assert_array_equal(shoot(segments=4).begins, TIMES[[0, 11, 21, 31]])
        np.testing.assert_array_equal(shoot(segments=41).begins, TIMES)

    def test_a_batch_equals_its_rows(self):
        shooting = shoot(**CASES["irregular continuity"])
        theta = at(shooting, batch=3)
        np.testing.assert_array_equal(shooting(theta), np.concatenate([shooting(row[None]) for row in theta]))


class TestDerivatives:
    @cases
    def test_agree_with_central_differences(self, settings):
        shooting = shoot(dataclasses.replace(MODEL, rtol=1e-11, atol=1e-11), **settings)
        theta = at(shooting)
        y, vjp = shooting.linearize(theta)
        np.testing.assert_allclose(y, shooting(theta), rtol=1e-9, atol=1e-9)
        rng = np.random.default_rng(3)
        cotangent, direction = rng.standard_normal(y.shape), rng.standard_normal(theta.shape)

        def slope(h):
            return ((shooting(theta + h * direction) - shooting(theta - h * direction)) * cotangent).sum(axis=1) / (
                2 * h
            )

        expected = (4 * slope(1e-4) - slope(2e-4)) / 3
        np.testing.assert_allclose((vjp(cotangent) * direction).sum(axis=1), expected, rtol=1e-6)

    def test_blocks_touch_their_own_segment_only(self):
        jacobian = dense_jacobian(shoot(segments=4), at(shoot(segments=4))[0])
        segment = np.repeat(np.searchsorted(shoot(segments=4).begins, TIMES, side="right") - 1, 3)
        for k in range(4):
            assert not jacobian[segment != k, 3 + 3 * k : 6 + 3 * k].any()
            assert jacobian[segment == k, 3 + 3 * k : 6 + 3 * k].all(axis=1).sum() > 20


class TestDataAndGuess:
    def test_data_and_scales_follow_the_observations(self):
        shooting = shoot(**CASES["irregular continuity"])
        observed = PATH[:, [2, 0]].copy()
        observed[~shooting.mask] = np.nan
        on_path = np.stack([np.interp(shooting.begins, TIMES, PATH[:, k]) for k in range(3)], axis=1)
        data, scale = shooting.data(observed), shooting.scale(SD[[2, 0]])
        assert data.shape == scale.shape == (shooting.n_observations,)
        gaps = 9
        np.testing.assert_array_equal(data[:-gaps], PATH[:, [2, 0]][shooting.mask])
        np.testing.assert_array_equal(data[-gaps:], 0.0)
        np.testing.assert_array_equal(scale[:-gaps], np.broadcast_to(SD[[2, 0]], (41, 2))[shooting.mask])
        np.testing.assert_array_equal(scale[-gaps:], 0.5)
        guess = shooting.initial_guess(observed, unobserved={"y": 1.5})
        np.testing.assert_array_equal(guess[:, 1], 1.5)
        # the first segment begins before the data
        np.testing.assert_allclose(guess[1:, 0], on_path[1:, 0], rtol=1e-12)

    @pytest.mark.parametrize(("window", "degree"), [(2, 1), (7, 2)])
    def test_smoothed_guess_is_exact_for_polynomials(self, window, degree):
        polynomial = np.stack([np.polyval(np.arange(1.0, degree + 2.0), TIMES)] * 3, axis=1)
        shooting = shoot(segments=[0.0, 0.33, 1.21])
        expected = np.polyval(np.arange(1.0, degree + 2.0), shooting.begins)
        guess = shooting.initial_guess(polynomial, window=window)
        np.testing.assert_allclose(guess, np.tile(expected[:, None], 3), rtol=1e-10)
        raw = shooting.initial_guess(polynomial)
        assert (np.abs(raw - expected[:, None]).max() < 1e-9) == (degree == 1)


class TestFailures:
    BLOW_UP = OdeModel(lambda t, x, p: (p[0] * x[0] * x[0],), ("x",), ("rate",), method="RK45", max_steps=500)
    SHOOTING = MultipleShooting(BLOW_UP, np.linspace(0.0, 1.0, 6), 2)

    def test_one_segment_takes_its_chain_down_and_no_other(self):
        theta = np.array([[1.0, 0.1, 0.1], [1.0, 0.1, 100.0]])
        y, vjp = self.SHOOTING.linearize(theta)
        assert np.isfinite(y[0]).all() and np.isfinite(y[1, :3]).all() and np.isnan(y[1, 4:]).all()
        assert np.isfinite(vjp(np.ones((2, 6)))[0]).all()
        np.testing.assert_array_equal(y, self.SHOOTING(theta))
        prior = iv.Prior(rate=iv.Normal(1, 1), starts=iv.Normal(0, 1, shape=(2, 1)))
        posterior = iv.Posterior(prior, self.SHOOTING, y[0], iv.GaussianNoise(1.0))
        energy, gradient = posterior.potential().energy_and_gradient(theta)
        assert np.isfinite(energy[0]) and energy[1] == np.inf
        assert not gradient[1].any()

    def test_a_run_with_failures_finishes_and_counts_them(self, draw):
        prior = iv.Prior(rate=iv.Normal(1, 1), starts=iv.Normal(0, 3, shape=(2, 1)))
        posterior = iv.Posterior(prior, self.SHOOTING, np.full(6, 0.5), iv.GaussianNoise(2.0))
        run = draw(posterior, iv.mala(), draws=50, warmup=100, chains=8)
        assert run.report["failed_solves"]["model"] > 0
        assert np.isfinite(run.theta).all()

    def test_a_fit_that_begins_where_nothing_can_be_solved(self):
        with pytest.raises(ValueError, match="must be solvable where the fit begins"):
            self.SHOOTING.fit(np.full((6, 1), 100.0), [1.0], 1.0)


def test_a_coarse_fidelity_has_the_same_unknowns(draw):
    shooting = shoot(segments=4)
    coarse = shooting.coarsen(rtol=1e-4, atol=1e-4)
    theta = at(shooting)
    error = np.abs(coarse(theta) - shooting(theta)).max()
    assert 1e-7 < error < 0.1
    assert coarse.parameters == shooting.parameters and coarse.begins is not None
    fit = shooting.fit(noisy(), TRUTH, SD)
    prior = iv.Prior(
        sigma=iv.Normal(10, 5), rho=iv.Normal(25, 10), beta=iv.Normal(3, 2), starts=iv.Normal(0, 30, shape=(4, 3))
    )
    posterior = iv.Posterior(prior, {"coarse": coarse, "fine": shooting}, noisy(), iv.GaussianNoise(SD))
    start = fit.start(np.random.default_rng(0), 4)
    run = draw(
        posterior,
        iv.samplers.parallel_tempering((1.0, 1.5), swap_fraction=0.5),
        draws=20,
        warmup=100,
        chains=4,
        start=start,
    )
    assert np.isfinite(run.theta).all() and run.report["swap_attempts"][0] > 0


STARTS_TAKEN = OdeModel(lambda t, x, p: (p[0],), ("x",), ("starts",))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shoot(times=[0.0, 0.0], segments=1), "times must increase"),
        (lambda: shoot(segments=0), r"segments must be an integer in \[1, 41\], got 0"),
        (lambda: shoot(segments=42), r"segments must be an integer in \[1, 41\], got 42"),
        (lambda: shoot(segments=[0.0, 0.0]), "segments must increase"),
        (lambda: shoot(segments=[0.1, 1.0]), "segments must begin not after the first of times, 0.0, got 0.1"),
        (lambda: shoot(segments=[0.0, 0.01, 0.02]), "segments must each hold a datum, got none in that from 0.01"),
        (lambda: shoot(segments=2, states=("w",)), r"states must be .*got \('w',\)"),
        (lambda: shoot(segments=2, continuity=0.0), "continuity must be positive finite numbers"),
        (lambda: shoot(segments=2, continuity=(1.0, 2.0)), r"continuity must be .* or 3 of them, got \(1.0, 2.0\)"),
        (lambda: shoot(segments=2, mask=np.ones((3, 3), bool)), r"mask must be .* \(41, 3\)"),
        (lambda: MultipleShooting(STARTS_TAKEN, TIMES, 2), "must not have a parameter named 'starts'"),
        (lambda: shoot(segments=2)(np.ones((1, 8))), r"theta must have shape \(batch, 3 \+ 2 \* 3\), got \(1, 8\)"),
        (lambda: shoot(segments=2).data(np.ones((42, 3))), r"observed must have shape \(41, 3\) .* got \(42, 3\)"),
        (lambda: shoot(segments=2).data(np.full((41, 3), np.nan)), "observed must be finite where the mask is true"),
        (lambda: shoot(segments=2).scale(-1.0), "noise_sd must be positive finite numbers, got -1.0"),
        (lambda: shoot(segments=2).scale(np.ones(4)), r"noise_sd must broadcast to \(41, 3\), got shape \(4,\)"),
        (lambda: shoot(segments=2).initial_guess(PATH, window=0), r"window must be an integer in \[1, 41\], got 0"),
        (lambda: shoot(segments=2, states=("x",)).initial_guess(PATH[:, :1]), r"unobserved must give .* \['y', 'z'\]"),
        (lambda: shoot(segments=2).fit(PATH, {"sigma": 1.0}, 1.0), r"parameters must give values .* got \['sigma'\]"),
        (lambda: shoot(segments=2).fit(PATH, [1.0], 1.0), r"parameters must have shape \(3,\)"),
        (
            lambda: shoot(segments=2).fit(PATH, TRUTH, SD).start(np.random.default_rng(), 2, -1.0),
            "spread must be a finite number >= 0",
        ),
        (lambda: shoot(segments=41).fit(PATH, TRUTH, SD), "observed must determine the parameters and every segment"),
        (lambda: shoot(segments=2).coarsen(rtol=-1.0), "rtol must be .* got -1.0"),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_state_at_rest_does_not_determine_two_rates():
    """Production and decay of equal size: only their ratio is known, and rounding must not decide."""
    model = OdeModel(lambda t, x, p: [p[0] - p[1] * x[0]], states=["x"], parameters=["production", "decay"])
    shooting = MultipleShooting(model, TIMES, 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        rate = rng.uniform(0.5, 2.0)
        with pytest.raises(ValueError, match="observed must determine the parameters"):
            shooting.fit(np.ones((len(TIMES), 1)), [rate, rate], 0.1)
    moving = model.solve([[1.0, 0.5]], [[0.1]], TIMES).states[0]
    np.testing.assert_allclose(shooting.fit(moving, [0.8, 0.6], 0.01).values, [1.0, 0.5], rtol=1e-3)
