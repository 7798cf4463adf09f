r"""CVODE of SUNDIALS by scikit-SUNDAE: BDF formulas of variable order and step, with banded or sparse Newton matrices.

Let y = (x, s_1 ... s_c) in blocks of n, with x' = f and s_k' = J s_k + f_k. The Newton matrix has :math:`1 - \gamma J`
in each diagonal block and nothing else, which is CVODES' simultaneous corrector (Serban and Hindmarsh 2005, "CVODES:
the sensitivity-enabled ODE solver in SUNDIALS"). The iteration only has to converge, and the blocks have the narrow
bands of J. Hindmarsh et al. (2005), "SUNDIALS: Suite of nonlinear and differential/algebraic equation solvers".
"""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NamedTuple, TextIO, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse
from numba import njit

from invsamp.arguments import needed
from invsamp.solvers.foreign import Called, Sparse
from invsamp.solvers.ode.integrators.function_pointers import call
from invsamp.solvers.ode.integrators.lsoda_jacobian import state_jacobian
from invsamp.solvers.ode.integrators.restarted_trajectory import TIMES, GaveUp, Piece, RestartedTrajectory, Solved
from invsamp.solvers.ode.integrators.sparse_factors import Integers, Pattern
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.integrators.trajectories import Array

#: Bands up to so wide are factorized faster than SuperLU factorizes (measured at 60 and 120).
_WIDEST = 80
#: Components up to which the matrix may be banded: scikit-SUNDAE gives a full one, of which few pages are touched.
_MOST_BANDED = 10_000
#: A step that is shorter than so many times the rounding of time does not get anywhere.
_LEAST_STEP = 16.0 * float(np.finfo(float).eps)
#: CVODE's flag for too many steps.
_TOO_MUCH_WORK = -1


class Newton(NamedTuple):
    """Where the Jacobian of a traced right-hand side comes from, and where its entries go."""

    jacobian: int  # address of `codegen.rosenbrock_jacobians.prepare_entries`
    places: Integers  # (blocks, entries): in the flattened matrix, or in the data of the sparse one
    lower: int  # bandwidths of the matrix
    upper: int
    sparsity: Sparse  # None: banded


def newton_of(jacobian: int, pattern: Pattern, n: int, blocks: int) -> Newton:
    """For ``blocks`` of n components; the pattern is that of df/dx, whose entries the function at ``jacobian`` has."""
    rows, columns = pattern.rows, pattern.columns
    apart = rows - columns
    lower, upper = (int(max(each.max(initial=0), 0)) for each in (apart, -apart))
    first, m = n * np.arange(blocks)[:, None], n * blocks
    wide = lower + upper + 1 > _WIDEST and len(pattern.starts) > 0
    if not wide and m <= _MOST_BANDED:
        return Newton(jacobian, (rows + first) * m + columns + first, lower, upper, None)
    # CVODE adds the identity in place, so the diagonal belongs to the pattern
    every = np.unique(np.concatenate([columns * n + rows, np.arange(n) * (n + 1)]))
    places = np.searchsorted(every, columns * n + rows)
    whole = (every[None] % n + first).ravel(), np.concatenate([[0], np.cumsum(np.bincount(every // n, minlength=n))])
    starts = np.concatenate([whole[1][:-1] + k * len(every) for k in range(blocks)] + [[blocks * len(every)]])
    sparsity = scipy.sparse.csc_matrix(
        (np.ones(blocks * len(every)), whole[0].astype(np.int32), starts.astype(np.int32)), shape=(m, m)
    )
    return Newton(jacobian, places + len(every) * np.arange(blocks)[:, None], lower, upper, sparsity)


class Cvode(RestartedTrajectory):
    """One trajectory."""

    def solved(self, piece: Piece) -> Solved:
        """As in the base class."""
        flat, y, nodes, _, _, _, first_step, budget = piece
        at, times = np.empty(len(y)), self.trail[TIMES]
        times[2] = 0.0

        def rhs(t: float, y: Array, out: Array) -> None:
            at[:] = y  # CVODE's is read-only, which would be another type to compiled code
            out[:] = flat(t, at)
            begun = times[0] if t <= times[1] else times[1]  # the latter before the first finite value of a step
            stuck = 0.0 < t - begun < _LEAST_STEP * abs(t)
            if stuck or times[2] >= budget:
                reason = Status.NON_FINITE if self.seen_bad else Status.STEP_TOO_SMALL
                self.status = reason if stuck else Status.TOO_MANY_STEPS
                self.steps += int(times[2])
                raise GaveUp

        # with the norm over all blocks below 1 / sqrt(blocks), that over each is below 1
        share = math.sqrt(self.control.n_states / len(y))
        most = self.control.max_step
        solver = _package().CVODE(
            rhs,
            rtol=self.control.rtol * share,
            atol=self.weights * share,
            first_step=first_step,
            max_step=most if math.isfinite(most) else 0.0,  # 0: any
            max_num_steps=budget,
            **self._matrix(piece),
        )
        # asked for two times alone, it would give all its steps
        asked = nodes if len(nodes) > 2 else np.array([nodes[0], 0.5 * (nodes[0] + nodes[1]), nodes[1]])
        found = solver.solve(asked, y)
        values = found.y if len(nodes) > 2 else found.y[[0, -1]]
        return Solved(values, int(times[2]) + 1, found.status >= 0, found.status == _TOO_MUCH_WORK)

    @classmethod
    @contextmanager
    def alone(cls) -> Iterator[None]:
        """As in the base class: one solve at a time, as what SUNDIALS prints has to be kept from standard output."""
        with _STANDARD_OUTPUT, warnings.catch_warnings(), _small_pages():
            warnings.filterwarnings("ignore", "Custom sparse Jacobian approximation", UserWarning)
            if sys.stdout is None:
                yield
            else:
                with redirect_stdout(cast(TextIO, _Others(sys.stdout))):
                    yield

    def _matrix(self, piece: Piece) -> dict[str, object]:
        """Settings of the linear solver."""
        n, newton, variations, p = self.control.n_states, self.control.linear, self.control.variations, self.p
        x, lower, upper = np.empty(n), piece.lower, piece.upper
        if newton is None:
            settings: dict[str, object] = {"linsolver": "band", "lband": n - 1, "uband": n - 1}

            def blocks(t: float, y: Array, slopes: Array, matrix: Array) -> None:
                x[:] = y[:n]
                block = state_jacobian(variations, min(max(t, lower), upper), x, p)
                for first in range(0, len(y), n):
                    matrix[first : first + n, first : first + n] = block

            return settings | {"jacfn": blocks} if variations else settings  # without one, CVODE takes differences
        values = np.empty((1, n + newton.places.shape[1]))

        def entries(t: float, y: Array, slopes: Array, matrix: Array) -> None:
            x[:] = y[:n]
            _fill(newton.jacobian, min(max(t, lower), upper), x, p, newton.places, values, matrix.reshape(-1))

        if newton.sparsity is not None:
            return {"linsolver": "sparse", "sparsity": newton.sparsity, "jacfn": entries}
        return {"linsolver": "band", "lband": newton.lower, "uband": newton.upper, "jacfn": entries}


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    jacobian: int,
    t: float,
    x: Array,
    p: Array,
    places: npt.NDArray[np.int64],
    values: Array,
    matrix: Array,
) -> None:
    """Entries of J to ``matrix``, in each block; what is not finite is 0."""
    call(jacobian, t, x, p, values, 0)
    n = len(x)
    for k in range(places.shape[0]):
        for e in range(places.shape[1]):
            entry = values[0, n + e]
            matrix[places[k, e]] = entry if math.isfinite(entry) else 0.0


def _package() -> Any:
    return needed("method='CVODE' needs", "cvode", "sksundae.cvode")


def check_installed() -> None:
    """Raises ModuleNotFoundError if scikit-SUNDAE is not installed."""
    _package()


_STANDARD_OUTPUT = threading.Lock()


@contextmanager
def _small_pages() -> Iterator[None]:
    """NumPy asks for no huge pages: the band of a whole matrix would fill all of them with zeros, for 20 to 90 ms."""
    numpys = sys.modules.get("numpy._core.multiarray", sys.modules.get("numpy.core.multiarray"))
    set_huge: Called | None = getattr(numpys, "_set_madvise_hugepage", None)
    if set_huge is None:
        yield
        return
    before = set_huge(False)
    try:
        yield
    finally:
        set_huge(before)


class _Others:
    """A stream without what the thread writes that made this: SUNDIALS' reports of failures, which have a status."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._own = stream, threading.get_ident()

    def write(self, text: str) -> int:
        """Write what comes from another thread."""
        return len(text) if threading.get_ident() == self._own else self._stream.write(text)

    def __getattr__(self, name: str) -> Called:
        return cast(Called, getattr(self._stream, name))
