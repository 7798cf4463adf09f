r"""Contour targets: a rung whose histogram of energies is flattened, so that it crosses what lies between modes.

With bins of the energy U and their masses :math:`\Psi`, learned or given,

.. math:: v(u) = u / \tau + \zeta \log \Psi(u), \qquad \nabla v = v'(U) \nabla U,

:math:`\log \Psi` continuous and piecewise linear in u. Any :math:`\Psi` makes an exact target: its draws are the
posterior's by the weights :math:`e^{v(U) - U}`, and swaps with other rungs know it. How it is learned:
`invsamp.tempering.contour_learning`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, increasing, instance, integer, one_of, optional, real, store
from invsamp.evaluate.requests import Estimate, Memory
from invsamp.protocols import Array, Plain
from invsamp.stored import stored_dataclass
from invsamp.tempering.contour_learning import RANGE_STEPS, Gain, Learning, Range, hyperbolic, met, shares

#: Where log Psi is known: in the middle of each bin, or at its upper end, as published.
Placed = Literal["centers", "ends"]
#: By which weights draws stand for the posterior: those of v, or of the bin's mass as if Psi were constant in each.
Weighting = Literal["exact", "published"]
WEIGHTING: tuple[Weighting, ...] = ("exact", "published")
#: What is asked for, in messages.
GAIN = "a gain, as made by invsamp.tempering.gain(...)"


def contour(
    energy_bins: npt.ArrayLike | int = 24,
    log_psi: npt.ArrayLike | None = None,
    zeta: float = 1.0,
    *,
    max_temperature: float = 10.0,
    gain: Gain | None = None,
) -> Contour:
    r"""A target that is flat in the energy, or partly so, from the posterior's energies to those of a hotter target.

    :math:`\log \Psi` is linear between ``energy_bins``, each the middle of a bin of energies (bins end half-way between
    them). Below the first v has slope 1, the posterior's, and above the last 1 / T, that of the hottest temperature. It
    is learned in warm-up by all chains of the rung together, and frozen after. Needs exact energies.

    Parameters
    ----------
    energy_bins : array_like of float (m,), m >= 3, or int
        Rising energies, the knots. A number of knots: their energies are found in the first 200 steps of warm-up, half
        of them at the posterior's temperature and half at the hottest.
    log_psi : array_like of float (m,), optional
        Values at the knots, up to a constant; then nothing is learned. By default v begins with the slope of a
        Gaussian's, from 1 at the first knot to 1 / T at the last.
    zeta : float, > 0
        :math:`\zeta`. 1: all bins are visited alike. Less: in proportion to :math:`\Psi^{1 - \zeta}`. 0 would be the
        posterior.
    max_temperature : float, > 1
        T, at which modes are to be connected: as of the hottest rung of a ladder.
    gain : Gain, optional
        Of what is learned. Default: the number of bins over that of the steps, at most 1/2.

    Raises
    ------
    ValueError
        If a number is out of range, knots do not rise, or there are values without knots.

    References
    ----------
    Deng, Lin and Liang (2020), "A contour stochastic gradient Langevin dynamics algorithm for simulations of
    multi-modal distributions", NeurIPS, eq. (5), with knots in the middle of bins, the weights that belong to the
    continuous Psi, and another way to learn it.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.tempering.contour([1.0, 2.0, 5.0]))
    contour (3 knots from 1 to 5)
    """
    learning = Learning(gain=optional(instance, "gain", gain, Gain, GAIN))
    if isinstance(energy_bins, int | np.integer) or not np.iterable(energy_bins):
        number = integer("energy_bins", energy_bins, least=3, also=", or rising energies")
        if log_psi is not None:
            raise ValueError(f"log_psi must be None where knots are found in warm-up, got {log_psi!r}")
        return Contour(number, zeta=zeta, max_temperature=max_temperature, learning=learning)
    target = Contour(
        tuple(increasing("energy_bins", energy_bins).tolist()),
        zeta=zeta,
        max_temperature=max_temperature,
        learning=learning,
    )
    return target if log_psi is None else target.frozen(log_psi)


@stored_dataclass
class Contour:
    r"""A contour target. Made by `contour`, and by the presets of the literature.

    Parameters
    ----------
    energy_bins : tuple of float, or int
        Energies at which log Psi is known: the middles of m bins, or with ``placed="ends"`` the m - 1 upper ends of all
        but the last.
    log_psi : tuple of float (m,), optional
        Of each bin.
    zeta, temperature : float, > 0
        :math:`\zeta` and :math:`\tau`.
    max_temperature : float
        1 / the slope of v above the last knot. Below the first it is :math:`1 / \tau`.
    placed : "centers" or "ends"
        "ends": as published, :math:`\log \Psi = \log \theta_i` at the upper end of bin i, constant in the first and the
        last one.
    weighting : "exact" or "published"
        The log weights :math:`v(U) - U`, or :math:`\zeta \log \theta_J + U / \tau - U`, which belong to no continuous
        Psi.
    learning : Learning, optional
        None: nothing is learned.
    extrapolated : bool
        Whether the slope above the last end is that of the masses of the last two bins, as published for an increasing
        Psi, which decreases from there; one that decreases would drive chains away.
    """

    energy_bins: tuple[float, ...] | int
    log_psi: tuple[float, ...] | None = None
    zeta: float = 1.0
    temperature: float = 1.0
    max_temperature: float = 10.0
    placed: Placed = "centers"
    weighting: Weighting = "exact"
    learning: Learning | None = field(default_factory=Learning)
    extrapolated: bool = False
    factors: ClassVar[None] = None
    needs_prior: ClassVar[bool] = False

    def __post_init__(self) -> None:
        store(
            self,
            zeta=real("zeta", self.zeta, above=0),
            temperature=real("temperature", self.temperature, above=0),
            max_temperature=real("max_temperature", self.max_temperature, above=0),
        )
        one_of("weighting", self.weighting, WEIGHTING)
        if self.placed == "centers" and not self.max_temperature > self.temperature:
            raise ValueError(
                f"max_temperature must be above the temperature {self.temperature:g}, got {self.max_temperature:g}"
            )
        if not isinstance(self.energy_bins, int) and len(self.energy_bins) < 3:
            raise ValueError(f"energy_bins must be at least three energies, got {self.energy_bins}")

    def __str__(self) -> str:
        zeta = "" if self.zeta == 1.0 else f", zeta {self.zeta:g}"
        hot = "" if self.temperature == 1.0 else f", T = {self.temperature:.3g}"
        if isinstance(self.energy_bins, int):
            return f"contour ({self.energy_bins} knots up to T = {self.max_temperature:.3g}{zeta}{hot})"
        low, high = self.energy_bins[0], self.energy_bins[-1]
        return f"contour ({len(self.energy_bins)} knots from {low:.4g} to {high:.4g}{zeta}{hot})"

    @property
    def step_scale(self) -> float:
        """The temperature, as of a tempered target: published step sizes are those of U."""
        return self.temperature

    @property
    def bins(self) -> int:
        """m."""
        if isinstance(self.energy_bins, int):
            return self.energy_bins
        return len(self.energy_bins) + (self.placed == "ends")

    @property
    def together(self) -> bool:
        """Whether the target is one for all chains."""
        return self.learning is None or self.learning.shared

    @property
    def least_warmup(self) -> int:
        """Steps of warm-up that it needs."""
        return 5 * RANGE_STEPS if isinstance(self.energy_bins, int) else 0

    def frozen(self, log_psi: npt.ArrayLike) -> Contour:
        """The same target with known log masses (m,), which learns nothing."""
        values = tuple(array("log_psi", log_psi, (self.bins,)).tolist())
        return replace(self, log_psi=values, learning=None)

    def init(self) -> Memory:
        """Knots (NaN until they are found), log masses, and what was counted of the draws."""
        found = isinstance(self.energy_bins, int)
        knots = np.full(self.energy_bins, np.nan) if isinstance(self.energy_bins, int) else np.array(self.energy_bins)
        return {
            "knots": knots,
            "log_psi": np.zeros((1, self.bins)) if found else self._begun(knots),
            "range": Range.begun(),
            "hot": np.asarray(False),
            "since": np.asarray(0),
            "mode_occupancy": np.zeros(self.bins),
            "end": np.zeros(0, dtype=np.int64),
            "crossings": np.zeros(0, dtype=np.int64),
        }

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,)."""
        energy, tau = estimate.energy, self.temperature
        if np.isnan(memory["knots"][0]):
            return np.asarray(energy / self._searching(memory))
        knots, values = self._table(memory)
        inner = np.minimum(energy, knots[-1])
        rest = energy - inner  # infinite where a solve failed
        above = self._above(memory)[_rows(memory["log_psi"], energy), 0]
        return np.asarray(inner / tau + self.zeta * _interpolated(inner, knots, values) + rest * above)

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v (chains, d)."""
        return self.slope(estimate, memory)[:, None] * estimate.gradient

    def slope(self, estimate: Estimate, memory: Memory) -> Array:
        """v'(U) (chains,), the inverse temperature where each chain is; negative where it is driven uphill."""
        energy = estimate.energy
        if np.isnan(memory["knots"][0]):
            return np.full(len(energy), 1.0 / self._searching(memory))
        knots, values = self._table(memory)
        inner = 1.0 / self.temperature + self.zeta * np.diff(values, axis=1) / np.diff(knots)
        ends = np.ones((len(values), 1))
        slopes = np.concatenate([ends / self.temperature, inner, self._above(memory)], axis=1)
        return np.asarray(slopes[_rows(slopes, energy), np.searchsorted(knots, energy)])

    def step_factor(self, estimate: Estimate, memory: Memory) -> Array:
        """How much longer steps may be where each chain is (chains,), as v is flatter there: from 1 to T / tau."""
        tau = self.temperature
        return np.asarray(1.0 / np.clip(tau * self.slope(estimate, memory), tau / self.max_temperature, 1.0))

    def updated(self, memory: Memory, estimate: Estimate, iteration: int, warming: bool) -> Memory:
        """Memory after one more step, by which it learns; after warm-up it counts."""
        energy = estimate.energy
        if np.isnan(memory["knots"][0]):
            return self._searched(memory, energy, iteration, warming)
        at = self.bin_of(energy, memory["knots"])
        if not warming:
            memory = self._counted(memory, at)
        if self.learning is None or not (warming or self.learning.forever):
            return memory
        log_psi = memory["log_psi"]
        if not self.learning.shared and len(log_psi) != len(at):
            log_psi = np.repeat(log_psi, len(at), axis=0)
        new = self.learning.step(log_psi, self.zeta, at, iteration - int(memory["since"]))
        return memory | {"log_psi": new}

    def log_weight(self, estimate: Estimate, memory: Memory) -> Array | None:
        """Log weights (chains,)."""
        if self.weighting == "exact" or np.isnan(memory["knots"][0]):
            return np.asarray(self.energy(estimate, memory) - estimate.energy)
        at, log_psi = self.bin_of(estimate.energy, memory["knots"]), memory["log_psi"]
        own = log_psi[_rows(log_psi, estimate.energy), at]
        return np.asarray(self.zeta * own + estimate.energy * (1.0 / self.temperature - 1.0))

    def bin_of(self, energy: Array, knots: Array) -> npt.NDArray[np.intp]:
        """Bin of each energy (chains,), from 0."""
        ends = knots if self.placed == "ends" else 0.5 * (knots[1:] + knots[:-1])
        return np.searchsorted(ends, energy)

    def report(self, memory: Memory) -> Plain:
        """Report of the bins, of the learned function, and of the counts of the draws."""
        wanted = shares(memory["log_psi"], self.zeta).mean(axis=0)
        ratio = memory["mode_occupancy"] / np.maximum(wanted, 1e-300)
        judged = self.learning is None or self.learning.field in ("log", "csgld")
        return {
            "knots": memory["knots"].tolist(),
            "log_psi": memory["log_psi"].tolist(),
            "mode_occupancy": memory["mode_occupancy"].tolist(),
            "least_over_most": float(ratio.min() / max(ratio.max(), 1e-300)) if judged else None,
            "energy_round_trips": int((memory["crossings"] // 2).sum()),
        }

    def _above(self, memory: Memory) -> Array:
        """Slopes (1 or chains, 1) above the last knot."""
        knots, log_psi = memory["knots"], memory["log_psi"]
        if self.extrapolated:
            rise = (log_psi[:, -1:] - log_psi[:, -2:-1]) / (knots[-1] - knots[-2])
            return np.asarray(1.0 / self.temperature + self.zeta * rise)
        return np.full((len(log_psi), 1), 1.0 / (self.temperature if self.placed == "ends" else self.max_temperature))

    def _begun(self, knots: Array) -> Array:
        if self.log_psi is not None:
            return np.array(self.log_psi)[None]
        if self.placed == "ends":
            assert self.learning is not None
            return self.learning.begun(self.bins)
        return self._started(knots, hyperbolic(knots, (knots[0], knots[-1]), self.max_temperature / self.temperature))

    def _started(self, knots: Array, value: Array) -> Array:
        """Log masses (1, m) with which v is ``value`` at the knots."""
        log_psi = (value - (knots - knots[0])) / (self.zeta * self.temperature)
        return np.asarray((log_psi - log_psi.max())[None])

    def _table(self, memory: Memory) -> tuple[Array, Array]:
        """Where log Psi is known, and its values there (1 or chains, knots)."""
        log_psi = memory["log_psi"]
        return memory["knots"], log_psi[:, :-1] if self.placed == "ends" else log_psi

    def _searching(self, memory: Memory) -> float:
        """Temperature at which energies are sampled before there are knots."""
        return self.max_temperature if memory["hot"] else self.temperature

    def _searched(self, memory: Memory, energy: Array, iteration: int, warming: bool) -> Memory:
        if not warming:
            raise RuntimeError(f"warmup must be at least {self.least_warmup} steps to find the knots of {self}")
        sums = Range.step(memory["range"], energy, iteration)
        if iteration < 2 * RANGE_STEPS:
            return memory | {"range": sums, "hot": np.asarray(iteration >= RANGE_STEPS)}
        assert isinstance(self.energy_bins, int)
        knots, value = Range.found(sums, self.max_temperature, self.energy_bins)
        return memory | {
            "range": sums,
            "since": np.asarray(iteration),
            "knots": knots,
            "log_psi": self._started(knots, value),
        }

    def _counted(self, memory: Memory, at: npt.NDArray[np.intp]) -> Memory:
        """Visits of bins, and crossings from the lower quarter of the bins to the upper one, and back."""
        if len(memory["end"]) != len(at):
            memory = memory | {"end": np.full(len(at), -1), "crossings": np.zeros(len(at), dtype=np.int64)}
        quarter = max(1, self.bins // 4)
        end = np.where(at < quarter, 0, np.where(at >= self.bins - quarter, 1, -1))
        before = memory["end"]
        crossed = (end >= 0) & (before >= 0) & (end != before)
        return memory | {
            "mode_occupancy": memory["mode_occupancy"] + met(at, self.bins).sum(axis=0),
            "end": np.where(end >= 0, end, before),
            "crossings": memory["crossings"] + crossed,
        }


def published(
    ends: npt.ArrayLike, learning: Learning, *, zeta: float, temperature: float, weighting: Weighting
) -> Contour:
    """A published contour sampler's target: theta(i) at the upper end of bin i; in the top bin the multiplier is 1, but
    for AWSGLD's, whose theta increases."""
    energies = tuple(increasing("ends", ends).tolist())
    if len(energies) < 3:
        raise ValueError(f"ends must be at least three energies, got {energies}")
    one_of("weights", weighting, WEIGHTING)
    return Contour(
        energies, None, zeta, temperature, temperature, "ends", weighting, learning, learning.field == "awsgld"
    )


def _rows(table: Array, energy: Array) -> npt.NDArray[np.intp] | int:
    """The row of each chain in a table of all chains, or the one row that is there."""
    if len(table) == 1:
        return 0
    if len(table) != len(energy):
        raise ValueError(f"each of the {len(table)} chains has its own target: energies must be one for each of them")
    return np.arange(len(energy))


def _interpolated(energy: Array, knots: Array, values: Array) -> Array:
    """Values (1 or chains, k), linear between knots (k,) and constant outside, at energies (chains,)."""
    if len(values) == 1:
        return np.asarray(np.interp(energy, knots, values[0]))
    rows = _rows(values, energy)
    right = np.clip(np.searchsorted(knots, energy), 1, len(knots) - 1)
    share = np.clip((energy - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
    return np.asarray((1.0 - share) * values[rows, right - 1] + share * values[rows, right])
