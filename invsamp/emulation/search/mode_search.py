"""The search for modes: quasi-random points, descents from the best of them, and minima that an emulator predicts."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from invsamp.emulation.emulator.emulated_posterior import EmulatedPosterior
from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.emulator.outputs import OutputScale
from invsamp.emulation.runs.simulation_runs import Simulations, SpentError
from invsamp.emulation.search.descents import Descent, Descents
from invsamp.emulation.search.local_model import minimized
from invsamp.emulation.search.minima import Minimum
from invsamp.emulation.search.search_points import quasi_random
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.protocols import Array

#: Descents on the emulator, and how many of the minima that it predicts are simulated at a time.
FREE, LOOKED_AT = 32, 4
#: A predicted minimum is simulated if it is at most so far above the lowest one known, if the emulator is so sure of
#: its energy, and if the energy between the two rises by so much.
ABOVE, SURE, BARRIER = 6.0, 2.0, 1.0
#: Minima of less mass than this share, in logs, are left out.
NEGLIGIBLE = 8.0
#: Searches by new points while no minimum fits the data, where the budget leaves the emulator half of what they take.
SEARCHES, LEFT = 3, 1.5


class Search(NamedTuple):
    """The result of a search.

    Attributes
    ----------
    minima : list of Minimum
        The lowest first.
    descents : int
        From points of the prior.
    given_up : int
        Those that did not come to a minimum.
    fits : bool
        Whether the lowest minimum fits the data (`Descents.fits`).
    """

    minima: list[Minimum]
    descents: int
    given_up: int
    fits: bool

    @property
    def weighty(self) -> list[Minimum]:
        """Minima that may have a share of the posterior's mass."""
        most = max(one.log_mass for one in self.minima)
        return [one for one in self.minima if one.log_mass > most - NEGLIGIBLE]

    @property
    def once(self) -> int:
        """Weighty minima to which a single descent came."""
        return sum(one.found == 1 for one in self.weighty)


def search(
    simulations: Simulations,
    scale: OutputScale,
    prior: Array,
    points: int,
    count: int,
    rng: np.random.Generator,
    known: Array | None = None,
) -> tuple[Search, Descents]:
    """Minima of the energy.

    Parameters
    ----------
    simulations : Simulations
    scale : OutputScale
    prior : ndarray, shape (n, dimension)
        Draws, in positions.
    points, count : int
        Quasi-random points of the prior, and descents from the best of them.
    rng : Generator
    known : ndarray, shape (k, dimension), optional
        Further points to begin at: minima of a cheap simulator.

    Raises
    ------
    RuntimeError
        If no simulation of the points succeeds.
    """
    descents = Descents(simulations, scale, prior, rng)
    begun: list[Descent] = []
    with contextlib.suppress(SpentError):  # the search ends with its budget, and says what it has found by then
        for _ in range(SEARCHES):
            before = simulations.made
            begun_at = quasi_random(simulations.posterior, prior, points, rng)
            begun_at = begun_at if known is None or begun else np.concatenate([known, begun_at])
            begun += _begun(descents, simulations, begun_at, count)
            _down(descents)
            for _ in range(2):
                if not _predicted(descents, simulations, prior, rng):
                    break
                _down(descents)
            if descents.fits or simulations.left < LEFT * (simulations.made - before):
                break
    given_up = sum(one.ended in ("", "limit", "high") for one in begun)
    return Search(descents.minima(), len(begun), given_up, descents.fits), descents


def _begun(descents: Descents, simulations: Simulations, position: Array, count: int) -> list[Descent]:
    """New descents, from the best of positions (n, dimension)."""
    first, before = descents.start(position, "prior"), len(descents.all)
    if not before and not (np.isfinite(first[:, -1]).any() and simulations.succeeded.any()):
        said = f"the last one, {simulations.failure}" if simulations.failure else "means of counts must not be negative"
        raise RuntimeError(
            "forward must give finite outputs that the noise allows for some points of the prior, "
            f"got none in {len(position)} simulations; {said}"
        )
    descents.begin(first, count)
    return descents.all[before:]


def _down(descents: Descents) -> None:
    while descents.active:
        descents.step()


def _predicted(descents: Descents, simulations: Simulations, prior: Array, rng: np.random.Generator) -> int:
    """Simulate minima that an emulator of all simulations predicts and no one knows; how many descents they begin."""
    every = np.ones(len(simulations), dtype=bool)
    center = simulations.coordinates[simulations.succeeded].mean(axis=0)
    emulator = fit_emulator(simulations, descents.scale, every, center, np.diag(1.0 / descents.input_spread))
    emulated = EmulatedPosterior(simulations.posterior, emulator)
    potential = emulated.potential()
    known = descents.minima()
    lower = np.maximum(prior.min(axis=0), descents.bounds[0])
    upper = np.minimum(prior.max(axis=0), descents.bounds[1])
    found: list[tuple[float, Array]] = []
    for start in prior[rng.integers(len(prior), size=FREE)]:
        position, energy = minimized(potential, np.clip(start, lower, upper), lower, upper, 30)
        found.append((energy, position))
    new: list[Array] = []
    for energy, position in sorted(found, key=lambda one: one[0]):
        if energy > known[0].energy + ABOVE or len(new) == LOOKED_AT:
            break
        apart = all(_barrier(potential, position, other) > BARRIER for other in [m.position for m in known] + new)
        if apart and emulated.misfit_errors(position[None])[0] < SURE:
            new.append(position)
    if not new:
        return 0
    first = descents.start(np.array(new), "predicted minima")
    good = first[:, -1] < known[0].energy + 2.0 * ABOVE
    before = len(descents.all)
    if good.any():
        rows = np.flatnonzero(good) - len(new)
        for row in rows:
            eta = descents.scale.encode(simulations.outputs[row][None])[0]
            position, energy = first[row, :-1], float(first[row, -1])
            descents.all.append(Descent(position, simulations.coordinates[row], eta, energy, radius=0.2))
    return len(descents.all) - before


def _barrier(potential: PosteriorPotential, one: Array, other: Array) -> float:
    """How far the energy rises between two positions."""
    share = np.linspace(0.0, 1.0, 17)[:, None]
    along = potential.energy(one + share * (other - one))
    return float(along.max() - max(along[0], along[-1]))
