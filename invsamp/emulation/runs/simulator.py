"""Runs of simulations for an emulation: by the model itself, an executor, with a database or without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from invsamp.posing.expressions.variable_names import labels
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.simulations import stored
from invsamp.simulations.running import finished_runs
from invsamp.simulations.stored_model import StoredModel


class Outputs:
    """A forward model without its derivatives, which a database does not keep.

    Parameters
    ----------
    model : callable
    """

    def __init__(self, model: Callable[[Array], object]) -> None:
        self.model = model

    def __repr__(self) -> str:
        return repr(self.model)

    def __call__(self, theta: Array) -> Any:
        """Outputs (batch, m)."""
        return self.model(theta)

    def __getattr__(self, name: str) -> Any:
        """Attributes that the model states."""
        if name.startswith("_") or name in ("model", "linearize", "jacobian", "rows"):
            raise AttributeError(name)
        return getattr(self.model, name)


class Spread(Outputs):
    """A forward model whose rows an executor's workers run.

    Parameters
    ----------
    model : callable
    executor : concurrent.futures.Executor

    Attributes
    ----------
    message : str or None
        What the last failure said.
    messages : list of str or None
        What the failures among the last rows said.
    """

    def __init__(self, model: Callable[[Array], object], executor: Any) -> None:
        super().__init__(model)
        self._executor = executor
        self.message: str | None = None
        self.messages: list[str | None] = []

    def __call__(self, theta: Array) -> Any:
        """Outputs (batch, m), NaN where a simulation failed."""
        found: dict[int, Array] = {}
        self.messages = [None] * len(theta)
        for run in finished_runs(self.model, theta, self._executor):
            if run.outputs is None:
                self.message = self.messages[run.row] = run.failure
            else:
                found[run.row] = run.outputs
        if not found:
            raise RuntimeError(self.message)
        none = np.full_like(next(iter(found.values())), np.nan)
        return np.array([found.get(row, none) for row in range(len(theta))])


def with_runs(posterior: Posterior, directory: Path | None, executor: Any) -> Posterior:
    """The posterior of the finest model, whose runs go to a database in the directory, and to an executor."""
    name = posterior.fidelities[-1]
    model: Any = posterior.forward[name]
    if isinstance(model, StoredModel):  # it has a database already
        runs: Any = model if executor is None else StoredModel(model.model, model.database, executor)
    else:
        own = Outputs(model) if callable(getattr(model, "linearize", None)) else model
        if directory is not None:
            columns = labels(posterior.input_shapes(name))
            runs = stored(own, directory / "simulations", names=columns, executor=executor)
        else:
            runs = own if executor is None else Spread(own, executor)
    return posterior.alone(name).with_forward({name: runs})
