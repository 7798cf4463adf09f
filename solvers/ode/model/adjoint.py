"""Derivatives of a weighted sum of states by the adjoint of the steps: their cost does not grow with the parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.solvers.ode.codegen.adjoint_products import has_pullback, prepare_pullback, prepare_second_pullback
from invsamp.solvers.ode.codegen.compile_rhs import prepare_states
from invsamp.solvers.ode.integrators.backward_sweep import explicit_sweep, rodas_rows, rodas_sweep, table_of
from invsamp.solvers.ode.integrators.solution import Solution
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.integrators.tableau_dormand_prince import FIVE, eight
from invsamp.solvers.ode.integrators.trajectories import HEAD, Array, Control
from invsamp.solvers.ode.model.ode_solver import OdeSolver, linear_of

#: From weights (batch, n_times, n) of states to derivatives (batch, n + q) of their sum by the start and by p.
Pullback = Callable[[Array], Array]
#: Numbers that are kept of the steps of a batch, at most: a gigabyte, of which only what is written takes memory.
_MOST_KEPT = 2**27


def has_adjoint(model: OdeSolver) -> bool:
    """Whether the steps of a model have an adjoint: see `solve_with_adjoint`."""
    n, q = len(model.states), len(model.parameters)
    stepped = model.method_used not in ("CVODE", "LSODA", "Taylor")
    plain = stepped and model.jacobian is None and model.moves_no_times
    return plain and has_pullback(model.rhs, n, q)


def solve_with_adjoint(
    model: OdeSolver, p: Array, x0: Array, grid: Array, start: Array
) -> tuple[Solution, Pullback] | None:
    """Trajectories, to the bit those of `OdeSolver.solve`, and the adjoint of their steps.

    Parameters
    ----------
    model : OdeSolver
        One for which `has_adjoint` is true: traced without a choice between values, and without events, doses,
        breakpoints and switches.
    p, x0, grid, start : arrays
        As in `OdeSolver.solve_from`.

    Returns
    -------
    solution, pullback
        None if there were more steps than can be kept, or steps of LSODA, which has none.
    """
    n, q = len(model.states), len(model.parameters)
    kept = min(model.max_steps, max(_MOST_KEPT // (len(p) * (HEAD + n)), 1))
    trail = np.empty((len(p), kept, HEAD + n))
    outcome, switched, _, steps = model.integrated(p, x0, grid, start, trail)
    solved = outcome.status == Status.OK
    if (steps[solved] > kept).any() or np.isnan(trail[solved & (steps > 0), 0, 0]).any():
        return None

    def pullback(weights: Array) -> Array:
        slopes = np.full((len(p), n + q), np.nan)
        for row in np.flatnonzero(solved):
            slopes[row] = 0.0
            times = grid[0 if len(grid) == 1 else row]
            name = "Rodas5P" if switched[row] else model.method_used
            given = (
                trail[row, : steps[row]],
                times,
                np.ascontiguousarray(weights[row]),
                np.ascontiguousarray(p[row]),
                slopes[row],
            )
            _sweep(model, name, given)
        return slopes

    return Solution(*outcome[:5], switched), pullback


def _sweep(model: OdeSolver, name: str, given: tuple[Array, Array, Array, Array, Array]) -> None:
    n, q = len(model.states), len(model.parameters)
    rhs = prepare_states(model.rhs, n, q).compiled.address
    pull = prepare_pullback(model.rhs, n, q).address
    if name == "Rodas5P":
        second = prepare_second_pullback(model.rhs, n, q).address
        control = Control(n, model.rtol, np.empty((1, n)), 1, linear=linear_of(model.rhs, n, q, 0, ()))
        rodas_sweep(*rodas_rows(), rhs, pull, second, control, *given)
    else:
        explicit_sweep(table_of(eight() if name == "DOP853" else FIVE), rhs, pull, n, *given)
