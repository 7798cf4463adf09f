"""An evaluator that answers requests of one kind together: one call of a model for the chains of all its rungs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from invsamp.evaluate.requests import Batch, Estimate, Request, kind_of
from invsamp.evaluate.solving import solver
from invsamp.protocols import Potential


class Together:
    """Joins the rows of requests that differ in nothing else. Made by `together`."""

    def open(self, potentials: Mapping[str, Potential]) -> None:
        """The potentials by fidelity."""
        self._solvers = {name: solver(potential) for name, potential in potentials.items()}

    def evaluate(self, requests: Sequence[Request]) -> list[Estimate]:
        """Estimates in the order of the requests."""
        groups: dict[object, list[int]] = {}
        for k, request in enumerate(requests):
            groups.setdefault(kind_of(request), []).append(k)
        found: dict[int, Estimate] = {}
        for members in groups.values():
            estimate = self._solvers[requests[members[0]].fidelity](_joined([requests[k] for k in members]))
            begin = 0
            for k in members:
                end = begin + len(requests[k].position)
                found[k] = estimate.take(np.arange(begin, end))._replace(failed=estimate.failed)
                begin = end
        return [found[k] for k in range(len(requests))]

    def close(self) -> None:
        """Nothing is left."""

    def __repr__(self) -> str:
        return "together()"


def together() -> Together:
    """Evaluator that calls a model once for the chains of all rungs of its fidelity: ``executor=together()``.

    For models that gain by large batches, on a GPU or vectorized. Draws are those of rung after rung as far as a row of
    the model has the same bits in any batch.

    Examples
    --------
    >>> import invsamp as iv
    >>> evaluator = iv.evaluate.together()  # iv.sample(..., executor=evaluator)
    """
    return Together()


def _joined(requests: Sequence[Request]) -> Request:
    if len(requests) == 1:
        return requests[0]
    batches = [request.batch for request in requests if request.batch is not None]
    batch = None
    if batches:
        columns = zip(*batches, strict=True)
        parts: list[Any] = [np.concatenate(c) if isinstance(c[0], np.ndarray) else c[0] for c in columns]
        batch = Batch(*parts)
    return requests[0]._replace(position=np.concatenate([r.position for r in requests]), batch=batch)
