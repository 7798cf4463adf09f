"""Checks of arguments: each gives the value in its plain form, or a `ValueError` that says what would be right.

``name`` is what the caller calls the argument; the message is "step_size must be a positive finite number, got -0.1".
Numbers of numpy count as numbers; booleans, strings, complex numbers, NaN and masked entries never do.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Kind = TypeVar("Kind")
Checked = TypeVar("Checked")
#: Sizes of an array's axes; a word stands for any size.
Shape = tuple[int | str, ...]


def boolean(name: str, value: object) -> bool:
    """True or False, no number and no word for it."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, "True or False", value)
    return bool(value)


def integer(name: str, value: object, *, least: int | None = None, most: int | None = None, also: str = "") -> int:
    """A whole number from ``least`` to ``most``; a float is none, whatever its value.

    ``also``, here and below, is what else the caller takes, for the message.
    """
    right = f"an integer{_between(None, least, None, most)}{also}"
    try:
        number = operator.index(_scalar(value))
    except TypeError:
        raise wrong(name, right, value) from None
    if not ((least is None or number >= least) and (most is None or number <= most)):
        raise wrong(name, right, value)
    return number


def real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    finite: bool = True,
    also: str = "",
) -> float:
    """A number > ``above``, >= ``least``, < ``below`` and <= ``most``; infinite only where ``finite`` is False."""
    scalar = _scalar(value)
    try:
        number = float(scalar) if isinstance(scalar, Real) else math.nan
    except OverflowError:
        number = math.nan
    if (
        math.isnan(number)
        or (finite and math.isinf(number))
        or (above is not None and number <= above)
        or (least is not None and number < least)
        or (below is not None and number >= below)
        or (most is not None and number > most)
    ):
        raise wrong(name, _numbers(above, least, below, most, finite) + also, value)
    return number


def array(
    name: str,
    value: object,
    shape: Shape | None = None,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    finite: bool = True,
    nan: bool = False,
    empty: bool = False,
    whole: bool = False,
    also: str = "",
) -> Array:
    """Numbers of the given shape and range, as float64; the array itself where it is one already.

    ``nan`` and ``empty`` allow entries of NaN and no entries; ``whole`` asks for integers.
    """
    right = _numbers(above, least, below, most, finite).removeprefix("a ").replace("number", "numbers")
    if whole:
        right = right.replace("finite numbers", "integers").replace("numbers", "integers")
    right += also
    if isinstance(value, list | tuple) and any(entry is np.ma.masked for entry in value):
        raise wrong(name, right, value)
    try:
        given = np.asanyarray(value)
        if given.dtype == object and all(isinstance(_scalar(entry), Real) for entry in given.flat):
            given = given.astype(float)
    except Exception as error:  # whatever the conversion of a user's class raises
        raise ValueError(f"{name} must be {right}, got {shown(value)}: {error}") from error
    if given.dtype.kind not in ("iu" if whole and given.size else "iuf"):
        raise wrong(name, right, value)
    if np.ma.is_masked(given):
        raise ValueError(f"{name} must have no masked entries, got {np.ma.getmaskarray(given).sum()} of {given.size}")
    numbers: Array = np.asarray(given, dtype=float)
    if not (numbers.size or empty):
        raise ValueError(f"{name} must have at least one entry, got none")
    if shape is not None and not _fits(numbers.shape, shape):
        raise ValueError(f"{name} must have shape {_listed(shape)}, got {numbers.shape}")
    bad = ~_inside(numbers, above, least, below, most, finite)
    if nan:
        bad &= ~np.isnan(numbers)
    if bad.any():
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        where = f" at index {at[0] if len(at) == 1 else at}" if at else ""
        raise ValueError(f"{name} must be {right}, got {float(numbers[at])}{where}")
    return numbers


def numbers(name: str, value: object) -> Array:
    """Real numbers of any shape, NaN and infinite ones too, as float64; the array itself where it is one already."""
    if type(value) is np.ndarray and value.dtype == np.float64:  # what models are called with in every step
        return value
    return array(name, value, finite=False, nan=True, empty=True)


def floats(name: str, value: object) -> npt.NDArray[Any]:
    """The same, in single precision if they come so."""
    return value if type(value) is np.ndarray and value.dtype == np.float32 else numbers(name, value)


def by_row(name: str, value: object, rows: int) -> npt.NDArray[Any]:
    """The same, with a row for each theta; what is true or not counts 1 or 0, so that its mean is a probability."""
    truths = isinstance(value, np.ndarray) and value.dtype == bool
    found = floats(name, np.asarray(value, dtype=float) if truths else value)
    if found.shape[:1] != (rows,):
        raise ValueError(f"{name} must have a row for each of the {rows} theta, got shape {found.shape}")
    return found


def increasing(name: str, value: object) -> Array:
    """Finite numbers (n,), each above the one before, such as times."""
    found = array(name, value, ("n",))
    if (np.diff(found) <= 0).any():
        at = int(np.argmax(np.diff(found) <= 0)) + 1
        raise ValueError(f"{name} must increase, got {found[at]} after {found[at - 1]} at index {at}")
    return found


def one_of(name: str, value: object, options: Iterable[Kind]) -> Kind:
    """One of the options, mostly strings."""
    options = tuple(options)
    if not any(type(value) is type(option) and value == option for option in options):
        raise wrong(name, f"one of {', '.join(map(repr, options))}", value)
    return cast(Kind, value)


def text(name: str, value: object) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise wrong(name, "a string that is not empty", value)
    return str(value)


def path(name: str, value: object) -> Path:
    """A path: a string that is not empty, or an object that stands for one."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str) or not os.fspath(value):
        raise wrong(name, "a path", value)
    return Path(value)


def function(name: str, value: object, signature: str = "") -> Callable[..., Any]:
    """Check that a value is a function; ``signature`` states its arguments in the message, such as "(t, x, p)"."""
    if not callable(value) or isinstance(value, type):
        raise wrong(name, f"a function {signature}".rstrip(), value)
    called: Callable[..., object] = value
    return called


@overload
def instance(name: str, value: object, kinds: type[Kind], right: str) -> Kind: ...
@overload
def instance(name: str, value: object, kinds: tuple[type, ...] | UnionType, right: str) -> Any: ...
def instance(name: str, value: object, kinds: type[object] | tuple[type, ...] | UnionType, right: str) -> Any:
    """An object of one of the classes or runtime protocols ``kinds``; ``right`` describes it in words.

    A class is none of its own objects, though it has all that a protocol asks for.
    """
    if isinstance(value, type) or not isinstance(value, kinds):
        raise wrong(name, right, value)
    return value


def generator(name: str, value: object) -> np.random.Generator:
    """Where random numbers are drawn from."""
    return instance(name, value, np.random.Generator, "a numpy.random.Generator")


def sequence(name: str, value: object, right: str = "a sequence", *, least: int = 1) -> tuple[Any, ...]:
    """The entries of a list, tuple, array or range, ``least`` of them or more; no string, set, mapping or iterator."""
    entries: tuple[Any, ...] | None = None
    if hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping | type):
        with contextlib.suppress(TypeError):  # of an array without axes
            entries = tuple(cast(Iterable[Any], value))
    if entries is None or len(entries) < least:
        count = ("", " of at least one entry", " of at least two entries")
        raise wrong(name, right + (count[least] if least < 3 else f" of at least {least} entries"), value)
    return entries


def names(name: str, value: object) -> tuple[str, ...]:
    """Distinct strings, at least one, in a sequence."""
    entries = sequence(name, value, "a sequence of names")
    if not all(isinstance(entry, str) and entry for entry in entries) or len(set(entries)) < len(entries):
        raise wrong(name, "a sequence of distinct names", value)
    return tuple(map(str, entries))


def mapping(name: str, value: object, right: str = "a mapping") -> dict[Any, Any]:
    """Check that a value is a mapping, and copy it to a dict."""
    if not isinstance(value, Mapping):
        raise wrong(name, right, value)
    return dict(value)


def optional(
    check: Callable[..., Checked], name: str, value: object, *settings: object, **limits: object
) -> Checked | None:
    """None, or what another check makes of the value."""
    return None if value is None else check(name, value, *settings, **limits)


def store(frozen: object, **values: object) -> None:
    """Set checked values as attributes of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def needed(who: str, extra: str, module: str) -> Any:
    """A module that only an extra installs, imported where it is needed.

    ``who`` begins the message: "from_jax needs".

    Raises
    ------
    ModuleNotFoundError
        If it is not installed, with what to install; or if a file of its name is found in its place.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise  # something that the package itself needs
        found = sys.modules.get(package)
        if found is not None and "__path__" not in vars(found):
            said = (
                f"the package {package}, in whose place {found.__file__} is found: rename that file, or move its folder"
            )
            raise ModuleNotFoundError(f"{who} {said} to the end of sys.path", name=error.name) from error
        raise ModuleNotFoundError(
            f"{who} {package}, which is not installed: pip install 'invsamp[{extra}]'", name=error.name
        ) from error


def wrong(name: str, right: str, value: object) -> ValueError:
    """The error to raise for an argument."""
    return ValueError(f"{name} must be {right}, got {shown(value)}")


def shown(value: object) -> str:
    """A value in a message: one line that stays short."""
    try:
        whole = " ".join(repr(value).split())
    except Exception:  # of a user's class: the message is about the argument, not about its __repr__
        whole = f"an object of {type(value).__name__}"
    return whole if len(whole) <= 200 else f"{whole[:200]}..."


def _scalar(value: object) -> Any:
    """A number of Python or numpy; a boolean becomes None, an array of no axes its entry."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and not np.ma.is_masked(value):
        value = value[()]
    return None if isinstance(value, bool | np.bool_ | np.ndarray) else value


def _inside(
    values: Array, above: float | None, least: float | None, below: float | None, most: float | None, finite: bool
) -> npt.NDArray[np.bool_]:
    inside = np.isfinite(values) if finite else ~np.isnan(values)  # NaN is never inside
    for limit, kept in ((above, np.greater), (least, np.greater_equal), (below, np.less), (most, np.less_equal)):
        if limit is not None:
            inside = inside & kept(values, limit)
    return inside


def _numbers(above: float | None, least: float | None, below: float | None, most: float | None, finite: bool) -> str:
    kind = "finite number" if finite and (below is None and most is None) else "number"
    if above == 0 and below is None and most is None:
        return f"a positive {kind}"
    return f"a {kind}{_between(above, least, below, most)}"


def _between(above: float | None, least: float | None, below: float | None, most: float | None) -> str:
    low, high = (above if least is None else least), (below if most is None else most)
    if low is None and high is None:
        return ""
    if high is None:
        return f" {'>' if least is None else '>='} {low:g}"
    if low is None:
        return f" {'<' if most is None else '<='} {high:g}"
    return f" in {'(' if least is None else '['}{low:g}, {high:g}{')' if most is None else ']'}"


def _fits(sizes: tuple[int, ...], shape: Shape) -> bool:
    free: dict[str, int] = {}  # a word that stands twice stands for one size
    return len(shape) == len(sizes) and all(
        size == (free.setdefault(axis, size) if isinstance(axis, str) else axis)
        for axis, size in zip(shape, sizes, strict=True)
    )


def _listed(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
