"""Faults of a sampler at work: swaps, ladders, contours, noise of gradients, failed solves, the domain's boundary."""

from __future__ import annotations

import numpy as np

from invsamp.diagnostics import limits
from invsamp.diagnostics.ladders import swap_rates
from invsamp.diagnostics.message_text import by_rung, pair_of
from invsamp.diagnostics.report import Report
from invsamp.diagnostics.stability import stability_warnings
from invsamp.warning_codes import coded


def sampler_warnings(report: Report) -> list[str]:
    """Faults of the rungs and of the pairs that they form, each with its figures and what to do."""
    swaps = _swap_warnings(report)
    return [
        *swaps,
        # a ladder with a broken rung has no round trips either: one message for one cause
        *([] if swaps else _round_trip_warnings(report)),
        *_contour_warnings(report),
        *_found_ladder_warnings(report),
        *_clipped_noise_warnings(report),
        *_stationarity_warnings(report),
        *_coordinate_warnings(report),
        *_step_warnings(report),
        *_uncovered_warnings(report),
        *_failed_solve_warnings(report),
        *_fallback_warnings(report),
        *_boundary_warnings(report),
    ]


def _swap_warnings(report: Report) -> list[str]:
    found = [
        coded(
            "IV-SWAP",
            f"the log swap ratio of {pair_of(report, pair)} has noise of sd {sd:.1f}, above "
            f"{limits.SWAP_NOISE_LIMIT:g}: almost no swap is accepted. Lower the noise of the energies (larger "
            "minibatches), or bring the temperatures closer.",
        )
        for pair, sd in enumerate(report.get("swap_noise_sd") or [])
        if sd > limits.SWAP_NOISE_LIMIT
    ]
    for pair, rate in enumerate(swap_rates(report)):
        attempts, accepts = int(report["swap_attempts"][pair]), int(report["swap_accepts"][pair])
        where = pair_of(report, pair)
        if attempts == 0 and not _connected(report, pair):
            found.append(coded("IV-SWAP", f"no swap was attempted between {where}. Raise the swap fraction or draws."))
        elif _same_target(report, pair) and (low := _rarely_exchanged(report, pair)):
            which = ", ".join(f"{chain} ({chance:.1%})" for chain, chance in low.items())
            found.append(
                coded(
                    "IV-COARSE",
                    f"chain{'s' if len(low) > 1 else ''} {which} exchanged with the coarse model in fewer than "
                    f"{limits.CHAIN_LIMIT:.0%} of the attempts: the coarse model is far off at their positions. "
                    "Correct it there (invsamp.correct, at more states, those of this run too), or let the fine rung "
                    "move by itself more often (local_move_interval).",
                )
            )
        elif rate < limits.SWAP_RATE_LIMIT:
            found.append(
                coded(
                    "IV-SWAP",
                    f"{where} swapped in {accepts} of {attempts} attempts ({rate:.2%}), below "
                    f"{limits.SWAP_RATE_LIMIT:.0%}: states hardly pass. Put a temperature between them or bring "
                    "them closer. If their energies are noisy, lower that noise first (larger minibatches, or more "
                    "probes for swap energies).",
                )
            )
    return found + _cost_warnings(report)


def _connected(report: Report, pair: int) -> bool:
    """Whether swaps were tried from one rung of a pair of neighbors to the other, by way of other rungs or not."""
    tried = [(k, k + 1) for k, attempts in enumerate(report["swap_attempts"]) if attempts]
    tried += [(i, j) for i, j, attempts, _ in report.get("swaps_apart") or [] if attempts]
    reached, before = {pair}, set[int]()
    while reached != before:
        before = reached
        reached = before | {rung for ends in tried if before & set(ends) for rung in ends}
    return pair + 1 in reached


def _rarely_exchanged(report: Report, pair: int) -> dict[str, float]:
    """Chains by number that hardly ever exchange, and how often they do."""
    worst = (report.get("swap_worst_chains") or [{}] * (pair + 1))[pair]
    return {chain: chance for chain, chance in worst.items() if chance < limits.CHAIN_LIMIT}


def _same_target(report: Report, pair: int) -> bool:
    """Whether two rungs have one target, of two models: then a swap is all that moves the colder one."""
    targets, fidelities = report.get("targets") or [], report.get("fidelities") or []
    if not report.get("swap_least_chances") or len(targets) < pair + 2:
        return False
    return bool(targets[pair] == targets[pair + 1] and fidelities[pair] != fidelities[pair + 1])


def _cost_warnings(report: Report) -> list[str]:
    """Whether a coarse model is much more expensive by the clock than it was assumed to be."""
    learned = report.get("correction")
    if not learned or learned["source"] == "stated":
        return []
    fine, coarse = report["fidelities"][0], learned["fidelity"]
    seconds = {name: report["evaluation_seconds"][name] for name in (fine, coarse)}
    ratio = seconds[fine] / report["evaluations"][fine] / max(seconds[coarse] / report["evaluations"][coarse], 1e-12)
    if seconds[coarse] < limits.SOME_SECONDS or ratio > limits.EXPENSIVE:
        return []
    return [
        coded(
            "IV-COST",
            f"a solve of {coarse!r} took {1.0 / ratio:.2g} of the time of one of {fine!r}. It was taken to be "
            f"{learned['relative_cost']:.3g} times cheaper ({learned['source']}). The draws are right, but moves on "
            f"{fine!r} itself would have been quicker. State what solves cost: Posterior(..., costs={{...}}).",
        )
    ]


def _round_trip_warnings(report: Report) -> list[str]:
    if not report.get("swap_attempts") or report.get("round_trips") != 0:
        return []
    return [
        coded(
            "IV-ROUND-TRIPS",
            "no replica made a round trip from one end of the ladder to the other and back, although swaps are "
            "accepted: hot states have not yet reached the cold rung. Raise draws or the swap fraction; on a long "
            "ladder use fewer rungs.",
        )
    ]


def _contour_warnings(report: Report) -> list[str]:
    found = []
    for _, where, learned in by_rung(report, report.get("learned_targets")):
        if "energy_round_trips" not in learned:
            continue
        trips, even = learned["energy_round_trips"], learned["least_over_most"]
        if even is not None and even < limits.EVEN_BINS_LIMIT:
            found.append(
                coded(
                    "IV-CONTOUR",
                    f"{where}: its energy bins were visited unevenly, the least {even:.3f} times as often as the "
                    f"most, each over what it should be, below {limits.EVEN_BINS_LIMIT:g}. The learned masses are far "
                    "off, or some bins are empty: raise warmup, or give knots that begin above the lowest energy.",
                )
            )
        if trips < limits.ENERGY_TRIPS_LIMIT:
            found.append(
                coded(
                    "IV-CONTOUR",
                    f"{where}: {trips} round trips from the lowest quarter of its bins to the highest and back, below "
                    f"{limits.ENERGY_TRIPS_LIMIT}: it hardly connects modes. Raise draws, or take knots over a smaller "
                    "range.",
                )
            )
    return found


def _found_ladder_warnings(report: Report) -> list[str]:
    """Whether warm-up found a ladder whose neighbors swap, and that no longer changes."""
    ladder = report.get("ladder")
    if not ladder:
        return []
    found, rejections = [], np.array([np.nan if r is None else r for r in report.get("swap_rejection") or []])
    if (rejections > limits.REJECTION_LIMIT).any():
        pair = int(np.nanargmax(rejections))
        limited = f" Raise max_rungs ({len(ladder['betas'])} now) in auto_ladder()." if ladder["limited"] else ""
        found.append(
            coded(
                "IV-LADDER",
                f"{pair_of(report, pair)} of the ladder that warm-up found reject {rejections[pair]:.0%} of the "
                f"swaps, above {limits.REJECTION_LIMIT:.0%}. Warm-up has not found a spacing, or the posterior "
                f"changes abruptly there, as where a narrow mode appears.{limited} Raise warmup. If a mode is much "
                "narrower than others, start chains in it.",
            )
        )
    if len(ladder["rounds"]) > 1:
        (before, error_before), (last, error) = ((r["barrier"], r["barrier_error"]) for r in ladder["rounds"][-2:])
        moved = abs(last - before)
        if moved > limits.MOVED_LIMIT * last and not moved < 3.0 * np.hypot(error, error_before):
            found.append(
                coded(
                    "IV-LADDER",
                    f"the ladder that warm-up found was still changing: its barrier went from {before:.2f} to "
                    f"{last:.2f} in the last round, by more than {limits.MOVED_LIMIT:.0%}. Chains may not have found "
                    f"all modes yet: raise warmup (now {report.get('warmup', '?')} steps).",
                )
            )
    return found


def _clipped_noise_warnings(report: Report) -> list[str]:
    found = []
    for rung, where, fraction in by_rung(report, report.get("clipped_noise")):
        if fraction <= limits.CLIPPED_NOISE_LIMIT:
            continue
        steps = report.get("step_sizes") or []
        now = f" (now {steps[rung]:.3g})" if rung < len(steps) and steps[rung] is not None else ""
        refused = fraction > limits.CLIPPED_NOISE_REFUSED
        limit = limits.CLIPPED_NOISE_REFUSED if refused else limits.CLIPPED_NOISE_LIMIT
        found.append(
            coded(
                "IV-GRADIENT-NOISE",
                f"{where}: in {fraction:.1%} of the steps, above {limit:.0%}, the gradient noise exceeded the "
                f"injected noise, so these draws are too wide{': do not use them' if refused else ''}. Reduce "
                f"step_size{now} or the noise of the gradient (larger minibatches, more probes).",
            )
        )
    return found


def _stationarity_warnings(report: Report) -> list[str]:
    """Rungs without acceptance step whose chains were not stationary when warm-up ended."""
    found = []
    for _, where, of in by_rung(report, report.get("stationarity")):
        if of["virial"] > limits.VIRIAL_LIMIT:
            found.append(
                coded(
                    "IV-STATIONARY",
                    f"{where}: at the end of warm-up the draws' spread times their gradients was {of['virial']:.3g} "
                    "times that of any stationary distribution. Steps are too long for it, or chains have not "
                    "arrived. Reduce step_size, leave it out, or raise warmup.",
                )
            )
        elif of["stray"] > limits.STRAY_LIMIT:
            found.append(
                coded(
                    "IV-STATIONARY",
                    f"{where}: at the end of warm-up the energies of {of['stray']:.0%} of the chains were far above "
                    "the lowest. They have not arrived, or are in regions without mass, and preconditioner and step "
                    "size may be wrong. Raise warmup, or start elsewhere (start=iv.maximize(...)).",
                )
            )
    return found


def _coordinate_warnings(report: Report) -> list[str]:
    """A transport map that does not fit where some draws are, where nothing else moves the chains."""
    rungs = report.get("coordinates") or []
    found = rungs[0] if len(rungs) == 1 else None
    if found is None or found.get("unfit", 0.0) <= limits.UNFIT_LIMIT:
        return []
    names = ", ".join(found["largest"]) or "many parameters alike"
    return [
        coded(
            "IV-COORDINATES",
            f"the transport map ({found['family']}) does not fit at {found['unfit']:.2%} of the draws, above "
            f"{limits.UNFIT_LIMIT:.1%}; in warm-up the largest deviations were along {names}. Chains turn back there: "
            "draws may miss what lies beyond, and R-hat and ESS cannot show it. Reparametrize (as a product, a ratio "
            "or a logarithm), or compare with preconditioner='dense' (iv.mams).",
        )
    ]


def _step_warnings(report: Report) -> list[str]:
    """Rungs without acceptance whose steps are too long where the chains are."""
    rungs = by_rung(report, report.get("step_stability"))
    return [warning for _, where, found in rungs for warning in stability_warnings(where, found)]


def _uncovered_warnings(report: Report) -> list[str]:
    return [
        coded(
            "IV-VARIANCE-MODEL",
            f"{where}: the variance of the noise was extrapolated at {fraction:.0%} of the states that warm-up "
            f"visited, above {limits.UNCOVERED_LIMIT:.0%}, as its pilot has no states near them. Raise warmup, or let "
            "kernel_ridge have more states (max_states=...).",
        )
        for _, where, fraction in by_rung(report, report.get("uncovered_variance"))
        if fraction > limits.UNCOVERED_LIMIT
    ]


def _failed_solve_warnings(report: Report) -> list[str]:
    found = []
    for fidelity, failed in (report.get("failed_solves") or {}).items():
        total = (report.get("evaluations") or {}).get(fidelity, 0)
        if not total or failed / total <= limits.FAILED_SOLVES_LIMIT:
            continue
        message, cold = report.get("failure_message"), (report.get("fidelities") or [fidelity])[0]
        cut = "the posterior is cut off" if fidelity == cold else f"moves on {fidelity!r} ended"
        last = f" The last failure said: {message}." if message else ""
        found.append(
            coded(
                "IV-FAILED",
                f"{failed} of {total} solves of {fidelity!r} failed ({failed / total:.1%}), above "
                f"{limits.FAILED_SOLVES_LIMIT:.0%}: {cut} where the model fails.{last} Narrow the prior or the domain "
                "to where the model is meant to work, or make its solver more robust.",
            )
        )
    return found


def _fallback_warnings(report: Report) -> list[str]:
    steps = report.get("chains", 0) * report.get("draws", 0) * report.get("thin", 1)
    return [
        coded(
            "IV-REFLECTION",
            f"{where}: {count} of {steps} steps ({count / steps:.2%}), above {limits.REFLECTION_FALLBACK_LIMIT:.2%}, "
            "found no reflected path inside the domain and stayed where they were. Reduce step_size: a step must be "
            "short relative to the domain's narrowest part.",
        )
        for _, where, count in by_rung(report, report.get("reflection_fallbacks"))
        if count and steps and count / steps > limits.REFLECTION_FALLBACK_LIMIT
    ]


def _boundary_warnings(report: Report) -> list[str]:
    """Draws of another distribution than the restricted posterior, as the baselines have them."""
    boundary, outside = report.get("boundary"), report.get("outside") or [0.0]
    if outside[0] > 0.0:
        return [
            coded(
                "IV-BOUNDARY",
                f"{outside[0]:.2%} of the draws lie outside the domain, as the boundary is {boundary!r}: the run "
                "samples another posterior. Use boundary='reflect', or drop these draws before you use the others.",
            )
        ]
    if boundary == "project":
        return [
            coded(
                "IV-BOUNDARY",
                "moves that left the domain were put on its boundary, as the boundary is 'project': draws pile up "
                "there, whatever the step size. Use boundary='reflect'; this one is a control for tests and figures.",
            )
        ]
    return []
