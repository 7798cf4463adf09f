"""A run as it prints itself: what was done, the parameters, and whether to trust them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from invsamp.diagnostics.ladders import law_labels, swap_rates

if TYPE_CHECKING:
    import pandas as pd

#: Parameters that a printed run shows.
SHOWN = 20


def printed(summary: pd.DataFrame, report: Mapping[str, Any], messages: Sequence[str]) -> str:
    """A run's summary and report, and what it warns of, as text."""
    shown = summary.drop(columns=["mcse_mean", "mcse_sd"]).head(SHOWN)
    counts = {"ess_bulk": "{:.0f}".format, "ess_tail": "{:.0f}".format, "r_hat": "{:.3f}".format}
    table = shown.to_string(float_format="{:#.4g}".format, formatters=counts)
    more = f"\n... and {len(summary) - SHOWN} more parameters: see summary()" if len(summary) > SHOWN else ""
    return "\n".join([_headline(report), table + more, verdict(messages)])


def verdict(messages: Sequence[str]) -> str:
    """Warnings as lines of text."""
    count = "no warnings" if not messages else f"{len(messages)} warning{'s' if len(messages) > 1 else ''}:"
    return "\n".join([count, *(f"  - {message}" for message in messages)])


def _headline(report: Mapping[str, Any]) -> str:
    lines = [f"Run of {report.get('sampler', 'a sampler')}"]
    counts = [f"{report[key]} {key}" for key in ("chains", "draws", "warmup") if key in report]
    if report.get("thin", 1) != 1:
        counts.append(f"thin {report['thin']}")
    if "seed" in report:
        counts.append(f"seed {report['seed']}")
    if "seconds" in report:
        counts.append(f"{report['seconds']:.3g} s")
    lines.append(", ".join(counts))
    rates = swap_rates(report)
    if len(rates):
        temperatures = ", ".join(f"{value:.3g}" for value in report.get("temperatures") or [])
        rungs = f"temperatures {temperatures}" if temperatures else "laws " + ", ".join(law_labels(report))
        rate_text = ", ".join("not tried" if np.isnan(rate) else f"{rate:.1%}" for rate in rates)
        lines.append(f"{rungs}; swap rate {rate_text}; {report.get('round_trips', '?')} round trips")
    sizes = [size for size in report.get("step_sizes") or [] if size is not None]
    if sizes:
        sources = dict.fromkeys(report.get("step_size_source") or [])
        lines.append(f"step sizes {', '.join(f'{size:.3g}' for size in sizes)}" + "".join(f", {s}" for s in sources))
    seconds = report.get("evaluation_seconds") or {}
    solves = [
        f"{count:,} of {name!r}" + (f" ({seconds[name]:.3g} s)" if name in seconds else "")
        for name, count in (report.get("evaluations") or {}).items()
    ]
    if solves:
        lines.append("evaluations: " + ", ".join(solves))
    return "\n".join(line for line in lines if line)
