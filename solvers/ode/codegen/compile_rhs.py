"""From a plain ``rhs(t, x, p)`` to compiled functions of pointers, with derivatives by whichever way is open.

What traces is compiled from its trace. What does not, for instance because it branches or interpolates a table, is
compiled as it stands. Its derivatives come from a Jacobian that the caller gives, or from the complex step
``Im f(x + ih v) / h`` (Squire and Trapp 1998), which has no rounding error however small h is.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
import types
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
from numba import njit
from numba.extending import overload

from invsamp.solvers.foreign import Called, Term
from invsamp.solvers.ode.codegen.compile_cache import Compiled, compiled, digest
from invsamp.solvers.ode.codegen.function_hash import fingerprint
from invsamp.solvers.ode.codegen.interpolation_tables import Table, without_tables
from invsamp.solvers.ode.codegen.llvm import (
    Plan,
    emitted,
    entries_plan,
    products_source,
    sensitivities_plan,
    slopes_plan,
    source_of,
    values_plan,
)
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import trace_graph
from invsamp.solvers.ode.codegen.rebind_globals import copied

#: ``jacobian(t, x, p)`` returns the rows of df/dx and the rows of df/dp
Jacobian = Callable[[Term, Term, Term], Sequence[Sequence[Sequence[Term]]]]


#: Up to so many entries of the Jacobian by states and parameters, its product with sensitivities is written out.
MOST_ENTRIES = 50

#: As what compiled functions get x and p: as tuples, which numba can unpack, or where these will not do as arrays.
_KINDS = ("direct", "arrays")
#: Numba's errors are colored where colorama is installed.
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
#: Options of functions that compiled ones alone call: what would let Python call them takes the compiler as long again.
_CALLED: dict[str, str | bool] = {"error_model": "numpy", "no_cpython_wrapper": True}
#: Where derivatives come from; source, and what its names stand for.
Direct = tuple[str, tuple[str, dict[str, object]]]
#: Source, and what its ``operations`` compute.
TracedSource = tuple[str, Callable[[], Plan]]


class Prepared(NamedTuple):
    """A compiled function and where its derivatives come from."""

    compiled: Compiled
    derivatives: str  # "traced", "given" or "complex step"


@lru_cache(maxsize=256)
def prepare_states(rhs: Rhs, n: int, q: int) -> Prepared:
    """Compile the right-hand side of the states.

    Raises
    ------
    ValueError
        If ``rhs`` neither traces nor compiles as it stands.
    """

    def traced() -> TracedSource:
        trace_graph(rhs, n, q)
        return source_of(), lambda: values_plan(trace_graph(rhs, n, q))

    return _prepare("states", rhs, n, q, traced, partial(_direct, rhs, None, n, q, (), 0))


@lru_cache(maxsize=256)
def prepare_sensitivities(
    rhs: Rhs, jacobian: Jacobian | None, n: int, q: int, n_initial: int, own: tuple[int, ...] | None = None
) -> Prepared:
    """Compile the right-hand side of states and sensitivities: those to parameters, then ``n_initial`` columns.

    ``y`` has the states, then the columns of S one after the other, with S' = (df/dx) S + (df/dp, 0). ``own`` are the
    parameters that have a column; all by default. Without any and with the identity as S, S' is the Jacobian.

    Raises
    ------
    ValueError
        If ``rhs`` neither traces nor compiles for complex numbers, and no Jacobian is given.
    """
    chosen = tuple(range(q)) if own is None else own
    name = f"sensitivities{n_initial}{'' if len(chosen) == q else '_of_' + digest(str(chosen))[:8]}"
    if jacobian is not None:
        return _prepare(name, (rhs, jacobian), n, q, None, partial(_direct, rhs, jacobian, n, q, chosen, n_initial))

    columns = len(chosen) + n_initial

    def traced() -> TracedSource:
        graph = trace_graph(rhs, n, q)
        if n * (n + q) <= MOST_ENTRIES:
            return source_of(), lambda: sensitivities_plan(trace_graph(rhs, n, q), n, columns, chosen)
        pairs = entries_plan(graph, chosen)[2:]
        return products_source(n, columns, n, *pairs), lambda: entries_plan(trace_graph(rhs, n, q), chosen)[:2]

    return _prepare(name, rhs, n, q, traced, partial(_stepped, rhs, n, q, chosen, n_initial))


@lru_cache(maxsize=256)
def parameters_read(rhs: Rhs, n: int, q: int) -> frozenset[int]:
    """Parameters that a right-hand side depends on, as far as that is known; all if it does not trace."""
    try:
        traced = trace_graph(rhs, n, q)
    except ValueError:
        return frozenset(range(q))
    return frozenset(traced.by_parameters.columns)


@lru_cache(maxsize=256)
def prepare_jacobian(rhs: Rhs, jacobian: Jacobian | None, n: int, q: int) -> Prepared | ValueError:
    """The variational equations, or why there are no derivatives.

    See `invsamp.solvers.ode.integrators.lsoda_jacobian.state_jacobian`.
    """
    try:
        return prepare_sensitivities(rhs, jacobian, n, q, n, own=())
    except ValueError as error:  # kept: what does not compile is not tried again
        return error


@lru_cache(maxsize=256)
def prepare_stop(stop: Callable[..., object], n: int, q: int) -> Compiled:
    """Compile a function ``stop(t, x, p)`` with one value.

    Raises
    ------
    ValueError
        If it does not compile.
    """

    def direct(arrays: bool) -> Direct:
        lines = [*_real(n, q, arrays), "out[0] = inner(t, x, c)"]
        return "direct", _guarded(lines, 1, {"inner": _jitted(stop)})

    return _prepare("stop", stop, n, q, None, direct).compiled


@lru_cache(maxsize=256)
def prepare_function(function: Called, n: int, q: int, slopes: bool) -> Compiled:
    """Compile a function of (t, x, p) with any number of values, and its derivatives in the order of `slopes_plan`.

    Raises
    ------
    ValueError
        If it does not trace.
    """
    name = f"function{slopes}"
    traced = trace_graph(function, n, q, whole=False)
    count = len(traced.outputs)

    def plan() -> Plan:
        again = trace_graph(function, n, q, whole=False)
        return slopes_plan(again, n, q) if slopes else values_plan(again)

    source = source_of(count * (2 + n + q) if slopes else 0)
    return compiled(source, name, key=key_of(name, function, n, q), scope={"operations": emitted(plan)})


def _prepare(
    name: str,
    parts: object,
    n: int,
    q: int,
    traced: Callable[[], TracedSource] | None,
    direct: Callable[[bool], Direct],
) -> Prepared:
    key = key_of(name, parts, n, q)
    reason: Exception | None = None
    if traced is not None:
        try:
            text, plan = traced()
            return Prepared(compiled(text, f"{name}_traced", key=key, scope={"operations": emitted(plan)}), "traced")
        except Exception as error:  # numba raises all kinds
            reason = error
    how = "direct"
    try:
        for kind in _KINDS:
            how, (source, scope) = direct(kind == "arrays")
            own = None if key is None else digest(key, source)
            try:
                return Prepared(compiled(source, f"{name}_{kind}", key=own, scope=scope), how)
            except Exception as error:
                if kind == "arrays" or "Tuple" not in str(error):
                    raise
        raise AssertionError
    except Exception as error:
        raise ValueError(_complaint(name, how, reason, error)) from error


def _complaint(name: str, how: str, reason: Exception | None, error: Exception) -> str:
    if name == "stop":
        return f"stop must compile with numba, which says: {_short(error)}"
    if how == "complex step":
        return (
            f"sensitivities need a rhs that traces or that numba compiles for complex numbers, or else jacobian=. "
            f"{_short(reason)}. For the complex step numba says: {_short(error)}"
        )
    if how == "given":
        return f"rhs and jacobian must compile with numba, which says: {_short(error)}"
    return f"rhs must trace or compile with numba. {_short(reason)}. Numba says: {_short(error)}"


def _short(error: Exception | None) -> str:
    """The lines of an error of numba that say what is wrong, out of dozens on how it came there."""
    lines = [line.strip() for line in _COLORS.sub("", str(error)).splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("Failed in nopython", "During:", "File "))]
    return " ".join(reasons[:2]).rstrip(".:")


def key_of(name: str, parts: object, n: int, q: int) -> str | None:
    """Key under which compiled code is stored: a digest of its kind ``name``, the functions ``parts``, and their sizes.

    None where a part has no fingerprint, so that its code is not stored. ``n`` is the number of states, ``q`` that of
    parameters.
    """
    prints = [fingerprint(part) for part in (parts if isinstance(parts, tuple) else (parts,))]
    if any(entry is None for entry in prints):
        return None
    return digest(_edition(), name, str(n), str(q), *(entry for entry in prints if entry is not None))


@lru_cache(maxsize=1)
def _edition() -> str:
    """Changes with the code that writes source, or what the source calls."""
    modules = (
        "llvm",
        "operation_graph",
        "compile_rhs",
        "interpolation_tables",
        "rosenbrock_jacobians",
        "adjoint_products",
        "numpy_substitutes",
        "rebind_globals",
        "taylor_series",
        "inlined_stages",
    )
    return hashlib.sha256(b"".join(Path(__file__).with_name(f"{name}.py").read_bytes() for name in modules)).hexdigest()


def _direct(
    rhs: Rhs, jacobian: Jacobian | None, n: int, q: int, own: tuple[int, ...], n_initial: int, arrays: bool
) -> Direct:
    """Source that calls ``rhs``, and ``jacobian`` for the sensitivities, first to the parameters ``own``."""
    columns = len(own) + n_initial
    scope = {"inner": _jitted(rhs)}
    lines = [*_real(n, q, arrays), "d = inner(t, x, c)"]
    if jacobian is not None:
        scope["jacobian"] = _jitted(jacobian)
        lines.append("a, b = jacobian(t, x, c)")
        for i in range(n):
            lines += [f"a{i}_{j} = float(a[{i}][{j}])" for j in range(n)]
            for k in range(columns):
                terms = [f"a{i}_{j} * y[{n + k * n + j}]" for j in range(n)]
                terms += [f"b[{i}][{own[k]}]"] if k < len(own) else []
                lines.append(f"out[{n + k * n + i}] = {' + '.join(terms)}")
    lines += [f"out[{i}] = d[{i}]" for i in range(n)]
    return "given" if jacobian else "direct", _guarded(lines, n + n * columns, scope)


def _stepped(rhs: Rhs, n: int, q: int, own: tuple[int, ...], n_initial: int, arrays: bool) -> Direct:
    """Source that calls ``rhs`` for the states, then for complex states once per column of the sensitivities."""
    _order_complex_numbers()
    columns = len(own) + n_initial
    place = {j: k for k, j in enumerate(own)}
    steps = [f"complex(p[{j}], {f'H if k == {place[j]} else 0.0' if j in place else '0.0'})" for j in range(q)]
    states = [f"complex(y[{i}], H * y[{n + i} + k * {n}])" for i in range(n)]
    moved = [*_made("v", states, arrays, "COMPLEX"), *_made("w", steps, arrays, "COMPLEX")]
    lines = [
        *_real(n, q, arrays),
        "d = inner(t, x, c)",
        f"for k in range({columns}):",
        *(f"    {line}" for line in moved),
        "    e = analytic(t, v, w)",
        *(f"    out[{n + i} + k * {n}] = complex(e[{i}]).imag / H" for i in range(n)),
        *(f"out[{i}] = d[{i}]" for i in range(n)),
    ]
    convert = _with_complex_matrices if arrays else _analytic
    analytic = _compiled_on_use(copied(rhs, convert, wrap=_compiled_on_use, builtins=_ANALYTIC_BUILTINS))
    scope = {"inner": _jitted(rhs), "analytic": analytic, "H": 1e-100}
    return "complex step", _guarded(lines, n + n * columns, scope)


def _guarded(lines: list[str], size: int, scope: dict[str, object]) -> tuple[str, dict[str, object]]:
    """Source that runs the lines; an exception inside leaves NaN behind: a failed trajectory."""
    body = "\n    ".join(lines)
    source = f"""@njit(**CALLED)
def body(t, y, p, out):
    {body}


def evaluate(t, y, p, out):
    for i in range({size}):
        out[i] = NAN
    try:
        body(t, y, p, out)
    except Exception:
        return
"""
    of_arrays = {"empty": np.empty, "FLOAT": np.float64, "COMPLEX": np.complex128}
    return source, {"NAN": math.nan, "njit": njit, "CALLED": _CALLED, **of_arrays, **scope}


def _made(name: str, entries: list[str], arrays: bool, kind: str = "FLOAT") -> list[str]:
    """Source of a tuple or an array of these entries."""
    if not arrays:
        return [f"{name} = {_tuple(entries)}"]
    return [f"{name} = empty({len(entries)}, {kind})", *(f"{name}[{i}] = {each}" for i, each in enumerate(entries))]


def _real(n: int, q: int, arrays: bool) -> list[str]:
    """Source of the states and the parameters."""
    states, parameters = ([f"{pointer}[{i}]" for i in range(count)] for pointer, count in (("y", n), ("p", q)))
    return [*_made("x", states, arrays), *_made("c", parameters, arrays)]


def _tuple(entries: list[str]) -> str:
    """Source of a tuple, in pieces that numba takes: Python makes a longer one from a list."""
    pieces = [entries[first : first + 30] for first in range(0, max(len(entries), 1), 30)]
    return " + ".join(f"({''.join(f'{entry}, ' for entry in piece)})" for piece in pieces)


def _jitted(function: Callable[..., object]) -> object:
    """Compile on use, together with the plain functions that it calls."""
    return _compiled_on_use(copied(function, without_tables, wrap=_compiled_on_use))


def _compiled_on_use(function: Callable[..., object]) -> object:
    return njit(**_CALLED)(function) if isinstance(function, types.FunctionType) else function


def _analytic(value: object) -> object:
    """Functions of real numbers replaced by analytic ones: `math` refuses complex numbers, and |z| is not analytic."""
    if isinstance(value, Table):
        return value.compiled
    if value is math or value is np:
        return _analytic_module(value)
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and value in (getattr(math, name, None), getattr(np, name, None)):
        return getattr(_analytic_module(np), name, value)
    return value


def _with_complex_matrices(value: object) -> object:
    """The same for vectors: numba multiplies matrices and vectors of one kind alone."""
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind == "f":
        return value.astype(complex)
    return _analytic(value)


@lru_cache(maxsize=4)
def _analytic_module(original: types.ModuleType) -> types.ModuleType:
    module = types.ModuleType(f"analytic_{original.__name__}")
    vars(module).update({name: value for name, value in vars(original).items() if not name.startswith("_")})
    if original is math:
        for name in vars(math):
            numpy_name = f"arc{name[1:]}" if name.startswith("a") and hasattr(np, f"arc{name[1:]}") else name
            if callable(getattr(math, name)) and hasattr(np, numpy_name):
                setattr(module, name, getattr(np, numpy_name))
    for name in ("abs", "absolute", "fabs"):
        setattr(module, name, _analytic_abs)
    for name, made in (("zeros", _analytic_zeros), ("empty", _analytic_zeros), ("ones", _analytic_ones)):
        setattr(module, name, made)
    for name, pair in (("maximum", _analytic_max), ("minimum", _analytic_min)):
        setattr(module, name, pair)
    return module


@njit
def _analytic_abs(z: complex) -> complex:
    return -z if z.real < 0 else +z


@njit
def _analytic_zeros(shape: object, dtype: object = None) -> object:
    return np.zeros(shape, np.complex128)  # type: ignore[call-overload]  # numba knows the shape


@njit
def _analytic_ones(shape: object, dtype: object = None) -> object:
    return np.ones(shape, np.complex128)  # type: ignore[call-overload]


@njit
def _analytic_max(a: complex, b: complex) -> complex:
    return complex(a) if a.real >= b.real else complex(b)


@njit
def _analytic_min(a: complex, b: complex) -> complex:
    return complex(a) if a.real <= b.real else complex(b)


@lru_cache(maxsize=1)
def _order_complex_numbers() -> None:
    """Let compiled code compare complex numbers by their real parts: a right-hand side may branch on a state.

    Numba has one meaning of an operator for all code, so this is done only where a complex step is taken; code that
    compares complex numbers does not compile at all without it.
    """
    for comparison in (operator.lt, operator.le, operator.gt, operator.ge):
        overload(comparison)(_by_real_parts(comparison))


def _by_real_parts(comparison: Callable[[Term, Term], object]) -> Callable[[Term, Term], object]:
    def typed(a, b):  # type: ignore[no-untyped-def]  # numba compares the names and annotations of both signatures
        kinds = (a, b)
        numbers = all(isinstance(kind, numba.types.Number) for kind in kinds)
        if numbers and any(isinstance(kind, numba.types.Complex) for kind in kinds):
            return lambda a, b: comparison(a.real, b.real)
        return None

    return typed


_ANALYTIC_BUILTINS = {"abs": _analytic_abs, "max": _analytic_max, "min": _analytic_min}
