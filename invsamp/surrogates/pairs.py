"""Pairs of solves of a coarse model and the fine one, and what corrections of each kind leave of their difference."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.surrogates.affine import Map, Mask, ridge
from invsamp.surrogates.polynomials import FittedPolynomial, Polynomial, degree_for

Kind = Literal["none", "offset", "affine", "polynomial"]
#: From the plainest on.
KINDS: tuple[Kind, ...] = ("none", "offset", "affine", "polynomial")
#: Parts of the pairs, each held out once.
FOLDS = 5


class Pairs(NamedTuple):
    """Observations by two models at the same states; ``seen`` are the data that the coarse one predicts."""

    posterior: Posterior
    theta: Array  # (n, dimension)
    own: Array  # (n, p), what the coarse model gets of it
    unknowns: int  # of these, how many are not fixed
    coarse: Array  # (n, m), NaN for what is not seen
    fine: Array  # (n, m)
    seen: Mask  # (m,)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those that so many pairs of so many unknowns can determine."""
        return KINDS if self._degree is not None else KINDS[:-1]

    @property
    def _degree(self) -> int | None:
        return degree_for(self.unknowns, len(self.own))

    def energies(self, y: Array) -> Array:
        """Misfits of observations (n, m), of which some may be NaN: not predicted."""
        return self.posterior.misfit(self.theta, y)

    def kept_out(self, kind: Kind, rng: np.random.Generator) -> Array:
        """Fine energies less corrected ones (n,), of pairs that the correction was not fitted to."""
        return self.energies(self.fine) - self.energies(self.corrected(kind, rng))

    def corrected(self, kind: Kind, rng: np.random.Generator) -> Array:
        """Observations (n, m) by corrections that were not fitted to them."""
        if kind == "none":
            return self.coarse
        corrected = np.full(self.fine.shape, np.nan)
        fold = rng.permutation(len(self.fine)) % FOLDS
        for k in range(FOLDS):
            out = fold == k
            corrected[out] = self.applied(self.fitted(kind, ~out), out)
        return corrected

    def fitted(self, kind: Kind, rows: Mask | slice = slice(None)) -> Map | FittedPolynomial:
        """The correction of least error on some pairs."""
        missing = (self.fine - self.coarse)[rows][:, self.seen]
        if kind == "offset":
            return Map(missing.mean(axis=0), None)
        if kind == "polynomial":
            assert self._degree is not None  # `kinds` has seen to it
            return Polynomial(self._degree, held=True).fitted(self.own[rows], missing)
        return ridge(self.coarse[rows][:, self.seen], self.fine[rows], self.seen)

    def applied(self, found: Map | FittedPolynomial, rows: Mask) -> Array:
        """Corrected observations (n, m) of some pairs."""
        coarse = self.coarse[rows][:, self.seen]
        y = found(coarse) if isinstance(found, Map) else coarse + found(self.own[rows])
        if isinstance(found, Map) and found.factor is not None:
            return y
        whole = np.full((len(y), len(self.seen)), np.nan)
        whole[:, self.seen] = y
        return whole
