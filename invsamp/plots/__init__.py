"""Figures of a run.

Every function returns a `matplotlib.figure.Figure` that pyplot does not know: save it with ``figure.savefig(...)``.
"""

from invsamp.plots.chains import plot_marginals, plot_predictive, plot_trace
from invsamp.plots.fields import plot_field
from invsamp.plots.ladder import plot_ladder, plot_swaps
from invsamp.plots.pairs import plot_pairs
from invsamp.plots.residuals import plot_residuals

__all__ = [
    "plot_field",
    "plot_ladder",
    "plot_marginals",
    "plot_pairs",
    "plot_predictive",
    "plot_residuals",
    "plot_swaps",
    "plot_trace",
]
