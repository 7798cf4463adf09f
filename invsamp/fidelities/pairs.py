"""Two rungs of a ladder, any levels at any temperatures: acceptance and cost of swaps between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from invsamp.arguments import sequence
from invsamp.fidelities.levels import Noise
from invsamp.fidelities.reweighting import effective_draws, weights
from invsamp.fidelities.states import level_name
from invsamp.fidelities.swap_forecast import Side, forecast
from invsamp.protocols import Array
from invsamp.results.run import Run
from invsamp.tempering.checks import check_temperatures

#: Hot temperatures at which swaps with the cold rung are forecast.
TEMPERATURES = tuple(np.geomspace(1.2, 300.0, 32).tolist())
#: Expected swap rate that the proposed hot temperature keeps.
WANTED_RATE = 0.2


@dataclass(frozen=True)
class Pair:
    """Two neighboring rungs, and what is to be expected of their swaps.

    NaN where fewer than 20 effective states are typical of a rung: the states do not reach it.

    Attributes
    ----------
    cold, hot : str
        Their fidelities.
    cold_temperature, hot_temperature : float
    cold_effective, hot_effective : float
        Effective number of states that are draws of the rung, after reweighting; 0 where a few of them decide.
    discrepancy_sd : float
        Sd of the log ratio of delayed acceptance's second stage, where the first has accepted: how far the fidelities
        disagree about the log ratio of the swap.
    noise_sd : float
        :math:`\\sqrt v`, the sd of the estimators' noise in the log ratio of `product_target`, which is penalized.
    first_stage, second_stage, swap_rate : float
        Expected acceptance of delayed acceptance: of its first stage, of its second after that, of both.
    product_rate : float
        Expected acceptance of `product_target`.
    own_energies_error, cold_energies_error : float
        Root mean square of what the log ratios of `state_dependent_penalty` (eq. 18) and of ``multi_variance(1.0)``
        (eq. 11) miss.
    """

    cold: str
    hot: str
    cold_temperature: float
    hot_temperature: float
    cold_effective: float
    hot_effective: float
    discrepancy_sd: float
    noise_sd: float
    first_stage: float
    second_stage: float
    swap_rate: float
    product_rate: float
    own_energies_error: float
    cold_energies_error: float


class Swaps:
    """Forecasts between any two levels at any two temperatures, from the energies of all levels at the states."""

    def __init__(self, energies: Mapping[str, Array], noise: Mapping[str, Noise], mixture: Array, finest: str) -> None:
        self._energies, self._noise, self._mixture, self._finest = energies, noise, mixture, finest

    def pair(self, cold: tuple[str, float], hot: tuple[str, float]) -> Pair:
        """Expected properties of the swaps of two rungs, each a fidelity and a temperature."""
        sides = self._side(*cold), self._side(*hot)
        expected = forecast(*sides)._asdict()
        counts = [effective_draws(side.weight) for side in sides]
        return Pair(cold[0], hot[0], cold[1], hot[1], *counts, **expected)

    def rates(self, level: str) -> Array:
        """Expected swap rate of a level at `TEMPERATURES` with the finest at 1."""
        cold = self._side(self._finest, 1.0)
        return np.array([forecast(cold, self._side(level, hot)).swap_rate for hot in TEMPERATURES])

    def _side(self, level: str, temperature: float) -> Side:
        energy = self._energies[level]
        weight = weights(energy / temperature, self._mixture)
        return Side(energy, weight, temperature, self._noise[level].energy_sd ** 2)


def ladder_of(
    names: tuple[str, ...], thetas: object, temperatures: Sequence[float] | None, fidelities: Sequence[str | int] | None
) -> list[tuple[str, float]] | None:
    """Fidelity and temperature of every rung; None where no ladder is proposed."""
    if temperatures is None:
        if fidelities is not None:
            raise ValueError(f"fidelities are those of temperatures, got {fidelities!r} without any")
        report = thetas.report if isinstance(thetas, Run) else {}
        temperatures, fidelities = report.get("temperatures") or [], report.get("fidelities") or []
        if len(temperatures) < 2 or len(fidelities) < 2:
            return None
    temperatures = check_temperatures(temperatures)
    if len(temperatures) < 2:
        raise ValueError(f"temperatures must have at least two entries to swap between, got {list(temperatures)}")
    chosen = list(range(len(temperatures)) if fidelities is None else sequence("fidelities", fidelities))
    if len(chosen) != len(temperatures):
        raise ValueError(
            f"fidelities must have one entry for each of the {len(temperatures)} temperatures, got {len(chosen)}"
        )
    return list(zip([level_name(names, wanted) for wanted in chosen], map(float, temperatures), strict=True))


def hottest_of(rates: Array) -> float:
    """The hottest of `TEMPERATURES` at which a rate is known and at least the wanted one; NaN if there is none."""
    enough = np.flatnonzero(rates >= WANTED_RATE)
    return TEMPERATURES[int(enough[-1])] if len(enough) else math.nan


def is_limit(rates: Array, temperature: float) -> bool:
    """Whether swaps become too rare beyond this one of `TEMPERATURES`, and not only unknown."""
    return bool((rates[TEMPERATURES.index(temperature) :] < WANTED_RATE).any())
