r"""The pairs of Dormand and Prince with their interpolants, as tables: 5(4), and 8(5, 3), which is DOP853.

The coefficients are those of SciPy's ``RK45`` and ``DOP853``. The former are those of Dormand and Prince (1980, Table
2) with local extrapolation and the quartic interpolant of Shampine (1986). The latter are those of the Fortran code of
Hairer and Wanner (Solving Ordinary Differential Equations I, section II.5 and II.6, eq. (6.22) for the interpolant of
order 7).
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import DOP853, RK45

from invsamp.solvers.ode.integrators.explicit_rk import Row, Tableau, sparse


def _interpolant() -> list[Row]:
    """The nested form y + x (F_0 + (1 - x) (F_1 + x (F_2 + ...))) of DOP853 as rows of powers of x."""
    weights, stages = np.append(DOP853.B, np.zeros(4)), np.eye(16)
    nested = [weights, stages[0] - weights, 2 * weights - stages[0] - stages[12], *DOP853.D]
    powers = np.zeros((8, 16))
    for depth, row in reversed(list(enumerate(nested))):
        powers[0] += row
        shifted = np.roll(powers, 1, axis=0)
        powers = shifted if depth % 2 == 0 else powers - shifted
    return [sparse(row) for row in powers[1:]]


FIVE = Tableau(
    order=5,
    nodes=(*RK45.C.tolist(), 1.0),
    stages=[sparse(row) for row in (*RK45.A, RK45.B)],
    extra_nodes=(),
    extra_stages=(),
    errors=[sparse(RK45.E)],
    interpolant=[sparse(column) for column in RK45.P.T],
    most_stable=3.25,
)
EIGHT = Tableau(
    order=8,
    nodes=(*DOP853.C.tolist(), 1.0),
    stages=[sparse(row) for row in (*DOP853.A, DOP853.B)],
    extra_nodes=DOP853.C_EXTRA.tolist(),
    extra_stages=[sparse(row) for row in DOP853.A_EXTRA],
    errors=[sparse(DOP853.E5), sparse(DOP853.E3)],
    interpolant=_interpolant(),
    most_stable=6.1,
)
