"""Guesses of energies by a regression on those seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from invsamp.evaluate.energy_regression import EnergyRegression
from invsamp.evaluate.requests import Estimate
from invsamp.protocols import Array


def learned(energy: Callable[[Array], float], count: int, d: int = 2) -> EnergyRegression:
    found, rng = EnergyRegression(), np.random.default_rng(1)
    for position in 3.0 + rng.standard_normal((count, d)):
        found.add(position[None], Estimate(np.array([energy(position)]), None, prior=np.array([position[0]])))
        found.fit()
    return found


def bowl(position: Array) -> float:
    return float(0.5 * position @ position + position[0] * position[-1])


def test_a_quadratic_energy_is_predicted_exactly_with_its_prior() -> None:
    found = learned(bowl, 40)
    assert found.useful
    at = np.array([2.0, 5.0])
    assert found.predict(at[None]) == pytest.approx([bowl(at), 2.0])


def test_few_energies_in_many_dimensions_are_predicted_linearly() -> None:
    found = learned(lambda position: float(position.sum()), 60, d=20)
    assert found.useful
    assert found.predict(np.ones((1, 20)))[0] == pytest.approx(20.0)


def test_energies_that_do_not_depend_on_the_position_are_not_predicted() -> None:
    rng = np.random.default_rng(2)
    assert not learned(lambda position: float(rng.standard_normal()), 60).useful
    assert not learned(bowl, 10).useful  # too few


def test_failed_solves_do_not_count() -> None:
    found = learned(bowl, 40)
    found.add(np.zeros((1, 2)), Estimate(np.array([np.inf]), None, prior=np.array([0.0]), failed=True))
    found.fit()
    assert found.useful
    assert found.predict(np.zeros((1, 2)))[0] == pytest.approx(0.0, abs=1e-6)
