"""Taylor test: is a potential's gradient the gradient of its energy?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invsamp.contract import Array, Potential

#: A fitted order above this is a right gradient, whose remainder has order 2; a wrong one has order 1.
LEAST_ORDER = 1.8
#: A gradient off by less than this part passes all the same: an adaptive solver's energy and its sensitivities agree
#: to its tolerance only, while a mistake in a derivative is seldom that small.
LARGEST_ERROR = 1e-3


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
    passed : bool
        Order above 1.8, or an energy so straight that all remainders are rounding error, or a relative error
        below 1e-3.
    message : str
        The verdict in words.
    """

    steps: tuple[float, ...]
    remainders: tuple[float, ...]
    order: float
    relative_error: float
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
    steps = 10.0 ** np.arange(0.0, -8.25, -0.5)
    energy, gradient = (part[0].copy() for part in potential.energy_and_gradient(position[None, :].copy()))
    if not math.isfinite(energy):
        remainders = tuple(math.inf for _ in steps)
        return GradientCheck(
            tuple(steps.tolist()), remainders, math.nan, math.nan, False, f"the energy is {energy} at the point"
        )
    moved = potential.energy(position + steps[:, None] * direction)
    if not np.isfinite(moved[-1]):
        # the point lies at a wall: look the other way
        direction = -direction
        moved = potential.energy(position + steps[:, None] * direction)
    remainders = np.abs(moved - energy - steps * (gradient @ direction))
    rounding = 10.0 * np.finfo(float).eps * max(abs(energy), 1.0)
    order, passed, message = _judge(steps, remainders, rounding)
    # by the length of the slope's parts: the slope itself may vanish by chance
    slope = float(np.linalg.norm(gradient * direction))
    # the third smallest: below it the first and second order may cancel by chance at one step
    error = float(np.sort(remainders / steps)[2]) / slope if slope > 0.0 else math.nan
    if math.isfinite(order) and error < LARGEST_ERROR:
        passed = True
    message += f"; the slope is right to {error:.1e} of itself"
    return GradientCheck(tuple(steps.tolist()), tuple(remainders.tolist()), order, error, passed, message)


def _judge(steps: Array, remainders: Array, rounding: float) -> tuple[float, bool, str]:
    finite = np.isfinite(remainders)
    if not finite[-3:].all():
        return math.nan, False, "the energy is not finite next to the point"
    if np.all(remainders[finite] <= rounding):
        return math.nan, True, "the energy is straight along the direction, and the gradient is its slope"
    # a wrong gradient shows at the smallest steps, where the remainder's first-order part is all that is left
    ratios = remainders[-5:-1] / np.maximum(remainders[-4:], rounding / 10.0)
    if np.all((ratios > 2.0) & (ratios < 5.0)):
        return _verdict(steps[-5:], remainders[-5:])
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
