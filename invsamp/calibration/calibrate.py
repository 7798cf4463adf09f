"""`calibrate`: replicates of parameters, data and runs, and their ranks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import Executor, as_completed
from functools import lru_cache
from os import PathLike

import numpy as np

from invsamp.arguments import boolean, instance, integer, optional, real, wrong
from invsamp.calibration.outcome import Calibration
from invsamp.calibration.records import Records, about
from invsamp.calibration.replicates import ENERGIES, Replicate, Settings, replicate
from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.progress_bar import tqdm
from invsamp.evaluate.contract import Evaluator
from invsamp.ladder import Sampler
from invsamp.posing.forward_models.log_density import GivenLikelihood
from invsamp.posing.posterior.posterior import Posterior
from invsamp.sampling import plan
from invsamp.storage.directory import as_path


def calibrate(
    posterior: Posterior,
    sampler: Sampler | None = None,
    *,
    replicates: int = 200,
    ranks: int = 63,
    draws: int = 250,
    warmup: int | None = None,
    chains: int = 4,
    false_alarm: float = 0.01,
    seed: int | None = None,
    progress: bool = True,
    directory: str | PathLike[str] | None = None,
    executor: Executor | Evaluator | None = None,
) -> Calibration:
    r"""Simulation-based calibration: whether a sampler draws from the posterior of data that the model itself makes.

    Each replicate draws parameters from the prior within the domain, data from the finest model and its noise, and
    runs the sampler on these data. The true parameters are then one more draw of that posterior, so that their rank
    among independent draws is uniform. So are the ranks of the energy (minus the log posterior density of
    positions) and of the misfit (minus the log-likelihood). These reveal a sampler that ignores the data, or is a
    little too hot.
    It takes as many runs as there are replicates, and finds what a single run cannot.

    Parameters
    ----------
    posterior : Posterior
        Its data say which are missing, and nothing else.
    sampler : Sampler, optional
        As of `invsamp.sample`.
    replicates : int
        The more, the smaller the departure that is found: with n of them an offset of about 4 / sqrt(n) sds.
    ranks : int
        Draws among which the truth is ranked, evenly spaced over all chains. A run with fewer effective ones is made
        again with up to 16 times the steps; one that still has fewer is ranked all the same, counted, and named.
    draws, warmup, chains : int
        Of each run, as of `invsamp.sample`; draws of each chain.
    false_alarm : float
        Probability that a right sampler is found wrong, by all quantities together (Bonferroni).
    seed : int, optional
        Fixes all replicates, for any number of workers; more replicates of the same seed begin with the same ones.
    progress : bool
        Whether to show a bar.
    directory : path, optional
        Keep each replicate there when it is made: the same call goes on after a kill, with the same result. New, empty,
        or that of a calibration of the same posterior, sampler and plan, to which more replicates may be added.
    executor : concurrent.futures.Executor, or `invsamp.evaluate.Evaluator`, optional
        An executor makes replicates in parallel: a pool of processes, ``mpi4py.futures.MPIPoolExecutor``, Dask's
        ``Client.get_executor()``. An evaluator evaluates for one run after the other. Neither is shut down.

    Returns
    -------
    Calibration
        Prints as a table with a verdict; ``plot()`` shows it.

    Raises
    ------
    ValueError
        If an argument is wrong. If there are no data to draw (a `Target`), or the prior or the noise cannot be drawn
        from. If the sampler does not suit the posterior, or the directory holds something else. Nothing was sampled by
        then.
    RuntimeError
        If all replicates fail, or the executor breaks; what is in the directory stays.

    Notes
    -----
    The test of uniformity is exact (`invsamp.calibration.uniformity`), given ranks among independent draws. A sampler
    without acceptance step is labeled approximate: found wrong, its ``offset`` and ``width`` measure the bias.
    Replicates that fail are left out: the verdict is of those that ended.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari and Gelman (2018), "Validating Bayesian inference algorithms with
    simulation-based calibration", arXiv:1804.06788, Algorithms 1 and 2.
    Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2023), "Simulation-based calibration checking
    for Bayesian computation: the choice of test quantities shapes sensitivity", Bayesian Analysis, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> posterior = iv.Posterior(
    ...     iv.Prior(a=iv.Normal(0.0, 1.0)),
    ...     iv.with_jacobian(lambda a: a, lambda a: np.ones((len(a), 1, 1))),
    ...     data=[1.0],
    ...     noise=iv.GaussianNoise(0.5),
    ... )
    >>> settings = {"replicates": 4, "ranks": 3, "draws": 20, "warmup": 0, "chains": 2}
    >>> result = iv.calibrate(posterior, iv.mala(0.3), **settings, seed=1, progress=False)
    >>> result.ranks.shape  # replicates; parameter, energy, misfit
    (4, 3)
    """
    instance("posterior", posterior, Posterior, "a Posterior: no data can be drawn from a density alone")
    optional(instance, "sampler", sampler, Sampler, "a Sampler, as the presets return it")
    count, ranks = integer("replicates", replicates, least=1), integer("ranks", ranks, least=1)
    false_alarm = real("false_alarm", false_alarm, above=0, below=1)
    boolean("progress", progress)
    optional(instance, "executor", executor, (Executor, Evaluator), "a concurrent.futures.Executor or an Evaluator")
    path = None if directory is None else as_path(directory)
    records = Records(path)
    if seed is None:
        seed = records.seed()
    # what is wrong with these is said now, in the words of `sample`
    whole = plan(draws, warmup, 1, chains, seed)
    if whole.draws * whole.chains < ranks:
        raise ValueError(f"ranks must be at most the {whole.draws * whole.chains} draws of a run, got {ranks}")
    settings = Settings(posterior, sampler, ranks, whole.draws, warmup, whole.chains, whole.seed)
    _check_drawable(posterior, np.random.default_rng(0))
    if sampler is not None:
        Engine(posterior, sampler, whole)
    made: dict[int, Replicate] = {}
    with records.held(about(settings)) as before:
        made |= {number: found for number, found in before.items() if number < count}
        missing = [number for number in range(count) if number not in made]
        with tqdm(total=count, initial=len(made), disable=not progress, unit="replicate") as bar:
            for number, found in _replicated(settings, missing, executor):
                records.add(number, found)
                made[number] = found
                bar.update()
    return _outcome(settings, made, false_alarm)


def _check_drawable(posterior: Posterior, rng: np.random.Generator) -> None:
    """`ValueError` if no parameters or no data can be drawn; a solve that fails there does not count."""
    if isinstance(posterior.noise, GivenLikelihood):
        raise ValueError("posterior must have a forward model, data and noise to draw from, got a log likelihood alone")
    try:
        theta = posterior.sample_prior(rng, 1)
    except Exception as error:
        raise ValueError(f"posterior must have a prior that can be drawn from, within its domain: {error}") from error
    try:
        posterior.sample_data(rng, theta)
    except Exception as error:
        right = f"one that can be drawn from ({type(error).__name__}: {error})"
        raise wrong("noise of posterior", right, posterior.noise) from error


def _replicated(
    settings: Settings, numbers: list[int], executor: Executor | Evaluator | None
) -> Iterator[tuple[int, Replicate]]:
    """Replicates as they come."""
    if not isinstance(executor, Executor):
        for number in numbers:
            yield number, replicate(settings, number, executor)
        return
    try:
        content = pickle.dumps(settings, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ValueError(
            "executor needs a posterior and a sampler that can be pickled and sent to its workers, such as "
            f"functions at the top of a module ({type(error).__name__}: {error})"
        ) from error
    futures = {executor.submit(_replicated_there, content, number): number for number in numbers}
    try:
        for future in as_completed(futures):
            try:
                found = future.result()
            except Exception as error:
                raise RuntimeError(f"the executor {executor!r} broke: {type(error).__name__}: {error}") from error
            yield futures[future], found
    finally:
        for future in futures:
            future.cancel()


def _replicated_there(content: bytes, number: int) -> Replicate:
    """In a worker."""
    return replicate(_settings(content), number)


@lru_cache(maxsize=1)
def _settings(content: bytes) -> Settings:
    settings: Settings = pickle.loads(content)
    return settings


def _outcome(settings: Settings, made: dict[int, Replicate], false_alarm: float) -> Calibration:
    ended = {number: made[number] for number in sorted(made) if not made[number].failed}
    failed = {number: made[number].failed for number in sorted(made) if made[number].failed}
    if not ended:
        raise RuntimeError(f"all {len(made)} replicates failed, the first of them: {next(iter(failed.values()))}")
    found = list(ended.values())
    return Calibration(
        labels=(*settings.posterior.labels, *ENERGIES),
        numbers=np.array(list(ended), dtype=np.int64),
        theta=np.array([one.theta for one in found]),
        ranks=np.array([one.ranks for one in found], dtype=np.int64),
        draws=settings.ranks,
        ess=np.array([one.ess for one in found]),
        failed=failed,
        warned={number: one.warned for number, one in ended.items() if one.warned},
        false_alarm=false_alarm,
        seed=settings.seed,
        sampler="the sampler that suits it" if settings.sampler is None else str(settings.sampler),
        approximate=settings.sampler is not None and _approximate(settings.sampler),
    )


def _approximate(sampler: Sampler) -> bool:
    """Whether its draws follow only approximately the posterior, as it states."""
    return bool(sampler.approximations) or not all(rung.kernel.adjusted for rung in sampler.rungs)
