r"""The pair of Dormand and Prince, 5(4), with its interpolant, as a table.

Constants are those of SciPy's ``RK45``: Dormand and Prince (1980, Table 2) with local extrapolation, and the quartic
interpolant of Shampine (1986).
"""

from __future__ import annotations

import numpy as np

from invsamp.solvers.ode.integrators.explicit_rk import Tableau, sparse

_A = [
    [0, 0, 0, 0, 0, 0],
    [1 / 5, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
#: Weights of the stages in the error: fifth order minus fourth order, up to the sign.
_E = [-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40]
#: (stage, power - 1)
_P = [
    [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
    [0, 0, 0, 0],
    [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
    [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
    [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
    [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
    [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
]

TABLE = Tableau(
    order=5,
    nodes=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    stages=[sparse(row) for row in _A],
    extra_nodes=(),
    extra_stages=(),
    errors=[sparse(_E)],
    interpolant=[sparse(column) for column in np.array(_P).T],
    most_stable=3.25,
)
