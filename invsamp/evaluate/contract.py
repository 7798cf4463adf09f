"""What an evaluator of somebody's own has to offer, and the checks of what it gives."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from invsamp.contract import Potential
from invsamp.evaluate.requests import Estimate, Request


class EvaluatorError(RuntimeError):
    """An evaluator broke, or gave what is no answer; what was drawn before is kept."""


@runtime_checkable
class Evaluator(Protocol):
    """Evaluates what a run asks for: on a cluster, a GPU, a queue of somebody's own.

    The draws do not depend on it, as long as a row has the same bits wherever it is evaluated.
    """

    def open(self, potentials: Mapping[str, Potential]) -> None:
        """Before the first request: the potentials by fidelity, as the sampler walks in them."""
        ...

    def evaluate(self, requests: Sequence[Request]) -> Sequence[Estimate]:
        """Energies, with gradients where they are asked for, in the order of the requests.

        Those of all rungs that can go on come together. `invsamp.evaluate.solve` does one with its potential. A solve
        that failed is an energy that is not finite.
        """
        ...

    def close(self) -> None:
        """After the last request, however the run ends."""
        ...


class Checked:
    """An evaluator whose answers are checked and counted.

    Parameters
    ----------
    evaluator : Evaluator
    solvers : mapping
        Of each fidelity: they count.
    """

    def __init__(self, evaluator: Evaluator, solvers: Mapping[str, Any]) -> None:
        self._evaluator, self._solvers = evaluator, solvers

    def answer(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """What is asked for.

        Raises
        ------
        EvaluatorError
            If the evaluator raises, or gives something else than it was asked for.
        """
        begin = time.perf_counter()
        try:
            found = list(self._evaluator.evaluate(requests))
        except Exception as error:
            raise EvaluatorError(f"{self._evaluator!r} failed: {type(error).__name__}: {error}") from error
        seconds = (time.perf_counter() - begin) / max(1, sum(len(request.position) for request in requests))
        if len(found) != len(requests):
            raise EvaluatorError(f"{self._evaluator!r} must give {len(requests)} estimates, got {len(found)}")
        return tuple(self._checked(*pair, seconds) for pair in zip(requests, found, strict=True))

    def _checked(self, request: Request, found: Any, seconds: float) -> Estimate:
        rows, d = request.position.shape
        if not isinstance(found, Estimate):
            raise EvaluatorError(f"{self._evaluator!r} must give an Estimate for each request, got {found!r}")
        try:
            energy = np.array(found.energy, dtype=float)
            gradient = np.array(found.gradient, dtype=float) if request.gradient else None
        except (TypeError, ValueError) as error:
            raise EvaluatorError(f"{self._evaluator!r} must give numbers, got {found!r}") from error
        shapes = energy.shape, None if gradient is None else gradient.shape
        if shapes != ((rows,), (rows, d) if request.gradient else None):
            wanted = f"energies of shape ({rows},)" + (
                f" and gradients of shape ({rows}, {d})" if request.gradient else ""
            )
            raise EvaluatorError(f"{self._evaluator!r} must give {wanted}, got {shapes[0]} and {shapes[1]}")
        fine = np.isfinite(energy)
        if gradient is not None:
            fine &= np.isfinite(gradient).all(axis=1)
        bad = ~fine
        failed = int(np.count_nonzero(bad))
        self._solvers[request.fidelity].count(rows, failed, seconds * rows)
        if failed:
            energy[bad] = np.inf
            if gradient is not None:
                gradient[bad] = 0.0
        return found._replace(energy=energy, gradient=gradient, failed=failed > 0)  # type: ignore[arg-type]
