"""What is learned of the difference of two energies: how well, from which states, and when no more."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.swaps.discrepancy import Discrepancy


def bent(position):
    """A smooth difference, of scale one in units of the positions' spread."""
    return 3.0 + np.sin(position / [1.0, 0.01]).sum(axis=1)


def positions(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2)) * [1.0, 0.01]


def fits(states, noise_sd, surface, seeds=range(40)):
    """Root mean square errors elsewhere and residual sds of models learned from as many states, each from its seed."""
    model, found = Discrepancy(states), []
    for seed in seeds:
        here, elsewhere = positions(states, seed), positions(2000, 100 + seed)
        noise = noise_sd * np.random.default_rng(200 + seed).standard_normal(states)
        state = model.fitted(model.update(model.init(), here, surface(here) + noise))
        found.append([np.sqrt(np.mean((model.predict(state, elsewhere) - surface(elsewhere)) ** 2)), state.residual_sd])
    return np.transpose(found)


def test_predicts_near_its_training_states_and_its_own_error(within):
    errors, residuals = fits(200, 0.0, bent)
    spread = bent(positions(2000, seed=1)).std()
    assert within(errors.mean(), 0.05 * spread)
    # estimated from a few states at the edge: of single models within a factor of five
    assert within(np.log(residuals / errors).mean(), np.log(2.5))
    few, _ = fits(25, 0.0, bent)
    assert not within(few.mean(), 0.05 * spread)


def test_residual_of_noise_is_the_noise(within):
    """Nothing to learn: the mean is what is left, and the noise's sd what it leaves."""
    errors, residuals = fits(200, 0.5, lambda position: np.full(len(position), 2.0))
    # the sd of 200 residuals has a standard error of 5%; some degrees of freedom go into the fit
    assert within(residuals.mean() / 0.5 - 1.0, 0.1)
    # that of a mean of 200 is 0.035, and 0.5 if the noise were learned
    assert within(errors.mean(), 0.15)


def test_far_away_it_returns_to_the_mean_within_the_range_seen():
    model = Discrepancy(states=100)
    difference = bent(positions(100))
    state = model.fitted(model.update(model.init(), positions(100), difference))
    far = model.predict(state, np.full((1, 2), 1e6))
    assert far == pytest.approx(difference.mean())
    wide = model.predict(state, 3.0 * positions(500, 1))
    rounding = 1e-12 * np.abs(difference).max()
    assert difference.min() - rounding <= wide.min() and wide.max() <= difference.max() + rounding


def test_latest_finite_states_count():
    model = Discrepancy(states=20)
    state = model.init()
    for k in range(5):
        difference = np.full(8, float(k))
        difference[0] = np.nan
        state = model.update(state, positions(8, k), difference)
    assert state.differences.tolist() == [2.0] * 6 + [3.0] * 7 + [4.0] * 7
    np.testing.assert_array_equal(state.positions[-7:], positions(8, 4)[1:])


def test_way_down_is_left_out(within):
    """A fifth of the states far away, with huge differences, as chains meet them on the way down."""
    far, near = 100.0 * positions(25, 1), positions(500, 2)

    def error(states):
        model = Discrepancy(states)
        state = model.update(model.init(), far, 1e4 + 100.0 * bent(far))
        state = model.fitted(model.update(state, positions(100), bent(positions(100))))
        return np.sqrt(np.mean((model.predict(state, near) - bent(near)) ** 2))

    assert within(error(150), 0.2 * bent(near).std())
    # a memory that is full has long forgotten it, mostly; here it has not
    assert not within(error(125), 10.0)


def test_fit_is_frozen():
    model = Discrepancy(states=50)
    state = model.fitted(model.update(model.init(), positions(50), bent(positions(50))))
    assert model.update(state, positions(50, 1), np.zeros(50)) is state


def test_too_few_states_change_nothing():
    model = Discrepancy()
    state = model.fitted(model.update(model.init(), positions(9), bent(positions(9))))
    assert state.fit is None and state.residual_sd is None
    np.testing.assert_array_equal(model.predict(state, positions(4)), 0.0)


@pytest.mark.parametrize("states", [9, 10.5, -1])
def test_refuses(states):
    with pytest.raises(ValueError, match=f"states must be an integer >= 10, got {states}"):
        Discrepancy(states)
