"""Paths that diverged: where the error of their energy shows that steps are too long for the density."""

from __future__ import annotations

import numpy as np

from invsamp.diagnostics import limits
from invsamp.protocols import Array
from invsamp.warning_codes import coded


def path_warnings(diverging: Array) -> list[str]:
    """Whether more paths diverged than a few, of flags (chains, draws); NaN: a step that followed no path."""
    known = diverging[np.isfinite(diverging)]
    count, share = int(np.count_nonzero(known)), float(np.mean(known)) if known.size else 0.0
    if share <= limits.DIVERGING_LIMIT:
        return []
    return [
        coded(
            "IV-PATHS",
            f"{count} of {known.size:,} paths ({share:.2%}) diverged, above {limits.DIVERGING_LIMIT:.0%}: the error of "
            "their energy exceeded 1000. Steps are too long where the density is steep, and draws may miss that "
            "region. Reduce step_size, or reparametrize (non-centered, or the logarithm of a scale).",
        )
    ]
