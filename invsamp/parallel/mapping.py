"""A forward model at many parameters, each process with a part of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array, VectorJacobianProduct
from invsamp.parallel.isolation import isolated
from invsamp.parallel.world import all_or_none, alone, world
from invsamp.posing.forward import ModelError


def map(model: Any, thetas: npt.ArrayLike, *, workers: int | None = None, comm: Any = None) -> Array:
    """Observations at many parameters, which do not depend on each other: the rows spread over processes.

    Over the ranks that ``mpiexec`` started together, all of which call it and get all rows; otherwise over worker
    processes of this machine (`invsamp.isolated`). A model whose solves are themselves distributed (``model.comm``) is
    evaluated by all of its ranks together.

    Parameters
    ----------
    model : callable
        theta (batch, p) -> observations (batch, m). For worker processes it has to be picklable.
    thetas : array_like (n, p)
        On every rank the same.
    workers : int >= 1, optional
        Worker processes where there is no MPI. 1: this one. Default: as many as there are processors.
    comm : mpi4py.MPI.Comm, optional
        Ranks. Default: all that were started together.

    Returns
    -------
    ndarray (n, m)
        NaN in the rows that failed.

    Raises
    ------
    ValueError
        If ``thetas`` is no matrix, or ``workers`` is below 1.
    RuntimeError
        If all rows fail, so that it is not known how many observations there are; with what the last one said.
    """
    theta = np.ascontiguousarray(thetas, dtype=float)
    if theta.ndim != 2 or not len(theta):
        raise ValueError(f"thetas must have shape (n, parameters) with n >= 1, got {theta.shape}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    own = getattr(model, "comm", None)
    if own is not None and own.size > 1:
        return np.asarray(model(theta), dtype=float)
    comm = world() if comm is None else comm
    if comm is None or comm.size == 1:
        return _over_workers(model, theta, workers)
    with all_or_none(comm), alone():
        rows, message = _evaluated(model, np.array_split(theta, comm.size)[comm.rank])
        parts = comm.allgather((rows, message))
    return _stacked([row for part, _ in parts for row in part], model, next((m for _, m in parts if m), None))


def _over_workers(model: Any, theta: Array, workers: int | None) -> Array:
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if min(count, len(theta)) == 1:
        rows, message = _evaluated(model, theta)
        return _stacked(rows, model, message)
    whole = model if callable(getattr(model, "linearize", None)) else _Plain(model)
    with isolated(whole, workers=min(count, len(theta))) as pool:
        return np.asarray(pool(theta), dtype=float)


@dataclass(frozen=True)
class _Plain:
    """A function as a forward model, whose derivatives nobody asks for."""

    function: Callable[[Array], Array]

    def __call__(self, theta: Array) -> Array:
        return self.function(theta)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        raise TypeError("a plain function cannot be linearized")


def _evaluated(model: Any, theta: Array) -> tuple[list[Array | None], str | None]:
    """Observations of each row, None where it failed, and what the last failure said."""
    if not len(theta):
        return [], None
    try:
        return list(np.asarray(model(theta), dtype=float)), None
    except ModelError:
        raise
    except Exception as error:
        if len(theta) == 1:
            return [None], f"{type(error).__name__}: {error}"
    parts = [_evaluated(model, theta[i : i + 1]) for i in range(len(theta))]
    return [rows[0] for rows, _ in parts], next((m for _, m in reversed(parts) if m), None)


def _stacked(rows: list[Array | None], model: Any, message: str | None) -> Array:
    solved = [row for row in rows if row is not None]
    width = len(solved[0]) if solved else getattr(model, "n_observations", None)
    if width is None:
        raise RuntimeError(f"all {len(rows)} solves failed: {message}")
    return np.stack([np.full(width, np.nan) if row is None else row for row in rows])
