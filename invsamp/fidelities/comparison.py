"""How good and how cheap is each fidelity, and what can a replica-exchange ladder make of them?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array
from invsamp.engine.evaluation import Evaluator
from invsamp.estimators import Estimator, probe
from invsamp.fidelities import words
from invsamp.fidelities.reweighting import effective, weights
from invsamp.fidelities.states import column_labels, gather, level_name
from invsamp.fidelities.swap_forecast import Side, forecast
from invsamp.ladder import check_temperatures
from invsamp.results.run import Run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Hot temperatures at which swaps with the cold rung are forecast.
TEMPERATURES = tuple(np.geomspace(1.2, 300.0, 32).tolist())
#: Expected swap rate that the proposed hot temperature keeps.
WANTED_RATE = 0.2
#: States that are needed to say anything.
LEAST_STATES = 10


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


@dataclass(frozen=True)
class Pair:
    """Two neighbouring rungs, and what is to be expected of their swaps.

    NaN where fewer than 20 effective states are typical of a rung: the states do not reach it.

    Attributes
    ----------
    cold, hot : str
        Their fidelities.
    cold_temperature, hot_temperature : float
    cold_effective, hot_effective : float
        Effective number of states that are draws of the rung, after reweighting.
    discrepancy_sd : float
        Sd of the log ratio of delayed acceptance's second stage, where the first has accepted: how far the fidelities
        disagree about what the swap is worth.
    noise_sd : float
        :math:`\\sqrt v`, the sd of the estimators' noise in the log ratio of `product_target`, which is penalised.
    first_stage, second_stage, swap_rate : float
        Expected acceptance of delayed acceptance: of its first stage, of its second after that, of both.
    product_rate : float
        Expected acceptance of `product_target`.
    own_energies_error, cold_energies_error : float
        Root mean square of what the log ratios of `fast` (eq. 18) and of ``multi_variance(1.0)`` (eq. 11) miss.
    """

    cold: str
    hot: str
    cold_temperature: float
    hot_temperature: float
    cold_effective: float
    hot_effective: float
    discrepancy_sd: float
    noise_sd: float
    first_stage: float
    second_stage: float
    swap_rate: float
    product_rate: float
    own_energies_error: float
    cold_energies_error: float


class States(NamedTuple):
    """The states at which the levels were compared, those that a level could not solve left out."""

    theta: Array  # (n, d)
    energies: Array  # (levels, n)
    weight: Array  # (n,) of the cold rung
    source: str


@dataclass(frozen=True, eq=False)
class FidelityComparison:
    """Result of `compare_fidelities`; prints as tables with advice.

    Attributes
    ----------
    levels : tuple of Level
        From the coarsest to the finest.
    pairs : tuple of Pair
        Neighbours on the proposed ladder, from the coldest.
    hot_temperatures : dict of str to float
        Hottest temperature at which a level still swaps with the cold rung at an expected rate of 0.2; NaN where the
        states do not tell.
    rates : dict of str to ndarray
        Expected swap rate of every level with the cold rung at `TEMPERATURES`.
    labels : tuple of str
        Names of theta's columns.
    states : States
    """

    levels: tuple[Level, ...]
    pairs: tuple[Pair, ...]
    hot_temperatures: dict[str, float]
    rates: dict[str, Array]
    labels: tuple[str, ...]
    states: States

    @property
    def advice(self) -> tuple[str, ...]:
        """Which swap rule and which temperature suit the coarse levels, in words."""
        return words.advice(self.levels, self.pairs, self.hot_temperatures, self.rates)

    def __str__(self) -> str:
        return words.table(self)

    def to_dataframe(self, part: str = "levels") -> pd.DataFrame:
        """A row per level, or with ``part="pairs"`` per pair of neighbouring rungs; columns as the attributes.

        Raises
        ------
        ValueError
            If ``part`` is neither.
        """
        import pandas as pd

        if part not in ("levels", "pairs"):
            raise ValueError(f"part must be 'levels' or 'pairs', got {part!r}")
        if part == "levels":
            return pd.DataFrame([asdict(level) for level in self.levels]).set_index("name")
        return pd.DataFrame([asdict(pair) for pair in self.pairs])

    def plot(self) -> Figure:
        """Energies of each level against the finest, their difference over theta, costs and expected swap rates."""
        from invsamp.plots import plot_comparison

        return plot_comparison(self)


def compare_fidelities(
    posterior: Any,
    thetas: npt.ArrayLike | Run | int = 300,
    temperatures: Sequence[float] | None = None,
    fidelities: Sequence[str | int] | None = None,
    *,
    estimator: Estimator | Mapping[str, Estimator] | None = None,
    most: int = 600,
    probes: int = 20,
    seed: int = 0,
) -> FidelityComparison:
    """Cost, bias, noise and agreement of every fidelity, and what swaps between them would be like.

    Every level is solved at every state. How the levels agree is told at the states as given. Swaps are forecast by
    reweighting the states to the rungs of the ladder, which needs states typical of each: a short run of any ladder
    is best, whose rungs' draws are all used together.

    Parameters
    ----------
    posterior : Posterior or Target
        With two or more fidelities.
    thetas : array_like (n, dimension), Run, or int
        Natural parameters, taken as draws of the posterior of the finest fidelity; a run, whose cold and hot draws are
        taken, evenly thinned; or a number of draws from the prior, of which few are typical of a sharp posterior.
    temperatures : sequence of float, optional
        A ladder, from 1 upwards, whose swaps are to be forecast. Default: that of the run; else, for each coarser
        level, the finest at 1 with that level at the hottest temperature that promises a swap rate of 0.2.
    fidelities : sequence of str or int, optional
        One for each temperature, as in the presets: by default the finest, then one coarser each, down to the
        coarsest; that of the run where the ladder is.
    estimator : Estimator or mapping of fidelities to Estimator, optional
        How energies and gradients will be estimated, so that its noise counts; those that a mapping leaves out are
        exact. The levels themselves are compared without noise.
    most : int
        States taken from a run.
    probes : int, >= 2
        Repeated estimates per state, for the noise of an estimator that does not know its own.
    seed : int
        Of prior draws and noise.

    Returns
    -------
    FidelityComparison

    Raises
    ------
    ValueError
        If an argument is wrong, or fewer than 10 states can be solved by all levels.
    """
    names = tuple(posterior.fidelities)
    if len(names) < 2:
        raise ValueError(f"posterior must have at least two fidelities to compare, got {list(names)}")
    for name, value, least in (("most", most, LEAST_STATES), ("probes", probes, 2)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    rng = np.random.default_rng(seed)
    ladder = _ladder(names, thetas, temperatures, fidelities)
    estimators = _estimators(names, estimator)
    given = gather(posterior, thetas, int(most), rng)
    levels: dict[str, Evaluator] = {}
    for name in names:
        levels[name] = Evaluator(posterior.potential(name), name, levels)
    solved = [_solve(level, given.position) for level in levels.values()]
    energies, gradients = (np.stack(part) for part in zip(*solved, strict=True))
    failed = (~np.isfinite(energies)).sum(axis=1)
    kept = np.isfinite(energies).all(axis=0)
    if kept.sum() < LEAST_STATES:
        raise ValueError(
            f"thetas must hold at least {LEAST_STATES} states that every fidelity can solve, got {int(kept.sum())} of "
            f"{len(kept)}; failed solves by fidelity: {dict(zip(names, failed.tolist(), strict=True))}"
        )
    mixture = given.log_mixture(dict(zip(names, energies, strict=True)))[kept]
    position, energies, gradients = given.position[kept], energies[:, kept], gradients[:, kept]
    noise = [_noise(estimators.get(name), level, rng, position, int(probes)) for name, level in levels.items()]
    seconds = [_seconds(posterior, level) for level in levels.values()]
    table = tuple(
        Level(name, seconds[k], seconds[k] / seconds[-1], *_agreement(energies[[k, -1]], gradients[[k, -1]]), *noise[k],
              int(failed[k]))
        for k, name in enumerate(names)
    )  # fmt: skip
    swaps = _Swaps(dict(zip(names, energies, strict=True)), dict(zip(names, noise, strict=True)), mixture, names[-1])
    rates = {name: swaps.rates(name) for name in names[:-1]}
    hottest = {name: _hottest(rate) for name, rate in rates.items()}
    if ladder is None:
        promising = [name for name in names[:-1] if math.isfinite(hottest[name])]
        pairs = tuple(swaps.pair((names[-1], 1.0), (name, hottest[name])) for name in promising)
    else:
        pairs = tuple(swaps.pair(*rungs) for rungs in itertools.pairwise(ladder))
    states = States(posterior.to_theta(position), energies, weights(energies[-1], mixture), given.source)
    return FidelityComparison(table, pairs, hottest, rates, column_labels(posterior.shapes), states)


class _Noise(NamedTuple):
    energy_sd: float
    gradient_sd: float


class _Swaps:
    """Forecasts between any two levels at any two temperatures, from the energies of all levels at the states."""

    def __init__(self, energies: Mapping[str, Array], noise: Mapping[str, _Noise], mixture: Array, finest: str) -> None:
        self._energies, self._noise, self._mixture, self._finest = energies, noise, mixture, finest

    def pair(self, cold: tuple[str, float], hot: tuple[str, float]) -> Pair:
        """What is to be expected of the swaps of two rungs, each a fidelity and a temperature."""
        sides = self._side(*cold), self._side(*hot)
        expected = forecast(*sides)._asdict()
        counts = [effective(side.weight) for side in sides]
        return Pair(cold[0], hot[0], cold[1], hot[1], *counts, **expected)

    def rates(self, level: str) -> Array:
        """Expected swap rate of a level at `TEMPERATURES` with the finest at 1."""
        cold = self._side(self._finest, 1.0)
        return np.array([forecast(cold, self._side(level, hot)).swap_rate for hot in TEMPERATURES])

    def _side(self, level: str, temperature: float) -> Side:
        energy = self._energies[level]
        weight = weights(energy / temperature, self._mixture)
        return Side(energy, weight, temperature, self._noise[level].energy_sd ** 2)


def _ladder(
    names: tuple[str, ...],
    thetas: object,
    temperatures: Sequence[float] | None,
    fidelities: Sequence[str | int] | None,
) -> list[tuple[str, float]] | None:
    """Fidelity and temperature of every rung; None where no ladder is proposed."""
    if temperatures is None:
        if fidelities is not None:
            raise ValueError(f"fidelities are those of temperatures, got {list(fidelities)} without any")
        report = thetas.report if isinstance(thetas, Run) else {}
        if len(report.get("temperatures") or []) < 2 or len(report.get("fidelities") or []) < 2:
            return None
        temperatures, fidelities = report["temperatures"], report["fidelities"]
    check_temperatures(temperatures)
    if len(temperatures) < 2:
        raise ValueError(f"temperatures must have at least two entries to swap between, got {list(temperatures)}")
    chosen = list(range(len(temperatures)) if fidelities is None else fidelities)
    if len(chosen) != len(temperatures):
        raise ValueError(
            f"fidelities must have one entry for each of the {len(temperatures)} temperatures, got {len(chosen)}"
        )
    return list(zip([level_name(names, wanted) for wanted in chosen], map(float, temperatures), strict=True))


def _estimators(
    names: tuple[str, ...], estimator: Estimator | Mapping[str, Estimator] | None
) -> Mapping[str, Estimator]:
    if estimator is None:
        return {}
    if not isinstance(estimator, Mapping):
        return dict.fromkeys(names, estimator)
    if unknown := [name for name in estimator if name not in names]:
        raise ValueError(f"estimator must be given for fidelities out of {list(names)}, got {unknown}")
    return estimator


def _solve(level: Evaluator, position: Array) -> tuple[Array, Array]:
    level.energy_and_gradient(position[:1])  # compiles what has to be compiled
    level.evaluations, level.seconds = 0, 0.0
    return level.energy_and_gradient(position)


def _seconds(posterior: Any, level: Evaluator) -> float:
    """Seconds per evaluation: as the forward model states them, else as they were measured."""
    model = getattr(posterior, "forward", {}).get(level.fidelity)
    stated = getattr(model, "cost", None)
    return float(stated) if stated is not None else level.seconds / level.evaluations


def _agreement(energies: Array, gradients: Array) -> tuple[float, float, float, float, float]:
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


def _noise(
    estimator: Estimator | None, level: Evaluator, rng: np.random.Generator, position: Array, probes: int
) -> _Noise:
    """Sds of the energies as swaps get them and of a gradient's entry, from the mean variances over the states."""
    if estimator is None:
        return _Noise(0.0, 0.0)
    bound = estimator.bind(level, "isotropic")
    if bound.exact:
        return _Noise(0.0, 0.0)
    energy, gradient, _ = probe(bound, rng, position, probes, "isotropic")
    # some estimators are noisy in their gradients alone
    noisy_swaps = not getattr(bound, "exact_energy", False)
    return _Noise(math.sqrt(float(energy.mean())) if noisy_swaps else 0.0, math.sqrt(float(gradient.mean())))


def _hottest(rates: Array) -> float:
    """The hottest of `TEMPERATURES` up to which every known rate is at least the wanted one; NaN if there is none."""
    enough = np.flatnonzero(rates >= WANTED_RATE)
    return TEMPERATURES[int(enough[-1])] if len(enough) else math.nan
