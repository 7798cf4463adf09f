"""Corrections of a coarse model, learned from pairs of coarse and fine solves: a map of its observations, or a sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from invsamp.posing.forward_models.affine_correction import CorrectedModel
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, ForwardModel
from invsamp.surrogates.affine import Map, Mask
from invsamp.surrogates.enhanced import Enhanced
from invsamp.surrogates.pairs import FOLDS, KINDS, Kind, Pairs
from invsamp.surrogates.polynomials import FittedPolynomial, Polynomial, degree_for
from invsamp.surrogates.residuals import ResidualModel

#: Fewer pairs give no information.
LEAST_PAIRS = 10
#: A richer correction is taken where it leaves less than this share of the plainer one's sd.
BETTER = 0.9
#: An sd of the energy that needs no richer one.
ENOUGH = 1e-3
#: Where the exchange with a corrected model pays: the sd that is left at most, and how much cheaper it has to be.
GATE_SD, GATE_RATIO = 1.0, 5.0


@runtime_checkable
class Refittable(Protocol):
    """A surrogate that can be fitted to the fine model."""

    def fit(self, theta: Array, observations: Array) -> ForwardModel:
        """The model fitted to fine observations (n, m) at theta (n, p), p of its own parameters; this one is left."""


@dataclass(frozen=True)
class LevelCorrection:
    """Correction of one coarse fidelity that was learned.

    Attributes
    ----------
    fidelity : str
    kind : "none", "offset", "affine" or "polynomial"
        What was chosen.
    sd : mapping of kinds to float
        Standard deviation of the fine energy less the corrected one's over pairs that were held out; the kinds that
        were not asked for, or that do not fit the model, are not among them.
    efficiency : float in (0, 1]
        Of importance weights of the corrected target's draws for the fine one, over the same pairs: their
        effective sample size per draw.
    pairs : int
        Pairs of solves that were used.
    failed : int
        States at which one of the two solves failed.
    relative_cost : float
        How many times cheaper than the finest one it is.
    source : "stated", "counted" or "assumed"
        How that is known: of the posterior's ``costs``, of what models count, or of neither, for which each fidelity is
        taken for ten times as expensive as the one before it.
    outputs : int
        Data that the map predicts.
    enhanced : bool
        Whether its noise has the residuals' covariance added.
    """

    fidelity: str
    kind: Kind
    sd: Mapping[str, float]
    efficiency: float
    pairs: int
    failed: int
    relative_cost: float
    source: str = "assumed"
    outputs: int = 1
    enhanced: bool = False

    @property
    def pays(self) -> bool:
        """Whether moves on the corrected model, which the fine one decides, should take fewer fine solves."""
        return self.sd[self.kind] <= GATE_SD and self.relative_cost >= GATE_RATIO

    @property
    def learned(self) -> str:
        """Description of the correction, without a verdict."""
        sds = ", ".join(f"{kind} {value:.3g}" for kind, value in self.sd.items())
        words = f"{self.fidelity!r}: {self.kind} by {self.pairs} pairs (sd of the energy's error: {sds}), "
        words += f"efficiency {self.efficiency:.2f}, {cheaper(self.relative_cost)} ({self.source})"
        if self.enhanced:
            words += ", the residuals' covariance added to its noise"
        if self.failed:
            words += f", {self.failed} failed"
        if self.kind == "affine" and self.pairs < self.outputs + 1:
            words += f", fewer pairs than its {self.outputs} outputs need: the map is shrunk toward an offset"
        return words

    def __str__(self) -> str:
        words = self.learned
        if self.pays:
            return words
        limits = [f"the sd is above {GATE_SD:g}"] * (self.sd[self.kind] > GATE_SD)
        limits += [f"it is less than {GATE_RATIO:g} times cheaper"] * (self.relative_cost < GATE_RATIO)
        return f"{words}; too inaccurate or too expensive for exchanges: {' and '.join(limits)}"


def cheaper(ratio: float) -> str:
    """How much, in words."""
    return f"{ratio:.3g} times cheaper" if ratio >= 1.0 else f"{1.0 / ratio:.3g} times more expensive"


class Learned(NamedTuple):
    """Correction that was chosen among the kinds that were asked for."""

    kind: Kind
    sd: Mapping[str, float]  # by kind, of the energy's error over pairs that were held out
    efficiency: float
    pairs: int
    failed: int
    found: Map | None  # by all pairs, of the observations
    missing: FittedPolynomial | None  # by all pairs, what is added before
    errors: Array  # (n,) of its energies, on pairs that were held out; NaN where a solve failed
    enhanced: bool

    def level(self, fidelity: str, relative_cost: float, source: str) -> LevelCorrection:
        """Report of the correction of a fidelity."""
        outputs = 1 if self.found is None else len(self.found.offset)
        return LevelCorrection(fidelity, *self[:5], float(relative_cost), source, outputs, self.enhanced)


def learned(
    posterior: Posterior,
    name: str,
    theta: Array,
    coarse: Array,
    fine: Array,
    kind: Kind | Literal["auto"],
    rng: np.random.Generator,
    enhanced: bool = False,
    offered: Sequence[Kind] = KINDS,
) -> Learned:
    """Learn the correction of a coarse fidelity.

    Parameters
    ----------
    posterior : Posterior
        Its noise judges the observations.
    name : str
        Of the coarse fidelity.
    theta : ndarray, shape (n, dimension)
    coarse, fine : ndarray, shape (n, m)
        Observations there. NaN: in a row, a solve that failed; in a whole column, a datum that is not predicted.
    kind : "auto", "none", "offset", "affine" or "polynomial"
    rng : numpy.random.Generator
        Which pairs are held out.
    enhanced : bool
        Whether the covariance of what the map leaves is added to the noise (`invsamp.surrogates.enhanced`).
    offered : sequence of kinds
        What "auto" chooses among, if there are pairs enough.

    Raises
    ------
    ValueError
        If fewer than ten pairs were solved, or too few for a polynomial that was asked for; if the noise has no
        covariance that another could be added to.
    """
    seen: Mask = np.asarray(np.isfinite(coarse).any(axis=0))
    rows = whole(theta) & whole(fine) & whole(coarse[:, seen])
    if (count := int(rows.sum())) < LEAST_PAIRS or not seen.any():
        finest = posterior.fidelities[-1]
        raise ValueError(
            f"states must hold at least {LEAST_PAIRS} states that {name!r} and {finest!r} solve, got "
            f"{count if seen.any() else 0}"
        )
    own = posterior.given(theta[rows], name)
    pairs = Pairs(posterior, theta[rows], own, posterior.unknowns(name), coarse[rows], fine[rows], seen)
    check_kind(kind, name, posterior.unknowns(name), count)
    asked = [one for one in offered if one in pairs.kinds] if kind == "auto" else list(dict.fromkeys(("none", kind)))
    errors = {one: pairs.kept_out(one, rng) for one in asked}
    sd = {one: float(values.std(ddof=1)) if np.isfinite(values).all() else math.inf for one, values in errors.items()}
    best: Kind = "none" if kind == "auto" else kind
    for one in asked:
        if kind == "auto" and sd[best] > ENOUGH and sd[one] < BETTER * sd[best]:
            best = one
    fitted = None if best == "none" else pairs.fitted(best)
    found, missing = (fitted, None) if isinstance(fitted, Map) else (None, fitted)
    if enhanced:
        wider = Enhanced.of(posterior, pairs.fine, pairs.corrected(best, rng), seen)
        found = wider.of_map(found)
        errors[best] = pairs.energies(pairs.fine) - pairs.energies(wider(pairs.corrected(best, rng)))
        sd[best] = float(errors[best].std(ddof=1))
    by_kind = {str(one): value for one, value in sd.items()}
    known = np.full(len(rows), np.nan)
    known[rows] = errors[best]
    return Learned(best, by_kind, _efficiency(errors[best]), count, len(rows) - count, found, missing, known, enhanced)


def check_kind(kind: str, name: str, unknowns: int, pairs: int) -> None:
    """`ValueError` for a polynomial of too many unknowns of a fidelity."""
    if kind == "polynomial" and degree_for(unknowns, pairs) is None:
        raise ValueError(
            f"a polynomial must have at most a third as many products as there are pairs, got {unknowns} unknowns of "
            f"{name!r} and {pairs} pairs: for many unknowns there is 'affine'"
        )


def predicted_apart(
    posterior: Posterior, model: Refittable, name: str, theta: Array, fine: Array, rng: np.random.Generator
) -> Array:
    """Observations (n, k) of a surrogate at states that it was not fitted to: by as many fits as there are folds."""
    if len(theta) < (least := math.ceil(LEAST_PAIRS * FOLDS / (FOLDS - 1))):
        raise ValueError(
            f"states must hold at least {least} that both solve to fit and judge {name!r}, got {len(theta)}"
        )
    fold = rng.permutation(len(theta)) % FOLDS
    parts = {}
    for k in range(FOLDS):
        fitted = refitted(posterior, model, name, theta[fold != k], fine[fold != k])
        parts[k] = np.asarray(fitted(posterior.given(theta[fold == k], name)), dtype=float)
    y = np.empty((len(theta), parts[0].shape[1]))
    for k, part in parts.items():
        y[fold == k] = part
    return y


def refitted(posterior: Posterior, model: Refittable, name: str, theta: Array, fine: Array) -> ForwardModel:
    """A surrogate fitted to the fine model's observations; `ValueError` if it gives none."""
    found = model.fit(posterior.given(theta, name), fine)
    if not callable(found):
        raise ValueError(f"fit of forward[{name!r}] must return a model, got {found!r}")
    return found


class Correction(NamedTuple):
    """Replacement of a fidelity's forward model."""

    fidelity: str
    found: Map | None = None  # what its observations go through
    missing: FittedPolynomial | None = None  # what is added to them before
    model: ForwardModel | None = None  # a surrogate that was fitted, in place of its own

    def applied(self, posterior: Posterior) -> Posterior:
        """The posterior with it."""
        forward = dict(posterior.forward)
        model = forward[self.fidelity] if self.model is None else self.model
        if self.missing is not None:
            names = getattr(model, "parameters", None)
            model = ResidualModel(model, Polynomial(self.missing.degree, held=True), names, found=self.missing)
        forward[self.fidelity] = model if self.found is None else CorrectedModel(model, *self.found)
        return posterior.with_forward(forward)


def whole(values: Array) -> Mask:
    """Rows without NaN and infinite numbers."""
    return np.asarray(np.isfinite(values).all(axis=1))


def _efficiency(errors: Array) -> float:
    """Of the weights exp(-error)."""
    if not np.isfinite(errors).all():
        return 0.0
    weight = np.exp(-(errors - errors.min()))
    return float(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))
