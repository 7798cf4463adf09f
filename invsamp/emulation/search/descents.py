"""Search for modes: local optimizations that follow no gradients, several at once, on shared simulations.

Each descent is a Gauss-Newton method within a trust region. Its model is a regression on the simulations of all
descents, and later an emulator of the nearest ones. It begins with differences of its own where simulations of the
prior do not explain each other. One wave of simulations is one step of all descents. A descent ends
where its model promises no more, or at a mode that another one has found. Compare DFO-LS, which takes one
descent at a time, with simulations of its own: Cartis, Fiala, Marteau and Roberts (2019), ACM Transactions on
Mathematical Software 45, article 32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.emulator.outputs import OutputScale, output_scale
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.emulation.search.local_emulator import local_energy
from invsamp.emulation.search.local_model import LinearModel, energy_of, laplace, minimized, regressed
from invsamp.emulation.search.minima import Minimum, met
from invsamp.emulation.search.search_points import energies, spread_of
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.protocols import Array

#: First and least half-width of a trust region, and the widest, in prior sds.
FIRST, LEAST, WIDEST = 1.0, 0.01, 2.0
#: A descent ends where its model promises less than this, in energy, twice.
PROMISE = 0.5
#: Share of the energy above a mode to which its model has to know the energy of a point that is one of the mode's.
AGREEMENT = 0.1
#: A regression is poor if simulations say less about a direction than one this many steps away would.
POOR = 2.0
#: Steps by regressions, and steps of a descent at most.
REGRESSIONS, STEPS = 4, 50
#: Distance, in prior sds, below which an unknown of the noise is at its bound.
AT_BOUND = 1e-3
#: A descent is given up that is so far above the lowest one, and gains less than this share of it in three steps.
HIGH, SLOW = 20.0, 0.2
#: Simulations are shared from the start if they explain more than this share of each other's outputs. Otherwise each
#: descent begins with derivatives of its own: by steps so long, in prior sds, with at most that share of the budget.
EXPLAINED, STEP, SHARE = 0.1, 0.02, 1 / 3


@dataclass
class Descent:
    """One local optimization.

    Attributes
    ----------
    position : ndarray, shape (dimension,)
        The best so far.
    coordinates, eta : ndarray, shape (p,), (m,)
        Inputs and outputs there.
    energy : float
    radius : float
        Half-width of the trust region, in prior sds.
    ended : str
        "" until it has: "down" at a minimum, "met" another one, "high" above others, "limit" of steps.
    """

    position: Array
    coordinates: Array
    eta: Array
    energy: float
    radius: float = FIRST
    ended: str = ""
    aside: bool = False
    length: float = 0.3
    promised: float = np.inf
    kept: int = 0
    covariance: Array | None = None
    weakest: Array = field(default_factory=lambda: np.empty(0))
    history: list[float] = field(default_factory=list)


class Descents:
    """Local optimizations on shared simulations.

    Parameters
    ----------
    simulations : Simulations
    scale : OutputScale
    prior : ndarray, shape (n, dimension)
        Draws, in positions.
    rng : Generator
    """

    def __init__(self, simulations: Simulations, scale: OutputScale, prior: Array, rng: np.random.Generator) -> None:
        self._runs, self.scale, self._posterior = simulations, scale, simulations.posterior
        self._rng, self._mean, self.spread = rng, np.median(prior, axis=0), spread_of(prior)
        self.input_spread = spread_of(simulations.coordinates_at(prior))
        self.of_noise = self._noise_columns()
        self.bounds = self._bounds(prior)
        self.all: list[Descent] = []

    def start(self, position: Array, purpose: str) -> Array:
        """Simulate positions (n, dimension): where they are with the best unknowns of the noise, and their energies."""
        outputs = self._runs.run(position, purpose)
        eta = self.scale.encode(outputs)
        position = np.array([self._profiled(z, e) for z, e in zip(position, eta, strict=True)])
        return np.column_stack([position, energies(self._posterior, position, outputs)])

    def begin(self, start: Array, count: int) -> None:
        """Begin at the best of the last simulations (n, dimension + 1), as `start` has them, that are apart."""
        position, energy = start[:, :-1], start[:, -1]
        eta, inputs = self.scale.encode(self._runs.outputs[-len(start) :]), self._runs.coordinates[-len(start) :]
        order = [int(k) for k in np.argsort(energy) if np.isfinite(energy[k])]
        chosen: list[int] = []
        for apart in (0.7, 0.0):
            for k in order:
                near = [np.linalg.norm((position[k] - position[j]) / self.spread) for j in chosen]
                if len(chosen) < count and k not in chosen and min(near, default=np.inf) > apart:
                    chosen.append(k)
        if not self._shared:
            chosen = chosen[: max(1, int(SHARE * self._runs.left / (~self.of_noise).sum()))]
        self.all += [Descent(position[k], inputs[k], eta[k], float(energy[k])) for k in chosen]
        if not self._shared:
            self._runs.run(np.concatenate([self._moved(position[k]) for k in chosen]), "derivatives")

    @property
    def active(self) -> list[Descent]:
        """Those that have not ended."""
        return [one for one in self.all if not one.ended]

    def step(self) -> None:
        """One simulation for each descent that has not ended.

        Raises
        ------
        SpentError
            If the budget does not allow for them.
        """
        asked = [(one, there) for one in self.active if (there := self._propose(one)) is not None]
        if not asked:
            return
        outputs = self._runs.run(np.array([position for _, position in asked]), "descents")
        inputs = self._runs.coordinates[-len(asked) :]
        for (descent, position), y, x in zip(asked, outputs, inputs, strict=True):
            self._receive(descent, position, y, x)
        self._merge()

    def minima(self) -> list[Minimum]:
        """The minima so far, the lowest first, with how many descents came to each."""
        kept: list[Minimum] = []
        for one in sorted((one for one in self.all if one.ended != "met"), key=lambda one: one.energy):
            for k, other in enumerate(kept):
                if met(one.position, other, ~self.of_noise):
                    kept[k] = other._replace(found=other.found + 1)
                    break
            else:
                kept.append(Minimum(one.position, one.energy, self._covariance(one), 1, one.ended == "down"))
        for one in (one for one in self.all if one.ended == "met"):
            away = [np.square((one.position - m.position) / self.spread)[~self.of_noise].sum() for m in kept]
            k = int(np.argmin(away))
            kept[k] = kept[k]._replace(found=kept[k].found + 1)
        return kept

    @property
    def fits(self) -> bool:
        """Whether the lowest point fits the data.

        With a known noise its misfit is one that noise gives (`invsamp.posing.noise.expected_misfit`). An unknown noise
        is smaller than the largest that descents may assume.
        """
        best = min(self.all, key=lambda one: one.energy).position[None]
        away = np.minimum(best - self.bounds[0], self.bounds[1] - best)[0] / self.spread
        if (expected := self._runs.noise.expected_misfit()) is None:
            return bool((away[self.of_noise] > AT_BOUND).all())
        misfit = min(one.energy for one in self.all) + self._posterior.log_prior_at(best)[0]
        return bool(misfit - expected.least <= expected.high)

    def same(self, position: Array, energy: float, known: Descent) -> bool:
        """Whether a point of this energy lies in the basin of another descent: that one's model knows its energy."""
        if known.covariance is None:
            return False
        if not met(position, Minimum(known.position, known.energy, known.covariance, 1, True), ~self.of_noise):
            return False
        expected = float(self._regression(known).energy(position[None])[0])
        return abs(energy - expected) < 0.5 + AGREEMENT * max(energy - known.energy, 0.0)

    @cached_property
    def _shared(self) -> bool:
        """Whether simulations explain each other's outputs, each predicted from all others."""
        if self._runs.trend is not None:
            return True
        every, center = np.ones(len(self._runs), dtype=bool), self._runs.coordinates[self._runs.succeeded].mean(axis=0)
        process = fit_emulator(self._runs, self.scale, every, center, np.diag(1.0 / self.input_spread)).process
        left = np.square(process.leave_one_out()[0]).sum() / np.square(process.outputs).sum()
        return bool(left < 1.0 - EXPLAINED)

    def _moved(self, position: Array) -> Array:
        """Positions (p, dimension) beside one, each with another unknown of the inputs changed."""
        step = np.diag(self._rng.choice([-STEP, STEP], len(position)) * self.spread)[~self.of_noise]
        inside = self._posterior.sampling_domain.contains(np.clip(position + step, *self.bounds))
        return np.clip(np.where(inside[:, None], position + step, position - step), *self.bounds)

    def _regression(self, descent: Descent) -> PosteriorPotential:
        good, runs = self._runs.succeeded, self._runs
        eta = self.scale.encode(runs.outputs[good])
        about = descent.coordinates, descent.eta
        model, descent.weakest = regressed(runs.inputs, *about, runs.coordinates[good], eta, self.input_spread)
        return energy_of(self._posterior, model, self.scale)

    def _covariance(self, descent: Descent) -> Array:
        return laplace(self._regression(descent), descent.position, self.spread)

    def _propose(self, descent: Descent) -> Array | None:
        """Where to simulate next; None if the descent has ended."""
        descent.history.append(descent.energy)
        descent.ended = self._given_up(descent)
        if descent.ended:
            return None
        potential = self._regression(descent)  # which also finds what is known least
        if len(descent.history) > REGRESSIONS or self._runs.trend is not None:
            potential = local_energy(self._runs, self.scale, descent.coordinates, self.input_spread)
        half = np.where(self.of_noise, 3.0, descent.radius) * self.spread
        lower, upper = self._within(descent.position, half)
        position, energy = minimized(potential, np.clip(descent.position, lower, upper), lower, upper)
        descent.promised = descent.energy - energy
        if any(self.same(position, energy, other) for other in self.all if other.ended == "down"):
            descent.ended, descent.position = "met", position
            return None
        if descent.promised < PROMISE:
            descent.kept, descent.aside = descent.kept + 1, True
            if descent.kept > 1:
                descent.ended, descent.covariance = "down", self._covariance(descent)
                return None
        beside = self._beside(descent) if descent.aside else None
        return position if beside is None else beside

    def _given_up(self, descent: Descent) -> str:
        """Why a descent ends before it is down; "" if it does not."""
        lowest = min(one.energy for one in self.all)
        above = descent.energy - lowest
        gained = descent.history[-4] - descent.energy if len(descent.history) > 3 else np.inf
        if above > HIGH and gained < SLOW * above:
            return "high"
        if descent.radius < LEAST:
            descent.covariance = self._covariance(descent)
            return "down"
        return "limit" if len(descent.history) > STEPS else ""

    def _beside(self, descent: Descent) -> Array | None:
        """A point beside the best one, in the direction about which least is known; None where there is none."""
        sign, length = self._rng.choice([-1.0, 1.0]), float(np.linalg.norm(descent.weakest))
        far = min(max(descent.length, 2.0 * LEAST), 0.5 * length, 1.0)
        goal = sign * far / length * descent.weakest * self.input_spread
        step = 1e-4 * self.spread
        moved = self._runs.coordinates_at(descent.position + np.diag(step))
        jacobian = (moved - descent.coordinates) / 1e-4  # by positions in prior sds
        away = np.linalg.lstsq(jacobian.T, goal, rcond=None)[0] * self.spread
        position = np.clip(descent.position + away, *self.bounds)
        return position if self._posterior.sampling_domain.contains(position[None])[0] else None

    def _receive(self, descent: Descent, position: Array, outputs: Array, inputs: Array) -> None:
        aside, descent.aside = descent.aside, False
        if not np.isfinite(outputs).all():
            descent.radius *= 0.4
            return
        eta = self.scale.encode(outputs)
        position = self._profiled(position, eta)
        energy = float(energies(self._posterior, position[None], outputs[None])[0])
        gain = descent.energy - energy
        if not aside:
            self._resize(descent, gain, position, inputs)
        if gain > 0.0:
            descent.position, descent.coordinates, descent.eta, descent.energy = position, inputs, eta, energy
        if gain > PROMISE:
            descent.kept = 0

    def _resize(self, descent: Descent, gain: float, position: Array, inputs: Array) -> None:
        """Widen or narrow the trust region; where a poor model is to blame, look aside first."""
        if gain > 0.5 * descent.promised:
            step = np.abs((position - descent.position) / self.spread)[~self.of_noise].max(initial=0.0)
            if step > 0.9 * descent.radius:
                descent.radius = min(WIDEST, 2.0 * descent.radius)
        elif gain < 0.1 * descent.promised:
            descent.length = float(np.linalg.norm((inputs - descent.coordinates) / self.input_spread))
            descent.aside = bool(np.linalg.norm(descent.weakest) > POOR * descent.length)
            descent.radius *= 0.7 if descent.aside else 0.3

    def _merge(self) -> None:
        """Descents that are about to come to where a lower one is end there."""
        for one in sorted(self.all, key=lambda one: one.energy):
            if one.ended not in ("", "down") or one.promised > 1.0:
                continue
            one.covariance = self._covariance(one)
            for other in self.active:
                if other is not one and other.energy >= one.energy and self.same(other.position, other.energy, one):
                    other.ended = "met"

    def _profiled(self, position: Array, eta: Array) -> Array:
        """A position with its noise's unknowns at their best for outputs that are known."""
        if not self.of_noise.any() or not np.isfinite(eta).all():
            return position
        inputs = self._runs.coordinates_at(position[None])[0]
        model = LinearModel(self._runs.inputs, inputs, eta, np.zeros((len(eta), len(inputs))))
        potential = energy_of(self._posterior, model, self.scale)
        lower, upper = self._within(position, np.where(self.of_noise, 6.0, 0.0) * self.spread)
        return minimized(potential, np.clip(position, lower, upper), lower, upper)[0]

    def _within(self, center: Array, half: Array) -> tuple[Array, Array]:
        return np.maximum(center - half, self.bounds[0]), np.minimum(center + half, self.bounds[1])

    def _bounds(self, prior: Array) -> tuple[Array, Array]:
        """Where descents may go: the domain's box, and no noise that is larger than the prior's median.

        An unknown noise would explain a bad fit, and the descent would be down before it has come to a good one.
        """
        box = self._posterior.sampling_domain.bounding_box(len(self._mean))
        lower, upper = box[0] + 1e-6 * self.spread, box[1] - 1e-6 * self.spread
        here = self._noise_scale(self._mean)
        for k in np.flatnonzero(self.of_noise):
            moved = self._mean.copy()
            moved[k] += 0.1 * self.spread[k]
            if (there := self._noise_scale(moved)) != here:
                bound = float(np.median(prior[:, k]))
                lower[k], upper[k] = (lower[k], bound) if there > here else (bound, upper[k])
        return lower, upper

    def _noise_scale(self, position: Array) -> float:
        theta = self._posterior.to_theta(position[None])
        return float(np.log(output_scale(self._runs.noise, theta, np.random.default_rng(0)).scale).mean())

    def _noise_columns(self) -> npt.NDArray[np.bool_]:
        """Which positions (dimension,) no input depends on."""
        at = self._runs.coordinates_at(self._mean[None])
        moved = self._runs.coordinates_at(self._mean + np.diag(0.1 * self.spread))
        return np.asarray((moved == at).all(axis=1))
