"""Modes that local optimizations found, compared with the modes that draws visit; and likely causes of a high R-hat."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from invsamp.diagnostics.limits import (
    DIVERGENCE_LIMIT,
    MODE_SHARE_LIMIT,
    MODE_WEIGHT_LIMIT,
    NORMAL_DIVERGENCE,
    UNMATCHED_LIMIT,
)
from invsamp.diagnostics.message_text import listed
from invsamp.diagnostics.report import FoundModes, Report
from invsamp.modes.tolerances import UNSEEN
from invsamp.warning_codes import code_of, coded


def mode_warnings(report: Report) -> list[str]:
    """Signs that draws miss a mode, which R-hat cannot detect."""
    modes, found, above = report.get("modes"), [], report.get("led_astray")
    neck = _in_neck(report)
    if above is not None or (neck and not _normal(report)):
        below = "" if above is None else f", {above:.3g} units of energy below the chains"
        found.append(
            coded(
                "IV-FUNNEL",
                f"the density is highest where there is almost no mass{below}, as in the neck of a funnel: draws may "
                f"miss a part of it, and R-hat would not detect that. {_other_form(report)}",
            )
        )
    if report.get("unlooked"):
        found.append(
            coded(
                "IV-START",
                "all chains began at one point, and no mode search was run: R-hat cannot detect modes that no chain "
                "visited. Start at draws of the prior (without start=), or in all modes that optimization finds, "
                "start=iv.maximize(posterior).",
            )
        )
    if not modes:
        return found
    return found + _search_warnings(modes, neck or above is not None, report) + _visit_warnings(modes)


def _in_neck(report: Report) -> bool:
    """Whether chains begin elsewhere than at minima, which have next to no mass, and no Gaussian by which to judge."""
    modes = report.get("modes")
    if not modes or report.get("at_minima", True) or modes["endless"]:
        return False
    return not all(modes["by_laplace"])


def _normal(report: Report) -> bool:
    """Whether the target is normal in the coordinates of a map that fits in the neck as well."""
    rungs = report.get("coordinates") or []
    if len(rungs) != 1 or rungs[0] is None:
        return False
    return rungs[0]["divergence"] <= NORMAL_DIVERGENCE and rungs[0].get("unmatched", 1.0) <= UNMATCHED_LIMIT


def _search_warnings(modes: FoundModes, astray: bool, report: Report) -> list[str]:
    """Whether local optimizations diverged, or left minima to be found."""
    found = []
    if modes["endless"]:
        away = modes.get("away") or []
        found.append(
            coded(
                "IV-DIVERGED",
                f"{modes['endless']} of {modes['descents']} optimizations diverged"
                + (f", in the direction of {listed(away)}" if away else "")
                + ". The posterior may be improper, or unbounded as a scale parameter tends to 0. Give it a proper "
                + f"prior. {_other_form(report)}",
            )
        )
    unseen, descents, lowest = modes.get("unseen", 0.0), modes.get("descents", 0), modes.get("lowest_by", 0)
    # where the lowest has next to no mass, no chain is to start there
    if not astray and unseen > UNSEEN and lowest < unseen * descents:
        found.append(
            coded(
                "IV-UNSEEN",
                f"{lowest} of {descents} optimizations from {_starts(modes)} reached the lowest minimum, while about "
                f"{100.0 * unseen:.0f}% of all starts lead to minima not yet found (so many optimizations ended "
                "alone). If one of these is lower, the draws miss it. Search with more starts, modes = "
                f"iv.maximize(posterior, starts={4 * descents}), and start in the lowest, start=modes.theta[0].",
            )
        )
    return found


def _visit_warnings(modes: FoundModes) -> list[str]:
    """Whether draws visit the modes by about their weights."""
    found = []
    weights, mode_occupancy = np.asarray(modes["weights"]), np.asarray(modes["mode_occupancy"])
    known = np.broadcast_to(modes.get("by_laplace", True), weights.shape)
    heavy = weights > MODE_WEIGHT_LIMIT
    if modes.get("guessed") and np.count_nonzero(heavy) > 1 and known[heavy].all():
        box = listed([f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in modes["region"].items()])
        found.append(
            coded(
                "IV-SCALE",
                "the target has no prior, and the scale of its starts was guessed: optimizations from N(0, 1) and "
                f"then from the box {box} came to {np.count_nonzero(heavy)} modes. Modes outside, or narrow ones "
                "inside, may be missed. Give the Target start= that covers where the mass may lie, or pose a "
                "Posterior with a prior.",
            )
        )
    if len(weights) < 2 or not mode_occupancy.sum():
        return found
    shares = mode_occupancy / mode_occupancy.sum()
    ladder = 'iv.samplers.parallel_tempering(ladder="auto")'
    for k in np.flatnonzero(heavy & (mode_occupancy == 0)):
        by = "its Gaussian" if known[k] else "its height and about its width"
        found.append(
            coded(
                "IV-MODE",
                f"no draw has visited a mode that optimizations from {_starts(modes)} found, at "
                f"{_numbers(modes['theta'][k])}, whose weight by {by} is {weights[k]:.2g}: the draws miss a part of "
                f"the posterior. Sample with a temperature ladder, {ladder}, or start in all modes "
                "(iv.maximize(posterior).draws(chains)).",
            )
        )
    seen = heavy & (mode_occupancy > 0) & known
    off = seen & ((shares > MODE_SHARE_LIMIT * weights) | (weights > MODE_SHARE_LIMIT * shares))
    for k in np.flatnonzero(off):
        found.append(
            coded(
                "IV-MODE-WEIGHT",
                f"{shares[k]:.2g} of the draws are in the mode at {_numbers(modes['theta'][k])}, whose weight by its "
                f"Gaussian is {weights[k]:.2g}. Either the chains hardly pass between the modes, or these are far from "
                f"Gaussian. Compare with more draws of a temperature ladder, {ladder}.",
            )
        )
    return found


def likely_causes(report: Report, apart: Collection[str]) -> str:
    """Causes that may keep chains apart in the parameters of these names, as far as the run knows."""
    modes = report.get("modes")
    astray = report.get("led_astray") is not None  # then the lowest minimum gives no information
    causes = _unbounded(modes, apart) if modes and not astray else []
    if astray:
        causes.append("the density is highest where there is almost no mass (a funnel)")
    elif not causes and "failed" in (report.get("decisions") or [""])[-1]:
        causes.append("no path length passed its pilot run, as where curvature varies much (a funnel, a bent ridge)")
    causes += form_causes(report)
    if modes and len(modes["theta"]) > 1:
        by_laplace = np.all(modes.get("by_laplace", True))
        several = "modes" if by_laplace else "points that are flat in some direction, as on a ridge"
        causes.append(f"optimizations found {len(modes['theta'])} {several}")
    descents = (report.get("descents") or [None])[0]
    if descents is not None and descents["unfinished"]:
        causes.append(
            f"optimizations of {descents['unfinished']} chains did not converge. The density may be unbounded "
            "(an improper posterior: give the diverging parameters a proper prior, or bounds), or the starts "
            "or a gradient may be wrong"
        )
    if any(code_of(line) == "IV-GRADIENT" for line in report.get("warnings") or []):
        causes.append("a gradient is not that of its energy")
    return f"Likely: {'; '.join(causes)}. " if causes else ""


def form_causes(report: Report) -> list[str]:
    """Parameters that depend on others, in a form that was not found to be the better one; bent coordinates."""
    forms = report.get("centering") or {}
    given = [name for name, form in forms.items() if form["reason"] == "given"]
    others = [name for name, form in forms.items() if form["reason"].startswith("not chosen")]
    found = []
    if given:
        found.append(
            f"the form of {listed(given)} was given (centered=), and may be the wrong one: by default the run chooses, "
            "centered where data inform an entry, non-centered elsewhere"
        )
    if others:
        found.append(
            f"{listed(others)} may be in the wrong form, non-centered ({forms[others[0]]['reason']}): compare with "
            "centered=True in the distribution"
        )
    rungs = report.get("coordinates") or []
    if len(rungs) == 1 and rungs[0] is not None and rungs[0]["divergence"] > DIVERGENCE_LIMIT:
        bent = rungs[0]
        names, mapped = listed(bent["largest"]) if bent["largest"] else "many parameters", bent["family"] != "linear"
        plain = not mapped and report.get("sampler") and not report.get("decisions")
        found.append(
            f"the target is far from normal in the sampler's coordinates ({bent['family']}, Fisher divergence J "
            f"{bent['divergence']:.2g}), most of all along {names}: reparametrize them (as a product, a ratio or a "
            f"logarithm){', or use preconditioner=iv.transport_map()' if plain else ''}"
        )
    return found


def _other_form(report: Report) -> str:
    """The remedy for a hierarchy, by who chose the forms of its parameters."""
    forms = report.get("centering") or {}
    if not forms:
        return (
            'If a scale parameter and what it scales are both unknown, pose them in one Prior, as Normal("mu", "tau"): '
            "the run then samples them in the better form. Otherwise keep the scale from 0 by its prior."
        )
    if given := [name for name, form in forms.items() if form["reason"] == "given"]:
        return f"Leave centered= of {listed(given)} out: the run then chooses the form."
    return f"Compare with the other form: {other_forms(report)}. Or keep the scale from 0 by its prior."


def other_forms(report: Report) -> str:
    """Which forms the parameters of a hierarchy had, and what would be the other one."""
    forms = report.get("centering") or {}
    parts = []
    for name, form in forms.items():
        entries = np.asarray(form["centered"], dtype=bool)
        had = "centered" if entries.all() else f"{entries.sum()} of {entries.size} centered"
        parts.append(
            f"{name} was sampled {had if entries.any() else 'non-centered'}, and "
            f"centered={'False' if entries.all() else 'True'} in its distribution is the other one"
        )
    return "; ".join(parts)


def _unbounded(modes: FoundModes, apart: Collection[str]) -> list[str]:
    """Signs that nothing bounds some of the parameters of these names."""
    flat = [name for name in modes.get("flat") or [] if name in apart]
    went = {name: ratio for name, ratio in (modes.get("wandered") or {}).items() if name in apart and name not in flat}
    found = []
    if flat:
        found.append(
            f"the energy is flat along {listed(flat)} at its minimum. Without a prior or bounds there, the "
            "posterior is improper and cannot be sampled"
        )
    if went:
        found.append(
            f"draws moved {max(went.values()):.1g} times the spread of their starts, along "
            f"{listed(list(went))}. The posterior is improper there, unless it is that wide. Give it a proper "
            "prior, or bounds"
        )
    return found


def _starts(modes: FoundModes) -> str:
    return "the prior" if modes.get("from_prior", True) else "starting points"


def _numbers(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values[:4]) + (", ...)" if len(values) > 4 else ")")
