"""Gradient matching: the coefficients of an ODE by linear regression of the states' derivatives, without solving it.

Where to look: `matching` (the forward model and its sufficient statistics), `libraries` (candidate terms),
`derivatives` (four ways to them), `expressions` (terms written as text).
"""

from invsamp.solvers.gradient_matching.derivatives import finite_differences, savitzky_golay, weak
from invsamp.solvers.gradient_matching.libraries import (
    Library,
    candidates,
    coefficients,
    linear_in_parameters,
    polynomials,
)
from invsamp.solvers.gradient_matching.matching import Compressed, Gaussian, GradientMatching, LinearModel, match

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
