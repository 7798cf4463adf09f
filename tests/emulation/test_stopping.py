"""The stopping rule of an emulation on rounds with given errors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from invsamp.emulation.rounds import Round
from invsamp.emulation.stopping import effect_of_errors, held_out, unmet

Array = npt.NDArray[np.float64]


def round_with(errors: Array, weights: Array, simulated: Array, predicted: float = 0.01) -> Round:
    """A round that meets all other parts of the rule."""
    d = simulated.shape[1]
    return Round(
        100, simulated, errors, weights, predicted, 0.0, 0.1, 1.0, 6, 0, np.zeros(d), np.ones(d), 0.01, 0.01, True
    )


@pytest.fixture
def simulated() -> Array:
    """Posterior draws of which the first twenty are those of early emulators."""
    return np.random.default_rng(1).standard_normal((60, 3))


def test_errors_that_move_a_mean_are_not_accepted(simulated: Array) -> None:
    last = round_with(0.15 * simulated[:, 0], np.ones(60), simulated)
    assert effect_of_errors(last, 0.0) > 0.13
    assert "may change a mean" in unmet(last, 0.0)[0]


def test_without_weights_the_sd_is_that_of_all_errors(simulated: Array) -> None:
    errors = np.random.default_rng(2).standard_normal(60)
    last = round_with(errors, np.ones(60), simulated)
    assert held_out(last, 0.0) == pytest.approx(errors.std(ddof=1))


def test_draws_of_early_emulators_count_by_their_weights(simulated: Array) -> None:
    errors = np.where(np.arange(60) < 20, 5.0, 0.02) * np.random.default_rng(3).standard_normal(60)
    weights = np.where(np.arange(60) < 20, 1e-9, 1.0)
    assert unmet(round_with(errors, np.ones(60), simulated), 0.0)
    assert not unmet(round_with(errors, weights, simulated), 0.0)
    assert held_out(round_with(errors, weights, simulated), 0.0) == pytest.approx(errors[20:].std(ddof=1), rel=1e-3)


def test_few_draws_with_weight_do_not_suffice(simulated: Array) -> None:
    errors = 0.2 * np.random.default_rng(4).standard_normal(60)
    few = round_with(errors, np.where(np.arange(60) < 54, 1e-9, 1.0), simulated)
    assert "count as 6" in unmet(few, 0.0)[0]
