"""Reasons not to trust the draws of a run, each with its figures and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from invsamp.diagnostics import limits, weights
from invsamp.diagnostics.ladders import target_labels
from invsamp.diagnostics.limits import R_HAT_LIMIT, ess_wanted
from invsamp.diagnostics.message_text import listed, more_draws, with_values
from invsamp.diagnostics.mode_checks import form_causes, likely_causes, mode_warnings, other_forms
from invsamp.diagnostics.report import Report
from invsamp.diagnostics.sampler_checks import sampler_warnings
from invsamp.diagnostics.tails import TAIL_SHAPES
from invsamp.protocols import Array
from invsamp.warning_codes import coded

if TYPE_CHECKING:
    import pandas as pd

_NO_WEIGHTS = coded(
    "IV-WEIGHT-NAN",
    "log_weight is NaN or +inf for some draws, or -inf for all of them, so all statistics are meaningless. A weight is "
    "the intended density over the sampled one: its log must be finite, or -inf for some draws.",
)


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
    heavy = _heavy(summary, report)
    return [
        *report.get("warnings", []),
        *_unfinished_warnings(report),
        *_draw_warnings(summary, report),
        *mode_warnings(report),
        *([] if weight is None else _weight_warnings(weight, report)),
        *_r_hat_warnings(summary, report),
        *_ess_warnings(summary, report, heavy),
        *_tail_warnings(summary, report, heavy),
        *_sd_warnings(summary, report, heavy),
        *sampler_warnings(report),
    ]


def _unfinished_warnings(report: Report) -> list[str]:
    """A run with fewer draws than planned, for which no reason is known."""
    spent = any(message.startswith("IV-BUDGET: sampling stopped") for message in report.get("warnings", []))
    if not report.get("interrupted") or report.get("stopped") or spent:
        return []
    return [
        coded(
            "IV-UNFINISHED",
            f"the run is not finished: it holds {report.get('draws', '?')} of {report.get('draws_planned', '?')} "
            "draws per chain. It is still running, or was killed. iv.resume continues a run in a directory.",
        )
    ]


def _draw_warnings(summary: pd.DataFrame, report: Report) -> list[str]:
    broken, stuck = summary.index[~np.isfinite(summary["mean"])], summary.index[summary["sd"] == 0]
    found = []
    if len(broken):
        found.append(
            coded(
                "IV-NAN",
                f"{listed(broken)}: some draws are NaN or infinite, so all statistics are meaningless. "
                "Reduce step_size, or bound the parameter by its prior or a domain.",
            )
        )
    if len(stuck):
        found.append(
            coded(
                "IV-STUCK",
                f"{listed(stuck)}: every draw has the same value. Reduce step_size (every move may have been "
                "rejected), or check that the starting points have finite energy.",
            )
        )
    if report.get("draws", limits.MIN_DRAWS) < limits.MIN_DRAWS:
        found.append(
            coded(
                "IV-DRAWS",
                f"{report['draws']} draws per chain are too few for any diagnostic. Ask for draws={limits.MIN_DRAWS} "
                "or more.",
            )
        )
    return found


def _weight_warnings(weight: Array, report: Report) -> list[str]:
    effective, wanted = weights.effective(weight), ess_wanted(report.get("chains", 4))
    # where all draws together are too few, their ESS says so
    if effective >= min(wanted, limits.WEIGHTS_LEFT * weight.size):
        return []
    return [
        coded(
            "IV-WEIGHTS",
            f"the weights of the {weight.size} draws give an effective sample size of {effective:.0f} at most, below "
            f"{wanted:.0f}: the largest has {weight.max() / weight.size:.1%} of the total. The sampled distribution "
            "is far from the intended one. Sample a closer one, or ask for more draws.",
        )
    ]


def _r_hat_warnings(summary: pd.DataFrame, report: Report) -> list[str]:
    size, chains = report.get("ensemble_size", 1), report.get("chains")
    if chains in (1, size):
        alone = "there is one chain only" if chains == 1 else f"all {size} chains form one ensemble"
        more = (
            "Run chains=4 or more."
            if chains == 1
            else "Run several ensembles, if the kernel allows it: a multiple of the ensemble's chains, such as "
            f"{4 * size}."
        )
        return [
            coded("IV-CHAINS", f"{alone}, so R-hat cannot detect that other starting points lead elsewhere. {more}")
        ]
    bad = summary["r_hat"][summary["r_hat"] > R_HAT_LIMIT].sort_values(ascending=False)
    if not len(bad):
        return []
    several = len(target_labels(report)) > 1
    ladder = "a hotter or denser ladder" if several else "a ladder of temperatures (replica exchange)"
    return [
        coded(
            "IV-RHAT",
            f"R-hat is above {R_HAT_LIMIT}: {with_values(_up(bad), '.3f')}. The chains do not agree yet. "
            f"{likely_causes(report, list(bad.index))}Look at plot_trace(): if they drift, raise warmup and draws; if "
            f"they sit in separate modes, use {ladder}.",
        )
    ]


def _up(values: pd.Series[float]) -> pd.Series[float]:
    """To thousandths, upwards: 1.0104 is not to be shown as 1.010, above 1.01."""
    return np.ceil(1000.0 * values - 1e-6) / 1000.0


def _ess_warnings(summary: pd.DataFrame, report: Report, heavy: pd.Series[float]) -> list[str]:
    wanted = ess_wanted(report.get("chains", 4))
    found: list[str] = []
    for column, estimates in (("ess_bulk", "Means"), ("ess_tail", "5% and 95% quantiles")):
        bad = summary[column][summary[column] < wanted].sort_values()
        if not len(bad):
            continue
        advice = f"At this rate {more_draws(report, wanted / max(float(bad.iloc[0]), 1.0))} would do."
        if float(summary["r_hat"].max()) > limits.APART_LIMIT:
            advice = "How many draws would do cannot be estimated from chains that do not agree: see R-hat first."
        elif causes := form_causes(report):
            # once: R-hat has named them, or the first of these
            said = found or float(summary["r_hat"].max()) > R_HAT_LIMIT
            advice = advice if said else f"Likely: {'; '.join(causes)}. {advice}"
        else:
            if len(heavy):  # excursions into the tails take longer the farther they go, along other parameters too
                advice = "How many draws would do cannot be estimated, as tails are heavy."
            if not found and (forms := other_forms(report)):
                advice = f"{advice} If more draws are too expensive, try the other form: {forms}."
        found.append(
            coded(
                "IV-ESS",
                f"{column} is below {wanted:.0f}: {with_values(np.floor(bad), '.0f')}. {estimates} have not converged. "
                f"{advice}",
            )
        )
    return found


def _heavy(summary: pd.DataFrame, report: Report) -> pd.Series[float]:
    """Tail indices of parameters for which these are below `TAIL_INDEX_LIMIT`, the lowest first.

    By the estimate alone where the error of the sd is large, which needs a reason anyway; elsewhere beyond doubt.
    """
    if "tail_shape" not in summary:
        return summary["sd"].iloc[:0]
    shape, limit = summary["tail_shape"], 1.0 / limits.TAIL_INDEX_LIMIT
    sure = shape - limits.TAIL_DOUBT * summary["tail_shape_error"] > limit
    uncertain = summary["mcse_sd"] > ess_wanted(report.get("chains", 4)) ** -0.5 * summary["sd"]
    heavy = (shape > limit) & (sure | uncertain)
    if summary["r_hat"].max() > limits.APART_LIMIT:  # draws of chains that are apart give no information of tails
        heavy &= False
    return (1.0 / shape[heavy]).sort_values()


def notes(summary: pd.DataFrame, report: Report) -> list[str]:
    """Notes for readers of the summary that are no fault of the draws.

    Parameters
    ----------
    summary, report
        As of `diagnose`.
    """
    heavy = _heavy(summary, report)
    return _tail_messages(heavy[~_without_variance(summary, heavy) & _converged(summary.loc[heavy.index], report)])


def _converged(summary: pd.DataFrame, report: Report) -> pd.Series[bool]:
    """Whether means of ranks and quantiles have."""
    wanted = ess_wanted(report.get("chains", 4))
    return (summary[["ess_bulk", "ess_tail"]] >= wanted).all(axis=1) & ~(summary["r_hat"] > R_HAT_LIMIT)


def _without_variance(summary: pd.DataFrame, heavy: pd.Series[float]) -> pd.Series[bool]:
    """Beyond doubt, for all parameters together (Bonferroni): of fifty, some look so by chance."""
    if not len(heavy):
        return heavy.astype(bool)
    shape, error = (summary.loc[heavy.index, name] for name in TAIL_SHAPES)
    return shape + ndtri(limits.VARIANCE_RISK / len(summary)) * error > 1.0 / limits.VARIANCE_INDEX


def _tail_warnings(summary: pd.DataFrame, report: Report, heavy: pd.Series[float]) -> list[str]:
    """Parameters that have no variance, beyond doubt; and those with heavy tails whose quantiles have not converged."""
    sure, converged = _without_variance(summary, heavy), _converged(summary.loc[heavy.index], report)
    found, without = _tail_messages(heavy[~sure & ~converged]), heavy[sure]
    if not len(without):
        return found
    of, all_converged = summary.loc[without.index], bool(converged[sure].all())
    quantiles = [f"{name} {row['50%']:.3g} ({row['5%']:.3g} to {row['95%']:.3g})" for name, row in of.iterrows()]
    message = (
        f"there is no variance, with a tail index below {limits.VARIANCE_INDEX:g}, of {with_values(without, '.2g')} "
        "(estimated from the largest draws): mean and sd in the summary mean nothing. Convergence is judged by "
        f"quantiles, which {'have' if all_converged else 'have not'} converged. Medians and 90% intervals: "
        f"{listed(quantiles)}. Quote these, or give a prior with lighter tails."
    )
    return [coded("IV-NO-VARIANCE", message), *found]


def _tail_messages(heavy: pd.Series[float]) -> list[str]:
    if not len(heavy):
        return []
    return [
        coded(
            "IV-TAIL",
            f"tails are heavy, with a tail index below {limits.TAIL_INDEX_LIMIT:g}: {with_values(heavy, '.2g')} "
            "(estimated from the largest draws). The variance may not exist: it does above 2, its error above 4. "
            "No number of draws makes sds converge. Quote medians and quantiles, or give the parameter a prior "
            "with lighter tails.",
        )
    ]


def _sd_warnings(summary: pd.DataFrame, report: Report, heavy: pd.Series[float]) -> list[str]:
    """Sds with larger errors than means may have, of parameters without another warning."""
    wanted = ess_wanted(report.get("chains", 4))
    limit = wanted**-0.5  # error of a mean, in sds, of so many draws
    converged = (summary["ess_bulk"] >= wanted) & (summary["ess_tail"] >= wanted) & ~(summary["r_hat"] > R_HAT_LIMIT)
    converged &= ~summary.index.isin(heavy.index)
    share = (summary["mcse_sd"] / summary["sd"])[converged & (summary["sd"] > 0.0)]
    bad = share[share > limit].sort_values(ascending=False)
    if not len(bad):
        return []
    advice = "" if len(heavy) else f"; {more_draws(report, (float(bad.iloc[0]) / limit) ** 2)} would do"
    return [
        coded(
            "IV-SD",
            f"errors of sds are above {limit:.0%}: {with_values(_up(bad), '.1%')}. Means and quantiles of "
            f"{'it' if len(bad) == 1 else 'these'} have converged, but a few draws far out dominate the variance. "
            f"Quote quantiles{advice}.",
        )
    ]


def pilot_warnings(summary: pd.DataFrame, report: Report, every: int = 1) -> list[str]:
    """Whether the run has far fewer effective draws than the pilot run promised, by which its kernel was chosen.

    Parameters
    ----------
    summary : DataFrame
        Of the parameters, by every n-th draw.
    report : mapping
        As of `diagnose`.
    every : int
        n.
    """
    pilot, draws, thin = report.get("pilot"), report.get("draws", 0), report.get("thin", 1)
    # so few steps would show no more than those of the pilot run
    if pilot is None or draws * thin < 2 * pilot["steps"]:
        return []
    sizes = summary[["ess_bulk", "ess_tail"]].min(axis=1)
    if not np.isfinite(sizes).any():
        return []
    reached = float(sizes.min()) / (report["chains"] * -(-draws // every))
    promised, asked = (min(1.0, pilot[name] * thin * every) for name in ("promised", "asked"))
    if reached >= asked or limits.PROMISE_LIMIT * reached >= promised:
        return []
    return [
        coded(
            "IV-PILOT",
            f"the pilot run of {pilot['steps']} steps promised an effective sample size (ESS) per draw of "
            f"{promised:.2g}, and the run has reached {reached:.2g} ({sizes.idxmin()}). The chains mix more slowly in "
            "regions that the pilot run did not see, such as a bent ridge, a funnel or heavy tails. Draws may miss a "
            "part of such a region. Ask for more draws, try longer paths (iv.mams(length=9)), or pose the problem "
            "with less curvature.",
        )
    ]
