"""Who evaluates for a run, beside the process that drives it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from invsamp.arguments import instance
from invsamp.engine.driver.engine import Engine
from invsamp.evaluate.contract import Checked, Evaluator, EvaluatorError
from invsamp.evaluate.executors import Executed
from invsamp.results.partial_results import warn


def as_evaluator(executor: Executor | Evaluator | None) -> Evaluator | None:
    """What evaluates, from what a user gives; `ValueError` for anything else."""
    if executor is None:
        return None
    right = "a concurrent.futures.Executor, or have the methods open, evaluate and close of invsamp.evaluate.Evaluator"
    instance("executor", executor, (Executor, Evaluator), right)
    return Executed(executor) if isinstance(executor, Executor) else executor


@contextmanager
def answered_by(engine: Engine, evaluator: Evaluator | None) -> Iterator[None]:
    """Within, an evaluator answers what an engine asks."""
    if evaluator is None:
        yield
        return
    try:
        evaluator.open({name: counted.potential for name, counted in engine.potentials.items()})
    except ValueError:  # what was given does not suit it
        raise
    except Exception as error:
        raise EvaluatorError(f"{evaluator!r} failed as it was opened: {type(error).__name__}: {error}") from error
    counted = engine.potentials
    engine.bound.dispatch.corrected = lambda _: evaluator.open({n: each.potential for n, each in counted.items()})
    try:
        engine.share(Checked(evaluator, engine.potentials).answer)
        yield
    finally:
        try:
            evaluator.close()
        except Exception as error:  # all draws are made
            warn(f"{evaluator!r} failed as it was closed: {type(error).__name__}: {error}", stacklevel=4)
