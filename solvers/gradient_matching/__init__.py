"""Gradient matching: the coefficients of an ODE by linear regression of the states' derivatives, without solving it.

Where to look: `matching` (the forward model and its sufficient statistics), `library` (candidate terms) and `libraries`
(ways to make one), `derivatives` and `weak_form` (four ways to equations), `expressions` (terms written as text).
"""

from invsamp.solvers.gradient_matching.derivatives import finite_differences, savitzky_golay
from invsamp.solvers.gradient_matching.libraries import (
    candidates,
    coefficients,
    linear_in_parameters,
    polynomials,
)
from invsamp.solvers.gradient_matching.library import Library
from invsamp.solvers.gradient_matching.matching import Compressed, Gaussian, GradientMatching, LinearModel, match
from invsamp.solvers.gradient_matching.weak_form import weak

__all__ = [
    "Compressed",
    "Gaussian",
    "GradientMatching",
    "Library",
    "LinearModel",
    "candidates",
    "coefficients",
    "finite_differences",
    "linear_in_parameters",
    "match",
    "polynomials",
    "savitzky_golay",
    "weak",
]
