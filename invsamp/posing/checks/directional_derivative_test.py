r"""Whether a gradient is that of its energy, by few solves: the one judge, of runs and of `check_gradient`.

Along a direction v the gradient claims the slope :math:`g \cdot v`. It is compared with central differences

.. math:: D(h) = \frac{U(x + h v) - U(x - h v)}{2 h}

over many lengths h. A right gradient agrees with them for some h, whatever curvature and rounding do for the others. A
mistake is reported only if it is certain: if the differences converge to another slope over three decades of h. Noise,
jumps and kinks do not converge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array, Potential

#: A slope may miss by this part all the same: less biases draws by less than most runs can see.
LARGEST_MISS = 5e-3
#: Lengths that are tried first: at one of the two nearly all energies give their slope.
FIRST = (1e-3, 1e-5)
#: All lengths, for energies of other scales than were thought.
DECADES = tuple(10.0**-k for k in range(1, 12))
#: Differences have converged if three of them agree to this part of the gradient's error.
AGREEMENT = 0.1
#: Far out, approximate derivatives may be so many times worse than they admit.
SLACK = 3.0
#: An energy whose derivatives are approximate is as rough at shorter lengths: an adaptive solver changes its steps.
SMOOTH = 0.9e-4
#: Part of a position below which an energy in single precision sees no move, or noise alone. It settles there
#: on the slope of what is in double precision, a prior's.
SINGLE = 10.0 * float(np.finfo(np.float32).eps)
#: Lengths at which energies differ by their noise alone, if they have some.
NOISE_ALONE = 1e-6
#: Of the largest part of the slope, the least that `balanced` lifts the others to.
LEAST_PART = 1e-3
TINY = float(np.finfo(float).tiny)


class Mistake(NamedTuple):
    """A slope that is not that of the energy."""

    claimed: float
    measured: float
    length: float  # at which it was measured
    size: float  # of the slope's parts, or the measured slope if that is larger

    @property
    def error(self) -> float:
        """Error of the gradient, relative to the size."""
        return abs(self.claimed - self.measured) / self.size


class Comparison(NamedTuple):
    """A claimed slope, and central differences of the energy at some lengths."""

    lengths: Array  # (k,), decreasing
    slopes: Array  # (k,), NaN where an energy is not finite
    claimed: float
    error: float  # the least that the claimed slope misses, relative to the size; inf if no difference is finite
    met: bool  # whether it is that of the energy at some length
    mistake: Mistake | None  # what is wrong beyond doubt; None if nothing is, or nothing can be said


class Probe:
    """A potential at one position, counting what it solves.

    Parameters
    ----------
    potential : Potential
    position : array, shape (d,)
    inside : callable, optional
        Which of some positions (k, d) lie in the domain: mask (k,). All by default.

    Attributes
    ----------
    noise : float
        Sd of the energy's noise, as far as it has been seen: where no slope is met, and the same position gives another
        energy.
    """

    def __init__(
        self, potential: Potential, position: Array, inside: Callable[[Array], npt.NDArray[np.bool_]] | None = None
    ) -> None:
        self.potential, self.position, self._inside = potential, position, inside
        self.solves, self.noise = 1, 0.0
        self.energy, self.gradient = self._at_position()

    @property
    def usable(self) -> bool:
        """Whether energy and gradient are finite here."""
        return bool(np.isfinite(self.energy) and np.isfinite(self.gradient).all())

    def compare(self, direction: Array, admitted: float = 0.0, largest_miss: float = LARGEST_MISS) -> Comparison:
        """The claimed slope along a direction (d,) against differences of the energy.

        ``admitted`` is the relative error that the gradient admits, of a slope without the cancellation at a minimum.
        """
        claimed = float(self.gradient @ direction)
        parts = float(np.linalg.norm(self.gradient * direction))
        lengths, found, met = np.empty(0), np.empty((0, 2)), False
        for tried in (FIRST, DECADES):
            new = np.setdiff1d(tried, lengths)
            lengths, found = np.concatenate([lengths, new]), np.concatenate([found, self._sides(direction, new)])
            with np.errstate(all="ignore"):
                slopes = (found[:, 1] - found[:, 0]) / (2.0 * lengths)
                bends = np.abs(found.sum(axis=1) - 2.0 * self.energy) / lengths
                bent = np.where(np.isfinite(bends), bends, 0.0).max()
                sizes = np.maximum(parts, np.abs(slopes))
                missed = np.abs(slopes - claimed)
                met = bool((missed <= largest_miss * sizes + SLACK * admitted * np.maximum(sizes, bent)).any())
            if met:
                break
        order = np.argsort(-lengths)
        errors = missed[np.isfinite(missed)] / np.maximum(sizes[np.isfinite(missed)], TINY)
        result = Comparison(lengths[order], slopes[order], claimed, errors.min(initial=np.inf), met, None)
        if met:
            return result
        if self._reproducible(direction):
            order = order[lengths[order] > (SMOOTH if admitted else self._resolved(direction))]
            return result._replace(mistake=self._limit(lengths[order], found[order], slopes[order], claimed, parts))
        near = found[lengths <= NOISE_ALONE].ravel()
        self.noise = float(np.std(near[np.isfinite(near)])) if np.isfinite(near).sum() > 1 else 0.0
        return result

    def missed(self, direction: Array, length: float) -> float:
        """Error of the gradient, relative to the larger slope, in a direction in which parts of it do not cancel.

        In an arbitrary direction (d,) they cancel, and a gradient with half of each part missing may seem nearly right.
        """
        along = np.abs(direction) * np.sign(self.gradient)
        claimed, measured = float(self.gradient @ along), self.slope(along, length)
        return abs(claimed - measured) / max(abs(claimed), abs(measured), TINY)

    def slope(self, direction: Array, length: float) -> float:
        """The central difference of one length; NaN where it is not to be had."""
        below, above = self._sides(direction, np.array([length]))[0]
        return float((above - below) / (2.0 * length))

    def _resolved(self, direction: Array) -> float:
        """The length above which moves along a direction (d,) are resolved in single precision too."""
        return SINGLE * max(1.0, float(np.linalg.norm(self.position) / np.linalg.norm(direction)))

    def _limit(self, lengths: Array, found: Array, slopes: Array, claimed: float, parts: float) -> Mistake | None:
        """The slope on which three lengths in a row agree, the best such; None if there are none."""
        # an energy that does not change at all is below its own resolution, unless it changes nowhere
        still = (found == self.energy).all(axis=1)
        known = np.isfinite(slopes) & (~still | still.all())
        lengths, found, slopes = lengths[known], found[known], slopes[known]
        rounding = 10.0 * np.finfo(float).eps * np.abs(found).max(axis=1, initial=abs(self.energy)) / lengths
        best: tuple[float, int] | None = None
        for k in range(1, len(slopes) - 1):
            three = slopes[k - 1 : k + 2]
            spread, missed = float(np.ptp(three)), float(np.abs(three - claimed).min())
            decades = lengths[k - 1] / lengths[k + 1] >= 99.0
            conclusive = spread <= AGREEMENT * missed and missed > rounding[k + 1]
            if decades and conclusive and (best is None or spread < best[0]):
                best = spread, k
        if best is None or self._kinked(lengths, found, best[1], claimed):
            return None
        measured = float(slopes[best[1]])
        return Mistake(claimed, measured, float(lengths[best[1]]), max(parts, abs(measured)))

    def _kinked(self, lengths: Array, found: Array, k: int, claimed: float) -> bool:
        """Whether the slopes of the two sides stay apart, however short the lengths, with the claimed one between."""
        sides = np.stack([self.energy - found[:, 0], found[:, 1] - self.energy], axis=1) / lengths[:, None]
        gaps = np.abs(sides[:, 1] - sides[:, 0])
        margin = 0.01 * gaps[k + 1]
        between = sides[k + 1].min() - margin <= claimed <= sides[k + 1].max() + margin
        # of a smooth energy they close with the length
        return bool(between and gaps[k + 1] > 0.5 * gaps[k - 1])

    def _sides(self, direction: Array, lengths: Array) -> Array:
        """Energies below and above, shape (k, 2); NaN where there is none."""
        moves = lengths[:, None, None] * np.array([[-1.0], [1.0]]) * direction
        points = (self.position + moves).reshape(-1, len(direction))
        energies = np.full(len(points), np.nan)
        inside = np.full(len(points), True) if self._inside is None else self._inside(points)
        if inside.any():
            with np.errstate(all="ignore"):
                energies[inside] = self.potential.energy(np.ascontiguousarray(points[inside]))
            self.solves += int(inside.sum())
        return np.where(np.isfinite(energies), energies, np.nan).reshape(-1, 2)

    def _reproducible(self, direction: Array) -> bool:
        """Whether the same position gives the same again: what is random has no slope to be compared with."""
        energy, gradient = self._at_position()
        self.solves += 1
        return bool(energy == self.energy and gradient @ direction == self.gradient @ direction)

    def _at_position(self) -> tuple[float, Array]:
        with np.errstate(all="ignore"):
            energy, gradient = self.potential.energy_and_gradient(self.position[None, :].copy())
        return float(energy[0]), np.array(gradient[0], dtype=float)


def balanced(gradient: Array, direction: Array) -> Array:
    """A direction (d,) shortened where the gradient is large, so that no part of the slope hides the others."""
    parts = np.abs(gradient * direction)
    wanted = LEAST_PART * parts.max(initial=0.0)
    return np.asarray(direction * (wanted / np.maximum(parts, wanted))) if wanted else direction


def blame(probe: Probe, direction: Array, length: float) -> tuple[int, Mistake]:
    """The coordinate that a mistake along a direction (d,) is in, or most of it, and the mistake there."""
    columns = np.flatnonzero(direction)
    while len(columns) > 1:
        halves = np.array_split(columns, 2)
        columns = max(halves, key=lambda half: _missed(probe, _only(direction, half), length))
    alone = _only(direction, columns)
    claimed, measured = float(probe.gradient @ alone), probe.slope(alone, length)
    unit = float(direction[columns[0]])
    return int(columns[0]), Mistake(
        claimed / unit, measured / unit, length, max(abs(claimed), abs(measured), TINY) / abs(unit)
    )


def _only(direction: Array, columns: npt.NDArray[np.intp]) -> Array:
    alone = np.zeros_like(direction)
    alone[columns] = direction[columns]
    return alone


def _missed(probe: Probe, direction: Array, length: float) -> float:
    missed = abs(float(probe.gradient @ direction) - probe.slope(direction, length))
    return missed if np.isfinite(missed) else 0.0
