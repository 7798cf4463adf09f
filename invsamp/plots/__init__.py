"""Figures of a run.

Every function returns a `matplotlib.figure.Figure`: save it with ``figure.savefig(...)``. Where pyplot is in use, and
in a notebook, it is pyplot's current figure; elsewhere pyplot does not know it. With ``ax=`` a figure of one panel is
drawn in an Axes of yours; a figure that has others beside its main panel then leaves these out.
"""

from invsamp.plots.chains import plot_marginals, plot_trace
from invsamp.plots.fields import plot_field
from invsamp.plots.identifiability import plot_identifiability
from invsamp.plots.informed import plot_informed_directions
from invsamp.plots.ladder import plot_ladder, plot_swaps
from invsamp.plots.pairs import plot_pairs
from invsamp.plots.predictions import plot_phase, plot_predictive
from invsamp.plots.profiles import plot_profiles
from invsamp.plots.residuals import plot_residuals

__all__ = [
    "plot_field",
    "plot_identifiability",
    "plot_informed_directions",
    "plot_ladder",
    "plot_marginals",
    "plot_pairs",
    "plot_phase",
    "plot_predictive",
    "plot_profiles",
    "plot_residuals",
    "plot_swaps",
    "plot_trace",
]
