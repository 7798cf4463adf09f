"""Taylor test: is a potential's gradient the gradient of its energy?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invsamp.protocols import Array, Potential, derivative_error

#: A fitted order above this is a right gradient, whose remainder has order 2; a wrong one has order 1.
LEAST_ORDER = 1.8
#: Rounding in a solve may leave that much of the slope, and fall with the step as a mistake does.
RESOLUTION = 1e-6
#: Noise of an energy, in units of its size, above which rounding in double precision is not what it is.
SINGLE = 1e-11
#: Relative error of a slope up to which derivatives pass where noise hides the order.
HIDDEN = 5e-3
#: Of derivatives that failed.
CLAIM = (
    ", and the model claims exact derivatives; approximate ones say so by derivative_error (approximate_derivatives)"
)


@dataclass(frozen=True)
class GradientCheck:
    """Result of a Taylor test along one direction v from one position.

    Attributes
    ----------
    steps : tuple of float
        Lengths h along v, decreasing.
    remainders : tuple of float
        ``|U(position + h v) - U(position) - h v . gradient|``; inf where the energy is not finite.
    order : float
        Slope of log remainder against log h over the smallest steps above the rounding error; 2 for a
        right gradient, 1 for a wrong one; NaN if it cannot be told.
    relative_error : float
        Part of the slope that the gradient misses at the best steps: small for a right gradient, about the
        tolerance for sensitivities of an adaptive solver; NaN if it cannot be told.
    admitted : float
        The relative error that the derivatives admit, by ``derivative_error`` of the model; 0: exact, to rounding.
    passed : bool
        Order above 1.8, or an energy so straight that all remainders are rounding error, or a relative error no larger
        than the derivatives admit, or, where noise of single precision hides the order, of 0.005. The message tells of
        such noise.
    message : str
        The verdict in words.
    """

    steps: tuple[float, ...]
    remainders: tuple[float, ...]
    order: float
    relative_error: float
    admitted: float
    passed: bool
    message: str

    def __str__(self) -> str:
        rows = [f"{step:10.2e}  {remainder:10.3e}" for step, remainder in zip(self.steps, self.remainders, strict=True)]
        verdict = "passed" if self.passed else "FAILED"
        return "\n".join([f"Taylor test {verdict}: {self.message}", "      step   remainder", *rows])


def check_gradient(potential: Potential, position: Array, direction: Array) -> GradientCheck:
    """Taylor test of ``potential`` at ``position`` (dimension,) along ``direction`` (dimension,).

    Nothing is raised for energies that are not finite: the result says so.
    """
    admitted = derivative_error(potential)
    steps = 10.0 ** np.arange(0.0, -8.25, -0.5)
    energy, gradient = (part[0].copy() for part in potential.energy_and_gradient(position[None, :].copy()))
    if not math.isfinite(energy):
        remainders = tuple(math.inf for _ in steps)
        message = f"the energy is {energy} at the point"
        return GradientCheck(tuple(steps.tolist()), remainders, math.nan, math.nan, admitted, False, message)
    moved = potential.energy(position + steps[:, None] * direction)
    if not np.isfinite(moved[-1]):
        # the point lies at a wall: look the other way
        direction = -direction
        moved = potential.energy(position + steps[:, None] * direction)
    remainders = np.abs(moved - energy - steps * (gradient @ direction))
    rounding = 10.0 * np.finfo(float).eps * max(abs(energy), 1.0)
    # by the length of the slope's parts: the slope itself may vanish by chance
    slope = float(np.linalg.norm(gradient * direction))
    order, passed, message = _judge(steps, remainders, rounding, RESOLUTION * slope)
    # the third smallest: below it the first and second order may cancel by chance at one step
    error = float(np.sort(remainders / steps)[2]) / slope if slope > 0.0 else math.nan
    if not passed and (noise := _noise(potential, position, direction)) > SINGLE * max(abs(energy), 1.0):
        order, passed, message = _judge(steps, remainders, 10.0 * noise, RESOLUTION * slope)
        passed = passed or (error <= HIDDEN and not 0.8 < order < 1.2)
        message += f", as far as the energy's noise of {noise:.1e} lets see (single precision? double shows more)"
    message += f"; the slope is right to {error:.1e} of itself"
    if not passed and math.isfinite(order):
        passed = error <= admitted
        message += f", of which the model admits {admitted:.1e}" if admitted else CLAIM
    return GradientCheck(tuple(steps.tolist()), tuple(remainders.tolist()), order, error, admitted, passed, message)


def _noise(potential: Potential, position: Array, direction: Array) -> float:
    """Sd of what is not smooth in the energy, by sixth differences at points next to each other; NaN if some fail.

    References
    ----------
    Moré and Wild (2011), SIAM J. Sci. Comput. 33, 1292, section 2.
    """
    spacing = 1e-6 * max(1.0, float(np.abs(position).max()))  # of many units of single precision
    energies = potential.energy(position + spacing * np.arange(13.0)[:, None] * direction)
    with np.errstate(invalid="ignore"):
        return math.sqrt(float((np.diff(energies, 6) ** 2).mean()) / math.comb(12, 6))


def _judge(steps: Array, remainders: Array, rounding: float, rate: float) -> tuple[float, bool, str]:
    finite = np.isfinite(remainders)
    if not finite[-3:].all():
        return math.nan, False, "the energy is not finite next to the point"
    if np.all(remainders[finite] <= rounding):
        return math.nan, True, "the energy is straight along the direction, and the gradient is its slope"
    # a wrong gradient shows at the smallest steps above rounding, where the first-order part is all that is left
    tail = np.flatnonzero(finite & (remainders > np.maximum(3.0 * rounding, rate * steps)))[-4:]
    rates = remainders[tail] / steps[tail]
    if len(tail) == 4 and rates.max() < 1.6 * rates.min():
        return _verdict(steps[tail], remainders[tail])
    # under a right one they leave rounding error, which may exceed the machine's (an adaptive solver)
    floor = 10.0 * max(float(remainders[-3:].max()), rounding)
    above = np.flatnonzero(finite & (remainders > floor))
    if len(above) < 3:
        return math.nan, False, "too few steps leave remainders above the rounding error of the energy"
    return _verdict(steps[above[-3:]], remainders[above[-3:]])


def _verdict(steps: Array, remainders: Array) -> tuple[float, bool, str]:
    order = float(np.polyfit(np.log(steps), np.log(remainders), 1)[0])
    if order > LEAST_ORDER:
        return order, True, f"the remainder falls with order {order:.2f}, as it does for a right gradient (2)"
    return order, False, f"the remainder falls with order {order:.2f} only; a right gradient gives 2, a wrong one 1"
