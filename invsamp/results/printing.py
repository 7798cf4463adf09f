"""A run as it prints itself: what was done, the parameters, and whether to trust them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from invsamp.diagnostics.ladders import swap_rates, target_labels
from invsamp.diagnostics.report import Report, Spent
from invsamp.diagnostics.separation import Separation
from invsamp.protocols import Array
from invsamp.warning_codes import code_of

if TYPE_CHECKING:
    import pandas as pd

#: Parameters that a printed run shows, and of those that show modes, so many, and chains of them.
SHOWN, SEPARATIONS, CHAINS = 20, 3, 8
#: Entries of a vector or field of more than `SHOWN`, by the quantiles of their means.
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


#: How columns are written that are counts, or near one.
COUNTS = {"ess_bulk": "{:.0f}".format, "ess_tail": "{:.0f}".format, "r_hat": "{:.3f}".format}


def printed(
    summary: pd.DataFrame,
    report: Report,
    messages: Sequence[str],
    modes: Mapping[str, Separation] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """A run's summary and report, and what it warns of, as text; ``modes`` are those that parameters show."""
    rows = _shown(summary)
    table = rows.to_string(float_format="{:#.4g}".format, formatters=COUNTS)
    lines = [*_headline(report), table, *_more(summary, rows), *_modes(modes), *_noted(notes), verdict(messages)]
    return "\n".join(lines)


def printed_html(
    summary: pd.DataFrame,
    report: Report,
    messages: Sequence[str],
    modes: Mapping[str, Separation] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The same for a notebook: sentences that wrap, and a table that can be pushed aside where it is too wide."""
    rows = _shown(summary)
    table = rows.to_html(float_format="{:#.4g}".format, formatters=COUNTS, border=0)
    count = escape(verdict(messages).splitlines()[0])
    lines = "".join(f"{escape(line)}<br>" for line in (*_more(summary, rows), *_modes(modes), *_noted(notes)))
    items = "".join(f"<li>{escape(message)}</li>" for message in messages)
    return (
        f"<p>{'<br>'.join(escape(line) for line in _headline(report))}</p>\n"
        f'<div style="overflow-x: auto">{table}</div>\n'
        f"<p>{lines}<b>{count}</b></p>"
        + (f"\n<ul>{items}</ul>" if items else "")
        + "".join(f"\n<p>{escape(line)}</p>" for line in _meaning(messages))
    )


def _shown(summary: pd.DataFrame) -> pd.DataFrame:
    """The first rows; of a vector or field of many entries a few, from the smallest mean to the largest."""
    rows = np.arange(len(summary))
    blocks = _blocks(summary)
    kept = []
    for block in dict.fromkeys(blocks):
        of = rows[blocks == block]
        if len(of) > SHOWN:
            order = of[np.argsort(summary["mean"].to_numpy()[of], kind="stable")]
            of = order[[round(share * (len(of) - 1)) for share in QUANTILES]]
        kept.append(of)
    return summary.drop(columns=["mcse_mean", "mcse_sd"]).iloc[np.concatenate([rows[:0], *kept])[:SHOWN]]


def _blocks(summary: pd.DataFrame) -> Array:
    """Of each row the name of the parameter, without the entry."""
    return np.array([str(label).partition("[")[0] for label in summary.index], dtype=object)


def _more(summary: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """How many entries there are of what is shown in part."""
    sizes = summary.attrs.get("sizes") or {}
    large = {name: size for name, size in sizes.items() if size > SHOWN}
    found = []
    for name, size in large.items():
        if (_blocks(rows) == name).sum() == len(QUANTILES):
            judged = int((_blocks(summary) == name).sum())
            of = f"{size:,} entries" if judged == size else f"{judged} entries, evenly spread over {size:,}"
            found.append(f"{name}: {len(QUANTILES)} of {of}, from the smallest mean to the largest; see summary()")
    entries = summary.attrs.get("entries", len(summary))
    left = entries - sum(large.values()) - (len(rows) - len(QUANTILES) * len(found))
    return [*found, *[f"... and {left:,} more parameters: see summary()"] * (left > 0 and len(rows) == SHOWN)]


def _noted(notes: Sequence[str]) -> list[str]:
    return [f"note: {text}" for text in notes]


def verdict(messages: Sequence[str]) -> str:
    """Warnings as lines of text."""
    count = "no warnings" if not messages else f"{len(messages)} warning{'s' if len(messages) > 1 else ''}:"
    return "\n".join([count, *(f"  - {message}" for message in messages), *_meaning(messages)])


def _meaning(messages: Sequence[str]) -> list[str]:
    """A line that says where codes are explained."""
    codes = [code for message in messages if (code := code_of(message)) is not None]
    return (
        [f'explanation of a code: print(iv.diagnostics.explain("{codes[0]}")), or the page "Warnings"'] if codes else []
    )


def _modes(modes: Mapping[str, Separation] | None) -> list[str]:
    """How chains share what draws keep apart, in a line for each of a few parameters."""
    found = []
    for name, (at, below) in list((modes or {}).items())[:SEPARATIONS]:
        shares = " ".join(f"{share:.2f}" for share in below[:CHAINS]) + (" ..." if len(below) > CHAINS else "")
        found.append(f"{name} stays on two sides of {at:.3g}; share below, by chain: {shares}")
    return found


def _ends_at(report: Report) -> str:
    """Where the round trips of a ladder end, in words."""
    hottest = (report.get("target_factors") or [None])[-1]
    if hottest == [1.0, 0.0]:
        direct = (report.get("kernels") or [""])[-1] == "prior draws"
        return " to the prior" + (", drawn from directly" if direct else "")
    return ", to a rung that is not the prior" if report.get("ladder") else ""


def centering(report: Report) -> list[str]:
    """In which form parameters that depend on others were sampled, in a line."""
    parts = []
    for name, form in (report.get("centering") or {}).items():
        entries = np.asarray(form["centered"], dtype=bool)
        which = "centered" if entries.all() else f"{entries.sum()} of {entries.size} centered"
        parts.append(f"{name} {which if entries.any() else 'non-centered'} ({form['reason']})")
    return [f"hierarchy: {', '.join(parts)}"] if parts else []


def account(spent: Spent) -> str:
    """Evaluations by purpose, in words."""
    parts = [f"optimization {spent['descents']:,} (limit about {spent['descents_most']:,})"]
    parts += [f"mode search {spent['looks']:,}"] * (spent["looks"] > 0)
    parts += [f"failed pilot runs {spent['failed']:,}"] * (spent["failed"] > 0)
    parts += [f"warm-up {spent['warm-up']:,}", f"draws {spent['draws']:,}"]
    return "evaluations by purpose: " + ", ".join(parts)


def solved(report: Report, fidelity: str) -> list[str]:
    """Cost of the evaluations of a fidelity: calls of its function where these are others, time, failures."""
    calls = (report.get("function_calls") or {}).get(fidelity)
    seconds = (report.get("evaluation_seconds") or {}).get(fidelity)
    failed = (report.get("failed_solves") or {}).get(fidelity)
    return [
        *([f"{calls:,} function calls"] if calls and calls != report["evaluations"][fidelity] else []),
        *([] if seconds is None else [f"{seconds:.3g} s"]),
        *([f"{failed:,} without a finite result"] if failed else []),
    ]


def settings(report: Report) -> list[str]:
    """Chains, draws, warm-up, thinning and seed, in words."""
    counts = [f"{report[key]} {key}" for key in ("chains", "draws", "warmup") if key in report]
    budget = report.get("budget")
    if counts and budget is not None and budget["stopped"] is not None:
        counts[-1] += " (ended by the limit on evaluations)"
    thin = [f"thin {report['thin']}"] if report.get("thin", 1) != 1 else []
    return [*counts, *thin, *([f"seed {report['seed']}"] if "seed" in report else [])]


def _headline(report: Report) -> list[str]:
    lines = [f"Run of {report.get('sampler', 'a sampler')}"]
    seconds = [f"{report['seconds']:.3g} s"] if "seconds" in report else []
    lines.append(", ".join([*settings(report), *seconds]))
    if (size := report.get("ensemble_size", 1)) > 1:
        lines.append(
            f"{report['chains'] // size} independent ensembles of {size} chains: R-hat and effective sizes take each "
            "as one chain, the average over its chains"
        )
    rates = swap_rates(report)
    if len(rates):
        temperatures = ", ".join(f"{value:.3g}" for value in report.get("temperatures") or [])
        rungs = f"temperatures {temperatures}" if temperatures else "targets " + ", ".join(target_labels(report))
        rate_text = ", ".join("not tried" if np.isnan(rate) else f"{rate:.1%}" for rate in rates)
        lines.append(f"{rungs}; swap rate {rate_text}; {report.get('round_trips', '?')} round trips{_ends_at(report)}")
    lines += report.get("decisions") or []
    lines += centering(report)
    if spent := report.get("spent"):
        lines.append(account(spent))
    sizes = [size for size in report.get("step_sizes") or [] if size is not None]
    if sizes:
        sources = dict.fromkeys(report.get("step_size_source") or [])
        lines.append(f"step sizes {', '.join(f'{size:.3g}' for size in sizes)}" + "".join(f", {s}" for s in sources))
    if (coordinates := (report.get("coordinates") or [None])[0]) is not None:
        windows = ", ".join(f"{divergence:.2g}" for _, divergence in coordinates["windows"])
        lines.append(
            f"coordinates: {coordinates['family']}, Fisher divergence J {coordinates['divergence']:.2g} of a normal "
            f"distribution (windows of warm-up: {windows})"
            + (f"; the map does not fit at {unfit:.2%} of the draws" if (unfit := coordinates.get("unfit")) else "")
        )
    solves = [
        f"{count:,} of {name!r}" + (f" ({', '.join(more)})" if (more := solved(report, name)) else "")
        for name, count in (report.get("evaluations") or {}).items()
    ]
    if solves:
        budget = report.get("budget")
        of = f", of a budget of {budget['evaluations']:,}" if budget else ""
        lines.append("evaluations: " + ", ".join(solves) + of)
    return [line for line in lines if line]
