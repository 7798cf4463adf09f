"""The interface of a method for the loop over steps: compiled functions of one signature each, made once per method."""

from __future__ import annotations

from typing import NamedTuple

from invsamp.solvers.foreign import Called, Jitted


class Stepper(NamedTuple):
    """A method's part in the loop of `invsamp.solvers.ode.integrators.adaptive_step`.

    Arrays: states y and z (m,) at both ends of a step, and stages k (rows, m) with the slope at its beginning in the
    first row. Coefficients q (powers, m) of the interpolant y + sum_r q_r x^(r + 1), and the result of ``workspace``.
    ``write`` writes the rows of out from ``first`` to ``last``; ``known`` says that the coefficients are there.
    """

    name: str
    order: int  # of the first step's estimate
    exponent: float  # of the error, with which the step's length goes
    stages: int  # evaluations of a step
    last: int  # row of k with the slope at the step's end, after `finish`
    rows: int  # of k
    powers: int  # of the interpolant
    workspace: Called  # (control, m) -> what is written to on the way; not compiled
    begin: Jitted  # (rhs, control, absolute, t, lower, upper, y, p, k, q, space) -> bound on steps from y
    attempt: Jitted  # (rhs, control, absolute, t, h, lower, upper, y, p, k, z, q, space) -> error in tolerances
    interpolate: Jitted  # (rhs, control, t, h, lower, upper, y, p, k, z, q, space): coefficients q of an accepted step
    extra: int  # evaluations that it takes
    finish: Jitted  # (n, h, k, q): the slope at the step's end to k[last]; None: it is there
    write: Jitted  # (rhs, control, absolute, first, last, t, h, lower, upper, times, y, p, k, z, q, space, out, known)
    edge: Jitted  # (control, h, y, z, k, q, space) -> h |lambda| in units of the edge of stability; None: there is none
