"""One replicate of a calibration: parameters from the prior, data from them, and a run on these data."""

from __future__ import annotations

import warnings
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.diagnostics import weights
from invsamp.diagnostics.draws import ess
from invsamp.evaluate.contract import Evaluator
from invsamp.ladder import Sampler
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.results.run import Run
from invsamp.sampling import sample

#: A run with too few effective draws is made again with this many times the steps, at most.
LONGEST = 16
#: What is ranked beside the parameters: minus the log posterior density of positions, and minus the log-likelihood.
ENERGIES = ("energy", "misfit")


@dataclass(frozen=True)
class Settings:
    """All that the replicates of one calibration share."""

    posterior: Posterior
    sampler: Sampler | None
    ranks: int
    draws: int
    warmup: int | None
    chains: int
    seed: int


@dataclass(frozen=True)
class Replicate:
    """Result of one replicate; ``failed`` is the reason of a failure, or empty."""

    theta: list[float]
    ranks: list[int]
    ess: float
    warned: list[str]
    failed: str = ""


def replicate(settings: Settings, number: int, executor: Executor | Evaluator | None = None) -> Replicate:
    """The replicate of this number: the same whoever makes it, and in whatever order."""
    streams = np.random.SeedSequence(settings.seed, spawn_key=(number,)).spawn(3)
    rng, ties = (np.random.default_rng(stream) for stream in streams[:2])
    theta = settings.posterior.sample_prior(rng, 1)
    try:
        posterior = with_drawn_data(settings.posterior, rng, theta)
        run, least, warned = _run(settings, posterior, streams[2], executor)
        found = _ranks(posterior, theta, _thinned(run, settings.ranks), ties)
    except Exception as error:  # one of many replicates: it is counted, and named
        return Replicate(theta[0].tolist(), [], 0.0, [], f"{type(error).__name__}: {error}")
    return Replicate(theta[0].tolist(), found.tolist(), least, warned)


def with_drawn_data(posterior: Posterior, rng: np.random.Generator, theta: Array) -> Posterior:
    """The posterior of data drawn at theta (1, d) by the finest fidelity; what is missing stays so.

    Raises
    ------
    RuntimeError
        If the model cannot be solved there.
    """
    data = posterior.sample_data(rng, theta)[0]
    missing = np.isnan(posterior.data)
    if not np.isfinite(data[~missing]).all():
        why = posterior.failure_message() or "it is not finite"
        raise RuntimeError(f"there are no data: the solve at the parameters of the prior failed ({why})")
    return posterior.with_data(np.ma.masked_where(missing, data) if missing.any() else data)


def _run(
    settings: Settings, posterior: Posterior, seed: np.random.SeedSequence, executor: Executor | Evaluator | None
) -> tuple[Run, float, list[str]]:
    """A run with as many effective draws as there are ranks, if one can be had; how many, and what it warned of."""
    thin = 1
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = sample(
                posterior,
                settings.sampler,
                draws=settings.draws,
                warmup=settings.warmup,
                thin=thin,
                chains=settings.chains,
                seed=int(seed.generate_state(thin.bit_length(), np.uint64)[-1]),
                progress=False,
                check_gradient=False,
                executor=executor,
            )
        warned = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        if (stopped := run.report["stopped"]) is not None:  # part of a run is none
            raise KeyboardInterrupt if stopped.startswith("interrupted") else RuntimeError(stopped)
        energies = run.data.sample_stats["energy"].values
        with np.errstate(divide="ignore"):
            log_weight = None if run.weights is None else np.log(run.weights)
        values = np.concatenate([run.theta, energies[..., None]], axis=2)
        sizes = ess(values, log_weight=log_weight, ensemble_size=run.report.get("ensemble_size", 1))
        least = float(np.min(np.nan_to_num(sizes, nan=0.0)))
        if least >= settings.ranks or thin >= LONGEST:
            return run, least, warned
        longer = int(np.ceil(1.5 * settings.ranks / max(least, 1.0)))
        thin = min(LONGEST, thin * 2 ** max(1, (longer - 1).bit_length()))


def _thinned(run: Run, count: int) -> Array:
    """So many draws (count, d), evenly spaced over all chains; as often as their weights say, where they have some."""
    theta = run.theta.reshape(-1, run.theta.shape[2])
    weight = np.ones(len(theta)) if run.weights is None else run.weights.ravel()
    return theta[weights.resampled(weight, count)]


def _ranks(posterior: Posterior, theta: Array, draws: Array, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Of the true values among the draws; of equal ones a random rank."""
    every = posterior.to_position(np.concatenate([theta, draws]))
    parts = posterior.potential().parts(every, False)
    values = np.column_stack([np.concatenate([theta, draws]), parts.energy, parts.energy - parts.prior])
    below, equal = (values[1:] < values[0]).sum(axis=0), (values[1:] == values[0]).sum(axis=0)
    return below + rng.integers(equal + 1)
