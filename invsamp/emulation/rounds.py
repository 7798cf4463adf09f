"""Rounds of an emulation: choose a batch, simulate it, fit, and sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.emulation.emulator.emulated_posterior import EmulatedPosterior, Emulator
from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.emulator.outputs import OutputScale, output_scale
from invsamp.emulation.population import CHAINS, Mode, Population, sampled, starts
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.emulation.search.search_points import energies
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.protocols import Array

#: Share of a batch that are draws of the posterior: the stopping rule looks at these.
DRAWN = 0.75
#: Draws of the posterior from which the best points of the next batch are chosen, beside the wide ones.
POOL = 64
#: Energies up to this far above nearly all of the posterior's count as within it.
WITHIN = 1.0
#: Sd of the misfit's error above which the emulator does not know a draw's energy.
UNSURE = 1.0


class Round(NamedTuple):
    """A batch, and what the emulator is once it has learned from it.

    Attributes
    ----------
    simulations : int
        With its batch.
    simulated : ndarray, shape (n, dimension)
        Posterior draws so far that were simulated, and whose energy is one of the posterior's; in sds from the mean.
    errors : ndarray, shape (n,)
        Their true energies, less those of the emulator of all other simulations.
    weights : ndarray, shape (n,)
        How probable each is by that emulator, relative to the one whose posterior it was drawn from; at most 1.
    predicted : float
        Sd of the misfit's error by the emulator itself, over the posterior; of no draw more than 1 counts.
    unsure : float
        What draws change of means, in sds, and of logs of sds whose misfit the emulator does not know to within 1.
    worst : float
        Largest error in energy of the batch, predicted before it was simulated, where the energy is one of the
        posterior's.
    ratio : float
        Root mean square of all errors of the batch in units of the emulator's own sds.
    draws, failed : int
        Posterior draws of the batch, and those of them that failed.
    mean, sd : ndarray, shape (dimension,)
        Of the emulated posterior, in positions.
    moved, resized : float
        Largest change of a mean, in sds, and of the log of an sd, since the round before.
    converged : bool
        Whether its chains agreed.
    """

    simulations: int
    simulated: Array
    errors: Array
    weights: Array
    predicted: float
    unsure: float
    worst: float
    ratio: float
    draws: int
    failed: int
    mean: Array
    sd: Array
    moved: float
    resized: float
    converged: bool


class Fitted(NamedTuple):
    """An emulator, its posterior, and draws."""

    posterior: EmulatedPosterior
    potential: PosteriorPotential
    population: Population

    @property
    def emulator(self) -> Emulator:
        """The emulator."""
        return self.posterior.emulator

    @property
    def highest(self) -> float:
        """Energy below which a point counts as one of the posterior's."""
        return float(np.quantile(self.population.energy, 0.99)) + WITHIN


class Rounds:
    """The emulator as it learns.

    Parameters
    ----------
    simulations : Simulations
    scale : OutputScale
    modes : list of Mode
    batch : int
    rng : Generator

    Attributes
    ----------
    fitted : Fitted
        The emulator of all simulations so far.
    """

    def __init__(
        self, simulations: Simulations, scale: OutputScale, modes: list[Mode], batch: int, rng: np.random.Generator
    ) -> None:
        self._runs, self._scale, self._batch, self._rng = simulations, scale, batch, rng
        self._drawn = round(DRAWN * batch)
        self._found = self._modes = modes
        self._draws = self._start = self._begun()
        # posterior draws that were simulated: their positions, their numbers among the simulations that were made, and
        # their energies by the emulator whose posterior they were drawn from
        self._simulated = np.empty((0, self._draws.shape[1]))
        self._numbers, self._energies = np.empty(0, dtype=int), np.empty(0)
        self.fitted = self._fit()

    def _fit(self) -> Fitted:
        """An emulator of the simulations so far, and draws of its posterior."""
        runs, posterior = self._runs, self._runs.posterior
        inputs = runs.coordinates_at(self._draws)
        center, covariance = inputs.mean(axis=0), np.atleast_2d(np.cov(inputs.T))
        if runs.noise.names:
            some = self._draws[self._rng.integers(len(self._draws), size=200)]
            self._scale = output_scale(runs.noise, posterior.to_theta(some), self._rng)
        every = np.ones(len(runs), dtype=bool)
        whitening = np.linalg.inv(np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance))))
        emulator = fit_emulator(runs, self._scale, every, center, whitening, iterations=60, rotated=True)
        emulated = EmulatedPosterior(posterior, emulator)
        potential = emulated.potential()
        population = sampled(potential, posterior.sampling_domain, self._modes, self._start, self._rng)
        self._draws, self._modes = population.draws, population.modes
        # half begin where the search has ended, so that no error of one emulator carries all of them away
        last = self._draws[self._rng.integers(len(self._draws), size=CHAINS)]
        self._start = np.where((np.arange(CHAINS) % 2 == 0)[:, None], last, self._begun())
        return Fitted(emulated, potential, population)

    def _begun(self) -> Array:
        """Starts (CHAINS, dimension) at the modes that the search has found."""
        domain = self._runs.posterior.sampling_domain
        return starts(self._found, np.ones(len(self._found)), domain, self._rng)

    def advance(self, last: Array | None = None) -> Round:
        """Choose a batch, simulate it, compare it with what the emulator predicted, and let the emulator learn from it.

        Parameters
        ----------
        last : ndarray, shape (dimension,), optional
            A position in place of the last one of the batch.

        Raises
        ------
        SpentError
            If the budget does not allow for a batch.
        """
        before, runs, drawn = self.fitted, self._runs, self._drawn
        position, made = self._next(before), runs.made
        if last is not None:
            position[-1] = last
        predicted, sd = before.potential.energy(position), before.posterior.misfit_errors(position)
        truth = energies(runs.posterior, position, runs.run(position, "emulator"))
        good = np.isfinite(truth) & ~runs.held  # what the emulator has learned from is not predicted
        error = np.where(good, truth - predicted, 0.0)
        # a region that the emulator alone takes for the posterior's counts, and so does one that it has missed
        within = good & (np.minimum(truth, predicted) < before.highest)
        ratio = np.sqrt(np.mean(np.square(error[good] / np.maximum(sd[good], 1e-12)))) if good.any() else np.inf
        self._simulated = np.concatenate([self._simulated, position[:drawn]])
        self._numbers = np.concatenate([self._numbers, made + np.arange(drawn)])
        self._energies = np.concatenate([self._energies, predicted[:drawn]])

        self.fitted = now = self._fit()
        some = now.population.draws[:: max(1, len(now.population.draws) // 500)]
        own = now.posterior.misfit_errors(some)
        mean, sds = (now.population.draws.mean(axis=0), now.population.draws.std(axis=0))
        old, (draws, errors, weights) = before.population.draws, self._left_out(now)
        return Round(
            len(runs),
            (draws - mean) / sds,
            errors,
            weights,
            float(np.sqrt(np.mean(np.square(np.minimum(own, 1.0))))),
            effect(some, own > UNSURE),
            float(np.abs(error[within]).max(initial=0.0)),
            float(ratio),
            drawn,
            int((~np.isfinite(truth[:drawn])).sum()),
            mean,
            sds,
            float((np.abs(mean - old.mean(axis=0)) / sds).max()),
            float(np.abs(np.log(sds / old.std(axis=0))).max()),
            now.population.converged,
        )

    def _left_out(self, fitted: Fitted) -> tuple[Array, Array, Array]:
        """Simulated posterior draws, errors of their energies by the emulator of all other simulations, and weights.

        Early emulators had other posteriors. Weights are truncated importance weights (Ionides 2008, Journal of
        Computational and Graphical Statistics 17, 295-311), without the ratio of the densities' integrals.
        """
        runs = self._runs
        rows = len(runs) - runs.made + self._numbers
        good = runs.succeeded[rows]
        rows, position, drawn = rows[good], self._simulated[good], self._energies[good]
        emulated = fitted.posterior.left_out(position, runs.coordinates[rows], np.cumsum(runs.succeeded)[rows] - 1)
        truth = energies(runs.posterior, position, runs.outputs[rows])
        within = np.minimum(truth, emulated) < fitted.highest
        weights = np.exp(np.minimum(drawn - emulated, 0.0))
        return position[within], (truth - emulated)[within], weights[within]

    def _next(self, fitted: Fitted) -> Array:
        """Draws of the posterior; the others are points of the largest variance among draws of its square root."""
        draws, emulator = fitted.population.draws, fitted.emulator
        chosen = [*draws[self._rng.integers(len(draws), size=self._drawn)]]
        pool = np.concatenate([fitted.population.wide, draws[self._rng.integers(len(draws), size=POOL)]])
        x = emulator.standardized(self._runs.coordinates_at(pool))
        variance = emulator.process.predict(x).variance
        taken = [*emulator.standardized(self._runs.coordinates_at(np.array(chosen)))]
        while len(chosen) < self._batch:
            # what is near a chosen point will be known
            left = [1.0 - np.exp(-np.square(x - other).mean(axis=1)) for other in taken]
            best = int(np.argmax(variance * np.prod(left, axis=0)))
            chosen.append(pool[best])
            taken.append(x[best])
        return np.array(chosen)


def effect(draws: Array, unsure: npt.NDArray[np.bool_]) -> float:
    """By how much the means, in sds, or the logs of sds change at most without some of the draws (n, dimension)."""
    if not unsure.any():
        return 0.0
    rest = draws[~unsure]
    if len(rest) < 10:
        return np.inf
    means = np.abs(rest.mean(axis=0) - draws.mean(axis=0)) / rest.std(axis=0)
    return float(max(means.max(), np.abs(np.log(rest.std(axis=0) / draws.std(axis=0))).max()))
