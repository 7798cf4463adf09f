"""`emulate`: the posterior of an expensive simulator without derivatives, from about a hundred runs of it."""

from __future__ import annotations

import os
from concurrent.futures import Executor

import numpy as np

from invsamp.arguments import boolean, instance, integer, optional
from invsamp.emulation.emulated_run import EmulatedRun, with_report
from invsamp.emulation.emulation import emulated
from invsamp.emulation.final_draws import drawn
from invsamp.emulation.findings import facts, ignored_inputs, messages, of_draws
from invsamp.emulation.inputs import inputs_of
from invsamp.emulation.journal import Journal
from invsamp.emulation.progress import Bar
from invsamp.emulation.runs import Simulations
from invsamp.emulation.simulator import with_runs
from invsamp.engine.driver.blas_threads import one_thread
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.results.partial_results import announce
from invsamp.simulations.stored_model import StoredModel
from invsamp.storage.directory import as_path

#: Simulations for each input, at least.
LEAST = 4


def emulate(
    posterior: Posterior,
    simulations: int = 200,
    batch: int = 8,
    *,
    descents: int = 8,
    draws: int = 1000,
    chains: int = 4,
    seed: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> EmulatedRun:
    """Draw from the posterior of an expensive simulator, which needs no derivatives, by some hundred runs of it.

    The simulator is run at quasi-random points of the prior. From the best of these local optimizations look for modes,
    all at the same time and on shared simulations. Then a Gaussian process emulates the outputs, its posterior is
    sampled, and a batch of simulations follows: half of them posterior draws, half where the emulator knows least. Each
    energy is predicted before it is simulated. Rounds end once the errors of these predictions are small (an sd of at
    most 0.1) and the posterior no longer changes. They also end when the budget is spent, which a warning reports. The
    emulator's own
    uncertainty widens the likelihood. Unknown parameters of the noise take no simulations.

    Parameters
    ----------
    posterior : Posterior
        Its finest model is emulated. Other fidelities are left alone.
    simulations : int
        Budget: at least four for each unknown input.
    batch : int
        Simulations at the same time, at least 4.
    descents : int
        Local optimizations. More find modes of smaller basins.
    draws, chains : int
        Of the run that is returned; they take no simulations.
    seed : int, optional
        Fixes everything, if the simulator does not draw random numbers itself.
    directory : path, optional
        A database of all simulations is kept there (`invsamp.simulations`). Called again with the same arguments after
        a kill, the emulation goes on where it stood, and nothing is simulated twice. Simulations that a database holds
        before are learned from, too.
    executor : concurrent.futures.Executor, optional
        Runs the simulations of a wave at the same time.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    EmulatedRun
        A `Run`; ``run.certify()`` checks it by further simulations.

    Raises
    ------
    ValueError
        If an argument is wrong; if the posterior was posed by its log likelihood, which has no outputs; if no one can
        draw from its prior.
    RuntimeError
        If all simulations of the first wave fail.
    ModelError
        If the number of outputs changes.

    Warns
    -----
    UserWarning
        If the budget was spent before the rule was met; if a mode was found by one descent alone; if simulations fail
        at posterior draws; if the simulator is noisy, or ignores a parameter.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> prior = iv.Prior(rate=iv.LogNormal(0.0, 1.0))
    >>> times = np.linspace(0.2, 2.0, 10)
    >>> model = lambda theta: np.exp(-theta * times)
    >>> posterior = iv.Posterior(prior, model, np.exp(-1.5 * times), iv.GaussianNoise(0.05))
    >>> run = iv.emulate(posterior, simulations=60, seed=1, progress=False)
    >>> run.report["emulation"]["stopped_by_rule"]
    True
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    if not posterior.predicts:
        raise ValueError("posterior must have a forward model, whose outputs are emulated, got a log likelihood")
    boolean("progress", progress)
    unknown = inputs_of(posterior).coordinates.dimension
    budget = integer("simulations", simulations, least=1)
    if budget < LEAST * unknown:
        raise ValueError(
            f"simulations must be at least {LEAST} for each of the {unknown} unknown inputs, {LEAST * unknown}, got "
            f"{budget}: with fewer an emulator is no better than a guess"
        )
    batch, descents = integer("batch", batch, least=4), integer("descents", descents, least=1)
    draws, chains = integer("draws", draws, least=1), integer("chains", chains, least=1)
    optional(instance, "executor", executor, Executor, "a concurrent.futures.Executor, or None")
    seed = optional(integer, "seed", seed, least=0)
    path = None if directory is None else as_path(directory)
    journal = None if path is None else Journal(path)
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
        if journal is not None and journal.begun:
            seed = int(journal.settings({})["seed"])
    runs = _simulations(with_runs(posterior, path, executor), budget, journal, (seed, batch, descents))
    bar = Bar(runs, batch, progress)
    try:
        with one_thread():
            made = emulated(runs, batch, descents, np.random.default_rng(seed), bar.say)
    finally:
        bar.close()
    run = drawn(made.fitted, draws, chains, seed)
    told = messages(runs, made) + of_draws(made, run)
    if idle := ignored_inputs(posterior, runs, made):
        told.append(f"the outputs do not depend on {idle}: their posterior is the prior")
    found = EmulatedRun(with_report(run, facts(runs, made), told), runs, made)
    announce(found, stacklevel=2)
    return found


def _simulations(
    posterior: Posterior, budget: int, journal: Journal | None, settings: tuple[int, int, int]
) -> Simulations:
    """The simulations to come, with those that a database held when the emulation began."""
    model = posterior.forward[posterior.fidelities[-1]]
    known = _known(posterior, model) if isinstance(model, StoredModel) else None
    if journal is not None:
        wanted = dict(zip(("seed", "batch", "descents"), settings, strict=True))
        if not journal.begun:
            wanted["earlier"] = 0 if known is None else len(known[0])
        count = journal.settings(wanted)["earlier"]
        known = None if known is None else (known[0][:count], known[1][:count])
    return Simulations(posterior, budget, journal, known)


def _known(posterior: Posterior, model: StoredModel) -> tuple[Array, Array]:
    """Natural values of the unknown inputs, and outputs, of all simulations that a database has and that fit."""
    table = model.database.table()
    posed = posterior._posed[posterior.fidelities[-1]].model  # noqa: SLF001
    fixed = posed._fixed  # noqa: SLF001
    theta = np.asarray(table.theta)
    fits = np.ones(len(theta), dtype=bool) if fixed is None else ~((theta != fixed) & ~np.isnan(fixed)).any(axis=1)
    theta = theta if fixed is None else theta[:, np.isnan(fixed)]
    outputs = table.outputs if table.outputs.shape[1] else np.full((len(theta), posed.observations), np.nan)
    return theta[fits], outputs[fits]
