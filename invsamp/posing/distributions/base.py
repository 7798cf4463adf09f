"""Base classes of the distributions of `invsamp.posing.distributions.univariate`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, integer, wrong
from invsamp.axis_labels import check_same_order, freeze
from invsamp.domains.contract import Domain
from invsamp.domains.unbounded import Unbounded
from invsamp.expression import Expression, Value
from invsamp.posing.compiled import density_loops
from invsamp.posing.transforms.multivariate import VectorTransform
from invsamp.protocols import Array

BoolArray = npt.NDArray[np.bool_]
#: Of a parameter: a number of entries too, until it is stored.
Shape = Any
#: Numbers of at most this size, and at least one over it, have squares whose squares are double precision numbers.
LARGEST = 1e70
#: Spacings of double precision numbers in a spread.
RESOLVED = 50.0


class FrozenDistribution(Protocol):
    """A distribution of `scipy.stats` with its parameters."""

    def cdf(self, x: Array, /) -> Array: ...
    def sf(self, x: Array, /) -> Array: ...
    def ppf(self, q: Array, /) -> Array: ...
    def isf(self, q: Array, /) -> Array: ...


class Coefficients(NamedTuple):
    """Arguments of `invsamp.posing.compiled.density_loops.log_density` for every entry of a parameter, each (size,)."""

    kernels: npt.NDArray[np.intp]
    first: Array
    second: Array
    third: Array

    @classmethod
    def of(cls, size: int, kernel: int, *parts: npt.ArrayLike) -> Coefficients:
        """One kernel's, with parts that broadcast to the size; zeros for those that it has not."""
        # copies: a read-only view would be another type to the compiled loop
        first, second, third = (np.full(size, part, dtype=float) for part in (*parts, 0.0, 0.0, 0.0)[:3])
        return cls(np.full(size, kernel, dtype=np.intp), first, second, third)


class Distribution(ABC):
    """Contract of the distribution of one (possibly vector-valued) parameter."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one value of the parameter, ``()`` for a number."""

    @property
    @abstractmethod
    def support(self) -> tuple[Array, Array]:
        """Lower and upper end of the support of every entry, each of shape ``shape``."""

    @property
    @abstractmethod
    def log_constant(self) -> float:
        """Constant to add to the value of `evaluate` so that the density integrates to one."""

    @abstractmethod
    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density without `log_constant`, shape (batch,), and its gradient, at points in the support.

        ``columns`` has shape (batch, size): the entries in C order. Nothing is checked here.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, *shape)."""

    @property
    def compiled(self) -> Coefficients | None:
        """Coefficients for the compiled loop over columns; None (the default) if only `evaluate` knows the density."""
        return None

    @property
    def logarithmic(self) -> bool:
        """Whether it is a distribution of the logarithm: a position moves in it although the support has two ends."""
        return False

    @property
    def vector_transform(self) -> VectorTransform | None:
        """Coordinates in which a vector is sampled whose entries constrain each other; None (the default) elsewhere."""
        return None

    @property
    def vector_domain(self) -> Domain:
        """Where such a vector lies, in addition to its support, if it is sampled as itself: no bounds by default."""
        return Unbounded()

    def log_density(self, x: npt.ArrayLike) -> Array:
        """Log density, summed over the entries; minus infinity outside the support.

        Parameters
        ----------
        x : array_like, shape (batch, *shape)

        Returns
        -------
        ndarray, shape (batch,)

        Raises
        ------
        ValueError
            If the trailing shape of ``x`` is not ``shape``.
        """
        columns, inside = self._columns(x)
        with np.errstate(all="ignore"):
            value = self.evaluate(columns)[0] + self.log_constant
        return np.where(inside & ~np.isnan(value), value, -np.inf)

    def gradient(self, x: npt.ArrayLike) -> Array:
        """Gradient of the log density, shape (batch, *shape); zero outside the support."""
        columns, inside = self._columns(x)
        with np.errstate(all="ignore"):
            gradient = self.evaluate(columns)[1]
        gradient = np.where(inside[:, None] & ~np.isnan(gradient), gradient, 0.0)
        return gradient.reshape(len(columns), *self.shape)

    def _columns(self, x: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.bool_]]:
        points = array("x", x, nan=True, finite=False, empty=True)
        if points.ndim != 1 + len(self.shape) or points.shape[1:] != self.shape:
            raise ValueError(f"x must have shape (batch, {str(self.shape)[1:-1]}), got {points.shape}")
        columns = points.reshape(len(points), math.prod(self.shape))
        lower, upper = (end.ravel() for end in self.support)
        return columns, np.asarray(((columns >= lower) & (columns <= upper)).all(axis=1))


class Standard(NamedTuple):
    """How a family comes about from a standard member: theta, or log(theta), is location + scale * u.

    ``location`` and ``scale`` are formulas of the family's parameters; ``values`` those of the distribution of u. That
    is a member of the family, which shares the other parameters, such as degrees of freedom; or, where theta's
    logarithm is shifted and stretched, of the family ``log``.
    """

    location: str
    scale: str
    values: Mapping[str, float]
    log: type[ScalarFamily] | None = None


class Family(NamedTuple):
    """Formulas of a family: functions of its parameters in their order, arrays that broadcast.

    ``coefficients`` and ``log_constant`` take complex parameters too where derivatives with respect to the shape are
    wanted, for which see `invsamp.posing.distributions.shape_derivatives`.
    """

    kernel: int  #: number of the log density in `invsamp.posing.compiled.density_loops`
    coefficients: Callable[..., tuple[Value, ...]]  #: its p and q, and its r if it has one
    log_constant: Callable[..., Value]  #: of every entry
    draw: Callable[..., Array]  #: given a generator and the draws' shape before the parameters
    scipy: Callable[..., FrozenDistribution]


@dataclass(frozen=True)
class ScalarFamily(Distribution):
    """Base of the families of independent numbers; a subclass is a dataclass of its parameters and ``shape``.

    Its row of the table of families are the class attributes: ``family``, the formulas; ``interval``, the ends of the
    support, numbers or names of parameters; ``positive``, the names of positive parameters; and ``standard``.

    A parameter may be a name, or a formula of names, of other parameters in the prior. Then it has a density only
    within a `Prior`. There ``centered`` says whether the parameter is sampled as itself, in place of the standard
    member. It is True, False, an array of these for each entry, or None, where a run chooses by how much the data
    inform it.
    """

    centered: bool | BoolArray | Sequence[bool] | None = field(default=None, kw_only=True, repr=False)
    family: ClassVar[Family]
    interval: ClassVar[tuple[float | str, float | str]] = (-np.inf, np.inf)
    positive: ClassVar[tuple[str, ...]] = ()
    standard: ClassVar[Standard | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "centered", _as_centering(self.centered))
        shape = as_shape(self.shape)
        check_same_order({name: getattr(self, name) for name in self.parameter_names()})
        for name in self.parameter_names():
            given = getattr(self, name)
            if isinstance(given, str) and given:
                object.__setattr__(self, name, given if given.isidentifier() else Expression(name, given).text)
                continue
            also = ", or the name of a parameter or a formula of names" if isinstance(given, str) else ""
            value = array(name, given, above=0 if name in self.positive else None, also=also)
            shape = joined_shape(name, value, shape)
            object.__setattr__(self, name, freeze(value))
        object.__setattr__(self, "shape", shape)
        if not self.formulas:
            self._check()

    def _check(self) -> None:
        """`ValueError` unless the parameters, all of them numbers, fit together."""

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Names of the parameters of the family."""
        return tuple(f.name for f in fields(cls) if f.name not in ("shape", "centered"))

    @property
    def formulas(self) -> dict[str, str]:
        """The parameters that are names, or formulas of names."""
        values = {name: getattr(self, name) for name in self.parameter_names()}
        return {name: value for name, value in values.items() if isinstance(value, str)}

    @cached_property
    def compiled(self) -> Coefficients:  # type: ignore[override]
        """Coefficients for the compiled loop over columns."""
        return Coefficients.of(math.prod(self.shape), self.family.kernel, *self.family.coefficients(*self._flat()))

    @cached_property
    def log_constant(self) -> float:
        """Constant to add to the value of `evaluate` so that the density integrates to one."""
        return float(self.family.log_constant(*self._flat()).sum())

    @property
    def logarithmic(self) -> bool:
        """Whether the standard member is one of the logarithm."""
        return self.standard is not None and self.standard.log is not None

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density without `log_constant`, (batch,), and its gradient, at columns (batch, size)."""
        points, every = np.ascontiguousarray(columns), np.arange(columns.shape[1])
        return density_loops.log_density(points, every, *self.compiled)

    def flat(self, name: str) -> Array:
        """Parameter ``name`` of every entry, shape (size,)."""
        if isinstance(value := getattr(self, name), str):
            raise ValueError(
                f"{name} must be made of numbers, got {value!r}: a {type(self).__name__} with names has a "
                "density only as the distribution of a parameter in a Prior, not within another distribution "
                "(truncated, ordered, a mixture)"
            )
        return np.broadcast_to(np.asarray(value, dtype=float), self.shape).flatten()

    def _flat(self) -> list[Array]:
        return [self.flat(name) for name in self.parameter_names()]

    def scipy(self) -> FrozenDistribution:
        """The same distribution in `scipy.stats`, entries as a flat array (for `truncated`)."""
        return self.family.scipy(*self._flat())

    @property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper end of the support of every entry."""
        lower, upper = (getattr(self, end) if isinstance(end, str) else end for end in self.interval)
        return ends(lower, upper, self.shape)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, *shape)."""
        generator("rng", rng)
        size = integer("n", n, least=0), *self.shape
        return np.asarray(self.family.draw(rng, size, *(value.reshape(self.shape) for value in self._flat())))


class LocationScale(ScalarFamily):
    """Base of those of any number, with a location and a scale; the names of both are in ``standard``."""

    def _check(self) -> None:
        assert self.standard is not None
        location, scale = self.standard.location, self.standard.scale
        check_scale((location, self.flat(location)), (scale, self.flat(scale)))


class PositiveFamily(ScalarFamily):
    """Base of those of numbers above 0."""

    interval = (0.0, np.inf)


def check_ends(distribution: ScalarFamily) -> None:
    """`ValueError` unless its ``upper`` is above its ``lower``."""
    if not np.all(distribution.flat("lower") < distribution.flat("upper")):
        lower, upper = (freeze(distribution.flat(name).reshape(distribution.shape)) for name in ("lower", "upper"))
        raise ValueError(f"upper must be above lower, got lower {lower!r} and upper {upper!r}")


def check_scale(location: tuple[str, Array], spread: tuple[str, Array]) -> None:
    """`ValueError` unless positions and what is made of them, up to squares of energies, are double precision numbers.

    Both by their names, for the words.
    """
    (of_location, center), (of_spread, width) = location, spread
    for name, sizes, bad, right in (
        (of_location, center, np.abs(center) > LARGEST, f"at most {LARGEST:g} in size"),
        (of_spread, width, (width < 1.0 / LARGEST) | (width > LARGEST), f"between {1.0 / LARGEST:g} and {LARGEST:g}"),
    ):
        if bad.any():
            raise ValueError(
                f"{name} must be {right}, got {float(sizes[bad][0]):g}: the square of it is not a double "
                "precision number. Give the parameter in other units"
            )
    near = np.spacing(np.abs(center))
    if (coarse := width < RESOLVED * near).any():
        at = int(np.argmax(coarse))
        raise ValueError(
            f"{of_spread} must be at least {RESOLVED:g} times the spacing of double precision numbers near "
            f"{of_location} {center[at]:g}, {near[at]:.2g}, got {width[at]:g}. Use the difference to "
            f"{of_location} as the parameter"
        )


def check_width(lower: Array, upper: Array) -> None:
    """The same of the ends of an interval."""
    with np.errstate(over="ignore"):
        width = upper - lower
    check_scale(("lower and upper", np.maximum(np.abs(lower), np.abs(upper))), ("upper - lower", width))


def _as_centering(value: object) -> Any:
    """None, a truth value, or nested tuples of these; `ValueError` of anything else."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.empty(0)
    if given.dtype != np.bool_ or not given.size:
        raise wrong("centered", "True or False, an array of these for each entry, or None for a run to choose", value)
    return _nested(given.tolist())


def _nested(value: Any) -> Any:
    return tuple(_nested(entry) for entry in value) if isinstance(value, list) else value


def as_shape(shape: object, name: str = "shape") -> tuple[int, ...]:
    """A shape as a tuple; `ValueError` unless it is made of positive integers."""
    try:
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        return tuple(integer(name, size, least=1) for size in sizes)
    except ValueError:
        raise wrong(name, "an integer >= 1 or a tuple of these", shape) from None


def joined_shape(name: str, value: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Common shape; a parameter may only widen the shape of a number."""
    try:
        joined = np.broadcast_shapes(value.shape, shape)
    except ValueError:
        joined = ()
    if joined != shape and not (shape == () and value.ndim):
        raise ValueError(f"{name} must broadcast to shape {shape}, got shape {value.shape}")
    return joined


def ends(lower: npt.ArrayLike, upper: npt.ArrayLike, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Both ends of a support, broadcast to a shape."""
    return np.broadcast_to(np.asarray(lower, float), shape), np.broadcast_to(np.asarray(upper, float), shape)
