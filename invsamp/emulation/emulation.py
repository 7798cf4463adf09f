"""An emulation from its first simulation to its last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from invsamp.emulation.emulator.outputs import OutputScale, output_scale
from invsamp.emulation.emulator.trend import Trend
from invsamp.emulation.population import Mode
from invsamp.emulation.rounds import Fitted, Round, Rounds
from invsamp.emulation.runs.simulation_runs import Simulations, SpentError
from invsamp.emulation.search.mode_search import Search, search
from invsamp.emulation.stopping import unmet
from invsamp.protocols import Array

#: Draws of the prior for scales and quasi-random points.
PRIOR_DRAWS = 2000
#: Relative change of the inputs of the simulation that is run again: equal ones would be looked up.
AGAIN = 1e-9
#: Noise of the simulator below this, in units of that of the data, is none.
NEGLIGIBLE = 1e-5


class Emulated(NamedTuple):
    """The result of an emulation.

    Attributes
    ----------
    search : Search
    rounds : list of Round
    fitted : Fitted
        The last emulator, of all simulations.
    unmet : list of str
        What of the stopping rule was not met.
    output_noise : float
        Sd of the simulator's own noise, root mean square over outputs, in units of the noise of the data.
    seconds : float
        Of all but simulations.
    """

    search: Search
    rounds: list[Round]
    fitted: Fitted
    unmet: list[str]
    output_noise: float
    seconds: float


def emulated(
    simulations: Simulations,
    batch: int,
    descents: int,
    rng: np.random.Generator,
    report: Callable[[str], None] = lambda line: None,
    cheap: tuple[Simulations, Emulated] | None = None,
) -> Emulated:
    """Search for modes, then rounds until the stopping rule is met or the budget is spent.

    A cheap simulator, with what came of it, is the trend, and its minima are the first points.
    """
    began = time.monotonic()
    posterior = simulations.posterior
    prior = posterior.sample_start(rng, PRIOR_DRAWS)
    scale = output_scale(simulations.noise, posterior.to_theta(prior), rng)
    inputs = simulations.inputs.coordinates.dimension
    points = max(min(2 * batch, 4 * inputs + 4), inputs + 4, descents)
    known = None
    if cheap is not None:
        simulations.trend = Trend(cheap[0], cheap[1].fitted.emulator)
        known = np.array([one.position for one in cheap[1].search.weighty])
    points = min(points, simulations.left - (0 if known is None else len(known)))
    found, _ = search(simulations, scale, prior, points, descents, rng, known)
    report(f"{len(found.weighty)} mode(s) after {simulations.made} simulations")
    modes = [Mode(one.position, one.covariance) for one in found.weighty]
    rounds = Rounds(simulations, scale, modes, batch, rng)
    again, noise = _beside(found.minima[0].position), 0.0
    made: list[Round] = []
    missing = ["no round was made"]
    while missing:
        try:
            made.append(rounds.advance(None if made else again))
        except SpentError:
            break
        if len(made) == 1:
            noise = _noise(simulations, scale)
        missing = unmet(made[-1], noise * np.sqrt(simulations.noise.size))
        report(f"round {len(made)}: {missing[0] if missing else 'the stopping rule is met'}")
    return Emulated(found, made, rounds.fitted, missing, noise, time.monotonic() - began - simulations.seconds)


def _beside(position: Array) -> Array:
    """A position at which a simulation is repeated, to see the simulator's noise."""
    return position + AGAIN * np.maximum(np.abs(position), 1.0)


def _noise(simulations: Simulations, scale: OutputScale) -> float:
    """Sd of the simulator's noise by the last simulation, which repeats another one, root mean square over outputs."""
    away = np.abs(simulations.coordinates[:-1] - simulations.coordinates[-1]).sum(axis=1)
    both = simulations.outputs[[int(np.argmin(away)), -1]]
    difference = np.diff(scale.encode(both), axis=0)
    found = float(np.sqrt(0.5 * np.mean(np.square(difference))))
    return found if found > NEGLIGIBLE else 0.0
