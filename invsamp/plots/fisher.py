"""Figure of the information in data: eigenvalues of the information, and what their directions are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from invsamp.plots.canvas import new_figure
from invsamp.plots.figure import COLD, FAINT, INK, clean
from invsamp.protocols import Array

#: Directions and parameters that are drawn.
MOST = 40
#: Information, as a share of the prior's, below which all directions are drawn alike.
LEAST = 1e-3


def plotted(values: Array, directions: Array, labels: Sequence[str], informed: float) -> Figure:
    """Eigenvalues (d,) above their directions' shares (d, d), a column each; a line where the prior informs as much."""
    count = min(len(values), MOST)
    figure = new_figure(max(4.0, 0.32 * count + 2.2), 0.24 * count + 2.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, 0.24 * count + 0.4))
    at, least = np.arange(count), LEAST * informed
    known = values[:count] > least
    above.semilogy(at[known], values[:count][known], "o", color=COLD, ms=4)
    above.semilogy(at[~known], np.full(count - known.sum(), least), "v", color=FAINT, ms=4)  # that or less: rounding
    above.axhline(informed, color=FAINT, lw=0.8)
    above.set_ylabel("information over\nthe prior's", color=INK, fontsize=9)
    clean(above)
    shares = directions[:count, :MOST].T ** 2
    below.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    below.set_yticks(range(len(shares)), list(labels)[:MOST], fontsize=7)
    below.set_xticks(range(count), [str(k + 1) for k in range(count)], fontsize=7)
    below.set_xlabel("direction, most informed first", fontsize=9, color=INK)
    return figure
