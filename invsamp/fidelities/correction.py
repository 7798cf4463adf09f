"""What a coarse model lacks, learnt from pairs of coarse and fine solves: an affine map of its observations."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, integer, one_of, optional
from invsamp.contract import Array
from invsamp.posing.corrected_model import CorrectedModel
from invsamp.posing.posterior import Posterior

Mask = npt.NDArray[np.bool_]
Kind = Literal["none", "offset", "affine"]
KINDS: tuple[Kind, ...] = ("none", "offset", "affine")
#: Parts of the pairs, each held out once.
FOLDS = 5
#: Fewer pairs tell nothing.
LEAST_PAIRS = 10
#: A richer map is taken where it leaves less than this share of the plainer one's sd.
BETTER = 0.9
#: An sd of the energy that needs no richer map.
ENOUGH = 1e-3
#: Ridges that are tried, relative to the largest variance of a direction of the coarse observations.
_RIDGES = (0.0, *np.geomspace(1e-12, 1e2, 29).tolist())
#: Where the exchange with a corrected model pays: the sd that is left at the most, and how much cheaper it has to be.
GATE_SD, GATE_RATIO = 1.0, 5.0


@runtime_checkable
class Refittable(Protocol):
    """A surrogate that can be fitted to the fine model."""

    def fit(self, theta: Array, observations: Array) -> Any:
        """The model fitted to fine observations (n, m) at theta (n, p), p of its own parameters; this one is left."""
        ...


class Map(NamedTuple):
    """Observations of the fine model from those of a coarse one: ``factor`` times these plus ``offset``."""

    offset: Array  # (m,)
    factor: Array | None  # (m, k); None: the identity

    def __call__(self, y: Array) -> Array:
        """Observations (n, m) from (n, k)."""
        return (y if self.factor is None else y @ self.factor.T) + self.offset


@dataclass(frozen=True)
class LevelCorrection:
    """What was learnt of one coarse fidelity.

    Attributes
    ----------
    fidelity : str
    kind : "none", "offset" or "affine"
        What was chosen.
    sd : mapping of kinds to float
        Standard deviation of the fine energy less the corrected one's over pairs that were held out; the kinds that
        were not asked for, or that do not fit the model, are not among them.
    efficiency : float in (0, 1]
        Of importance weights of the corrected law's draws for the fine one, over the same pairs: the share of
        independent draws of the coarse posterior that are worth a draw of the fine one.
    pairs : int
        Pairs of solves that were used.
    failed : int
        States at which one of the two solves failed.
    relative_cost : float
        Seconds of a fine solve over those of a coarse one, energies alone; as the models state them, else as measured.
    """

    fidelity: str
    kind: Kind
    sd: Mapping[str, float]
    efficiency: float
    pairs: int
    failed: int
    relative_cost: float

    @property
    def pays(self) -> bool:
        """Whether moves on the corrected model, which the fine one decides, should take fewer fine solves."""
        return self.sd[self.kind] <= GATE_SD and self.relative_cost >= GATE_RATIO

    def __str__(self) -> str:
        sds = ", ".join(f"{kind} {value:.3g}" for kind, value in self.sd.items())
        words = f"{self.fidelity!r}: {self.kind} by {self.pairs} pairs (sd of the energy's error: {sds}), "
        words += f"efficiency {self.efficiency:.2f}, {self.relative_cost:.3g} times cheaper"
        if self.failed:
            words += f", {self.failed} failed"
        if self.pays:
            return words
        limits = [f"the sd is above {GATE_SD:g}"] * (self.sd[self.kind] > GATE_SD)
        limits += [f"it is less than {GATE_RATIO:g} times cheaper"] * (self.relative_cost < GATE_RATIO)
        return f"{words}; not worth an exchange: {' and '.join(limits)}"


@dataclass(frozen=True)
class Corrected:
    """A posterior whose coarse fidelities are corrected, and what was learnt of each. `invsamp.correct` makes it.

    Attributes
    ----------
    posterior : Posterior
        The finest fidelity is as it was: so is the law.
    levels : tuple of LevelCorrection
        From the coarsest on.
    thetas : ndarray, shape (n, dimension)
        States of the pairs.
    evaluations : mapping of fidelities to int
        Solves that learning took: with gradients where a coarse fidelity was sampled, energies alone for the pairs.
    """

    posterior: Posterior = field(repr=False)
    levels: tuple[LevelCorrection, ...]
    thetas: Array = field(repr=False)
    evaluations: Mapping[str, int]

    def draws(self, n: int, seed: int | None = None) -> Array:
        """Natural parameters (n, dimension) of some of the states: starts for `invsamp.sample`.

        Raises
        ------
        ValueError
            If ``n`` is not at least 1.
        """
        integer("n", n, least=1)
        rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
        order = [rng.permutation(len(self.thetas)) for _ in range(-(-n // len(self.thetas)))]
        return self.thetas[np.concatenate(order)[:n]]

    def __str__(self) -> str:
        solves = ", ".join(f"{count:,} of {name!r}" for name, count in self.evaluations.items())
        return "\n".join([*map(str, self.levels), f"evaluations: {solves}"])


def learn(posterior: Posterior, states: npt.ArrayLike, kind: Kind | Literal["auto"], seed: int) -> Corrected:
    r"""What the coarse fidelities lack, learnt from pairs of solves at states.

    Parameters
    ----------
    posterior : Posterior
    states : array_like, shape (n, dimension)
    kind : "auto", "none", "offset" or "affine"
    seed : int
        Of the choice of the pairs that are held out.

    Raises
    ------
    ValueError
        As `invsamp.correct`.
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    theta = array("states", states, ("n", posterior.dimension), finite=False, nan=True)
    one_of("kind", kind, ("auto", *KINDS))
    rng = np.random.default_rng(integer("seed", seed, least=0))
    *coarse, finest = posterior.fidelities
    if not coarse:
        raise ValueError(f"posterior must have several fidelities, got {finest!r} alone")
    if not posterior.predicts:
        raise ValueError("posterior must have forward models to correct, got one posed by its log likelihood")
    fine, fine_seconds = _timed(posterior, theta, finest)
    solved = _whole(fine) & _whole(theta)
    forward, levels = dict(posterior.forward), []
    for name in coarse:
        if isinstance(forward[name], Refittable):
            forward[name] = _refitted(posterior, forward[name], name, theta[solved], fine[solved])
    fitted = posterior.with_forward(forward)
    for name in coarse:
        y, seconds = _timed(fitted, theta, name)
        seen: Mask = np.asarray(np.isfinite(y).any(axis=0))
        rows = solved & _whole(y[:, seen])
        if (count := int(rows.sum())) < LEAST_PAIRS:
            raise ValueError(
                f"states must hold at least {LEAST_PAIRS} states that {name!r} and {finest!r} solve, got {count}"
            )
        pairs = _Pairs(fitted, theta[rows], y[rows], fine[rows], seen)
        level, found = _learnt(pairs, name, kind, rng)
        ratio = _cost(forward[finest], fine_seconds) / _cost(forward[name], seconds)
        levels.append(
            LevelCorrection(name, level.kind, level.sd, level.efficiency, count, len(rows) - count, float(ratio))
        )
        if found is not None:
            forward[name] = CorrectedModel(forward[name], found.offset, found.factor)
    solves = dict.fromkeys(posterior.fidelities, len(theta) + 1)
    return Corrected(posterior.with_forward(forward), tuple(levels), theta[solved], solves)


class _Pairs(NamedTuple):
    """What two models say at the same states; ``seen`` are the data that the coarse one predicts."""

    posterior: Posterior
    theta: Array  # (n, dimension)
    coarse: Array  # (n, m), NaN for what is not seen
    fine: Array  # (n, m)
    seen: Mask  # (m,)

    def energies(self, y: Array) -> Array:
        """Misfits of observations (n, m), of which some may be NaN: not predicted."""
        return self.posterior.misfit(self.theta, y)

    def kept_out(self, kind: Kind, rng: np.random.Generator) -> Array:
        """Fine energies less corrected ones (n,), of pairs that the map was not fitted to."""
        if kind == "none":
            return self.energies(self.fine) - self.energies(self.coarse)
        corrected = np.full(self.fine.shape, np.nan)
        fold = rng.permutation(len(self.fine)) % FOLDS
        for k in range(FOLDS):
            out = fold == k
            corrected[out] = self.applied(self.fitted(kind, ~out), out)
        return self.energies(self.fine) - self.energies(corrected)

    def fitted(self, kind: Kind, rows: Mask | slice = slice(None)) -> Map:
        """The map of least error on some pairs."""
        if kind == "offset":
            return Map((self.fine - self.coarse)[rows][:, self.seen].mean(axis=0), None)
        return ridge(self.coarse[rows][:, self.seen], self.fine[rows], self.seen)

    def applied(self, found: Map, rows: Mask) -> Array:
        """Corrected observations (n, m) of some pairs."""
        y = found(self.coarse[rows][:, self.seen])
        if found.factor is not None:
            return y
        whole = np.full((len(y), len(self.seen)), np.nan)
        whole[:, self.seen] = y
        return whole


class _Chosen(NamedTuple):
    kind: Kind
    sd: Mapping[str, float]
    efficiency: float


def _learnt(pairs: _Pairs, name: str, kind: str, rng: np.random.Generator) -> tuple[_Chosen, Map | None]:
    """What was chosen of the kinds that were asked for, and its map by all pairs."""
    asked = KINDS if kind == "auto" else dict.fromkeys(("none", cast(Kind, kind)))
    errors = {one: pairs.kept_out(one, rng) for one in asked}
    sd = {one: float(values.std(ddof=1)) if np.isfinite(values).all() else math.inf for one, values in errors.items()}
    best: Kind = "none" if kind == "auto" else cast(Kind, kind)
    for one in asked:
        if kind == "auto" and sd[best] > ENOUGH and sd[one] < BETTER * sd[best]:
            best = one
    found = None if best == "none" else pairs.fitted(best)
    return _Chosen(best, {str(one): value for one, value in sd.items()}, _efficiency(errors[best])), found


def ridge(coarse: Array, fine: Array, seen: Mask) -> Map:
    """The affine map of least squares, shrunk towards an offset by the ridge of least generalised cross-validation.

    Parameters
    ----------
    coarse : ndarray, shape (n, k)
    fine : ndarray, shape (n, m)
    seen : ndarray of bool, shape (m,)
        Which of the m the k are: k of them are true. Without a difference to be learnt they map to themselves.
    """
    itself = np.eye(len(seen))[:, seen]  # (m, k)
    means = coarse.mean(axis=0), fine.mean(axis=0)
    x, rest = coarse - means[0], fine - means[1] - (coarse - means[0]) @ itself.T
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    if not s.size or s[0] == 0.0:
        return Map(means[1] - itself @ means[0], itself)
    kept = s > s[0] * max(x.shape) * np.finfo(float).eps
    u, s, vt = u[:, kept], s[kept], vt[kept]
    shares, total, n = u.T @ rest, float((rest**2).sum()), len(x)
    power = (shares**2).sum(axis=1)

    def score(level: float) -> float:
        shrunk = s**2 / (s**2 + level * s[0] ** 2)
        left = total - float(((2.0 * shrunk - shrunk**2) * power).sum())
        freedom = n - 1.0 - float(shrunk.sum())
        # without freedom the pairs are met whatever they are
        return left / freedom**2 if freedom > 0.5 * (n - 1.0) else math.inf

    level = min(_RIDGES, key=score)
    factor = itself + ((shares.T * (s / (s**2 + level * s[0] ** 2))) @ vt if math.isfinite(score(level)) else 0.0)
    return Map(means[1] - factor @ means[0], factor)


def _efficiency(errors: Array) -> float:
    """Of the weights exp(-error)."""
    if not np.isfinite(errors).all():
        return 0.0
    weight = np.exp(-(errors - errors.min()))
    return float(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))


def _timed(posterior: Posterior, theta: Array, fidelity: str) -> tuple[Array, float]:
    """Observations (n, m), and the seconds that one took, without what is done at the first call."""
    posterior.predict(theta[:1], fidelity)
    began = time.perf_counter()
    y = posterior.predict(theta, fidelity)
    return y.reshape(len(theta), -1), (time.perf_counter() - began) / len(theta)


def _whole(values: Array) -> Mask:
    """Rows without NaN and infinite numbers."""
    return np.asarray(np.isfinite(values).all(axis=1))


def _cost(model: Any, seconds: float) -> float:
    stated = getattr(model, "cost", None)
    return max(float(seconds if stated is None else stated), 1e-12)


def _refitted(posterior: Posterior, model: Refittable, name: str, theta: Array, fine: Array) -> Any:
    """A surrogate fitted to the fine model's observations."""
    own = theta[:, posterior.columns(name)]
    found = model.fit(own, fine)
    if not callable(found):
        raise ValueError(f"fit of forward[{name!r}] must return a model, got {found!r}")
    return found
