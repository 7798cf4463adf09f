"""Who evaluates for a run, beside the process that drives it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from invsamp.arguments import instance
from invsamp.evaluate.contract import Checked, Evaluator
from invsamp.evaluate.executors import Executed


def as_evaluator(executor: Executor | Evaluator | None) -> Evaluator | None:
    """What evaluates, from what a user gives; `ValueError` for anything else."""
    if executor is None:
        return None
    right = "a concurrent.futures.Executor, or have the methods open, evaluate and close of invsamp.evaluate.Evaluator"
    instance("executor", executor, (Executor, Evaluator), right)
    return Executed(executor) if isinstance(executor, Executor) else executor


@contextmanager
def hired(engine: Any, evaluator: Evaluator | None) -> Iterator[None]:
    """Within, an evaluator answers what an engine asks."""
    if evaluator is None:
        yield
        return
    evaluator.open({name: solver.potential for name, solver in engine.evaluators.items()})
    try:
        engine.share(Checked(evaluator, engine.evaluators).answer)
        yield
    finally:
        evaluator.close()
