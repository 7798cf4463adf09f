"""A run as one self-contained page: warnings, problem, sampler, results and cost."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from invsamp import plots
from invsamp.diagnostics.ladders import swap_rates
from invsamp.diagnostics.report import Report
from invsamp.html import facts, table
from invsamp.plots.canvas import detached
from invsamp.plots.figure import Run, columns
from invsamp.posing.posterior.posterior import Posterior
from invsamp.results.printing import account, settings
from invsamp.warning_codes import CODES, code_of

if TYPE_CHECKING:
    import pandas as pd

#: Rows of the table of parameters.
ROWS = 200
#: Parameters of the figures of all pairs.
PAIRS = 6
#: How columns of the table are written, by the first word of their names.
_FORMS = {"mcse": ".2g", "ess": ",.0f", "r": ".3f"}

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #22303f; background: #fff; margin: 0 auto; max-width: 66rem;
  padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.verdict { border-left: .4rem solid #1d7a4f; background: #eef7f2; padding: .6rem 1rem; }
.verdict.warned { border-color: #b3261e; background: #fdf1f0; }
.verdict h2 { margin: .2rem 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.caption { color: #4b5a68; margin: 1rem 0 .3rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #dde3e8; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
.words td { white-space: normal; text-align: left; overflow-wrap: anywhere; }
.words th { position: static; white-space: normal; text-align: left; vertical-align: top; }
figure { margin: 1rem 0; } img { max-width: max(100%, 34rem); height: auto; } figcaption { color: #4b5a68; }
footer { margin-top: 2rem; color: #4b5a68; font-size: .9rem; }
"""


class Reported(Run, Protocol):
    """Members of an `invsamp.Run` that a report needs besides those for figures."""

    def warnings(self) -> list[str]:
        """Reasons not to trust the draws."""

    def short_summary(self) -> pd.DataFrame:
        """The summary, of large blocks that of some entries."""


def page(run: Reported, posterior: Posterior | None = None, title: str = "Report of a run") -> str:
    """The page.

    Parameters
    ----------
    run : Run
    posterior : Posterior, optional
        Predictions and residuals are shown if it is given, or `Run.posterior_predictive` was called.
    title : str
        Its heading.

    Returns
    -------
    str
        HTML that needs nothing else: figures are within, and there is no script.
    """
    report, messages = run.report, run.warnings()
    parts = [
        f"<h1>{escape(title)}</h1>",
        _verdict(messages),
        _section("Problem", _posed(report, run.shapes)),
        _section("Sampler, and its moves", _chosen(report)),
        _section("Parameters", _parameters(run)),
        _section("Figures", _figures(run, posterior)),
        _section("Cost", _costs(report)),
        *_meanings(messages),
        _footer(report),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>\n'
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{body}\n</section>"


def _verdict(messages: Sequence[str]) -> str:
    if not messages:
        text = "No check failed: the chains agree, and the effective sample sizes suffice."
        return f'<section class="verdict"><h2>No warnings</h2><p>{text}</p></section>'
    listed = "".join(f"<li>{_linked(message)}</li>" for message in messages)
    count = f"{len(messages)} warning{'s' if len(messages) > 1 else ''}"
    return f'<section class="verdict warned"><h2>{count}: read before use</h2><ul>{listed}</ul></section>'


def _linked(message: str) -> str:
    """A message whose code leads to what it means."""
    text, code = escape(message), code_of(message)
    return text if code is None else text.replace(code, f'<a href="#{code}">{code}</a>', 1)


def _meanings(messages: Sequence[str]) -> list[str]:
    """Cause and remedies of every warning."""
    codes = dict.fromkeys(code for message in messages if (code := code_of(message)) is not None)
    parts = [
        f'<h3 id="{code}">{code}: {escape(CODES[code].title)}</h3>\n<p>{escape(CODES[code].cause)}</p>\n'
        f"<p><b>What to do.</b> {escape(CODES[code].remedy)}</p>"
        for code in codes
    ]
    return [_section("Explanation of the warnings", "\n".join(parts))] if parts else []


def _posed(report: Report, shapes: Mapping[str, tuple[int, ...]]) -> str:
    posed = report.get("posed") or {}
    prior = posed.get("prior") or {}
    rows = [
        (name + (str(list(shape)) if shape else ""), _one(prior.get(name, "") if isinstance(prior, Mapping) else prior))
        for name, shape in shapes.items()
    ]
    tables = [facts("Unknowns, and their priors", rows)]
    others = []
    for name, value in posed.items():
        if name == "data" and isinstance(value, Sequence):
            others.append(("data", f"{int(np.prod(value))} numbers, shape {tuple(value)}"))
        elif name == "series" and isinstance(value, Sequence):
            others.append(("columns", ", ".join(map(str, value))))
        elif name == "axes" and isinstance(value, Mapping):
            others += [(key, _axis(part)) for key, part in value.items()]
        elif name == "limits":
            continue  # which the priors say
        elif name == "labels" and isinstance(value, Mapping):
            others += [(f"axes of {key}", _sizes(part)) for key, part in value.items()]
        elif isinstance(value, Mapping) and name != "prior":
            others += [(f"{name} {key}", text) for key, text in value.items()]
        elif name != "prior":
            others.append((name, str(value)))
    return "\n".join([*tables, facts("The rest", others)] if others else tables)


def _axis(part: object) -> str:
    """How many times there are, and from when to when; anything else as it is."""
    return f"{len(part)}, from {part[0]:g} to {part[-1]:g}" if isinstance(part, list) and part else str(part)


def _sizes(labels: Mapping[str, Sequence[object]]) -> str:
    """Names of axes with their lengths."""
    return ", ".join(f"{dim} ({len(along)})" for dim, along in labels.items())


def _one(prior: object) -> str:
    """A distribution without its shape, which stands beside the name."""
    return re.sub(r", shape=\([\d, ]*\)", "", str(prior))


def _chosen(report: Report) -> str:
    rungs = len(report.get("targets") or [])
    found = [f"<p>{escape(str(report.get('sampler', 'A sampler')))}.</p>"]
    found += [f"<p>{escape(line)}</p>" for line in report.get("decisions") or []]
    lists: Mapping[str, Sequence[object]] = {key: of for key, of in report.items() if isinstance(of, list)}
    columns = {
        "target": "targets",
        "fidelity": "fidelities",
        "kernel": "kernels",
        "step size": "step_sizes",
        "how it was found": "step_size_source",
        "accepted": "acceptance",
    }
    names = ["rung", *(title for title, key in columns.items() if lists.get(key))]
    rows = [[k, *(lists[key][k] for key in columns.values() if lists.get(key))] for k in range(rungs)]
    if rungs:
        found.append(table("Rungs, the cold one first: it is the one whose draws count", names, rows))
    rates = swap_rates(report)
    if len(rates):
        accepted = [[f"{k} and {k + 1}", rate] for k, rate in enumerate(rates)]
        found.append(table("Swaps between neighbors", ["rungs", "accepted"], accepted))
        trips = report.get("round_trips")
        if trips is not None:
            found.append(f"<p>{trips} round trips through the ladder.</p>")
    return "\n".join(found)


def _parameters(run: Reported) -> str:
    summary = run.short_summary()
    forms = [_FORMS.get(name.split("_")[0], ".4g") for name in summary.columns]
    rows = [
        [label, *("-" if np.isnan(v) else f"{v:{form}}" for v, form in zip(values, forms, strict=True))]
        for label, values in zip(summary.index[:ROWS], summary.to_numpy()[:ROWS].tolist(), strict=True)
    ]
    left = int(summary.attrs["left_out"]) + len(summary) - len(rows)
    more = f"<p>{left:,} more rows: see run.summary().</p>" if left > 0 else ""
    caption = "mcse: Monte Carlo standard errors; ess: effective draws; r_hat: 1 where the chains agree"
    return table(caption, ["parameter", *summary.columns], rows) + more


def _figures(run: Reported, posterior: Posterior | None) -> str:
    few = [label for _, label in columns(run, None, PAIRS)] if run.shapes else []
    count = sum(math.prod(shape) for shape in run.shapes.values())
    some = f", of the first {len(few)} of {count}" if len(few) < count else ""
    predicted = posterior is not None or "posterior_predictive" in run.data
    observed = predicted and "observed_data" in run.data
    wanted: list[tuple[str, Callable[[], Figure], bool]] = [
        ("Draws of every chain, in order, and each chain's density", lambda: plots.plot_trace(run), True),
        ("Density of every parameter", lambda: plots.plot_marginals(run), True),
        (f"Densities of pairs of parameters{some}", lambda: plots.plot_pairs(run, few), len(few) > 1),
        ("Predicted data over the data", lambda: plots.plot_predictive(run, posterior), observed),
        ("Residuals of the data", lambda: plots.plot_residuals(run), observed),
        ("Energies of every rung", lambda: plots.plot_ladder(run), run.rungs > 1),
        ("Swaps, and the paths of the replicas", lambda: plots.plot_swaps(run), run.rungs > 1),
    ]
    return "\n".join(_figure(text, make) for text, make, show in wanted if show)


def _figure(text: str, make: Callable[[], Figure]) -> str:
    try:
        with detached():
            figure = make()
    except ValueError as error:  # the run lacks what this figure shows
        return f"<p>{escape(text)}: {escape(str(error))}.</p>"
    buffer = io.BytesIO()
    figure.set_dpi(110)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(buffer)  # `savefig` draws twice where panels are laid out
    picture = base64.b64encode(buffer.getvalue()).decode()
    shown = f'<img alt="{escape(text)}" src="data:image/png;base64,{picture}">'
    return f'<figure><div class="wide">{shown}</div><figcaption>{escape(text)}</figcaption></figure>'


def _costs(report: Report) -> str:
    seconds, failed = report.get("evaluation_seconds") or {}, report.get("failed_solves") or {}
    calls = report.get("function_calls") or {}
    warmup, swaps = report.get("warmup_evaluations") or {}, report.get("swap_solves") or {}
    rows = [
        [name, count, calls.get(name), warmup.get(name, 0), swaps.get(name, 0), failed.get(name, 0), seconds.get(name)]
        for name, count in (report.get("evaluations") or {}).items()
    ]
    names = ["fidelity", "solves", "function calls", "in warm-up", "for swaps", "failed", "seconds"]
    found = [table("Solves of each model, warm-up included", names, rows)] if rows else []
    if spent := report.get("spent"):
        found.append(f"<p>{escape(account(spent).capitalize())}.</p>")
    if budget := report.get("budget"):
        found.append(f"<p>The budget was {budget['evaluations']:,} evaluations.</p>")
    if report.get("failure_message"):
        found.append(f"<p>The last failed solve reported: {escape(str(report['failure_message']))}</p>")
    if report.get("seconds") is not None:
        found.append(f"<p>{report['seconds']:.3g} seconds in all.</p>")
    return "\n".join(found) or "<p>Nothing was counted.</p>"


def _footer(report: Report) -> str:
    versions = [f"{name} {version}" for name, version in (report.get("versions") or {}).items()]
    return f"<footer>{escape(', '.join(settings(report)))}. {escape(', '.join(versions))}</footer>"
