r"""The pairs of Dormand and Prince with their interpolants, as tables: 5(4), and 8(5, 3), which is DOP853.

The coefficients are those of SciPy's ``RK45`` and ``DOP853``. The former are those of Dormand and Prince (1980, Table
2) with local extrapolation and the quartic interpolant of Shampine (1986). The latter are those of the Fortran code of
Hairer and Wanner (Solving Ordinary Differential Equations I, section II.5 and II.6, eq. (6.22) for the interpolant of
order 7). The former are written here, because `scipy.integrate` takes half a second to import. The latter are
taken from there on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from invsamp.solvers.foreign import Given
from invsamp.solvers.ode.integrators.explicit_rk import Row, Tableau, sparse

#: Weights of the fifth-order solution, and of its quartic interpolant: of each power of x those of the stages.
_WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_POWERS = (
    (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (
        *(-8048581381 / 2820520608, 0.0, 131558114200 / 32700410799, -1754552775 / 470086768),
        *(127303824393 / 49829197408, -282668133 / 205662961, 40617522 / 29380423),
    ),
    (
        *(8663915743 / 2820520608, 0.0, -68118460800 / 10900136933, 14199869525 / 1410260304),
        *(-318862633887 / 49829197408, 2019193451 / 616988883, -110615467 / 29380423),
    ),
    (
        *(-12715105075 / 11282082432, 0.0, 87487479700 / 32700410799, -10690763975 / 1880347072),
        *(701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423),
    ),
)
#: The pair of order 5.
FIVE = Tableau(
    order=5,
    nodes=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    stages=[
        sparse(row)
        for row in (
            (),
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
            _WEIGHTS,
        )
    ],
    extra_nodes=(),
    extra_stages=(),
    errors=[sparse((-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40))],
    interpolant=[sparse(row) for row in _POWERS],
    most_stable=3.25,
)


@cache
def eight() -> Tableau:
    """The pair of order 8."""
    from scipy.integrate import DOP853  # slow to import

    return Tableau(
        order=8,
        nodes=(*DOP853.C.tolist(), 1.0),
        stages=[sparse(row) for row in (*DOP853.A, DOP853.B)],
        extra_nodes=DOP853.C_EXTRA.tolist(),
        extra_stages=[sparse(row) for row in DOP853.A_EXTRA],
        errors=[sparse(DOP853.E5), sparse(DOP853.E3)],
        interpolant=_interpolant(DOP853.B, DOP853.D),
        most_stable=6.1,
    )


def _interpolant(solution: Given, others: Given) -> list[Row]:
    """The nested form y + x (F_0 + (1 - x) (F_1 + x (F_2 + ...))) of DOP853 as rows of powers of x."""
    weights, stages = np.append(solution, np.zeros(4)), np.eye(16)
    nested = [weights, stages[0] - weights, 2 * weights - stages[0] - stages[12], *others]
    powers = np.zeros((8, 16))
    for depth, row in reversed(list(enumerate(nested))):
        powers[0] += row
        shifted = np.roll(powers, 1, axis=0)
        powers = shifted if depth % 2 == 0 else powers - shifted
    return [sparse(row) for row in powers[1:]]


#: From the name of a method to what makes its table.
TABLES: dict[str, Callable[[], Tableau]] = {"RK45": lambda: FIVE, "DOP853": eight}
