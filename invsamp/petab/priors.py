"""Priors of the parameters of a PEtab problem."""

from __future__ import annotations

import math
from collections.abc import Mapping

from invsamp.petab.reading import Parameter
from invsamp.posing.distributions.base import Distribution
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import LogNormal, Normal, Uniform
from invsamp.posing.distributions.univariate_more import LogUniform
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Plain
from invsamp.solvers.ode.symbolic.symbols import Unsupported

#: Natural logarithm of the base of a scale.
LOGARITHMS = {"lin": 1.0, "log": 1.0, "log10": math.log(10.0)}


def prior_of(parameters: Mapping[str, Parameter]) -> Prior:
    """The joint prior; parameters that are not estimated are fixed."""
    entries: Plain = {name: distribution(each) if each.estimated else each.nominal for name, each in parameters.items()}
    return Prior(**entries)


def distribution(parameter: Parameter) -> Distribution:
    """Prior of one parameter, within its bounds.

    Raises
    ------
    Unsupported
        A ValueError, for Laplace's.
    """
    kind, given = parameter.prior, parameter.prior_parameters
    if kind.startswith("parameterScale"):
        kind = kind.removeprefix("parameterScale")
        kind = kind.lower() if parameter.scale == "lin" else f"log{kind}"
        unit = LOGARITHMS[parameter.scale]
    else:
        unit = 1.0
    if kind in ("uniform", "logUniform"):
        return _uniform(parameter, kind, unit)
    if kind not in ("normal", "logNormal"):
        raise Unsupported(f"objectivePriorType {parameter.prior!r} of {parameter.name!r} is not supported")
    if len(given) != 2:
        raise ValueError(f"objectivePriorParameters of {parameter.name!r} must be two numbers, got {given}")
    distribution = Normal(*given) if kind == "normal" else LogNormal(unit * given[0], unit * given[1])
    if math.isinf(parameter.lower) and math.isinf(parameter.upper):
        return distribution
    return truncated(distribution, parameter.lower, parameter.upper)


def _uniform(parameter: Parameter, kind: str, unit: float) -> Distribution:
    lower, upper = parameter.lower, parameter.upper
    if parameter.prior_parameters:
        first, last = parameter.prior_parameters
        if kind == "logUniform":
            first, last = math.exp(unit * first), math.exp(unit * last)
        lower, upper = max(lower, first), min(upper, last)
    if not lower < upper:
        raise ValueError(f"bounds and prior of {parameter.name!r} must leave an interval, got {lower} to {upper}")
    return Uniform(lower, upper) if kind == "uniform" else LogUniform(lower, upper)
