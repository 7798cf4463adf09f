"""A forward model at many parameters, each process with a part of them."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, function, integer, optional
from invsamp.errors import ModelError
from invsamp.parallel.communicator import all_or_none, alone, check_communicator, world
from invsamp.parallel.isolation import isolated
from invsamp.parallel.messages import Communicator
from invsamp.posing.forward_models.guarded_model import own_array
from invsamp.protocols import Array

#: Observations at theta (batch, p).
Solve = Callable[[Array], Array]
_Row = Array | str | ModelError


def map(model: object, thetas: npt.ArrayLike, *, workers: int | None = None, comm: Communicator | None = None) -> Array:
    """Observations at many parameters, which do not depend on each other: the rows spread over processes.

    Over the ranks that ``mpiexec`` started together, all of which call it and get all rows; otherwise over worker
    processes of this machine (`invsamp.parallel.isolated`). A model whose solves are themselves distributed
    (``model.comm``) is evaluated by all of its ranks together. Every row is evaluated by itself, so that the numbers
    are those of a loop, however many processes there are.

    Parameters
    ----------
    model : callable
        theta (1, p) -> observations (1, m). For worker processes it has to be picklable.
    thetas : array_like (n, p)
        On every rank the same.
    workers : int >= 1, optional
        Worker processes where there is no MPI. 1: this one. Default: as many as there are processors.
    comm : mpi4py.MPI.Comm, optional
        Ranks. Default: all that were started together.

    Returns
    -------
    ndarray (n, m)
        NaN in the rows that failed: those for which the model raised.

    Raises
    ------
    ValueError
        If the model cannot be called or sent to workers, ``thetas`` is no matrix or not the same on all ranks, or
        ``workers`` is below 1; as `ModelError`, if observations have the wrong shape. On all ranks alike.
    RuntimeError
        If all rows fail, so that it is not known how many observations there are; with what the last one said.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.parallel.map(lambda theta: theta**2, [[1.0], [2.0]], workers=1)
    array([[1.],
           [4.]])
    """
    solve: Solve = function("model", model, "of theta (batch, parameters)")
    theta = np.ascontiguousarray(array("thetas", thetas, ("n", "parameters"), finite=False, nan=True))
    workers = optional(integer, "workers", workers, least=1)
    check_communicator(comm)
    own = getattr(model, "comm", None)
    together = own is not None and own.size > 1
    if not together:
        own = world() if comm is None else comm
    if own is None or own.size == 1:
        return _over_workers(solve, theta, workers)
    _check_equal(own, theta)
    if together:
        return _stacked(_evaluated(solve, theta), model)
    with all_or_none(own), alone():
        parts = own.allgather(_evaluated(solve, np.array_split(theta, own.size)[own.rank]))
    return _stacked([row for part in parts for row in part], model)


def _check_equal(comm: Communicator, theta: Array) -> None:
    found = comm.allgather((theta.shape, hashlib.sha256(theta.tobytes()).hexdigest()))
    different = [rank for rank, one in enumerate(found) if one != found[0]]
    if different:
        raise ValueError(f"thetas must be the same on every rank, got others on ranks {different} than on rank 0")


def _over_workers(model: Solve, theta: Array, workers: int | None) -> Array:
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if min(count, len(theta)) == 1:
        return _stacked(_evaluated(model, theta), model)
    try:
        pickle.dumps(model)
    except Exception as error:
        raise ValueError(
            "model must be picklable, to be sent to worker processes: a function at the top of a module, say, got "
            f"{model!r} ({error}); workers=1 evaluates it in this process"
        ) from None
    with isolated(model, workers=min(count, len(theta))) as pool:
        return np.asarray(pool(theta), dtype=float)


def _evaluated(model: Solve, theta: Array) -> list[_Row]:
    """Observations of each row, or the message of its failure; up to a mistake in the model, if there is one."""
    rows: list[_Row] = []
    for row in theta:
        try:
            y = own_array(model(row[None].copy()), "observations")
            if y.ndim != 2 or len(y) != 1:
                raise ModelError(f"observations of a batch of one row must have shape (1, m), got {y.shape}")
            rows.append(y[0])
        except ModelError as error:
            return [*rows, ModelError(str(error))]
        except Exception as error:
            rows.append(f"{type(error).__name__}: {error}")
    return rows


def _stacked(rows: list[_Row], model: object) -> Array:
    for row in rows:
        if isinstance(row, ModelError):
            raise row
    widths = {len(row) for row in rows if isinstance(row, np.ndarray)}
    if len(widths) > 1:
        raise ModelError(f"observations must be as many for every theta, got {sorted(widths)}")
    width = widths.pop() if widths else getattr(model, "n_observations", None)
    if width is None:
        raise RuntimeError(f"all {len(rows)} solves failed: {rows[-1]}")
    return np.stack([row if isinstance(row, np.ndarray) else np.full(width, np.nan) for row in rows])
