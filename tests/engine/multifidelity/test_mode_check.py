"""A coarse model that lacks a mode of the fine one is not sampled in its place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import invsamp as iv


def fine(t: np.ndarray) -> np.ndarray:
    """Two equal modes, at a = 2 and a = -2."""
    return np.column_stack([t[:, 0] ** 2 + 0.3 * t[:, 1], t[:, 1]])


def lacking(t: np.ndarray) -> np.ndarray:
    return fine(t) + np.where(t[:, :1] > 0.0, 0.0, [6.0, 0.0])


def failing(t: np.ndarray) -> np.ndarray:
    return np.where(t[:, :1] < -1.0, np.nan, fine(t))


def biased(t: np.ndarray) -> np.ndarray:
    return fine(t) + 0.1 * t


def posed(coarse: Callable[[np.ndarray], np.ndarray]) -> iv.Posterior:
    models = {"coarse": iv.finite_differences(coarse), "fine": iv.finite_differences(fine)}
    prior = iv.Prior(a=iv.Normal(0, 2), b=iv.Normal(0, 1))
    return iv.Posterior(prior, models, [4.0, 0.0], iv.GaussianNoise(0.4), costs={"coarse": 1, "fine": 100})


@pytest.mark.filterwarnings("ignore:IV-FAILED")  # solves of the coarse model
@pytest.mark.parametrize("coarse", [lacking, failing])
def test_both_modes_are_sampled(coarse: Callable[[np.ndarray], np.ndarray]) -> None:
    run = iv.sample(posed(coarse), draws=300, seed=1, progress=False)
    # draws cross between the modes: binomial, 1,200 draws with an ESS of perhaps 300
    assert abs((run.draws("a") > 0.0).mean() - 0.5) < 0.13
    (said,) = [line for line in run.report["decisions"] if "no exchange with 'coarse': 'fine' has a mode" in line]
    assert "a = -1.99" in said and "none of 100 draws of 'coarse' lies" in said


def test_a_coarse_model_with_both_modes_is_sampled_in_place_of_the_fine_one() -> None:
    run = iv.sample(posed(biased), draws=300, seed=1, progress=False)
    assert run.report["correction"] is not None
    assert abs((run.draws("a") > 0.0).mean() - 0.5) < 0.13


def test_a_chosen_coarse_model_without_a_mode_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="IV-COARSE: 'fine' has a mode of weight 0.5 at a = -1.99"):
        iv.sample(posed(lacking), iv.samplers.surrogate_exchange(correct="auto"), draws=100, seed=1, progress=False)
