"""The report of a run: settings, counts and figures, in plain types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from invsamp.diagnostics.report import Coordinates, Descents, Misfit, Report, Stationarity
from invsamp.engine.adaptation.step_size_and_metric import STABILITY_FRACTION
from invsamp.engine.ensemble.ensemble import Ensemble
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.compatibility import ensemble_size
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.engine.rungs.step_stability import mean_step_size
from invsamp.evaluate.counted import CountedPotential
from invsamp.kernels.gaussian_reference import mode_of
from invsamp.kernels.metric import DenseMetric, DiagonalMetric
from invsamp.ladder.sampler import MOST_DENSE
from invsamp.protocols import NoisyPotential
from invsamp.storage.contents import versions
from invsamp.tempering.checks import temperatures_of
from invsamp.tempering.target_distribution import ReportingTarget


def report(ensemble: Ensemble, potentials: Mapping[str, CountedPotential]) -> Report:
    """Settings, results of rungs (cold to hot) and their swaps, and counts by fidelity, in plain types."""
    sampler, rungs, exchange = ensemble.composition, ensemble.rungs, ensemble.exchange
    # from cold to hot
    used = [e.fidelity for r in rungs for e in (r.potential, *r.potentials)]
    # a ladder that was found may have done without some of them in the end
    potentials = {name: potentials[name] for name in dict.fromkeys([*used, *reversed(list(potentials))])}
    swaps = _swaps(exchange)
    attempts = max(1, sum(swaps["swap_attempts"]))
    dimension = rungs[0].position.shape[1]
    preconditioner = sampler.preconditioner_at(dimension)
    why = f" ({dimension} parameters, dense up to {MOST_DENSE})" if preconditioner == "diagonal" else ""
    return {
        "sampler": sampler.described(auto=f"{preconditioner}{why}"),
        "sampler_settings": repr(sampler),
        "preconditioner": None if preconditioner is None else str(preconditioner),
        "targets": [str(r.target) for r in rungs],
        "learned_targets": [
            r.target.report(r.target_memory) if isinstance(r.target, ReportingTarget) else None for r in rungs
        ],
        "temperatures": temperatures_of([r.target for r in rungs]),
        "target_factors": [None if r.target.factors is None else list(r.target.factors) for r in rungs],
        "exact_energies": [r.estimator.exact for r in rungs],
        "fidelities": [r.potential.fidelity for r in rungs],
        "kernels": [r.settings.kernel.name for r in rungs],
        "execution": ensemble.execution,
        "ensemble_size": ensemble_size([r.settings.kernel for r in rungs], len(rungs[0].position)),
        "step_sizes": [mean_step_size(r) for r in rungs],
        "step_size_source": [_step_size_source(r) for r in rungs],
        "preconditioner_matrices": [_matrix(r) for r in rungs],
        "acceptance": [_acceptance(r) for r in rungs],
        "clipped_noise": [r.counts.clipped / max(1, r.counts.steps * len(r.position)) for r in rungs],
        "reference_eigenvalues": [_eigenvalues(r) for r in rungs],
        "descents": [_descents(r) for r in rungs],
        "uncovered_variance": [r.uncovered for r in rungs],
        "stationarity": [_stationarity(r) for r in rungs],
        "coordinates": [_coordinates(r) for r in rungs],
        "reflections": [r.counts.reflected for r in rungs],
        "cliffs": [r.counts.cliffs for r in rungs],
        "reflection_fallbacks": [r.counts.fallbacks for r in rungs],
        "evaluations": {name: e.evaluations for name, e in potentials.items()},
        "function_calls": {name: e.calls for name, e in potentials.items()},
        "evaluation_seconds": {name: e.seconds for name, e in potentials.items()},
        "failed_solves": {name: e.failed for name, e in potentials.items()},
        **swaps,
        "swap_solves_per_attempt": {name: n / attempts for name, n in swaps["swap_solves"].items()},
        "misfit": _misfit(rungs[0]),
        "versions": versions(),
    }


def _misfit(cold: RungChains) -> Misfit | None:
    """The expected misfit of the data, where the draws are those of the posterior, and energies are exact."""
    potential = cold.potential.potential
    if not (cold.estimator.exact and isinstance(potential, NoisyPotential)):
        return None
    found = potential.expected_misfit()
    if found is None:
        return None
    data, least, mean, sd, low, high = found
    return {"data": data, "least": least, "mean": mean, "sd": sd, "low": low, "high": high}


def _swaps(exchange: Exchange | None) -> Report:
    pairs = [] if exchange is None else exchange.pairs
    return {
        "swap_rules": [str(pair.rule) for pair in pairs],
        "swap_attempts": [pair.attempts for pair in pairs],
        "swap_accepts": [pair.accepts for pair in pairs],
        "warnings": [pair.doubt for pair in pairs if pair.doubt],
        "swap_least_chances": [pair.least_chance for pair in pairs],
        "swap_worst_chains": [pair.worst_chains for pair in pairs],
        "swap_first_stage_accepts": [pair.first_stage_accepts for pair in pairs],
        "discrepancy_residual_sd": [pair.residual_sd for pair in pairs],
        "swap_rejection": [pair.rejection for pair in pairs],
        "swap_parities": 0 if exchange is None else exchange.parities,
        "swaps_apart": [] if exchange is None else [list(pair) for pair in exchange.apart],
        "swap_noise_sd": [pair.log_ratio_sd / max(1, pair.attempts) for pair in pairs],
        "swap_solves": {} if exchange is None else dict(exchange.solves),
        "round_trips": 0 if exchange is None else exchange.round_trips,
    }


def _acceptance(rung: RungChains) -> float | None:
    full_steps = rung.counts.full_steps * len(rung.position)
    return rung.counts.accepted / max(1, full_steps) if rung.adjusted else None


def _eigenvalues(rung: RungChains) -> list[float] | None:
    """Of a mode's Gaussian that the kernel moves about, the largest first; None of other kernels."""
    reference = mode_of(rung.settings.kernel)
    if reference is None:
        return None
    values: list[float] = np.sort(reference.metric.values)[::-1].tolist()
    return values


def _descents(rung: RungChains) -> Descents | None:
    """Where the local optimizations of warm-up ended; None where there were none."""
    ends = rung.led
    if ends is None:
        return None
    return {"energies": ends.energies.tolist(), "moved": ends.moved, "unfinished": ends.unfinished}


def _stationarity(rung: RungChains) -> Stationarity | None:
    found = rung.stationarity
    return None if found is None else {"virial": found.virial, "stray": found.stray}


def _coordinates(rung: RungChains) -> Coordinates | None:
    """The coordinates that steps are made in, by how normal the target was in them in the last window of warm-up."""
    if not rung.coordinates:
        return None
    last, names = rung.coordinates[-1], () if rung.bound is None else rung.bound.names
    known = len(names) == rung.position.shape[1]
    return {
        "family": last.family,
        "divergence": last.divergence,
        "largest": [names[k] if known else f"unknown {k}" for k in last.largest],
        "windows": [(found.family, found.divergence) for found in rung.coordinates],
        "unmatched": last.unmatched,
        "unfit": rung.counts.unfit / max(1, rung.counts.steps * len(rung.position)),
    }


def _step_size_source(rung: RungChains) -> str:
    if rung.schedule is not None:
        return f"the mean of {rung.schedule}"
    if rung.settings.step_size is not None:
        given = rung.settings.step_size
        return "given" if rung.step_size == given else f"given as {given:g}, shrunk to the noise budget"
    if rung.adjusted:
        return "found in warm-up by acceptance"
    return f"found in warm-up as {STABILITY_FRACTION} of the stability limit"


def _matrix(rung: RungChains) -> list[object] | None:
    metric = rung.metric
    return metric.matrix.tolist() if isinstance(metric, DiagonalMetric | DenseMetric) else None
