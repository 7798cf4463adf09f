"""One fidelity beside the finest: what it costs, how far its energies and gradients are off, how noisy they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from invsamp.estimators.contract import Estimator, Remembering, probe
from invsamp.evaluate.counted import CountedPotential, Counts
from invsamp.evaluate.requests import answered
from invsamp.protocols import Array, HasModels


@dataclass(frozen=True)
class Level:
    """One fidelity at all the states, equally weighted, beside the finest.

    Attributes
    ----------
    name : str
    seconds : float
        Per evaluation of energy and gradient: the model's own ``cost`` where it states one, else measured.
    relative_cost : float
        In units of the finest level.
    energy_offset, energy_sd : float
        Mean and sd of this level's energy less the finest level's. An offset that is the same everywhere does not
        matter to `product_target` and `delayed_acceptance`.
    energy_correlation : float
        Of this level's energy with the finest level's.
    gradient_error : float
        Root mean square of the difference of the gradients over that of the finest level's, in positions.
    gradient_cosine : float
        Mean cosine of the angle between this level's gradient and the finest level's, in positions.
    energy_noise_sd, gradient_noise_sd : float
        Root mean variance of the estimator's energies as swaps get them, and of a gradient's entry; 0 without noise.
    failed : int
        States at which it could not be solved.
    """

    name: str
    seconds: float
    relative_cost: float
    energy_offset: float
    energy_sd: float
    energy_correlation: float
    gradient_error: float
    gradient_cosine: float
    energy_noise_sd: float
    gradient_noise_sd: float
    failed: int


class Noise(NamedTuple):
    """Standard deviations of an energy as swaps get it, and of a gradient's entry."""

    energy_sd: float
    gradient_sd: float


def solve(level: CountedPotential, position: Array) -> tuple[Array, Array]:
    """Energies and gradients at the states, timed by the level without what is done at the first call."""
    level.energy_and_gradient(position[:1])  # compiles what has to be compiled
    level.counts = Counts()
    return level.energy_and_gradient(position)


def seconds_of(posterior: object, level: CountedPotential) -> float:
    """Seconds per evaluation: as the forward model states them, else as they were measured."""
    model = posterior.forward.get(level.fidelity) if isinstance(posterior, HasModels) else None
    stated = getattr(model, "cost", None)
    return float(stated) if stated is not None else level.seconds / level.evaluations


def agreement(energies: Array, gradients: Array) -> tuple[float, float, float, float, float]:
    """Offset, sd, correlation, gradient's error and its cosine, of a level (first) and the finest (second)."""
    difference = energies[0] - energies[1]
    spreads = energies.std(axis=1)
    correlation = float(np.corrcoef(energies[0], energies[1])[0, 1]) if spreads.min() > 0.0 else math.nan
    lengths = np.sqrt((gradients**2).sum(axis=2))
    total = float((lengths[1] ** 2).sum())
    error = float(((gradients[0] - gradients[1]) ** 2).sum())
    seen = (lengths > 0.0).all(axis=0)
    cosines = (gradients[0] * gradients[1]).sum(axis=1)[seen] / (lengths[0] * lengths[1])[seen]
    return (
        float(difference.mean()),
        float(difference.std()),
        correlation,
        math.sqrt(error / total) if total > 0.0 else math.nan,
        float(cosines.mean()) if len(cosines) else math.nan,
    )


def noise_of(
    estimator: Estimator | None, level: CountedPotential, rng: np.random.Generator, position: Array, probes: int
) -> Noise:
    """Sds of the energies as swaps get them and of a gradient's entry, from the mean variances over the states."""
    if estimator is None:
        return Noise(0.0, 0.0)
    bound = estimator.bind(level, "isotropic")
    if bound.exact:
        return Noise(0.0, 0.0)
    memory = None
    if isinstance(bound, Remembering):  # as far away as two draws are
        memory = answered(bound.init(rng, np.roll(position, 1, axis=0)), level.answer_all)
    energy, gradient, _ = answered(probe(bound, rng, position, probes, "isotropic", memory), level.answer_all)
    assert gradient is not None  # a structure was asked for
    # some estimators are noisy in their gradients alone
    noisy_swaps = not bound.exact_energy
    return Noise(math.sqrt(float(energy.mean())) if noisy_swaps else 0.0, math.sqrt(float(gradient.mean())))
