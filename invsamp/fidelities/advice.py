"""A comparison of fidelities as text: tables, and recommended swap rules and temperatures of coarse levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from invsamp.diagnostics.limits import SWAP_NOISE_LIMIT, SWAP_RATE_LIMIT
from invsamp.fidelities.pairs import Pair, is_limit
from invsamp.protocols import Array

if TYPE_CHECKING:
    from invsamp.fidelities.compared import Compared
    from invsamp.fidelities.levels import Level

#: Rms error of a log swap ratio that hardly moves a weight: half of it shifts 0.60 by about 0.006.
HARMLESS = 0.05
#: Acceptance of the second stage above which two fidelities agree, and below which they hardly do.
AGREES, DISAGREES = 0.7, 0.3
#: Cosine of the gradients below which a coarse level pulls elsewhere.
ASTRAY = 0.5


def table(comparison: Compared) -> str:
    """Both tables and the advice."""
    levels, pairs, states = comparison.levels, comparison.pairs, comparison.states
    count = states.energies.shape[1]
    lines = [f"Fidelities at {count} states ({states.source}), beside the finest, {levels[-1].name}:"]
    noisy = any(level.energy_noise_sd or level.gradient_noise_sd for level in levels)
    head = ["level", "cost/ms", "relative", "energy offset", "its sd", "correlation", "gradient error", "cosine"]
    lines += _aligned([head + ["noise: energy", "gradient"] * noisy] + [_level_row(level, noisy) for level in levels])
    if pairs:
        lines += ["", "Swaps on the ladder, by delayed acceptance without a learned difference:"]
        head = ["cold", "hot", "stage 1", "stage 2", "swaps", "sd of stage 2", "sqrt v", "misses: eq. 18", "eq. 11"]
        lines += _aligned([head] + [_pair_row(pair) for pair in pairs])
    lines.append("")
    lines += [f"- {sentence}" for sentence in advice(comparison)]
    return "\n".join(lines)


def advice(comparison: Compared) -> tuple[str, ...]:
    """Sentences, each with its figures and what to do."""
    levels, found = comparison.levels, []
    for level in levels[:-1]:
        found += _of_level(level, levels[-1], comparison.hot_temperatures[level.name], comparison.rates[level.name])
    for pair in comparison.pairs:
        found += _of_pair(pair)
    return tuple(found)


def _of_level(level: Level, finest: Level, temperature: float, rates: Array) -> list[str]:
    found = []
    if level.gradient_cosine < ASTRAY:
        found.append(
            f"{level.name}: its gradient has another direction (cosine {level.gradient_cosine:.2f}). It may "
            "serve a hot rung, but not replace the finest gradient."
        )
    if level.relative_cost >= 1.0:
        found.append(f"{level.name}: costs at least as much as {finest.name}. Leave it out.")
    if np.isnan(rates).all():
        found.append(
            f"{level.name}: the states do not show at which temperature to run it. Give the Run of a short pilot with "
            "a hot rung of this level."
        )
    elif math.isnan(temperature):
        found.append(
            f"{level.name}: at most {np.nanmax(rates):.1%} of the swaps with {finest.name} itself would be accepted, "
            "at any temperature that the states cover, unless its difference is learned (the default rule does). "
            "Or put a finer level between."
        )
    else:
        found.append(
            f"{level.name}: hot at up to about {temperature:.3g} it still swaps with {finest.name} at a fifth of the "
            "attempts or more. "
            + (
                "Hotter needs a rung between."
                if is_limit(rates, temperature)
                else "The states do not cover hotter ones: give the Run of a short pilot with a hot rung of this level."
            )
        )
    return found


def _of_pair(pair: Pair) -> list[str]:
    cold, hot = _rung(pair.cold, pair.cold_temperature), _rung(pair.hot, pair.hot_temperature)
    where = f"{cold} with {hot}"
    if math.isnan(pair.first_stage):
        scarce, count = min(((cold, pair.cold_effective), (hot, pair.hot_effective)), key=lambda side: side[1])
        return [
            f"{where}: the states have an effective sample size of {count:.0f} at {scarce}, too few to "
            "forecast swaps. Give the Run of a short pilot on this ladder."
        ]
    found = [_rule(pair, where)]
    if pair.noise_sd > SWAP_NOISE_LIMIT:
        found.append(
            f"{where}: the noise of the energies has sqrt v = {pair.noise_sd:.1f} in the log ratio, and with "
            "its penalty almost no swap is accepted. Use exact energies, or larger batches, for this rung's "
            "swaps."
        )
    elif pair.swap_rate < SWAP_RATE_LIMIT:
        found.append(f"{where}: only {pair.swap_rate:.1%} of the swaps would be accepted. Put a rung between.")
    return found


def _rule(pair: Pair, where: str) -> str:
    noise = " (less its penalty for the noise)" if pair.noise_sd > 0.0 else ""
    if pair.cold == pair.hot:
        return (
            f"{where}: one fidelity, so own energies decide exactly{noise}: state_dependent_penalty(), without a "
            "further solve."
        )
    if pair.own_energies_error <= HARMLESS:
        return (
            f"{where}: the energies agree to {pair.own_energies_error:.2g} in the log ratio. "
            f"state_dependent_penalty(assume_unbiased=True){noise} saves the solves; delayed_acceptance() is exact."
        )
    text = (
        f"{where}: delayed_acceptance(), exact, with a fine solve at {pair.first_stage:.0%} of the attempts, of which "
        f"{pair.second_stage:.0%} swap. Own energies (eq. 18) would miss {pair.own_energies_error:.2g} in the log ratio"
    )
    if pair.cold_energies_error <= HARMLESS:
        text += f"; multi_variance(1.0) misses {pair.cold_energies_error:.2g} only"
    else:
        text += f", multi_variance(1.0) {pair.cold_energies_error:.2g}"
    if pair.second_stage >= AGREES:
        return f"{text}: biased."
    learned = "the default rule learns their difference in warm-up and swaps more than this forecast"
    if pair.second_stage >= DISAGREES:
        return f"{text}: biased. The levels disagree by {pair.discrepancy_sd:.2g} in the log ratio; {learned}."
    return (
        f"{text}: biased. The levels disagree by {pair.discrepancy_sd:.2g} in the log ratio, which wastes most of the "
        f"fine solves: {learned}, or take a finer level there."
    )


def _rung(name: str, temperature: float) -> str:
    return f"{name} at {temperature:.3g}"


def _level_row(level: Level, noisy: bool) -> list[str]:
    noise = [f"{level.energy_noise_sd:.3g}", f"{level.gradient_noise_sd:.3g}"] if noisy else []
    return [
        level.name, f"{1e3 * level.seconds:.3g}", f"{level.relative_cost:.3g}", f"{level.energy_offset:.3g}",
        f"{level.energy_sd:.3g}", f"{level.energy_correlation:.4f}", f"{level.gradient_error:.3g}",
        f"{level.gradient_cosine:.4f}", *noise,
    ]  # fmt: skip


def _pair_row(pair: Pair) -> list[str]:
    rates = (pair.first_stage, pair.second_stage, pair.swap_rate)
    return [
        _rung(pair.cold, pair.cold_temperature), _rung(pair.hot, pair.hot_temperature), *(f"{r:.1%}" for r in rates),
        f"{pair.discrepancy_sd:.2g}", f"{pair.noise_sd:.2g}", f"{pair.own_energies_error:.2g}",
        f"{pair.cold_energies_error:.2g}",
    ]  # fmt: skip


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  " + "  ".join(entry.rjust(w) for entry, w in zip(row, widths, strict=True)) for row in rows]
