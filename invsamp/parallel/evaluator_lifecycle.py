"""The evaluator of a run, from its first solve to its last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeVar

from invsamp.arguments import instance
from invsamp.engine.driver.engine import Engine
from invsamp.evaluate.contract import Checked, Evaluator, RunEvaluator
from invsamp.evaluate.executors import Executed
from invsamp.parallel.messages import Communicator
from invsamp.parallel.mpi_evaluator import Ranks
from invsamp.results.partial_results import warn

Result = TypeVar("Result")


def evaluator_of(
    engine: Engine, executor: Executor | Evaluator | None, comm: Communicator | None, settings: Mapping[str, object]
) -> RunEvaluator:
    """The evaluator of a run: the user's, or by default this process with those that MPI started together with it.

    ``settings`` of the run, beside those that the engine knows, have to be the same on all of these.

    Raises
    ------
    ValueError
        If ``executor`` cannot evaluate, or is given together with ``comm``.
    """
    if executor is None:
        return Ranks(comm, engine, settings)
    if comm is not None:
        raise ValueError(f"comm must be None where an executor evaluates, got {comm!r}")
    right = "a concurrent.futures.Executor, or have the methods open, evaluate and close of invsamp.evaluate.Evaluator"
    instance("executor", executor, (Executor, Evaluator), right)
    return Checked(Executed(executor) if isinstance(executor, Executor) else executor)


def evaluated(engine: Engine, evaluator: RunEvaluator, work: Callable[[], Result]) -> Result:
    """Result of ``work`` on an engine, while an evaluator answers the engine's requests."""
    evaluator.open(engine.potentials)
    try:
        engine.signaled, engine.processes = evaluator.signaled, evaluator.report
        engine.bound.dispatch.corrected = evaluator.correct
        if not evaluator.local:
            engine.share(evaluator.evaluate, evaluator.queue)
            engine.bound.dispatch.follow = evaluator.follow
        return work() if evaluator.processes == 1 else evaluator.drive(work)
    finally:
        try:
            evaluator.close()
        except Exception as error:  # all draws are made
            warn(f"{evaluator!r} failed when it was closed: {type(error).__name__}: {error}", stacklevel=3)
