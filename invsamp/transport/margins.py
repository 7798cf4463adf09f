r"""Increasing functions of one coordinate whose tails are Student's, on either side with an index of its own.

Wallace's approximation of the quantiles of Student's distribution of :math:`\nu` degrees of freedom at those of a
normal one is, in units in which its slope at 0 is 1,

.. math:: t(z) = \pm b\,\sqrt{e^{z^2 / b^2} - 1}, \qquad b = \frac{8\nu + 1}{8\nu + 3} \sqrt{\nu}

(Wallace 1959, "Bounds on normal approximations to Student's and the chi-square distributions", Annals of Mathematical
Statistics 30, 1121-1130; Johnson, Kotz and Balakrishnan 1995, volume 2, eq. (28.29)). Function, slope and its
derivative are continuous where sides of different indices meet. The inverse and the derivative are closed, so a map
that is made of it is exact however good the approximation is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array

#: Tail indices 1 / nu below this are normal: the function is the identity there.
NORMAL = 1e-6
#: z^2 / b^2 up to which its exponential is taken: a value is e^300 then.
_LARGEST = 600.0
#: Least distance from 0 at which quotients are formed.
_NEAR = 1e-150


Mask = npt.NDArray[np.bool_]


class Stretched(NamedTuple):
    """Values t(z), the log of the derivative there, and the derivative of that log."""

    value: Array
    log_slope: Array
    bend: Array


def stretched(z: Array, left: Array, right: Array) -> Stretched:
    """The function at z (n, d), with tail indices 1 / nu (d,) on the left and on the right."""
    if not (left > NORMAL).any() and not (right > NORMAL).any():
        return Stretched(z, np.zeros_like(z), np.zeros_like(z))
    student, b = _width(z > 0.0, left, right)
    size = np.maximum(np.abs(z), _NEAR) / b
    power = np.minimum(size * size, _LARGEST)
    value = np.sqrt(np.expm1(power))
    log_slope = np.log(size / value) + power
    # 1 / (1 - e^-p) - 1 / p, by its series where that would cancel
    small, large = np.minimum(power, 0.01), np.maximum(power, 0.01)
    series = 0.5 + small / 12.0 - small**3 / 720.0
    excess = np.where(power < 0.01, series, -1.0 / np.expm1(-large) - 1.0 / large)
    bend = np.sign(z) * size / b * (2.0 - excess)
    return Stretched(
        np.where(student, np.sign(z) * b * value, z), np.where(student, log_slope, 0.0), np.where(student, bend, 0.0)
    )


def shrunk(t: Array, left: Array, right: Array) -> Array:
    """The inverse at t (n, d)."""
    if not (left > NORMAL).any() and not (right > NORMAL).any():
        return t
    student, b = _width(t > 0.0, left, right)
    size = np.abs(t) / b
    # by hypot far out, where the square would overflow
    log = np.where(size < 1.0, np.log1p(np.square(np.minimum(size, 1.0))), 2.0 * np.log(np.hypot(1.0, size)))
    return np.where(student, np.sign(t) * b * np.sqrt(log), t)


def _width(positive: Mask, left: Array, right: Array) -> tuple[Mask, Array]:
    """Which entries have Student's tails, and b of each."""
    index = np.where(positive, right, left)
    nu = 1.0 / np.maximum(index, NORMAL)
    return index > NORMAL, (8.0 * nu + 1.0) / (8.0 * nu + 3.0) * np.sqrt(nu)
