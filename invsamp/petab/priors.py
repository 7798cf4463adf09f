"""Priors of the parameters of a PEtab problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from invsamp.petab.tables import Parameter
from invsamp.posing.distributions.base import Distribution, ScalarFamily
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Cauchy, Gamma, LogNormal, Normal, Uniform
from invsamp.posing.distributions.univariate_more import Exponential, Laplace, LogLaplace, LogUniform, Weibull
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Plain
from invsamp.solvers.ode.symbolic.symbols import Unsupported

#: Families by PEtab's names, with their parameters in PEtab's order; those of logarithms are natural.
FAMILIES: dict[str, Callable[..., ScalarFamily]] = {
    "normal": Normal,
    "log-normal": LogNormal,
    "laplace": Laplace,
    "log-laplace": LogLaplace,
    "cauchy": Cauchy,
    "gamma": lambda shape, scale: Gamma(shape, 1.0 / scale),
    "chisquare": lambda degrees: Gamma(0.5 * degrees, 0.5),
    "exponential": lambda scale: Exponential(1.0 / scale),
    "rayleigh": lambda scale: Weibull(2.0, math.sqrt(2.0) * scale),
}


def prior_of(parameters: Mapping[str, Parameter]) -> Prior:
    """The joint prior; parameters that are not estimated are fixed."""
    entries: Plain = {name: distribution(each) if each.estimated else each.nominal for name, each in parameters.items()}
    return Prior(**entries)


def distribution(parameter: Parameter) -> Distribution:
    """Prior of one parameter, within its bounds.

    Raises
    ------
    Unsupported
        A ValueError, for a family that is none of `FAMILIES`.
    """
    kind, given, lower, upper = parameter.prior, parameter.prior_parameters, parameter.lower, parameter.upper
    if kind in ("uniform", "log-uniform"):
        lower, upper = max(lower, given[0]), min(upper, given[1])
        if not lower < upper:
            raise ValueError(f"bounds and prior of {parameter.name!r} must leave an interval, got {lower} to {upper}")
        return Uniform(lower, upper) if kind == "uniform" else LogUniform(lower, upper)
    if kind not in FAMILIES:
        raise Unsupported(f"prior {kind!r} of {parameter.name!r} is not supported, only {sorted(FAMILIES)} are")
    found = FAMILIES[kind](*given)
    inside = lower <= found.support[0] and found.support[1] <= upper
    return found if inside else truncated(found, lower, upper)
