"""The report and the warnings of an emulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from invsamp.emulation.emulation import Emulated
from invsamp.emulation.rounds import UNSURE, Round, effect
from invsamp.emulation.runs.simulation_runs import Simulations, input_labels
from invsamp.emulation.search.mode_search import Search
from invsamp.emulation.stopping import effect_of_errors, held_out
from invsamp.results.run import Run
from invsamp.warning_codes import coded

#: Errors this many times as large as the emulator says are reported.
OVERCONFIDENT = 4.0
#: Differences between the draws that are reported and those of the last round, in sds and logs of sds, and so many
#: standard errors; and what draws of unknown energy may change.
APART, ERRORS = 0.1, 4.0
#: Noise of the simulator, as a share of the noise of the data, that is reported.
NOISY = 0.05
#: An input whose effect on the outputs is below this, in sds of the noise over the prior, is ignored.
IGNORED = 1e-6


def facts(simulations: Simulations, emulated: Emulated) -> dict[str, object]:
    """For ``run.report["emulation"]``, as JSON has it."""
    search = emulated.search
    noise = emulated.output_noise * np.sqrt(simulations.noise.size)
    rounds = emulated.rounds
    return {
        "simulations": simulations.made,
        "budget": simulations.budget,
        "purposes": dict(Counter(simulations.purposes)),
        "failed": int((~simulations.succeeded)[len(simulations) - simulations.made :].sum()),
        "waves": simulations.waves,
        "simulation_seconds": simulations.seconds,
        "overhead_seconds": emulated.seconds,
        "stopped_by_rule": not emulated.unmet,
        "unmet": emulated.unmet,
        "components": len(emulated.fitted.emulator.scales),
        "output_noise": emulated.output_noise,
        "descents": search.descents,
        "given_up": search.given_up,
        "minima": [
            {"energy": one.energy, "found": one.found, "weighty": any(one is other for other in search.weighty)}
            for one in search.minima
        ],
        "rounds": [_round_facts(one, noise) for one in rounds],
    }


def _round_facts(one: Round, noise: float) -> dict[str, object]:
    held, changed = held_out(one, noise), effect_of_errors(one, noise)
    return {
        "simulations": one.simulations,
        "predicted": one.predicted,
        "held_out": held if np.isfinite(held) else None,
        "effect": changed if np.isfinite(changed) else None,
        "worst": one.worst,
        "unsure": one.unsure if np.isfinite(one.unsure) else None,
        "ratio": one.ratio if np.isfinite(one.ratio) else None,
        "mean": one.mean.tolist(),
        "sd": one.sd.tolist(),
    }


def messages(simulations: Simulations, emulated: Emulated) -> list[str]:
    """Reasons not to trust the emulation, in words."""
    return [
        *(coded("IV-EMULATION", text) for text in _of_rounds(simulations, emulated)),
        *(coded("IV-EMULATION-MODES", text) for text in _of_search(emulated.search)),
        *(coded("IV-SIMULATOR", text) for text in _of_simulator(simulations, emulated)),
    ]


def _of_rounds(simulations: Simulations, emulated: Emulated) -> Iterator[str]:
    """Faults of the emulator: its stopping rule, and its own sds."""
    if emulated.unmet:
        yield (
            f"the emulation spent its budget of {simulations.budget} simulations before its stopping rule "
            f"was met: {'; '.join(emulated.unmet)}. Allow more, simulations={3 * simulations.budget // 2} "
            "(evaluations= of iv.sample)"
        )
    last = emulated.rounds[-1] if emulated.rounds else None
    if last is not None and last.ratio > OVERCONFIDENT and last.predicted > 0.05:
        yield (
            f"the emulator's errors were {last.ratio:.1f} times as large as predicted in the last round. Check "
            "the draws with run.certify()"
        )


def _of_search(search: Search) -> Iterator[str]:
    """Faults of the mode search."""
    if search.once:
        yield (
            f"{search.once} of {len(search.weighty)} modes with a share of the mass were found by only "
            f"one of {search.descents} optimizations, so others may be missing. Search with more, "
            f"descents={2 * search.descents}"
        )
    if search.given_up > search.descents // 2:
        yield (
            f"{search.given_up} of {search.descents} optimizations were stopped before they converged: "
            "their energies were far above the others, or the budget was spent. Search with more, "
            "descents="
        )
    if not search.fits:
        yield (
            f"none of {search.descents} optimizations found parameters that fit the data. The model may not "
            "explain the data, or a minimum that does was missed. Look at plot_predictive(), or search with more, "
            f"descents={2 * search.descents}"
        )


def _of_simulator(simulations: Simulations, emulated: Emulated) -> Iterator[str]:
    """Faults of the simulator: failures, missing outputs and noise."""
    failed = sum(one.failed for one in emulated.rounds)
    last = f"The last failure, {simulations.failure}"
    if failed:
        of = sum(one.draws for one in emulated.rounds)
        yield (
            f"{failed} of the {of} simulations at posterior draws failed. The posterior has no mass where "
            "the simulator fails, and the boundary of that region is uncertain. run.certify() measures "
            f"the effect. {last}"
        )
    if simulations.incomplete:
        yield (
            f"{simulations.incomplete} of {simulations.made} simulations gave some outputs that are not finite. "
            "They count as failed, as if there were no posterior mass. If the outputs are missing for another "
            f"reason, have the simulator return numbers. {last}"
        )
    if emulated.output_noise > NOISY:
        yield (
            f"the simulator is noisy: one simulation, run twice, differed by {emulated.output_noise:.2g} "
            "sds of the noise of the data. The emulator averages over this noise; a check by single "
            "simulations does not"
        )


def of_draws(emulated: Emulated, run: Run) -> list[str]:
    """Faults of the reported draws, in words."""
    posterior, found = emulated.fitted.posterior, []
    position = posterior.to_position(run.theta.reshape(-1, posterior.dimension))
    some = position[:: max(1, len(position) // 2000)]
    # the last simulations may have resolved what the rule saw, and these draws are fewer: a warning allows for more
    if not (unsure := effect(some, posterior.misfit_errors(some) > UNSURE)) <= APART:
        found.append(
            coded(
                "IV-EMULATION",
                f"draws at which the emulator is uncertain change a mean or an sd by {unsure:.2g}, more than "
                f"{APART}. Allow more simulations; run.certify() measures the effect",
            )
        )
    if emulated.rounds:
        last = emulated.rounds[-1]
        means = float((np.abs(position.mean(axis=0) - last.mean) / last.sd).max())
        sds = float(np.abs(np.log(position.std(axis=0) / last.sd)).max())
        if max(means, sds) > APART + ERRORS / np.sqrt(run.summary()["ess_bulk"].min()):
            found.append(
                coded(
                    "IV-EMULATION",
                    f"the draws differ from those of the last round: a mean by {means:.2g} sds and the log of "
                    f"an sd by {sds:.2g}. The last simulations changed the posterior, or chains missed a part "
                    "of it. Check the draws with run.certify()",
                )
            )
    return found


def ignored_inputs(simulations: Simulations, emulated: Emulated) -> list[str]:
    """Names of inputs that change no output, as far as simulations say."""
    emulator = emulated.fitted.emulator
    base = emulator.center
    spread = np.sqrt(np.diag(np.linalg.inv(emulator.whitening.T @ emulator.whitening)))
    labels = []
    names = input_labels(simulations)
    at = emulator.columns(base[None])[0][:, :-2]
    for k, label in enumerate(names):
        moved = np.tile(base, (2, 1))
        moved[:, k] += [-spread[k], spread[k]]
        if np.abs(emulator.columns(moved)[0][:, :-2] - at).max() < IGNORED:
            labels.append(label)
    return labels
