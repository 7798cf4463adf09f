"""Gradient matching: the coefficients of an ODE by linear regression of the states' derivatives, without solving it.

Where to look: `matching` (the forward model and its sufficient statistics), `library` (its terms), `selection` (which
terms the data need), `derivatives` and `weak_form` (four ways to equations).
"""

from invsamp.solvers.gradient_matching.derivatives import finite_differences, savitzky_golay
from invsamp.solvers.gradient_matching.library import Library, linear_in_parameters
from invsamp.solvers.gradient_matching.matching import Compressed, Gaussian, GradientMatching, LinearModel, match
from invsamp.solvers.gradient_matching.selection import Selection, select
from invsamp.solvers.gradient_matching.weak_form import weak

__all__ = [
    "Compressed",
    "Gaussian",
    "GradientMatching",
    "Library",
    "LinearModel",
    "Selection",
    "finite_differences",
    "linear_in_parameters",
    "match",
    "savitzky_golay",
    "select",
    "weak",
]
