"""Is a potential's gradient that of its energy? The answer that `check_gradient` of a posterior prints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invsamp.posing.checks.directional_derivative_test import AGREEMENT, LARGEST_MISS, Comparison, Probe
from invsamp.protocols import Array, Potential, derivative_error

#: Relative error up to which a slope is exact: rounding in a solve may leave that much.
EXACT = 1e-6
#: Noise of an energy, in units of its size, above which rounding in double precision is not what it is.
SINGLE_NOISE = 1e-11
#: Of derivatives that failed.
CLAIM = (
    ", and the model claims exact derivatives; approximate ones have to be declared by derivative_error "
    "(approximate_derivatives)"
)


@dataclass(frozen=True)
class GradientCheck:
    """The slope that a gradient g claims along one direction v, against differences of the energy.

    Attributes
    ----------
    steps : tuple of float
        Lengths h along v, decreasing.
    differences : tuple of float
        ``(U(position + h v) - U(position - h v)) / (2 h)``; NaN where an energy is not finite.
    slope : float
        ``g . v``, what they should be.
    relative_error : float
        The difference at the best step, relative to the slope, or to the norm of its parts ``g_i v_i`` if that is
        larger. It is small for a right gradient, and about the tolerance for sensitivities of an adaptive solver. inf
        if no difference is finite.
    admitted : float
        The relative error that the derivatives admit, by ``derivative_error`` of the model; 0: exact, to rounding.
    passed : bool
        Whether a difference agrees with the slope to 1e-6 and a few times what is admitted. Where the energy's noise or
        kinks hide more: whether one agrees to 0.005.
    message : str
        The verdict in words.
    """

    steps: tuple[float, ...]
    differences: tuple[float, ...]
    slope: float
    relative_error: float
    admitted: float
    passed: bool
    message: str

    def __str__(self) -> str:
        rows = [
            f"{h:10.2e}  {difference:15.8e}  {difference - self.slope:10.2e}"
            for h, difference in zip(self.steps, self.differences, strict=True)
        ]
        verdict = "passed" if self.passed else "FAILED"
        return "\n".join(
            [f"Gradient check {verdict}: {self.message}", "      step       difference     - slope", *rows]
        )


def check_gradient(potential: Potential, position: Array, direction: Array) -> GradientCheck:
    """The gradient of ``potential`` at ``position`` (dimension,) along ``direction`` (dimension,), as runs check it.

    Nothing is raised for energies that are not finite: the result says so.
    """
    admitted = derivative_error(potential)
    probe = Probe(potential, position)
    if not probe.usable:
        what = "energy" if not math.isfinite(probe.energy) else "gradient"
        message = f"the {what} is {getattr(probe, what)} at the point"
        return GradientCheck((), (), math.nan, math.inf, admitted, False, message)
    found = probe.compare(direction, admitted, EXACT)
    passed, message = _verdict(found, admitted, probe, direction)
    steps, differences = (tuple(column.tolist()) for column in (found.lengths, found.slopes))
    return GradientCheck(steps, differences, found.claimed, found.error, admitted, passed, message)


def _verdict(found: Comparison, admitted: float, probe: Probe, direction: Array) -> tuple[bool, str]:
    claims = f", of which the model admits {admitted:.1e}" if admitted else ""
    error = f"the slope {found.claimed:.6g} is right to {found.error:.1e} of itself"
    if found.met:
        return True, f"differences of the energy meet the gradient; {error}{claims}"
    if math.isinf(found.error):
        return False, "the energy is not finite next to the point, on both sides"
    if found.mistake is not None:
        converged = f"differences of the energy converge to another slope, {found.mistake.measured:.6g}"
        return False, f"{converged}; {error}{claims or CLAIM}"
    noise = _noise(probe, direction)
    if noise > SINGLE_NOISE * max(abs(probe.energy), 1.0):
        hidden = f"noise of {noise:.1e} (single precision? double shows more)"
    elif _contradicted(found, probe.energy):
        return False, f"{error}{claims or CLAIM}; differences of the energy change less, and do not confirm it"
    else:
        hidden = "rounding or kinks"
    return found.error <= LARGEST_MISS, f"{error}{claims}, as far as the energy's {hidden} allow a comparison"


def _contradicted(found: Comparison, energy: float) -> bool:
    """Whether two differences in a row agree far better than any of them does with the claimed slope."""
    missed = float(np.nanmin(np.abs(found.slopes - found.claimed)))
    resolved = found.lengths > 10.0 * np.finfo(float).eps * abs(energy) / missed
    changes = np.abs(np.diff(found.slopes[resolved]))
    return bool(changes[np.isfinite(changes)].min(initial=np.inf) < AGREEMENT * missed)


def _noise(probe: Probe, direction: Array) -> float:
    """Sd of what is not smooth in the energy, by sixth differences at points next to each other; NaN if some fail.

    References
    ----------
    Moré and Wild (2011), SIAM J. Sci. Comput. 33, 1292, section 2.
    """
    spacing = 1e-6 * max(1.0, float(np.abs(probe.position).max()))  # of many units of single precision
    energies = probe.potential.energy(probe.position + spacing * np.arange(13.0)[:, None] * direction)
    with np.errstate(invalid="ignore"):
        return math.sqrt(float((np.diff(energies, 6) ** 2).mean()) / math.comb(12, 6))
