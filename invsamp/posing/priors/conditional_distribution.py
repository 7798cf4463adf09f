"""Distributions whose parameters are other parameters of the prior, or formulas of these.

Most families come about from their standard member by a shift and a stretch, of the number or of its logarithm:

.. math:: \\theta = a + b u \\quad\\text{or}\\quad \\log\\theta = a + b u, \\qquad u \\sim \\text{standard}.

Where theta is sampled by way of u, "non-centered", a small stretch narrows nothing: the funnel of a hierarchy in theta
is absent in u. Where data inform an entry of theta well, the entry itself, or its logarithm, is the better coordinate,
"centered". Then it depends little on a and b (Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22, 59-73).
Each entry has a form of its own. The density of theta is in either case that of the family.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.expression import Expression, Value
from invsamp.posing.compiled import density_loops
from invsamp.posing.distributions.base import Coefficients, Distribution, ScalarFamily, ends
from invsamp.posing.distributions.shape_derivatives import LOG_DENSITIES
from invsamp.posing.expressions.bound_expression import Formula, Indices, Names, names_in
from invsamp.protocols import Array

_STEP = 1e-30
#: Derivatives by columns of theta: at each entry the column, (m,), and the derivative, (batch or 1, m).
ByColumn = list[tuple[Indices, Value]]


class Stretch(NamedTuple):
    """Shift and stretch of every entry, and their derivatives by columns of theta."""

    location: Array  # (batch or 1, m)
    scale: Array
    by_column: list[tuple[Indices, Value, Value]]  # of the location, and of the scale


class Conditional:
    """One parameter given those that its distribution names.

    Parameters
    ----------
    name : str
    distribution : ScalarFamily
        With names among its parameters.
    columns : slice
        Of theta.
    names : Names

    Raises
    ------
    ValueError
        If a name is unknown or a shape does not fit.
    """

    def __init__(self, name: str, distribution: ScalarFamily, columns: slice, names: Names) -> None:
        self.name, self.distribution, self.columns = name, distribution, columns
        whose = f"the shape of {name}"
        self._formulas = {
            parameter: Formula(
                f"{parameter} of {name}", getattr(distribution, parameter), distribution.shape, names, whose=whose
            )
            for parameter in distribution.parameter_names()
        }
        standard = distribution.standard
        if standard is not None:
            self._place = _place(standard.location), _place(standard.scale)
            if not set(distribution.formulas) <= {name for part in self._place for name in _names(part)}:
                standard = None  # a parameter that changes more than place and width
        self.standard = standard
        #: Whether theta is sampled as itself, with all of its density added.
        self.itself = standard is None
        self.centered = self._form(False if distribution.centered is None else distribution.centered)
        if standard is None and distribution.family.kernel not in LOG_DENSITIES:
            raise ValueError(
                f"{name} must have numbers for the parameters of {type(distribution).__name__}, got "
                f"{distribution.formulas}"
            )
        if standard is not None:
            values: dict[str, Value] = dict(standard.values)
            if standard.log is None:
                self.base: ScalarFamily = replace(distribution, **values, centered=None)
            else:
                self.base = standard.log(**values, shape=distribution.shape)  # type: ignore[call-arg]
            self._inside = tuple(np.ravel(end) for end in self.base.support)
            self._constants = _log_constants(self.base)
        if self.centered.any():
            self.check_centered()

    def check_centered(self) -> None:
        """`ValueError` if the parameter cannot be sampled as itself."""
        if self._ends_move:
            raise ValueError(
                f"{self.name} must be sampled non-centered and without a domain that constrains it: the bounds of "
                f"{self.distribution!r} depend on other parameters"
            )

    @cached_property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper end of every entry, whatever its parents are."""
        if not self._ends_move:
            return self.distribution.support
        return ends(0.0 if self.distribution.logarithmic else -np.inf, np.inf, self.distribution.shape)

    @property
    def _ends_move(self) -> bool:
        return any(isinstance(end, str) for end in self.distribution.interval)

    @property
    def automatic(self) -> bool:
        """Whether its form is left to a run, and there are two."""
        return self.distribution.centered is None and self._has_forms

    @property
    def asked(self) -> bool:
        """Whether its form was asked for, and there are two."""
        return self.distribution.centered is not None and self._has_forms

    @property
    def entries(self) -> npt.NDArray[np.bool_]:
        """Which entries are centered, in the parameter's shape."""
        return self.centered.reshape(self.distribution.shape)

    @property
    def _has_forms(self) -> bool:
        return not (self.itself or self._ends_move)

    @property
    def forms(self) -> str:
        """Its form, in words."""
        if self.automatic:
            return "centering chosen by the run"
        if self.itself or self.centered.all():
            return "centered"
        return f"{self.centered.sum()} of {self.centered.size} centered" if self.centered.any() else "non-centered"

    def as_itself(self) -> Conditional:
        """The same, sampled as theta itself."""
        other = copy.copy(self)
        other.itself = True
        return other

    def with_form(self, centered: npt.ArrayLike) -> Conditional:
        """The same, with those entries centered that are True in an array of the parameter's shape."""
        other = copy.copy(self)
        other.centered = self._form(centered)
        return other

    @property
    def sampled(self) -> Distribution:
        """The distribution of what is sampled in its place: u, or something with the support alone."""
        if self.itself:
            return OfPrior(self.distribution.shape, self.support)
        return PartlyCentered(self.base, self.centered) if self.centered.any() else self.base

    def stretch(self, theta: Array) -> Stretch:
        """Shift and stretch at theta (batch, width)."""
        values, slopes = self._parameters(theta)
        # the commonest are names themselves, and at each step of a sampler this is asked for
        (location, by_location), (scale, by_scale) = (
            (values[part], {part: 1.0}) if isinstance(part, str) else part(values) for part in self._place
        )
        by_column = [
            (columns, _times(slope, by_location.get(name)), _times(slope, by_scale.get(name)))
            for name, found in slopes.items()
            for columns, slope in found
        ]
        return Stretch(np.atleast_2d(location), np.atleast_2d(scale), by_column)

    def log_density(self, theta: Array) -> tuple[Array, Array, ByColumn]:
        """Log density of every entry summed, (batch,), its slope in theta's own columns, and by the parents' columns.

        Minus infinity, or NaN, where theta or a parameter is where it cannot be.
        """
        x = theta[:, self.columns]
        if self.standard is None:
            return self._by_shape(theta, x)
        seen = np.log(x) if self.standard.log else x
        value, by_seen, by_parents = self.standardized_density(seen, self.stretch(theta), np.ones_like(self.centered))
        if self.standard.log:
            value = value - seen.sum(axis=1)
            by_seen = (by_seen - 1.0) / x
        return value, by_seen, by_parents

    def standardized_density(
        self, seen: Array, stretch: Stretch, entries: npt.NDArray[np.bool_]
    ) -> tuple[Array, Array, ByColumn]:
        """The same of some entries of theta, or of its logarithm, ``seen`` (batch, m), as a density of that."""
        location, scale, by_column = stretch
        u = np.where(entries, (seen - location) / scale, 1.0)
        value, slope = density_loops.log_density(u, np.arange(u.shape[1]), *_restricted(self.base, entries))
        inside = ~entries | ((u >= self._inside[0]) & (u <= self._inside[1]) & (scale > 0.0))
        value = value + self._constants[entries].sum() - np.where(entries, np.log(scale), 0.0).sum(axis=1)
        by_seen = slope / scale
        by_parents = [(c, -by_seen * da - (by_seen * u + entries / scale) * db) for c, da, db in by_column]
        return np.where(inside.all(axis=1), value, -np.inf), by_seen, by_parents

    def sample(self, rng: np.random.Generator, theta: Array) -> Array:
        """Draws (n, m) given the other columns of theta (n, width).

        Raises
        ------
        ValueError
            If a parameter of the distribution is where it cannot be.
        """
        values, _ = self._parameters(theta)
        for parameter in self.distribution.positive:
            if not (values[parameter] > 0.0).all():
                wrong = values[parameter].min()
                raise ValueError(
                    f"{parameter} of {self.name} must be positive, got {wrong:g} "
                    f"where {self._formula(parameter)} is drawn"
                )
        size = len(theta), self.columns.stop - self.columns.start
        if self.standard is not None and not (self.stretch(theta).scale > 0.0).all():
            raise ValueError(
                f"upper of {self.name} must be above lower, got {self.distribution!r} where these are drawn"
            )
        return self.distribution.family.draw(rng, size, *values.values())

    def whitened(self, theta: Array) -> Array:
        """Sampled coordinates (batch, m) for theta (batch, width)."""
        assert self.standard is not None
        location, scale, _ = self.stretch(theta)
        x = theta[:, self.columns]
        seen = np.log(x) if self.standard.log else x
        return np.where(self.centered, seen, (seen - location) / scale)

    def _form(self, centered: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        shape = self.distribution.shape
        try:
            return np.broadcast_to(np.asarray(centered, dtype=bool), shape).ravel().copy()
        except ValueError:
            raise ValueError(
                f"centered of {self.name} must broadcast to its shape {shape}, got shape {np.shape(centered)}"
            ) from None

    def _parameters(self, theta: Array) -> tuple[dict[str, Array], dict[str, ByColumn]]:
        found = {parameter: formula.at_all(theta) for parameter, formula in self._formulas.items()}
        return {name: part[0] for name, part in found.items()}, {name: part[1] for name, part in found.items()}

    def _by_shape(self, theta: Array, x: Array) -> tuple[Array, Array, ByColumn]:
        """By complex steps: the derivative with respect to each argument is exact, to rounding."""
        values, slopes = self._parameters(theta)
        family, arguments = self.distribution.family, [x, *values.values()]
        kernel = LOG_DENSITIES[family.kernel]

        def formula(x: Value, *parameters: Value) -> Value:
            return kernel(family.log_constant(*parameters), x, *family.coefficients(*parameters))

        total = np.broadcast_to(formula(*arguments), x.shape)
        derivatives = [
            np.imag(formula(*arguments[:k], arguments[k] + 1j * _STEP, *arguments[k + 1 :])) / _STEP
            for k in range(len(arguments))
        ]
        possible = np.ones(x.shape, dtype=bool)
        for parameter in self.distribution.positive:
            possible &= values[parameter] > 0.0
        by_column = [
            (columns, derivative * slope)
            for derivative, found in zip(derivatives[1:], slopes.values(), strict=True)
            for columns, slope in found
        ]
        return np.where(possible.all(axis=1), total.sum(axis=1), -np.inf), derivatives[0], by_column

    def _formula(self, parameter: str) -> str:
        return str(self.distribution.formulas.get(parameter, parameter))


def _place(text: str) -> str | Expression:
    return text if text.isidentifier() else Expression("standard", text)


def _names(part: str | Expression) -> tuple[str, ...]:
    return (part,) if isinstance(part, str) else part.names


def _times(slope: Value, factor: Value) -> Value:
    """Their product; the number 0 where there is no factor."""
    return 0.0 if factor is None else slope if isinstance(factor, float) and factor == 1.0 else slope * factor


class OfPrior(Distribution):
    """Support of a parameter that is sampled as itself; the prior adds the density."""

    def __init__(self, shape: tuple[int, ...], support: tuple[Array, Array]) -> None:
        self._shape, self._support = shape, support

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def support(self) -> tuple[Array, Array]:
        return self._support

    @property
    def log_constant(self) -> float:
        return 0.0

    @property
    def compiled(self) -> Coefficients:
        return Coefficients.of(math.prod(self._shape), density_loops.FLAT)

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        return np.zeros(len(columns)), np.zeros(columns.shape)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        raise NotImplementedError("a parameter that depends on others is drawn by its prior")


class PartlyCentered(OfPrior):
    """A standard member, less the density of the entries that are centered, which the prior adds."""

    def __init__(self, base: ScalarFamily, centered: npt.NDArray[np.bool_]) -> None:
        super().__init__(base.shape, base.support)
        self._base, self._others = base, ~centered

    @property
    def log_constant(self) -> float:
        return float(_log_constants(self._base)[self._others].sum())

    @cached_property
    def compiled(self) -> Coefficients:  # type: ignore[override]
        return _restricted(self._base, self._others)

    @property
    def logarithmic(self) -> bool:
        return self._base.logarithmic

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        points = np.ascontiguousarray(columns)
        return density_loops.log_density(points, np.arange(points.shape[1]), *self.compiled)


def _restricted(base: ScalarFamily, entries: npt.NDArray[np.bool_]) -> Coefficients:
    """Coefficients of some entries of a family for the compiled loop, which passes over the others."""
    return base.compiled._replace(kernels=np.where(entries, base.compiled.kernels, density_loops.FLAT))


def _log_constants(base: ScalarFamily) -> Array:
    """Of every entry of a family, (m,)."""
    parameters = [base.flat(name) for name in base.parameter_names()]
    return np.asarray(base.family.log_constant(*parameters) * np.ones(math.prod(base.shape)))


def joint_shape(name: str, distribution: ScalarFamily, names: Names) -> tuple[int, ...]:
    """Shape of a parameter: its own, or that to which what its distribution names broadcasts."""
    shapes = [distribution.shape]
    for parameter, text in distribution.formulas.items():
        label = f"{parameter} of {name}"
        shapes += [names.shape(label, found) for found in names_in(label, text, names)]
    try:
        joined = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{name} must be named parameters of shapes that broadcast, got {shapes}") from None
    if distribution.shape and joined != distribution.shape:
        raise ValueError(f"what {name} depends on must broadcast to its shape {distribution.shape}, got {joined}")
    return joined


def tied_shape(name: str, parents: Sequence[str], names: Names) -> tuple[int, ...]:
    """Shape of a formula of these parents."""
    shapes = [names.shape(name, parent) for parent in parents]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{name} must be a formula of shapes that broadcast, got {shapes}") from None
