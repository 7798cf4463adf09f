"""Energies as compiled functions with one signature, which compiled loops over steps call by their address.

So a loop is compiled once, and stored, whatever the energy is; an energy compiles its own few lines.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic, is_jitted

from invsamp.protocols import Array

#: ``status f(context, theta, chains, d, energy, gradient, prior)``; a status other than 0: Python is to evaluate, for
#: instance as something was raised, or has a wrong shape.
_SIGNATURE = types.int64(
    types.int64,
    types.CPointer(types.float64),
    types.intp,
    types.intp,
    types.CPointer(types.float64),
    types.CPointer(types.float64),
    types.CPointer(types.float64),
)


class EnergyPointer(NamedTuple):
    """An energy as a compiled function.

    Attributes
    ----------
    address : int
        Of ``int64 f(int64 context, double *theta, intp n, intp d, double *energy, double *gradient, double *prior)``.
        What of the energy is the prior's, a target that does not separate it leaves as it is.
    context : int
        What it is given: where its data are, or 0.
    owner : object
        What keeps the code and the data in memory.
    """

    address: int
    context: int
    owner: object


class NotCompiled(NamedTuple):
    """Why an energy is no compiled function."""

    reason: str


Compiled = EnergyPointer | NotCompiled


def jitted(function: object) -> bool:
    """Whether this is a function that numba compiles."""
    return bool(is_jitted(function))


class EnergySource(NamedTuple):
    """The energy ``sign`` times a jitted function of theta, with its gradient; not compiled yet.

    Attributes
    ----------
    function : jitted function
        theta (n, d) -> values (n,); with ``by_row`` theta (d,) -> a number.
    gradient : jitted function, optional
        theta (n, d) -> gradients (n, d); with ``by_row`` theta (d,) -> (d,). None: the function returns the pair.
    sign : float
        1 of an energy, -1 of a log density.
    by_row : bool
        Whether they take one theta.
    """

    function: Any
    gradient: Any
    sign: float
    by_row: bool

    def compiled(self) -> Compiled:
        """As a compiled function; again the same for the same functions."""
        return _compiled(*self)


@lru_cache(maxsize=32)
def _compiled(function: Any, gradient: Any, sign: float, by_row: bool) -> Compiled:
    whole = _pair(function, gradient)
    fill = _by_row(whole, sign) if by_row else _of_batch(whole, sign)

    @njit(error_model="numpy")
    def tried(x: Array, energy: Array, slope: Array) -> int:
        status = 1
        try:
            status = fill(x, energy, slope)
        except Exception:  # what it says is found where Python calls the function again
            status = 1
        return status

    def entry(context: int, theta: Any, n: int, d: int, energy: Any, slope: Any, prior: Any) -> int:
        return tried(carray(theta, (n, d)), carray(energy, (n,)), carray(slope, (n, d)))  # type: ignore[no-any-return]

    try:
        compiled = cfunc(_SIGNATURE)(entry)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return NotCompiled(f"numba cannot compile the density in a loop over steps: {lines[0] if lines else error!r}")
    return EnergyPointer(compiled.address, 0, compiled)


def _pair(function: Any, gradient: Any) -> Any:
    """One function that returns both."""
    if gradient is None:
        return function

    @njit(error_model="numpy")
    def both(x: Array) -> Any:
        return function(x), gradient(x)

    return both


def _of_batch(whole: Any, sign: float) -> Any:
    @njit(error_model="numpy")
    def fill(x: Array, energy: Array, slope: Array) -> int:
        n, d = x.shape
        values, slopes = whole(x)
        if values.shape != (n,) or slopes.shape != (n, d):
            return 1
        for i in range(n):
            energy[i] = sign * values[i]
            for j in range(d):
                slope[i, j] = sign * slopes[i, j]
        return 0

    return fill


def _by_row(whole: Any, sign: float) -> Any:
    @njit(error_model="numpy")
    def fill(x: Array, energy: Array, slope: Array) -> int:
        n, d = x.shape
        for i in range(n):
            value, slopes = whole(x[i])
            if slopes.shape != (d,):
                return 1
            energy[i] = sign * value
            for j in range(d):
                slope[i, j] = sign * slopes[j]
        return 0

    return fill


def _call(
    typingctx: Any, address: Any, context: Any, theta: Any, energy: Any, gradient: Any, prior: Any
) -> Any:  # pragma: no cover
    """Status of the energy at an address, written into ``energy`` (n,), ``gradient`` (n, d) and ``prior`` (n,)."""

    def codegen(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer, whole = ir.DoubleType().as_pointer(), target.get_value_type(types.intp)
        function = ir.FunctionType(ir.IntType(64), [ir.IntType(64), pointer, whole, whole, pointer, pointer, pointer])
        theta, energy, gradient, prior = (
            target.make_array(kind)(target, builder, value)
            for kind, value in zip(signature.args[2:], values[2:], strict=True)
        )
        n, d = (builder.extract_value(theta.shape, k) for k in (0, 1))
        called = builder.inttoptr(values[0], function.as_pointer())
        return builder.call(called, [values[1], theta.data, n, d, energy.data, gradient.data, prior.data])

    return types.int64(types.int64, types.int64, theta, energy, gradient, prior), codegen


call_energy: Any = intrinsic(_call)
