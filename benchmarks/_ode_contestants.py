"""Solvers that `ode.py` measures: each function yields (kind, name, function) for one initial value problem."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy.integrate import odeint, solve_ivp

from invsamp.problems import lorenz, lotka_volterra
from invsamp.solvers.ode import OdeModel

Array = npt.NDArray[np.float64]
#: Returns states (T, n), or a pair of states and sensitivities (T, n, q).
Solve = Callable[[], Any]
#: Kind of problem, name, function.
Contestant = tuple[str, str, Solve]

TIMES = np.arange(10_001) / 100.0
RTOL, ATOL, MAX_STEPS = 1e-6, 1e-9, 100_000
BATCH = 64


@dataclass(frozen=True)
class System:
    """An initial value problem, and the time until which solutions can be compared: chaos magnifies differences."""

    name: str
    rhs: Callable[..., Any]
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    values: tuple[float, ...]
    initial: tuple[float, ...]
    comparable: float

    def model(self, **settings: Any) -> OdeModel:
        """The problem as a model of invsamp."""
        given = {"method": "RK45", "rtol": RTOL, "atol": ATOL, "max_steps": MAX_STEPS} | settings
        return OdeModel(self.rhs, self.states, self.parameters, **given)


SYSTEMS = tuple(
    System(
        name,
        problem.rhs,
        problem.STATES,
        problem.PARAMETERS,
        tuple(problem.TRUTH[p] for p in problem.PARAMETERS),
        problem.INITIAL,
        comparable,
    )
    for name, problem, comparable in (("lorenz", lorenz, 5.0), ("lotka_volterra", lotka_volterra, 100.0))
)


def ours(system: System) -> Iterator[Contestant]:
    """Ours."""
    model, start = system.model(), np.array(system.initial)
    one, many = np.array([system.values]), np.tile(system.values, (BATCH, 1))
    yield "states", "invsamp", lambda: model.solve(one, start, TIMES).states[0]

    for kind, control in (("sensitivities", "full"), ("partial", "states")):
        same = system.model(error_control=control)

        def sensitivities(controlled: OdeModel = same) -> tuple[Array, Array]:
            solution = controlled.solve_with_sensitivities(one, start, TIMES, initial_states=())
            return solution.states[0], solution.sensitivities[0]

        yield kind, "invsamp", sensitivities
    yield "batch", f"invsamp, batch of {BATCH}", lambda: model.solve(many, start, TIMES).states[0]

    def singly() -> Array:
        return [model.solve(one, start, TIMES).states[0] for _ in range(BATCH)][-1]

    yield "batch", f"invsamp, {BATCH} calls", singly


def compiled_c(folder: Path) -> Callable[[System], Iterator[Contestant]]:
    """The C program by `gcc -O3`, without and with all instructions of this machine."""
    source = Path(__file__).with_name("dormand_prince.c")
    doubles, longs = (np.ctypeslib.ndpointer(dtype, flags="C") for dtype in (np.float64, np.int64))
    kinds = [ctypes.c_double, doubles, doubles, doubles, ctypes.c_int64, ctypes.c_double, ctypes.c_double]
    libraries = {}
    for name, flags in (("C, gcc -O3", ["-O3"]), ("C, gcc -O3 -march=native", ["-O3", "-march=native"])):
        target = folder / f"dormand_prince_{len(libraries)}.so"
        subprocess.run(["gcc", *flags, "-shared", "-fPIC", "-o", target, source, "-lm"], check=True)
        libraries[name] = ctypes.CDLL(str(target))

    def contestants(system: System) -> Iterator[Contestant]:
        n, q = len(system.states), len(system.parameters)
        values, work = np.array(system.values), np.zeros(2, dtype=np.int64)
        for name, library in libraries.items():
            exports = (
                ("states", "", n),
                ("sensitivities", "_sensitivities", n + n * q),
                ("partial", "_partial", n + n * q),
            )
            for kind, suffix, width in exports:
                function = getattr(library, system.name + suffix)
                function.argtypes = [*kinds, ctypes.c_int64, doubles, longs]
                start = np.concatenate([system.initial, np.zeros(width - n)])

                def solve(function: Any = function, start: Array = start, width: int = width) -> Any:
                    out = np.empty((len(TIMES), width))
                    if function(TIMES[0], start, values, TIMES, len(TIMES), RTOL, ATOL, MAX_STEPS, out, work):
                        raise RuntimeError("the C program failed")
                    return (out[:, :n], out[:, n:].reshape(len(out), q, n).swapaxes(1, 2)) if width > n else out

                yield kind, name, solve

    return contestants


def scipy(system: System) -> Iterator[Contestant]:
    """SciPy's integrators with the plain right-hand side, and its fastest with a compiled one."""
    rhs, p, span = system.rhs, system.values, (TIMES[0], TIMES[-1])
    for method in ("RK45", "LSODA"):
        yield (
            "states",
            f"SciPy solve_ivp {method}",
            lambda method=method: (
                solve_ivp(lambda t, x: rhs(t, x, p), span, system.initial, method, TIMES, rtol=RTOL, atol=ATOL).y.T
            ),
        )
    yield (
        "states",
        "SciPy odeint",
        lambda: odeint(rhs, system.initial, TIMES, args=(p,), tfirst=True, rtol=RTOL, atol=ATOL),
    )
    fast = numba.njit(rhs)
    yield (
        "states",
        "SciPy odeint, compiled rhs",
        lambda: odeint(fast, system.initial, TIMES, args=(p,), tfirst=True, rtol=RTOL, atol=ATOL),
    )


def numbalsoda(system: System) -> Iterator[Contestant]:
    """numbalsoda (NumbaLSODA): compiled LSODA and DOP853."""
    import numbalsoda as package

    rhs, n, q = numba.njit(system.rhs), len(system.states), len(system.parameters)

    @numba.cfunc(package.lsoda_sig)
    def callback(t: float, x: Any, derivative: Any, p: Any) -> None:
        values = rhs(t, numba.carray(x, n), numba.carray(p, q))
        for i in range(n):
            derivative[i] = values[i]

    start, p = np.array(system.initial), np.array(system.values)
    for solver in ("lsoda", "dop853"):
        run = getattr(package, solver)
        yield (
            "states",
            f"numbalsoda {solver}",
            lambda run=run: run(callback.address, start, TIMES, p, rtol=RTOL, atol=ATOL)[0],
        )


def diffrax(system: System) -> Iterator[Contestant]:
    """diffrax' Dormand-Prince on the processor, double precision, compiled before it is timed."""
    import diffrax as package
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    term = package.ODETerm(lambda t, x, p: jnp.stack(system.rhs(t, x, p)))
    control = package.PIDController(rtol=RTOL, atol=ATOL)

    def solve(p: Any, adjoint: Any) -> Any:
        # None: the controller's first step, which is that of Hairer, Norsett and Wanner too
        return package.diffeqsolve(
            *(term, package.Dopri5(), TIMES[0], TIMES[-1], None, jnp.array(system.initial), p),
            saveat=package.SaveAt(ts=jnp.array(TIMES)),
            stepsize_controller=control,
            max_steps=MAX_STEPS,
            adjoint=adjoint,
        ).ys

    values = jnp.array(system.values)
    states = jax.jit(lambda p: solve(p, package.RecursiveCheckpointAdjoint()))
    yield "states", "diffrax Dopri5", lambda: states(values).block_until_ready()

    def twice(p: Any) -> Any:
        out = solve(p, package.ForwardMode())
        return out, out

    both = jax.jit(lambda p: jax.jacfwd(twice, has_aux=True)(p)[::-1])
    yield "sensitivities", "diffrax Dopri5, jacfwd", lambda: jax.block_until_ready(both(values))


def torchdiffeq(system: System) -> Iterator[Contestant]:
    """torchdiffeq's dopri5, in double precision."""
    import torch
    from torchdiffeq import odeint as integrate

    torch.set_num_threads(1)
    start, times = torch.tensor(system.initial, dtype=torch.float64), torch.tensor(TIMES)

    def solve() -> Array:
        with torch.no_grad():
            return integrate(
                lambda t, x: torch.stack(system.rhs(t, x, system.values)),
                *(start, times),
                rtol=RTOL,
                atol=ATOL,
                method="dopri5",
            ).numpy()

    yield "states", "torchdiffeq dopri5", solve
