"""Energies of positions by a regression on those seen so far: guesses of what a model will give, for nothing else."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from invsamp.evaluate.requests import Estimate
from invsamp.protocols import Array

#: Estimates that are kept, and of these so many for each coefficient at least.
KEPT, PER_COEFFICIENT = 256, 2
#: Errors of the last predictions that count, and their size below which they are of use, in sds of the energies.
ERRORS, USEFUL = 16, 0.5
#: Added to the variances of the terms.
RIDGE = 1e-9


class EnergyRegression:
    """Quadratic in the position, or linear where too few energies are known; those of failed solves do not count.

    Attributes
    ----------
    useful : bool
        Whether the last predictions before the fit were better than none.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[Array, Array]] = deque(maxlen=KEPT)  # positions (d,), and numbers (parts,)
        self._coefficients: Array | None = None  # (terms, parts)
        self._center = self._scale = np.zeros(0)
        self._new = False  # since the last fit
        self._errors: deque[float] = deque(maxlen=ERRORS)
        self.useful = False

    def add(self, position: Array, found: Estimate) -> None:
        """Learn an estimate of one position (1, d)."""
        values = _numbers(found)
        if np.isfinite(values).all():
            if self._coefficients is not None:
                self._errors.append(float(self.predict(position)[0] - values[0]))
            self._seen.append((position[0].copy(), values))
            self._new = True

    def predict(self, position: Array) -> Array:
        """Energy, and the prior's part where there is one, (parts,) at a position (1, d), where it is useful."""
        assert self._coefficients is not None
        z = (position - self._center) / self._scale
        return np.asarray(_terms(z, len(self._coefficients) > 1 + z.shape[1])[0] @ self._coefficients)

    def fit(self) -> None:
        """Learn what is new."""
        if not self._new:
            return
        self._new = False
        energies = np.array([values[0] for _, values in self._seen])
        error = np.sqrt(np.mean(np.square(self._errors))) if len(self._errors) == ERRORS else np.inf
        self.useful = bool(error < USEFUL * energies.std())
        count, d = len(self._seen), len(self._seen[0][0])
        quadratic = count >= PER_COEFFICIENT * (d + 1) * (d + 2) // 2
        if not quadratic and count < PER_COEFFICIENT * (d + 1):
            return
        positions, values = (np.array(part) for part in zip(*self._seen, strict=True))
        self._center, self._scale = positions.mean(axis=0), positions.std(axis=0)
        self._scale[self._scale == 0.0] = 1.0
        terms = _terms((positions - self._center) / self._scale, quadratic)
        square = terms.T @ terms + RIDGE * count * np.eye(terms.shape[1])
        self._coefficients = np.linalg.solve(square, terms.T @ values)


@lru_cache(maxsize=8)
def _pairs(d: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.triu_indices(d)


def _numbers(found: Estimate) -> Array:
    return np.array([part[0] for part in (found.energy, found.prior) if part is not None])


def _terms(z: Array, quadratic: bool) -> Array:
    """1 and the entries of z (n, d), with their products."""
    n, d = z.shape
    linear = np.column_stack([np.ones(n), z])
    if not quadratic:
        return linear
    first, second = _pairs(d)
    return np.column_stack([linear, z[:, first] * z[:, second]])
