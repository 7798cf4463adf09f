r"""The misfit that data have with the stated noise; computing it takes no solve.

Let :math:`D = \log p(y \mid y) - \log p(y \mid f)` be the misfit of a datum less its least value. If it has the same
distribution for every noise-free observation f (a location and a known scale), so has the sum over the data. For
Gaussian noise that is chi-squared over two. Let theta be a draw of the prior, the data one of the model, and
:math:`\bar D` the mean of D over the posterior. A draw of the posterior and the data have the same joint distribution
as theta and the data. So Jensen's inequality bounds every exponential moment of :math:`\bar D` by that of D, and
Markov's inequality bounds the tails. For any r > 0

.. math:: P(\bar D \ge t) \le e^{K(r) - r t}, \qquad K(r) = \log E\, e^{r D},

and likewise below with r < 0. That holds for any prior, model and number of data.

References
----------
Meng (1994), Annals of Statistics 22, 1142-1160, sections 4 and 5: posterior predictive checks are conservative in this
way. Chernoff (1952), Annals of Mathematical Statistics 23, 493-507.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.protocols import Array, ExpectedMisfit

#: How often a right model is below its range, and above it, at most: together once in a thousand runs.
RATE = 5e-4
#: Any rate gives a bound; the best of these is taken.
_SMALL, _LARGE = np.geomspace(1e-8, 0.5, 800), 1.0 - np.geomspace(1e-8, 0.5, 800)[:-1]
_ABOVE = np.concatenate([_SMALL, _LARGE[::-1]])
_BELOW = np.concatenate([_SMALL, np.geomspace(0.51, 1e4, 400)])


def expected(size: int, least: float, cumulant: Callable[[Array], Array]) -> ExpectedMisfit:
    """The range of the mean misfit over the posterior of ``size`` data, ``least`` where all are predicted exactly.

    ``cumulant`` is K of their sum at rates (n,), +inf where there is none.
    """
    small = 1e-4 / np.sqrt(size)
    minus, plus = cumulant(np.array([-small, small]))
    surprise = -np.log(RATE)
    high = float(np.min((cumulant(_ABOVE) + surprise) / _ABOVE))
    low = float(np.max((cumulant(-_BELOW) + surprise) / -_BELOW))
    mean, sd = (plus - minus) / (2.0 * small), np.sqrt(max(plus + minus, 0.0)) / small
    return ExpectedMisfit(size, least, float(mean), float(sd), max(low, 0.0), high)
