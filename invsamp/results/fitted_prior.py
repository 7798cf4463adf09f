"""Draws of a run as a prior: a mixture of Gaussians in unconstrained coordinates, and how well it represents them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp

from invsamp.arguments import integer, one_of
from invsamp.diagnostics.report import Report
from invsamp.posing.distributions.bounded_mixture import BoundedMixture, coordinates_within
from invsamp.posing.distributions.gaussian_mixture import GaussianMixture
from invsamp.posing.expressions.variable_names import labels
from invsamp.posing.priors.joint_distribution import shares
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Array, Plain
from invsamp.results.predictive import chosen as chosen_draws
from invsamp.warning_codes import InvsampWarning

#: Numbers of components that are tried, while held-out draws gain.
COMPONENTS = (1, 2, 4, 8, 16, 32)
#: Draws that a component needs for each coordinate.
DRAWS_PER_COORDINATE = 5
#: Draws that are fitted at most, and directions in which the fit is looked at.
MOST, DIRECTIONS = 20_000, 20
#: A Kolmogorov distance of this size changes no conclusion, however many draws distinguish it from 0.
HARMLESS = 0.05
#: Probability that a fit without any error is called poor.
FALSE_ALARM = 1e-3
ITERATIONS, GAIN = 200, 1e-5


@dataclass(frozen=True)
class PriorFit:
    """How well a fitted prior represents the draws of a run, by draws that it was not fitted to.

    Attributes
    ----------
    components : int
    fitted, held_out : int
        Effective draws.
    log_density : float
        Mean of the log density over held-out draws, in unconstrained coordinates.
    gain : float
        By how much it exceeds that of one Gaussian.
    distance : float
        Largest Kolmogorov distance between held-out draws and the fit, of single parameters and random combinations.
    worst : str
        Where it is.
    expected : float
        What the distance of a fit without any error stays below, with probability 0.999.
    """

    components: int
    fitted: int
    held_out: int
    log_density: float
    gain: float
    distance: float
    worst: str
    expected: float

    @property
    def good(self) -> bool:
        """Whether the distance is one that held-out draws may have by chance, or harmless."""
        return self.distance <= max(self.expected, HARMLESS)

    def __str__(self) -> str:
        return (
            f"{self.components} component{'s' if self.components > 1 else ''} fitted to {self.fitted} draws; largest "
            f"Kolmogorov distance of {self.held_out} others {self.distance:.3f} ({self.worst}), of a perfect fit up to "
            f"{self.expected:.3f}; log density {self.log_density:.2f}, {self.gain:.2f} above one Gaussian"
        )


def fit_draws(
    theta: Array, labels: tuple[str, ...], limits: tuple[Array, Array], seed: int
) -> tuple[BoundedMixture, PriorFit]:
    """A mixture that represents independent draws theta (n, k), within limits (k,), and how well it does.

    Raises
    ------
    ValueError
        If there are too few draws for a Gaussian.
    """
    rng = np.random.default_rng(seed)
    coordinates = coordinates_within(*limits)
    positions = coordinates.to_position(theta)
    positions = positions[np.isfinite(positions).all(axis=1)]
    n, k = positions.shape
    if n < 2 * DRAWS_PER_COORDINATE * k or n < 40:
        least = max(40, 2 * DRAWS_PER_COORDINATE * k)
        raise ValueError(f"as_prior needs at least {least} effective draws of {k} parameters, got {n}: raise draws")
    positions = positions[rng.permutation(n)[:MOST]]
    mean, sd = positions.mean(axis=0), positions.std(axis=0)
    if not (sd > 0.0).all():
        stuck = [label for label, size in zip(labels, sd, strict=True) if not size > 0.0]
        raise ValueError(f"as_prior needs draws that differ, got the same number of {stuck} everywhere")
    scaled = (positions - mean) / sd
    held, train = np.split(scaled, [len(scaled) // 3])
    best, gauss = None, 0.0
    for components in COMPONENTS:
        if components > 1 and len(train) < 2 * DRAWS_PER_COORDINATE * k * components:
            break
        mixture = _mixture(train, components, rng)
        scores = mixture.evaluate(held)[0]
        if best is None:
            gauss = float(scores.mean())
        elif np.mean(scores - best[1]) <= np.std(scores - best[1]) / math.sqrt(len(held)):
            break
        best = mixture, scores
    assert best is not None  # the first is always tried
    distance, worst, expected = _distance(best[0], held, labels, rng)
    score = float(best[1].mean())
    constant = float(np.log(sd).sum())
    fit = PriorFit(
        len(best[0].weights), len(train), len(held), score - constant, score - gauss, distance, worst, expected
    )
    covariances = np.asarray(best[0].covariances) * sd[:, None] * sd
    found = GaussianMixture(best[0].weights, mean + np.asarray(best[0].means) * sd, covariances)
    return BoundedMixture(found, *limits), fit


class FittedPrior(Prior):
    """A prior made of a run's draws, which knows how well it represents them: ``fit``, a `PriorFit`."""

    fit: PriorFit


class DrawsOfRun(Protocol):
    """Attributes of a run that a fitted prior needs."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...
    @property
    def weights(self) -> Array | None: ...
    @property
    def report(self) -> Report: ...
    def draws(self, name: str) -> Array: ...
    def summary(self) -> Any: ...


def run_as_prior(run: DrawsOfRun, names: Sequence[str] | None, seed: int) -> FittedPrior:
    """The prior of `invsamp.results.run.Run.as_prior`."""
    chosen = tuple(run.shapes) if names is None else tuple(one_of("names", name, run.shapes) for name in names)
    shapes = {name: run.shapes[name] for name in chosen}
    posed: Plain = run.report.get("posed") or {}
    limits: Plain = posed.get("limits") or {}
    if bound := [name for name in chosen if name in limits and limits[name] is None]:
        raise ValueError(
            f"as_prior does not support {bound}, whose entries constrain each other: leave them out by names="
        )
    free = {name: ([-np.inf] * math.prod(shape), [np.inf] * math.prod(shape)) for name, shape in shapes.items()}
    ends = [np.concatenate([np.asarray((limits.get(name) or free[name])[k], float) for name in chosen]) for k in (0, 1)]
    theta = np.concatenate([run.draws(name).reshape(*run.draws(name).shape[:2], -1) for name in chosen], axis=2)
    own = labels(shapes, posed.get("labels"))
    effective = run.summary()["ess_bulk"].reindex(list(own)).min()
    count = int(np.clip(np.nan_to_num(effective, nan=1.0), 1, theta.shape[0] * theta.shape[1]))
    rows, _ = chosen_draws(theta, run.weights, count)
    mixture, fit = fit_draws(rows.reshape(-1, theta.shape[2]), own, (ends[0], ends[1]), integer("seed", seed, least=0))
    prior = FittedPrior(dict(shares(chosen, mixture, shapes.values())))
    prior.fit = fit
    warn_of(fit)
    return prior


def warn_of(fit: PriorFit) -> None:
    """Warn of a fit that does not represent the draws."""
    if not fit.good:
        warnings.warn(
            f"as_prior does not represent the draws well: the largest Kolmogorov distance is {fit.distance:.3f} "
            f"({fit.worst}), of a perfect fit at most {fit.expected:.3f}. More draws allow more components; or pose "
            "both data sets in one posterior",
            InvsampWarning,
            stacklevel=4,
        )


def _mixture(x: Array, components: int, rng: np.random.Generator) -> GaussianMixture:
    """Mixture by expectation-maximization (Dempster, Laird and Rubin 1977, J. R. Stat. Soc. B 39, 1-38)."""
    n, k = x.shape
    ridge = 1e-6 * np.eye(k)
    if components == 1:
        covariance = np.cov(x.T, bias=True).reshape(1, k, k) + ridge
        return GaussianMixture([1.0], x.mean(axis=0)[None], covariance)
    centers = _spread_out(x, components, rng)
    nearest = np.argmin(((x[:, None, :] - centers) ** 2).sum(axis=2), axis=1)
    share = np.eye(components)[nearest] + 1e-3
    share /= share.sum(axis=1, keepdims=True)
    before = -np.inf
    for _ in range(ITERATIONS):
        weight = share.sum(axis=0) + 1e-9
        means = (share.T @ x) / weight[:, None]
        apart = x[:, None, :] - means
        covariances = np.einsum("nc,nci,ncj->cij", share, apart, apart) / weight[:, None, None] + ridge
        inverse = np.linalg.inv(np.linalg.cholesky(covariances))
        z = np.einsum("cij,ncj->nci", inverse, apart)
        logs = np.log(weight / n) + np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
        logs = logs - 0.5 * np.square(z).sum(axis=2)
        total = logsumexp(logs, axis=1)
        share = np.exp(logs - total[:, None])
        if total.mean() - before < GAIN:
            break
        before = total.mean()
    kept = weight > k + 1.0  # a component of hardly any draws is one of chance
    return GaussianMixture(weight[kept], means[kept], covariances[kept])


def _spread_out(x: Array, count: int, rng: np.random.Generator) -> Array:
    """Points (count, k) far from each other, as k-means++ draws them (Arthur and Vassilvitskii 2007)."""
    chosen = [x[rng.integers(len(x))]]
    far = ((x - chosen[0]) ** 2).sum(axis=1)
    for _ in range(count - 1):
        chosen.append(x[rng.choice(len(x), p=far / far.sum())])
        far = np.minimum(far, ((x - chosen[-1]) ** 2).sum(axis=1))
    return np.array(chosen)


def _distance(
    mixture: GaussianMixture, held: Array, labels: tuple[str, ...], rng: np.random.Generator
) -> tuple[float, str, float]:
    """Largest Kolmogorov distance of held-out draws, where it is, and what it is at most by chance.

    The distribution of a combination of the entries is a mixture of Gaussians in one dimension.
    """
    from scipy.special import ndtr

    k = held.shape[1]
    directions = np.eye(k)
    if k > 1:
        directions = np.concatenate([directions, rng.standard_normal((DIRECTIONS, k))])
    names = [*labels, *("a combination of parameters" for _ in range(len(directions) - k))]
    weights = np.asarray(mixture.weights) / np.sum(mixture.weights)
    places = np.asarray(mixture.means) @ directions.T  # (components, directions)
    sds = np.sqrt(np.einsum("di,cij,dj->cd", directions, np.asarray(mixture.covariances), directions))
    n, largest, worst = len(held), 0.0, names[0]
    for column, direction in enumerate(directions):
        x = np.sort(held @ direction)
        cdf = ndtr((x[:, None] - places[:, column]) / sds[:, column]) @ weights
        steps = np.arange(n + 1) / n
        distance = float(max(np.max(steps[1:] - cdf), np.max(cdf - steps[:-1])))
        if distance > largest:
            largest, worst = distance, names[column]
    # Dvoretzky, Kiefer and Wolfowitz, with Massart's constant (1990, Ann. Probab. 18, 1269-1283)
    expected = math.sqrt(math.log(2.0 * len(directions) / FALSE_ALARM) / (2.0 * n))
    return largest, worst, expected
