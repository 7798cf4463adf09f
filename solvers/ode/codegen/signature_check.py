"""A first call of a user's function ``f(t, x, p)`` with numbers, so that a wrong one is reported at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import numpy as np

from invsamp.arguments import shown
from invsamp.solvers.foreign import Term

#: What errors say of arrays that do not fit, in place of numbers that a function does not take.
_OF_LENGTHS = ("unpack", "broadcast", "mismatch", "not aligned", "dimension", "shape", "truth value")


class _Misused(TypeError):
    """Says what is wrong with the use of an argument."""


def probe(name: str, function: Callable[..., object], n_states: int, n_parameters: int) -> Term:
    """Value of a function at t = 0 and ones.

    Parameters
    ----------
    name : str
        What the caller calls the function.
    function : callable
        ``function(t, x, p)``, as it is or compiled by numba.
    n_states, n_parameters : int
        Lengths of ``x`` and ``p``.

    Returns
    -------
    value
        None where the function is not defined at this point.

    Raises
    ------
    ValueError
        If the function takes other arguments, in another order or of other lengths, calls a state as a function of
        time, asks for a value by name, or raises anything but an error of arithmetic.
    """
    plain = getattr(function, "py_func", function)
    _check_signature(name, plain)
    states, parameters = np.ones(n_states).view(_States), np.ones(n_parameters).view(_Parameters)
    try:
        with np.errstate(all="ignore"):
            return plain(_Time(0.0), states, parameters)
    except ArithmeticError:
        return None
    except (ValueError, IndexError) as error:
        if isinstance(error, ValueError) and not any(word in str(error) for word in _OF_LENGTHS):
            return None  # out of a function's domain
        raise ValueError(
            f"{name} must take {n_states} states and {n_parameters} parameters, but raised: {error}"
        ) from error
    except _Misused as error:
        raise ValueError(f"{name} must be {name}(t, x, p): {error}") from error
    except Exception as error:
        raise ValueError(
            f"{name} must be {name}(t, x, p) with a number and two arrays of {n_states} and {n_parameters} numbers, "
            f"but it raised {type(error).__name__}: {error}"
        ) from error


def _check_signature(name: str, function: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a builtin
        return
    taken = list(signature.parameters)
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise ValueError(
            f"{name} must be {name}(t, x, p), got {_heading(function, signature)}: "
            f"the parameters are one sequence, the third argument, in the order of `parameters`"
        ) from None
    if taken[1:2] in (["t"], ["time"]) and taken[0] not in ("t", "time"):
        raise ValueError(
            f"{name} must be {name}(t, x, p), time first, got {_heading(function, signature)}, which is odeint's order"
        )


def _heading(function: Callable[..., object], signature: inspect.Signature) -> str:
    return shown(getattr(function, "__name__", "a function")).strip("'") + str(signature)


class _Time(float):
    """Time, which is a number."""

    def __getitem__(self, key: Term) -> Term:
        raise _Misused(
            f"t is a number, but t[{key!r}] was asked for; in odeint's order (x, t, p) time would come second"
        )

    def __iter__(self) -> Term:
        raise _Misused("t is a number, but it was unpacked; in odeint's order (x, t, p) time would come second")

    __len__ = __iter__


class _Checked:
    """Values that are had by position."""

    label, named, extra = "", "", ""

    def __getitem__(self, key: Term) -> Term:
        if isinstance(key, str):
            raise _Misused(
                f"{self.label}[{key!r}] was asked for, but {self.label} is a sequence in the order of `{self.named}`: "
                f"take {self.label}[0], or unpack it"
            )
        found = super().__getitem__(key)  # type: ignore[misc]  # of arrays
        return float(found) if isinstance(found, np.floating) else found

    def __iter__(self) -> Iterator[float]:  # plain numbers, of which a division by zero is reported
        return iter(np.asarray(self).tolist())

    def __getattr__(self, key: str) -> object:
        raise AttributeError(
            f"{self.label}.{key} was asked for, but {self.label} is a sequence in the order of `{self.named}`: "
            f"take {self.label}[0], or unpack it"
        )

    def __call__(self, *arguments: object) -> object:
        raise _Misused(f"{self.label} was called, but it is a sequence{self.extra}")


class _States(_Checked, np.ndarray):  # type: ignore[misc]  # of its numbers
    label, named = "x", "states"
    extra = " of the states at time t; delays such as x(t - tau) are not supported"


class _Parameters(_Checked, np.ndarray):  # type: ignore[misc]
    label, named = "p", "parameters"


# what Python says of them names the kinds that a caller knows
_States.__name__, _Parameters.__name__, _Time.__name__ = "array", "array", "float"
