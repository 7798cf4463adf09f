"""Reasons not to trust the draws of a run, in words that say what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from invsamp.diagnostics import weights
from invsamp.diagnostics.ladders import swap_rates, target_labels
from invsamp.diagnostics.report import FoundModes, Report
from invsamp.diagnostics.stability import stability_warnings
from invsamp.protocols import Array

if TYPE_CHECKING:
    import pandas as pd

Told = TypeVar("Told")
#: Largest R-hat that passes (Vehtari et al. 2021, section 4).
R_HAT_LIMIT = 1.01
#: Above this the chains are apart, and effective sizes tell that alone.
APART_LIMIT = 1.1
#: Effective draws that bulk and tail need per chain, for up to four chains (Vehtari et al. 2021, section 4: 400).
ESS_PER_CHAIN = 100.0
#: Tail index (the order up to which moments exist) below which the error of a variance is not finite; and how many
#: standard errors its shape is beyond that, one-sided 95%, where it is told by itself.
TAIL_INDEX_LIMIT, TAIL_DOUBT = 4.0, 1.645
#: Share of the draws that weights have to leave, where there are too few draws anyway.
WEIGHTS_LEFT = 0.5
#: Fraction of accepted swaps below which a pair of rungs hardly exchanges anything.
SWAP_RATE_LIMIT = 0.02
#: Sd of the noise in the log swap ratio above which fewer than 13% of the swaps between equals are accepted.
SWAP_NOISE_LIMIT = 3.0
#: Fraction of steps whose gradient noise may exceed the noise that the step injects.
CLIPPED_NOISE_LIMIT = 0.01
#: The same, above which draws are of no use; warm-up refuses to go on to them.
CLIPPED_NOISE_REFUSED = 0.1
#: Fraction of the swaps that neighbors of a ladder may reject that warm-up has found.
REJECTION_LIMIT = 0.9
#: Share by which its barrier may change in the last round of warm-up.
MOVED_LIMIT = 0.05
#: Fraction of the states visited that the pilot of a variance model may leave out.
UNCOVERED_LIMIT = 0.05
#: Virial of an unadjusted kernel's chains, over that of any law, and share of them far above the others' energies, that
#: are too much: gradients tell no curvature there (`invsamp.engine.adaptation.metric_estimation`).
VIRIAL_LIMIT, STRAY_LIMIT = 3.0, 0.5
#: Fraction of the solves of one fidelity that may fail.
FAILED_SOLVES_LIMIT = 0.05
#: Fraction of steps that may find no reflected path back into the domain.
REFLECTION_FALLBACK_LIMIT = 1e-4
#: Visits of a contour law's bins, least over most, each over what it should be, below which it is not flat.
EVEN_BINS_LIMIT = 0.05
#: Round trips from low energies to high ones and back that a contour law needs, over all chains.
ENERGY_TRIPS_LIMIT = 10
#: Weight by Laplace of a mode that descents found, from which on draws have to visit it; and by what factor their share
#: may differ from it.
MODE_WEIGHT_LIMIT, MODE_SHARE_LIMIT = 1e-3, 10.0
#: About the share of starts that lead to minima which no descent has come to (`invsamp.engine.mode_search.multistart`),
#: at the most.
UNSEEN_LIMIT = 1.0 / 16.0
#: Fewer draws per chain than this and ArviZ gives no statistics.
_MIN_DRAWS = 4
_NO_WEIGHTS = (
    "log_weight is NaN or +inf for some draws, or -inf for all of them, so no statistic means anything. A weight is "
    "the density that is meant over the one that is sampled: its log must be finite, or -inf for some draws."
)
#: Chance of an exchange with a coarse model of the same law, of the worst chain.
CHAIN_LIMIT = 0.1
#: A pilot run's effective draws per step over those of the run, from which on they are a broken promise. The pilot run
#: is short: over 20 seeds each, the ratio was at most 3 on ten posteriors without slow regions (eight schools, GARCH).
#: It was 4 to 16 at 7 of 8 seeds of a Michaelis-Menten model, and 5 to 13 at 3 of 12 on a bent ridge.
PROMISE_LIMIT = 4.0
#: A fine solve that takes so many times the time of a coarse one at the most leaves nothing to save, where the coarse
#: ones take some seconds together.
EXPENSIVE, SOME_SECONDS = 2.0, 5.0


def diagnose(summary: pd.DataFrame, report: Report, weight: Array | None = None) -> list[str]:
    """Reasons not to trust the draws, each with its figures and what to do; empty if there are none.

    Parameters
    ----------
    summary : DataFrame
        As `invsamp.results.run.Run.summary` gives it.
    report : mapping
        As `invsamp.results.run.Run.report` holds it. What it does not hold is not judged.
    weight : ndarray, shape (chains, draws), optional
        The draws' weights, where they have some.
    """
    if weight is not None and not np.isfinite(weight).all():
        return [*report.get("warnings", []), _NO_WEIGHTS]
    swaps, heavy = _swap_warnings(report), _heavy(summary, report)
    return [
        *report.get("warnings", []),
        *_unfinished_warnings(report),
        *_draw_warnings(summary, report),
        *_mode_warnings(report),
        *([] if weight is None else _weight_warnings(weight, report)),
        *_r_hat_warnings(summary, report),
        *_ess_warnings(summary, report, heavy),
        *_tail_warnings(heavy),
        *_sd_warnings(summary, report, heavy),
        *swaps,
        # a ladder with a broken rung has no round trips either: one message for one cause
        *([] if swaps else _round_trip_warnings(report)),
        *_contour_warnings(report),
        *_found_ladder_warnings(report),
        *_clipped_noise_warnings(report),
        *_stationarity_warnings(report),
        *_step_warnings(report),
        *_uncovered_warnings(report),
        *_failed_solve_warnings(report),
        *_fallback_warnings(report),
        *_boundary_warnings(report),
    ]


def _unfinished_warnings(report: Report) -> list[str]:
    """A run with fewer draws than were asked for, of which nobody has told why it ended."""
    if not report.get("interrupted") or report.get("stopped"):
        return []
    return [
        f"the run is not finished: it holds {report.get('draws', '?')} of {report.get('draws_planned', '?')} draws per "
        "chain. It is still at work, or was stopped or killed: iv.resume goes on with a run in a directory."
    ]


def _draw_warnings(summary: pd.DataFrame, report: Report) -> list[str]:
    found = []
    broken = summary.index[~np.isfinite(summary["mean"])]
    if len(broken):
        found.append(
            f"{_list(broken)}: some draws are NaN or infinite, so no statistic means anything. "
            f"Reduce step_size, or bound the parameter by its prior or a domain."
        )
    stuck = summary.index[summary["sd"] == 0]
    if len(stuck):
        found.append(
            f"{_list(stuck)}: every draw has the same value. Reduce step_size (every move may have been refused), "
            f"or check that the starting points have finite energy."
        )
    draws = report.get("draws")
    if draws is not None and draws < _MIN_DRAWS:
        found.append(
            f"{draws} draws per chain are too few for any diagnostic. Ask for draws={_MIN_DRAWS} at the least."
        )
    return found


def _mode_warnings(report: Report) -> list[str]:
    """What descents from the prior found, held against what the draws visit: R-hat cannot tell of a missed mode."""
    modes, found = report.get("modes"), []
    if (above := report.get("led_astray")) is not None:
        found.append(
            f"the density is highest where there is next to no mass, {above:.3g} units of energy below where chains "
            "stay, as in the neck of a funnel: draws may miss a part of it, and R-hat would not tell. Pose scales and "
            'what they scale non-centered: Normal("mu", "tau") in a Prior is sampled so.'
        )
    if report.get("unlooked"):
        found.append(
            "all chains began at one point, and nobody looked for modes elsewhere: R-hat cannot tell of one that no "
            "chain has seen. Start at draws of the prior (without start=), or in all that descents find, "
            "start=iv.maximize(posterior)."
        )
    if not modes:
        return found
    if modes["endless"]:
        away = modes.get("away") or []
        along = f", as {_list(away)} ran away" if away else ""
        found.append(
            f"{modes['endless']} of {modes['descents']} descents fell without end, far below all minima{along}: the "
            "posterior is improper there, or has a spike that chains hardly enter, as where a scale goes to 0 and what "
            'it scales with it. Give the parameter a proper prior, or pose what it scales non-centered: Normal("mu", '
            '"tau") in a Prior is sampled so.'
        )
    where = "the prior" if modes.get("from_prior", True) else "starting points"
    unseen, descents, lowest = modes.get("unseen", 0.0), modes.get("descents", 0), modes.get("lowest_by", 0)
    # where the lowest has next to no mass, nobody is to start there
    if above is None and unseen > UNSEEN_LIMIT and lowest < unseen * descents:
        found.append(
            f"{lowest} of {descents} descents from {where} came to the lowest minimum, while about "
            f"{100.0 * unseen:.0f}% of all starts lead to minima that nobody has seen (so many descents ended alone): "
            "where one of these is lower, the draws miss it. Look with more descents, "
            f"modes = iv.maximize(posterior, starts={4 * descents}), and start in the lowest, start=modes.theta[0]."
        )
    weights, mode_occupancy = np.asarray(modes["weights"]), np.asarray(modes["mode_occupancy"])
    known = np.broadcast_to(modes.get("by_laplace", True), weights.shape)
    heavy = weights > MODE_WEIGHT_LIMIT
    if modes.get("guessed") and np.count_nonzero(heavy) > 1 and known[heavy].all():
        found.append(
            "the target has no prior, and the scale of its starts was guessed: descents from N(0, 1) and then from the "
            f"box {_extents(modes['region'])} came to {np.count_nonzero(heavy)} modes. More of them, outside or "
            "narrow ones inside, may be missed. Give the Target start= that covers where the mass may lie, or pose a "
            "Posterior with a prior."
        )
    if len(weights) < 2 or not mode_occupancy.sum():
        return found
    shares = mode_occupancy / mode_occupancy.sum()
    ladder = "with a ladder from the prior" if modes.get("from_prior", True) else "with a ladder"
    for k in np.flatnonzero(heavy & (mode_occupancy == 0)):
        by = "its Gaussian" if known[k] else "its height and about its width"
        found.append(
            f"no draw has visited a mode that descents from {where} found, at {_numbers(modes['theta'][k])}, whose "
            f"weight by {by} is {weights[k]:.2g}: the draws miss a part of the posterior. Sample {ladder}, iv.samplers."
            'parallel_tempering(ladder="auto"), or start in all modes (iv.maximize(posterior).draws(chains)).'
        )
    seen = heavy & (mode_occupancy > 0) & known
    off = seen & ((shares > MODE_SHARE_LIMIT * weights) | (weights > MODE_SHARE_LIMIT * shares))
    for k in np.flatnonzero(off):
        found.append(
            f"{shares[k]:.2g} of the draws are in the mode at {_numbers(modes['theta'][k])}, whose weight by its "
            f"Gaussian is {weights[k]:.2g}: either the chains hardly pass between the modes, or these are far from "
            "Gaussian. See whether their shares hold with more draws of a ladder, "
            'iv.samplers.parallel_tempering(ladder="auto").'
        )
    return found


def _extents(region: Mapping[str, Sequence[float]]) -> str:
    return _list([f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in region.items()])


def _numbers(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values[:4]) + (", ...)" if len(values) > 4 else ")")


def _r_hat_warnings(summary: pd.DataFrame, report: Report) -> list[str]:
    if (size := report.get("ensemble_size", 1)) > 1 and size == report.get("chains"):
        return [
            f"all {size} chains form one ensemble, so R-hat cannot tell whether other starting points lead elsewhere. "
            f"Run several ensembles, if the kernel allows it: a multiple of the ensemble's chains, such as {4 * size}."
        ]
    if report.get("chains") == 1:
        return [
            "there is one chain only, so R-hat cannot tell whether other starting points lead elsewhere. "
            "Run chains=4 or more."
        ]
    bad = summary["r_hat"][summary["r_hat"] > R_HAT_LIMIT].sort_values(ascending=False)
    if not len(bad):
        return []
    named = _list([f"{name} {value:.3f}" for name, value in bad.items()])
    several = len(target_labels(report)) > 1
    ladder = "a hotter or denser ladder" if several else "a ladder of temperatures (replica exchange)"
    return [
        f"R-hat is above {R_HAT_LIMIT}: {named}. The chains do not agree yet. {_likely(report, list(bad.index))}"
        f"Look at plot_trace(): if they drift, raise warmup and draws; if they sit in separate modes, use {ladder}."
    ]


def _likely(report: Report, apart: Collection[str]) -> str:
    """What the run knows of that would keep chains apart in the parameters of these names."""
    modes = report.get("modes")
    astray = report.get("led_astray") is not None  # then nothing is told by the lowest minimum
    causes = _unbounded(modes, apart) if modes and not astray else []
    if astray:
        causes.append("the density is highest where there is next to no mass (a funnel)")
    elif not causes and "failed" in (report.get("decisions") or [""])[-1]:
        causes.append("no length of path passed its trial, as where curvature varies much (a funnel, a bent ridge)")
    if modes and len(modes["theta"]) > 1:
        by_laplace = np.all(modes.get("by_laplace", True))
        several = "modes" if by_laplace else "points that are flat in some direction, as on a ridge"
        causes.append(f"descents found {len(modes['theta'])} {several}")
    led = (report.get("descents") or [None])[0]
    if led is not None and led["unfinished"]:
        causes.append(
            f"descents of {led['unfinished']} chains came to no end: the density may grow without end (improper: what "
            "runs away wants a proper prior, or walls), or their starts, or a gradient, may be wrong"
        )
    if any("gradient" in line for line in report.get("warnings") or []):
        causes.append("a gradient is not that of its energy")
    return f"Likely: {'; '.join(causes)}. " if causes else ""


def _unbounded(modes: FoundModes, apart: Collection[str]) -> list[str]:
    """Signs that nothing bounds some of the parameters of these names."""
    flat = [name for name in modes.get("flat") or [] if name in apart]
    went = {name: ratio for name, ratio in (modes.get("wandered") or {}).items() if name in apart and name not in flat}
    found = []
    if flat:
        found.append(
            f"the energy is flat along {_list(flat)} at its lowest: where neither prior nor walls bound that, the "
            "posterior is improper, and there is nothing to sample"
        )
    if went:
        found.append(
            f"draws went {max(went.values()):.1g} times as far as starts are spread, along {_list(list(went))}: the "
            "posterior is improper there, with nothing to sample, unless it is as wide as that. Give it a proper "
            "prior, or walls"
        )
    return found


def _ess_warnings(summary: pd.DataFrame, report: Report, heavy: pd.Series[float]) -> list[str]:
    wanted, found = ess_wanted(report.get("chains", 4)), []
    for column, meaning in (("ess_bulk", "means"), ("ess_tail", "5% and 95% quantiles")):
        bad = summary[column][summary[column] < wanted].sort_values()
        if not len(bad):
            continue
        named = _list([f"{name} {value:.0f}" for name, value in bad.items()])
        factor = wanted / max(float(bad.iloc[0]), 1.0)
        draws = f" (draws={_round_up(factor * report['draws'])})" if report.get("draws") else ""
        advice = f"At this rate about {factor:.2g} times the draws{draws} would do."
        if float(summary["r_hat"].max()) > APART_LIMIT:  # chains that are apart give no rate
            advice = "How many draws would do cannot be told from chains that do not agree: see R-hat first."
        elif len(heavy):  # excursions into the tails take longer the farther they go, along other parameters too
            advice = "How many draws would do cannot be told, as tails are heavy."
        found.append(f"{column} is below {wanted:.0f}: {named}. {meaning.capitalize()} are not settled. {advice}")
    return found


def _sd_warnings(summary: pd.DataFrame, report: Report, heavy: pd.Series[float]) -> list[str]:
    """Sds that are less sure than means have to be, where nothing else is said of the parameter."""
    wanted = ess_wanted(report.get("chains", 4))
    limit = wanted**-0.5  # error of a mean, in sds, of so many draws
    settled = (summary["ess_bulk"] >= wanted) & (summary["ess_tail"] >= wanted) & ~(summary["r_hat"] > R_HAT_LIMIT)
    settled &= ~summary.index.isin(heavy.index)
    share = (summary["mcse_sd"] / summary["sd"])[settled & (summary["sd"] > 0.0)]
    bad = share[share > limit].sort_values(ascending=False)
    if not len(bad):
        return []
    named = _list([f"{name} {value:.0%}" for name, value in bad.items()])
    factor = (float(bad.iloc[0]) / limit) ** 2
    draws = f" (draws={_round_up(factor * report['draws'])})" if report.get("draws") else ""
    advice = "" if len(heavy) else f"; about {factor:.2g} times the draws{draws} would do"
    return [
        f"errors of sds are above {limit:.0%}: {named}, while means and quantiles are settled: a few draws far out "
        f"make up a variance. Quote quantiles{advice}."
    ]


def _heavy(summary: pd.DataFrame, report: Report) -> pd.Series[float]:
    """Tail indices of parameters for which these are below `TAIL_INDEX_LIMIT`, the lowest first.

    By the estimate alone where the error of the sd is large, which needs a reason anyway; elsewhere beyond doubt.
    """
    if "tail_shape" not in summary:
        return summary["sd"].iloc[:0]
    shape, limit = summary["tail_shape"], 1.0 / TAIL_INDEX_LIMIT
    sure = shape - TAIL_DOUBT * summary["tail_shape_error"] > limit
    stationarity = summary["mcse_sd"] > ess_wanted(report.get("chains", 4)) ** -0.5 * summary["sd"]
    heavy = (shape > limit) & (sure | stationarity) & ~(summary["r_hat"] > APART_LIMIT)
    return (1.0 / shape[heavy]).sort_values()


def _tail_warnings(heavy: pd.Series[float]) -> list[str]:
    if not len(heavy):
        return []
    named = _list([f"{name} {value:.2g}" for name, value in heavy.items()])
    return [
        f"tails are heavy, with a tail index below {TAIL_INDEX_LIMIT:g}: {named} (estimated from the largest draws). "
        "The variance may not exist. Below 2 it does not, and means have no standard errors; below 4 sds have none, "
        "and no number of draws settles them. Quote medians and quantiles, or give the parameter a prior with lighter "
        "tails."
    ]


def pilot_warnings(summary: pd.DataFrame, report: Report, every: int = 1) -> list[str]:
    """Whether the run has far fewer effective draws than the pilot run promised, by which its kernel was chosen.

    Parameters
    ----------
    summary : DataFrame
        Of the parameters, by every so manieth draw.
    report : mapping
        As of `diagnose`.
    every : int
        Draws of which one was judged.
    """
    pilot, draws, thin = report.get("pilot"), report.get("draws", 0), report.get("thin", 1)
    # so few steps would tell no more than those of the pilot run
    if pilot is None or draws * thin < 2 * pilot["steps"]:
        return []
    sizes = summary[["ess_bulk", "ess_tail"]].min(axis=1)
    if not np.isfinite(sizes).any():
        return []
    reached = float(sizes.min()) / (report["chains"] * -(-draws // every))
    promised, asked = (min(1.0, pilot[name] * thin * every) for name in ("promised", "asked"))
    if reached >= asked or PROMISE_LIMIT * reached >= promised:
        return []
    return [
        f"the pilot run of {pilot['steps']} steps promised an effective sample size (ESS) per draw of {promised:.2g}, "
        f"and the run has reached {reached:.2g} ({sizes.idxmin()}): the chains mix more slowly in regions that the "
        "pilot run did not see, and step size, metric and path length do not fit there, as with a bent ridge, a funnel "
        "or heavy tails. Draws may miss a part of such a region. Ask for more draws, try longer paths "
        "(iv.mams(length=9)), or pose the problem with less curvature."
    ]


def ess_wanted(chains: int) -> float:
    """Effective draws below which a run of so many chains warns."""
    # many short chains are a run too: what means need does not grow with their number
    return ESS_PER_CHAIN * min(chains, 4)


def _weight_warnings(weight: Array, report: Report) -> list[str]:
    effective, wanted = weights.effective(weight), ess_wanted(report.get("chains", 4))
    # where all draws together are too few, their ESS says so
    if effective >= min(wanted, WEIGHTS_LEFT * weight.size):
        return []
    return [
        f"the weights of the {weight.size} draws are worth {effective:.0f} equal ones at the most, below {wanted:.0f}: "
        f"the largest has {weight.max() / weight.size:.1%} of all. The law that was sampled is far from the one that "
        "the weights stand for: sample one that is closer, or ask for more draws."
    ]


def _swap_warnings(report: Report) -> list[str]:
    found = []
    for pair, sd in enumerate(report.get("swap_noise_sd") or []):
        if sd > SWAP_NOISE_LIMIT:
            found.append(
                f"the log swap ratio of rungs {pair} and {pair + 1}{_temperatures(report, pair, pair + 1)} has noise "
                f"of sd {sd:.1f}, above {SWAP_NOISE_LIMIT:g}: at that noise next to no swap is accepted. Lower the "
                f"noise of the energies (larger minibatches), or bring the temperatures closer."
            )
    rates = swap_rates(report)
    for pair, rate in enumerate(rates):
        attempts, accepts = int(report["swap_attempts"][pair]), int(report["swap_accepts"][pair])
        where = f"rungs {pair} and {pair + 1}{_temperatures(report, pair, pair + 1)}"
        if attempts == 0 and not _connected(report, pair):
            found.append(f"no swap was tried between {where}. Raise the swap fraction or the number of draws.")
        elif _same_target(report, pair) and (low := _standing(report, pair)):
            which = ", ".join(f"{chain} ({chance:.1%})" for chain, chance in low.items())
            found.append(
                f"chain{'s' if len(low) > 1 else ''} {which} exchanged with the coarse model in fewer than "
                f"{CHAIN_LIMIT:.0%} of the attempts: they stand where the coarse model is far off. Correct it there "
                "(invsamp.correct, at more states, those of this run too), or let the fine rung move by itself more "
                "often (local)."
            )
        elif rate < SWAP_RATE_LIMIT:
            found.append(
                f"{where} swapped in {accepts} of {attempts} attempts ({rate:.2%}), below {SWAP_RATE_LIMIT:.0%}: "
                "states hardly pass. Put a temperature between them or bring them closer; if their energies are noisy, "
                "lower that noise first (larger minibatches or more probes for swap energies)."
            )
    if (told := _expensive_coarse(report)) is not None:
        found.append(told)
    return found


def _connected(report: Report, pair: int) -> bool:
    """Whether swaps were tried from one rung of a pair of neighbors to the other, by way of other rungs or not."""
    tried = [(k, k + 1) for k, attempts in enumerate(report["swap_attempts"]) if attempts]
    tried += [(i, j) for i, j, attempts, _ in report.get("swaps_apart") or [] if attempts]
    reached, before = {pair}, set[int]()
    while reached != before:
        before = reached
        reached = before | {rung for ends in tried if before & set(ends) for rung in ends}
    return pair + 1 in reached


def _standing(report: Report, pair: int) -> dict[str, float]:
    """Chains by number that hardly ever exchange, and how often they do."""
    worst = (report.get("swap_worst_chains") or [{}] * (pair + 1))[pair]
    return {chain: chance for chain, chance in worst.items() if chance < CHAIN_LIMIT}


def _expensive_coarse(report: Report) -> str | None:
    """What a clock says of a coarse model that was taken for much cheaper than it is."""
    learned = report.get("correction")
    if not learned or learned["source"] == "stated":
        return None
    fine, coarse = report["fidelities"][0], learned["fidelity"]
    seconds = {name: report["evaluation_seconds"][name] for name in (fine, coarse)}
    ratio = seconds[fine] / report["evaluations"][fine] / max(seconds[coarse] / report["evaluations"][coarse], 1e-12)
    if seconds[coarse] < SOME_SECONDS or ratio > EXPENSIVE:
        return None
    return (
        f"a solve of {coarse!r} took {1.0 / ratio:.2g} of the time of one of {fine!r}, which was taken for "
        f"{learned['relative_cost']:.3g} times dearer ({learned['source']}): the draws are right, but moves on "
        f"{fine!r} itself would have been quicker. Say what solves cost: Posterior(..., costs={{...}})."
    )


def _same_target(report: Report, pair: int) -> bool:
    """Whether two rungs have one law, of two models: then a swap is all that moves the colder one."""
    targets, fidelities = report.get("targets") or [], report.get("fidelities") or []
    least = report.get("swap_least_chances")
    if not least or len(targets) < pair + 2:
        return False
    return bool(targets[pair] == targets[pair + 1] and fidelities[pair] != fidelities[pair + 1])


def _round_trip_warnings(report: Report) -> list[str]:
    if len(report.get("swap_attempts") or []) == 0 or report.get("round_trips") != 0:
        return []
    return [
        "no replica made a round trip from one end of the ladder to the other and back, although swaps are accepted: "
        "hot states have not yet fed the cold rung. Raise draws or the swap fraction; on a long ladder use fewer rungs."
    ]


def _contour_warnings(report: Report) -> list[str]:
    found = []
    for _, where, told in _by_rung(report, report.get("learned_targets")):
        if "energy_round_trips" not in told:
            continue
        trips, even = told["energy_round_trips"], told["least_over_most"]
        if even is not None and even < EVEN_BINS_LIMIT:
            found.append(
                f"{where}: its bins of energy were visited unevenly, the least {even:.3f} times as often as the most, "
                f"each over what it should be, below {EVEN_BINS_LIMIT:g}. What was learned of their masses is far off, "
                "or some bins hold nothing: raise warmup, or give knots that begin above the lowest energy."
            )
        if trips < ENERGY_TRIPS_LIMIT:
            found.append(
                f"{where}: {trips} round trips from the lowest quarter of its bins to the highest and back, below "
                f"{ENERGY_TRIPS_LIMIT}: it hardly connects modes. Raise draws, or take knots over a smaller range."
            )
    return found


def _found_ladder_warnings(report: Report) -> list[str]:
    """Whether a ladder that warm-up found is what it was looking for."""
    ladder = report.get("ladder")
    if not ladder:
        return []
    found, told = [], report.get("swap_rejection") or []
    rejections = [r for r in told if r is not None and np.isfinite(r)]
    if rejections and max(rejections) > REJECTION_LIMIT:
        pair = told.index(max(rejections))
        limited = f" Raise most ({len(ladder['betas'])} rungs now) in auto_ladder()." if ladder["limited"] else ""
        found.append(
            f"rungs {pair} and {pair + 1}{_temperatures(report, pair, pair + 1)} of the ladder that warm-up found "
            f"reject {max(rejections):.0%} of the swaps, above {REJECTION_LIMIT:.0%}: warm-up has not settled on a "
            f"spacing, or the posterior changes there at once, as where a narrow mode appears.{limited} Raise warmup; "
            "for modes much narrower than others, start chains in them."
        )
    if len(ladder["rounds"]) > 1:
        before, last = ladder["rounds"][-2:]
        moved, error = (
            abs(last["barrier"] - before["barrier"]),
            np.hypot(last["barrier_error"], before["barrier_error"]),
        )
        if moved > MOVED_LIMIT * last["barrier"] and not moved < 3.0 * error:
            found.append(
                f"the ladder that warm-up found was still changing: its barrier went from {before['barrier']:.2f} to "
                f"{last['barrier']:.2f} in the last round, by more than {MOVED_LIMIT:.0%}. Chains may not have found "
                f"all there is yet: raise warmup (now {report.get('warmup', '?')} steps)."
            )
    return found


def _clipped_noise_warnings(report: Report) -> list[str]:
    found = []
    for rung, where, fraction in _by_rung(report, report.get("clipped_noise")):
        if fraction <= CLIPPED_NOISE_LIMIT:
            continue
        steps = report.get("step_sizes") or []
        now = f" (now {steps[rung]:.3g})" if rung < len(steps) and steps[rung] is not None else ""
        refused = fraction > CLIPPED_NOISE_REFUSED
        limit, useless = (CLIPPED_NOISE_REFUSED, ": do not use them") if refused else (CLIPPED_NOISE_LIMIT, "")
        found.append(
            f"{where}: in {fraction:.1%} of the steps, above "
            f"{limit:.0%}, the gradient was noisier than the noise that the step injects, so these draws "
            f"are too wide{useless}. Reduce step_size{now} or the noise of the gradient (larger minibatches, more "
            "probes)."
        )
    return found


def _uncovered_warnings(report: Report) -> list[str]:
    return [
        f"{where}: the variance of the noise was extrapolated at {fraction:.0%} of the states that warm-up visited, "
        f"above {UNCOVERED_LIMIT:.0%}, as its pilot has no states near them. Raise warmup, or let kernel_ridge have "
        f"more states (most=...)."
        for _, where, fraction in _by_rung(report, report.get("uncovered_variance"))
        if fraction > UNCOVERED_LIMIT
    ]


def _stationarity_warnings(report: Report) -> list[str]:
    """Rungs without acceptance whose chains had not arrived when warm-up ended, or were thrown about."""
    found = []
    for _, where, of in _by_rung(report, report.get("stationarity")):
        if of["virial"] > VIRIAL_LIMIT:
            found.append(
                f"{where}: at the end of warm-up the draws' spread times their gradients was {of['virial']:.3g} times "
                f"what any settled law has, so that steps are too long for it, or chains are still on their way. "
                f"Reduce step_size, leave it out, or raise warmup."
            )
        elif of["stray"] > STRAY_LIMIT:
            found.append(
                f"{where}: at the end of warm-up the energies of {of['stray']:.0%} of the chains were far above those "
                f"of the lowest: they are on their way, or in places without mass, and preconditioner and step size "
                f"may be wrong. Raise warmup, or start elsewhere (start=iv.maximize(...))."
            )
    return found


def _step_warnings(report: Report) -> list[str]:
    """Rungs without acceptance whose steps are too long where the chains are."""
    rungs = _by_rung(report, report.get("step_stability"))
    return [warning for _, where, found in rungs for warning in stability_warnings(where, found)]


def _failed_solve_warnings(report: Report) -> list[str]:
    found = []
    evaluations = report.get("evaluations") or {}
    for fidelity, failed in (report.get("failed_solves") or {}).items():
        total = evaluations.get(fidelity, 0)
        if not total or failed / total <= FAILED_SOLVES_LIMIT:
            continue
        message, cold = report.get("failure_message"), (report.get("fidelities") or [fidelity])[0]
        cut = "the posterior is cut off" if fidelity == cold else f"moves on {fidelity!r} ended"
        last = f" The last failure said: {message}." if message else ""
        found.append(
            f"{failed} of {total} solves of {fidelity!r} failed ({failed / total:.1%}), above "
            f"{FAILED_SOLVES_LIMIT:.0%}: {cut} where the model gives no answer.{last} Narrow the "
            f"prior or the domain to where the model is meant to work, or make its solver more robust."
        )
    return found


def _fallback_warnings(report: Report) -> list[str]:
    steps = report.get("chains", 0) * report.get("draws", 0) * report.get("thin", 1)
    found = []
    for _, where, count in _by_rung(report, report.get("reflection_fallbacks")):
        if not count or not steps or count / steps <= REFLECTION_FALLBACK_LIMIT:
            continue
        found.append(
            f"{where}: {count} of {steps} steps ({count / steps:.2%}), above "
            f"{REFLECTION_FALLBACK_LIMIT:.2%}, found no reflected path inside the domain and stayed where they were. "
            f"Reduce step_size: a step must be short against the domain's narrowest part."
        )
    return found


def _boundary_warnings(report: Report) -> list[str]:
    """Draws of another law than the restricted posterior's, as the baselines have them."""
    boundary, outside = report.get("boundary"), report.get("outside") or [0.0]
    if outside[0] > 0.0:
        return [
            f"{outside[0]:.2%} of the draws lie outside the domain, as the boundary is {boundary!r}: the run samples "
            f"another posterior. Use boundary='reflect', or drop these draws before you use the others."
        ]
    if boundary == "project":
        return [
            "moves that left the domain were put on its boundary, as the boundary is 'project': draws pile up there, "
            "whatever the step size. Use boundary='reflect'; this one is a control for tests and figures."
        ]
    return []


def _list(names: Sequence[object], limit: int = 3) -> str:
    shown = ", ".join(str(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _by_rung(report: Report, told: Sequence[Told | None] | None) -> Iterator[tuple[int, str, Told]]:
    """The rungs of which something is told: their numbers, what messages call them, and that."""
    for rung, value in enumerate(told or []):
        if value is not None:
            yield rung, f"rung {rung}{_temperatures(report, rung)}", value


def _temperatures(report: Report, *rungs: int) -> str:
    values, targets = report.get("temperatures") or [], target_labels(report)
    if max(rungs) >= len(targets):
        return ""
    if not values:
        return " (" + " and ".join(targets[rung] for rung in rungs) + ")"
    label = "temperature" if len(rungs) == 1 else "temperatures"
    return f" ({label} " + " and ".join(f"{values[rung]:g}" for rung in rungs) + ")"


def _round_up(draws: float) -> int:
    """Up to two figures: 21,384 draws would sound exact."""
    unit = 10 ** max(int(np.floor(np.log10(max(draws, 1.0)))) - 1, 0)
    return int(np.ceil(draws / unit)) * unit
