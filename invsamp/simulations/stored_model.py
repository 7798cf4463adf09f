"""A forward model whose simulations are kept: looked up before they are run, recorded as soon as they are finished."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from invsamp.arguments import array, function, text
from invsamp.arguments import names as distinct_names
from invsamp.protocols import Array, FinishedRun, Plain, RunsRows, no_derivatives
from invsamp.simulations.claims import claims_of
from invsamp.simulations.code import check_code
from invsamp.simulations.database import SimulationDatabase
from invsamp.simulations.rows import key_of, number_of
from invsamp.simulations.running import executor_of, finished_runs

#: Rows that are claimed at a time.
BLOCK = 256


def stored(
    model: Callable[[Array], object],
    folder: str | os.PathLike[str],
    *,
    names: Sequence[str],
    version: str | None = None,
    executor: Any = None,
) -> StoredModel:
    """The same forward model with a database of its simulations.

    A theta that was simulated before, by any script, is looked up. Others are run one by one and recorded as soon as
    they are finished, failures too. A theta that another process is running at the time is waited for.

    Parameters
    ----------
    model : callable
        theta (batch, p) -> outputs (batch, m), without derivatives. `invsamp.executable` and
        `invsamp.parallel.isolated` run several rows at the same time.
    folder : path
        Of the database, which is made if it does not exist.
    names : sequence of str
        Names of the columns of theta.
    version : str, optional
        Label of the model's version; results of another version are not used. Default: ``model.version`` if it has one.
    executor : optional
        Runs the rows. Any object with a method ``submit`` or ``map``: an executor of `concurrent.futures` or mpi4py, a
        Dask client, ``submitit.AutoExecutor``. Default: the model runs them itself.

    Returns
    -------
    StoredModel
        A forward model (batch, p) -> (batch, m); NaN in the rows that failed.

    Raises
    ------
    ValueError
        If the model has derivatives, which a database does not keep; or as of `SimulationDatabase.open`.

    Notes
    -----
    A failure is not recorded before a simulation has succeeded: where all fail, the model is likely mistaken.

    A warning says once if the code of the model, a Python function, has changed since simulations were recorded.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from invsamp.simulations import stored
    >>> model = stored(lambda theta: np.sin(theta), tempfile.mkdtemp(), names=["a"])
    >>> model(np.array([[0.0], [0.0]]))
    array([[0.],
           [0.]])
    >>> model.simulated
    1
    """
    function("model", model, "of theta (batch, p)")
    if callable(getattr(model, "linearize", None)) and no_derivatives(model) is None:
        raise ValueError(
            f"model must have no derivatives, which a database does not store, got {model!r}. For finite "
            "differences store the function: iv.finite_differences(iv.simulations.stored(function, folder, "
            "names=names))"
        )
    own = getattr(model, "version", None)
    label = (own if isinstance(own, str) else "") if version is None else text("version", version)
    workers = executor_of("executor", executor)
    database = SimulationDatabase.open(folder, distinct_names("names", names), label)
    check_code(model, database.folder, label, len(database) > 0)
    return StoredModel(model, database, workers)


class StoredModel:
    """A forward model with a database; made by `stored`.

    Attributes
    ----------
    model : callable
    database : SimulationDatabase
    simulated : int
        How many simulations this object has run, those that failed too.
    messages : list of str or None
        What the failures among the last rows said.
    """

    def __init__(self, model: Callable[[Array], object], database: SimulationDatabase, executor: Any) -> None:
        self.model, self.database, self._executor = model, database, executor
        self.simulated = 0
        self._message: str | None = None
        self.messages: list[str | None] = []
        self._untrusted: dict[bytes, tuple[Array, FinishedRun]] = {}  # failures before any success, by theta

    def __repr__(self) -> str:
        label = f", version={self.database.version!r}" if self.database.version else ""
        return f"stored({self.model!r}{label})"  # not the folder, which may be moved

    def __getattr__(self, name: str) -> Any:
        """Attributes that the model states."""
        if name.startswith("_") or name in ("model", "linearize", "jacobian", "rows", "finished"):
            raise AttributeError(name)
        return getattr(self.model, name)

    @property
    def n_observations(self) -> int | None:
        """How many outputs a simulation has, as the model or the simulations say; None if they do not."""
        own: int | None = getattr(self.model, "n_observations", None)
        return self.database.n_outputs if own is None else own

    @property
    def message(self) -> str | None:
        """The message of the last failure."""
        return self._message

    def __call__(self, theta: Array) -> Array:
        """Outputs (batch, m); NaN in the rows that failed.

        Raises
        ------
        RuntimeError
            If all failed, so that it is not known how many outputs there are.
        WrongShapeError
            If the number of outputs changes.
        """
        points = array("theta", theta, ("batch", len(self.database.names)), empty=True)
        missing = {key_of(row): row for row in points if not self._known(row)}
        distinct = np.array(list(missing.values()))
        at_once = self._executor is not None or isinstance(self.model, RunsRows)
        block = BLOCK if at_once else 1  # so that others can run what this process has not come to
        elsewhere = [
            row for begin in range(0, len(distinct), block) for row in self._run_free(distinct[begin : begin + block])
        ]
        for row in elsewhere:
            with claims_of(self.database.folder).waited_for(number_of(row, self.database.version)):
                self._run(row[None])
        found = self.database.lookup(points)
        untrusted = [self._untrusted.get(key_of(row)) for row in points]
        self.messages = [
            said or (None if own is None else own[1].failure)
            for said, own in zip(found.messages, untrusted, strict=True)
        ]
        self._message = next((said for said in reversed(self.messages) if said), self._message)
        width = self.n_observations
        if width is None and len(points):
            raise RuntimeError(self._message)
        return found.outputs if found.outputs.shape[1] else np.full((len(points), width or 0), np.nan)

    def __getstate__(self) -> Plain:
        return vars(self) | {"_executor": None, "simulated": 0}  # in another process it runs by itself

    def __setstate__(self, state: Plain) -> None:
        vars(self).update(state)

    def _known(self, theta: Array) -> bool:
        """Whether one theta (p,) need not be run."""
        return key_of(theta) in self._untrusted or bool(self.database.lookup(theta[None]).known[0])

    def _run_free(self, theta: Array) -> Array:
        """Run what no one else is running; theta (k, p) of the others."""
        claims, version = claims_of(self.database.folder), self.database.version
        numbers = {key_of(row): number_of(row, version) for row in theta}
        mine = np.array([claims.take(number) for number in numbers.values()], dtype=bool)
        numbers = {key: number for (key, number), own in zip(numbers.items(), mine, strict=True) if own}
        try:
            self._run(theta[mine], lambda point: claims.release(numbers.pop(key_of(point))))
        finally:
            for number in numbers.values():
                claims.release(number)
        return theta[~mine]

    def _run(self, theta: Array, done: Callable[[Array], None] | None = None) -> None:
        """Run what is still not known of theta (k, p), which this process has claimed."""
        # between the first look and the claim a user may have finished it
        left = theta[[not self._known(row) for row in theta]]
        for run in finished_runs(self.model, left, self._executor) if len(left) else ():
            self._finish(left[run.row], run)
            if done is not None:
                done(left[run.row])

    def _finish(self, theta: Array, run: FinishedRun) -> None:
        self.simulated += 1
        if run.outputs is None and self.database.n_outputs is None:
            self._untrusted[key_of(theta)] = theta, run
            return
        self.database.record(theta, run.outputs, run.failure, _known_seconds(run))
        while self._untrusted:
            _, (point, failure) = self._untrusted.popitem()
            self.database.record(point, failure=failure.failure, seconds=_known_seconds(failure))


def _known_seconds(run: FinishedRun) -> float | None:
    """Seconds of a run; None for a job that ended without a result."""
    return None if np.isnan(run.seconds) else run.seconds
