"""Whether the gradients that a run is about to follow are those of its energies: a few solves at two starts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from invsamp.diagnostics.limits import SWAP_NOISE_LIMIT
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.dispatch import Uncounted
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.errors import ModelError
from invsamp.estimators.contract import BoundEstimator
from invsamp.estimators.minibatches import BoundMinibatch
from invsamp.evaluate.requests import answered
from invsamp.posing.checks.directional_derivative_test import Mistake, Probe, balanced, blame
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.protocols import Array, Potential, Problem, SampledProblem, derivative_error, no_derivatives
from invsamp.warning_codes import InvsampWarning, coded

#: Starts at which something can be said, and those that are tried for it.
STARTS, TRIES = 2, 6
#: Draws of the problem's starts that show the scale of each coordinate.
SCALE_DRAWS = 64
#: Numbers that these draws have at most, unless there are very many parameters.
SCALE_NUMBERS = 2_000_000
WHAT_TO_DO = (
    "posterior.check_gradient() shows more. If derivatives are approximate on purpose, the model states "
    "their error as derivative_error, a number. check_gradient=False samples without this check"
)
ADJUSTED = "The draws are right, as every step is accepted by energies, but slower than they could be"
CHOSEN = (
    "No sampler was chosen, and the default one follows gradients in optimization, metric and paths. Correct "
    "the gradient, or sample by energies alone (iv.pcn(), where priors are Gaussian)"
)
#: Error from which on a run that chooses for itself is refused: it would look for a way in vain, for long.
GROSS = 0.3
NOISY = (
    "The sampler treats energies as exact: a chain gets stuck where the noise was low, the longer the "
    "noisier they are. Fix the random numbers that the model draws, so that it is a function. Or sample with "
    "noisy energies, iv.samplers.fast_resgld([1, 4], estimator=iv.estimators.noisy(), "
    "variance=iv.variances.running_average())"
)
#: Sd of the noise of energies that is reported: it moves an acceptance by a hundredth.
NOISE = 0.01
#: What energies resolve in single precision, with a margin.
COARSE = 4.0 * float(np.finfo(np.float32).eps)
#: Parameters of a point that are shown.
SHOWN = 10
#: Where the random stream stands among those that are spawned from the seed, far from the rungs' own.
STREAM = 2**31


class GradientMistake(NamedTuple):
    """A gradient that is not that of its energy, or an energy that is not the same again."""

    words: str
    gross: bool  # whether it leads nowhere
    noisy: bool = False

    @property
    def warning(self) -> str:
        """The warning where every step is accepted by energies."""
        if self.noisy:
            return coded("IV-REPEAT", f"{self.words}. {NOISY}")
        return coded("IV-GRADIENT", f"{self.words}. {ADJUSTED}. {WHAT_TO_DO}")


def check(
    bound: BoundProblem, rungs: Sequence[RungChains], seed: int, others: Sequence[str] = ()
) -> tuple[dict[str, int], dict[str, GradientMistake]]:
    """Check the gradients of all fidelities, each at the positions of the chains of the first rung that it is for.

    Solves, and what is wrong, by fidelity.

    Parameters
    ----------
    bound : BoundProblem
    rungs : sequence of RungChains
        The rungs, from cold to hot; they are placed.
    seed : int
        The run's. The directions have a stream of their own.
    others : sequence of str
        Fidelities that no rung is for yet: at the positions of the first one's chains.
    """
    solves, mistakes, potentials = dict[str, int](), dict[str, GradientMistake](), bound.uncounted()
    first = _first_rungs(rungs)
    for number, (name, k) in enumerate((first | dict.fromkeys((o for o in others if o not in first), 0)).items()):
        estimator = rungs[k].estimator
        batch = getattr(estimator, "batch", estimator)  # of a control variate
        batch = batch if isinstance(batch, BoundMinibatch) else None
        potential = potentials[name] if batch is None else _OneBatch(potentials[name], batch)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, number)))
        solves[name], mistake = check_one(bound.problem, bound.sampled, name, potential, rungs[k].position, rng)
        # of an estimator the noise is known, and without acceptance no one asks for energies
        known = not rungs[k].estimator.exact_energy or not rungs[k].adjusted
        if mistake is not None and not (mistake.noisy and known):
            mistakes[name] = mistake
    return solves, mistakes


def check_one(
    problem: Problem,
    sampled: SampledProblem,
    fidelity: str,
    potential: Potential,
    positions: Array,
    rng: np.random.Generator,
) -> tuple[int, GradientMistake | None]:
    """Solves, and what is wrong, of one fidelity, at two of some positions (chains, d) that can be solved."""
    admitted = derivative_error(problem.potential(fidelity))
    scale = _scale(problem, positions, rng)
    # a start that all chains share is taken with two directions
    distinct = positions[np.sort(np.unique(positions, axis=0, return_index=True)[1])][:TRIES]
    solves = used = 0
    for position in [*distinct, *distinct]:
        probe, wrong = Probe(potential, position, sampled.sampling_domain.contains), None
        if probe.usable:
            direction = scale * rng.standard_normal(len(scale))
            # of approximate derivatives only the large parts are known to the error that they admit
            if used and not admitted:
                direction = balanced(probe.gradient, direction)
            used += 1
            if (mistake := probe.compare(direction, admitted).mistake) is not None:
                column, own = blame(probe, direction, mistake.length)
                words = _wrong(problem, fidelity, position, column, own, mistake.error, admitted)
                # of less than energies resolve in single precision nothing is seen, whatever the gradient is
                seen = abs(mistake.claimed - mistake.measured) * mistake.length > COARSE * abs(probe.energy)
                words += "" if seen else _unseen(probe.energy)
                wrong = GradientMistake(
                    words, seen and max(mistake.error, probe.missed(direction, mistake.length)) > GROSS
                )
            elif probe.noise > NOISE:
                wrong = GradientMistake(_noisy(fidelity, probe.noise), probe.noise > SWAP_NOISE_LIMIT, noisy=True)
        solves += probe.solves
        if wrong or used == STARTS:
            return solves, wrong
    return solves, None


def check_known(problem: Problem, rungs: Sequence[RungChains]) -> None:
    """`ValueError` where a kernel follows gradients of a fidelity that has none."""
    for name, k in _first_rungs(rungs).items():
        if (reason := no_derivatives(problem.potential(name))) is not None:
            raise ValueError(
                f"sampler must follow no gradients of fidelity {name!r}, got {rungs[k].settings.kernel}: {reason}"
            )


def report_mistakes(
    mistakes: Mapping[str, GradientMistake], rungs: Sequence[RungChains], *, chosen: bool = False
) -> None:
    """`ModelError` of a mistake in a gradient that moves chains which no acceptance step sets right, else a warning.

    And of a gross one of the posterior's own where the sampler is ``chosen`` by what gradients lead to.
    """
    unadjusted = {e.fidelity for rung in rungs if not rung.adjusted for e in rung.potentials}
    for name, mistake in mistakes.items():
        if name in unadjusted:
            raise ModelError(
                f"{mistake.words}. The sampler has no acceptance step that corrects for it, and the draws "
                f"would be biased. {WHAT_TO_DO}"
            )
        if chosen and mistake.gross and name == rungs[0].fidelity:
            raise ModelError(f"{mistake.words}. " + (NOISY if mistake.noisy else f"{CHOSEN}. {WHAT_TO_DO}"))
        # where `sample` was called; a run in a directory is two calls further away
        warnings.warn(mistake.warning, InvsampWarning, stacklevel=8)


class _OneBatch:
    """The potential as a minibatch estimates it, by the same data everywhere: a model may have other code for it."""

    def __init__(self, potential: Uncounted, batch: BoundEstimator) -> None:
        self.dimension, self._answer, self._batch = potential.dimension, potential.answer, batch

    def energy(self, position: Array) -> Array:
        """Energies of positions (n, d), shape (n,)."""
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energies (n,) and gradients (n, d)."""
        found = [answered(self._batch.estimate(np.random.default_rng(0), row[None]), self._answer) for row in position]
        return np.concatenate([part.energy for part in found]), np.concatenate([part.gradient for part in found])


def _first_rungs(rungs: Sequence[RungChains]) -> dict[str, int]:
    """The first rung that takes gradients of each fidelity, from cold to hot."""
    found: dict[str, int] = {}
    for k, rung in enumerate(rungs):
        for potential in rung.potentials if rung.gradients else ():
            found.setdefault(potential.fidelity, k)
    return found


def _scale(problem: Problem, positions: Array, rng: np.random.Generator) -> Array:
    """Over how much each coordinate varies before the data are seen, shape (d,)."""
    try:
        draws = problem.sample_start(rng, min(SCALE_DRAWS, max(4, SCALE_NUMBERS // positions.shape[1])))
    except ValueError:  # it has none to offer, or not so many
        draws = positions
    spread = np.diff(np.quantile(draws, (0.25, 0.75), axis=0), axis=0)[0]
    return np.where(np.isfinite(spread) & (spread > 0.0), spread, np.maximum(np.abs(positions[0]), 1e-3))


def _wrong(
    problem: Problem, fidelity: str, position: Array, column: int, own: Mistake, error: float, admitted: float
) -> str:
    name = labels_of(problem)[column]
    admits = f" (it admits {admitted:.0e})" if admitted else ""
    where = f". This was at the parameters {problem.to_theta(position).tolist()}" if len(position) <= SHOWN else ""
    return (
        f"the gradient of fidelity {fidelity!r} is not that of its energy, most of all in {name}. "
        f"The slope in its coordinate is {own.measured:.4g} by differences of the energy and {own.claimed:.4g} by the "
        f"gradient, off by {own.error:.1%}. In a random direction it is off by {error:.1%}{admits}{where}"
    )


def _noisy(fidelity: str, sd: float) -> str:
    return f"the energy of fidelity {fidelity!r} is noisy: at one and the same point it varies by {sd:.2g} (sd)"


def _unseen(energy: float) -> str:
    return (
        f". Or the gradient is right, and the energy, {energy:.4g} there, is too imprecise to show it, as in "
        "single precision: leave constants out of it, or compute it in double precision"
    )
