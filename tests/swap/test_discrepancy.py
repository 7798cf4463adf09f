"""What is learnt of the difference of two energies: how well, from which states, and when no more."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.swap.discrepancy import Discrepancy


def bent(position):
    """A smooth difference, of scale one in units of the positions' spread."""
    return 3.0 + np.sin(position / [1.0, 0.01]).sum(axis=1)


def positions(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2)) * [1.0, 0.01]


def test_predicts_where_it_learnt_and_knows_how_well(within):
    model = Discrepancy(states=200)
    state = model.fitted(model.update(model.init(), positions(200), bent(positions(200))))
    elsewhere = positions(2000, seed=1)
    error = model.predict(state, elsewhere) - bent(elsewhere)
    spread = bent(elsewhere).std()
    # 0.012 to 0.027 with six seeds; the residual is told by a few states at the rim, within a factor of 2.2
    assert within(np.sqrt(np.mean(error**2)), 0.05 * spread)
    assert within(np.log(state.residual_sd / np.sqrt(np.mean(error**2))), np.log(3.0))


def test_residual_of_noise_is_the_noise(within):
    """Nothing to learn: the mean is what is left, and the noise's sd what it leaves."""
    rng, model = np.random.default_rng(0), Discrepancy(states=200)
    state = model.fitted(model.update(model.init(), positions(200), 2.0 + 0.5 * rng.standard_normal(200)))
    # the sd of 200 residuals has a standard error of 5%; some degrees of freedom go into the fit
    assert within(state.residual_sd / 0.5 - 1.0, 0.25)
    error = model.predict(state, positions(1000, 1)) - 2.0
    # that of a mean of 200 is 0.035; 0.03 to 0.14 with ten seeds, and 0.5 if the noise were learnt
    assert within(np.sqrt(np.mean(error**2)), 0.25)


def test_far_away_it_returns_to_the_mean_within_the_range_seen():
    model = Discrepancy(states=100)
    difference = bent(positions(100))
    state = model.fitted(model.update(model.init(), positions(100), difference))
    far = model.predict(state, np.full((1, 2), 1e6))
    assert far == pytest.approx(difference.mean())
    wide = model.predict(state, 3.0 * positions(500, 1))
    assert difference.min() <= wide.min() and wide.max() <= difference.max()


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
