r"""Which entries of parameters that depend on others are better sampled centered, by the curvature at a minimum.

Let :math:`\eta = a + b u` be an entry of a hierarchy, u standard normal. Given the parameters that it depends on, it
has the prior precision :math:`1 / b^2`, and the data add an information I to it. Where :math:`I b^2 < 1` the prior
dominates, and u depends little on a and b in the posterior. Elsewhere the data dominate, and :math:`\eta` depends
little on a and b. The source is Papaspiliopoulos, Roberts and Sköld 2007, "A general framework for the parametrization
of hierarchical models", Statistical Science 22, section 3. The two mistakes are not alike: a non-centered entry that
the data dominate costs evaluations, but a centered one has a narrow neck where b is small, which chains miss without a
sign. An entry is centered if the data dominate for 95% of the posterior of b,

.. math:: \log I + 2 \log q > 0, \qquad P(b < q \mid \text{data}) = 0.05.

At a minimum in u, with the Hessian H of the energy, :math:`I = (H_{uu} - 1) / b^2`, and the data alone place
:math:`\eta` at :math:`\hat\eta`, one Newton step of the misfit from there. The minimum's own b may be far from where
the mass is. The posterior of b is that given the estimates,

.. math:: p(b) \prod_j N(\hat\eta_j;\, a_j, b_j^2 + 1 / I_j),

by quadrature along the one direction of positions in which b changes, with a integrated out by a Gaussian of the
prior's quartiles. Other families count as the normal distribution of the same quartiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.posing.priors.conditional_distribution import Conditional
from invsamp.posing.priors.sampled_prior import Sampled
from invsamp.posing.transforms.univariate import Coordinates, Identity, Log
from invsamp.protocols import Array, Reference

Mask = npt.NDArray[np.bool_]

#: Of the curvature that the prior has, a share that the data have to add for an entry to count as informed: below it
#: differences of gradients are rounding.
INFORMED = 1e-3
#: Quantile of a scale's posterior at which the data have to dominate: draws of a run resolve one of 5%.
SMALL = 0.05
#: Points of the quadrature, and how many of the prior's standard deviations it reaches to either side.
NODES, REACH = 401, 8.0
#: Length of a difference in positions, in the prior's standard deviations.
STEP = 1e-4
#: The same of a second difference of the prior's density, which is not expensive.
CURVATURE_STEP = 1e-3


class Minimum(NamedTuple):
    """Energy at one of its minima, in positions in which nothing is centered."""

    position: Array  # (d,)
    misfit_slope: Array  # (d,) gradient of the misfit
    curvature: Array  # (d, d) Hessian of the energy


def centering_at(
    minimum: Minimum,
    sampled: Sampled,
    coordinates: Coordinates,
    reference: Reference,
    log_prior: Callable[[Array], Array],
) -> dict[str, Mask]:
    """By name of each parameter whose form is to be chosen: which of its entries are better centered, in its shape.

    Parameters
    ----------
    minimum : Minimum
    sampled : Sampled
    coordinates : Coordinates
    reference : Reference
        Of the prior, in positions.
    log_prior : callable
        Log density of the prior at positions (n, d).
    """
    sds = reference.factor if reference.factor.ndim == 1 else np.sqrt(np.square(reference.factor).sum(axis=1))
    units = [_Units(node, sampled, coordinates, minimum.position, sds) for node in _non_centered(sampled)]
    curvature, found = minimum.curvature.copy(), {}
    for one in reversed(units):  # what depends on others first
        node, chosen = one.node, np.zeros(len(one.columns), dtype=bool)
        if one.free:
            below = np.flatnonzero(one.below(units))
            prior = one.prior_curvature(log_prior)
            information = one.information(curvature, prior, below)
            estimates = one.estimates(minimum.misfit_slope, information)
            expected, small = one.log_scales(information, estimates, reference.mean, sds, log_prior)
            with np.errstate(divide="ignore"):
                chosen = np.log(information * np.square(one.width)) + 2.0 * small > 0.0
            _rescale(curvature, one.columns, np.exp(expected) / one.scale, prior)
        if node.automatic:
            found[node.name] = chosen.reshape(node.distribution.shape)
    return found


def _non_centered(sampled: Sampled) -> list[Conditional]:
    """Parameters that are sampled by way of their standard families, each after those that it depends on."""
    assert sampled.hierarchy is not None
    return [node for node in sampled.hierarchy.conditionals if not (node.itself or node.centered.any())]


def _rescale(curvature: Array, columns: npt.NDArray[np.intp], factor: Array, prior: Array) -> None:
    """Let scales be so many times as large, in place: what data say of u is that of eta by the scale."""
    curvature[columns, columns] -= prior
    curvature[columns] *= factor[:, None]
    curvature[:, columns] *= factor
    curvature[columns, columns] += prior


class _Units:
    """The entries of one parameter: eta = location + scale * u, u about N(middle, width^2), in positions u.

    Of a positive u whose position is its logarithm, eta is the logarithm of theta: its location is the logarithm of the
    stretch, and its scale is 1.
    """

    def __init__(self, node: Conditional, sampled: Sampled, coordinates: Coordinates, at: Array, sds: Array) -> None:
        self.node, self._sampled, self._coordinates, self._at = node, sampled, coordinates, at
        self.columns = np.arange(node.columns.start, node.columns.stop)
        transforms = set(coordinates.transforms[node.columns])
        lower, upper = (np.ravel(end) for end in node.base.support)
        self._of_logarithm = transforms == {Log(0.0)}
        everywhere = bool(np.isinf(lower).all() and np.isinf(upper).all())
        #: Whether positions go everywhere, in both forms.
        self.free = (transforms == {Identity()} and everywhere) or (self._of_logarithm and bool((lower == 0.0).all()))
        if self.free:
            with np.errstate(all="ignore"):
                quartiles = np.stack([node.base.scipy().ppf(np.array(q)) for q in (0.25, 0.5, 0.75)])
                low, self.middle, high = np.log(quartiles) if self._of_logarithm else quartiles
            self.width = (high - low) / 1.349
        moves = STEP * np.diag(sds)
        ends = [self.place(at + moves), self.place(at - moves)]
        #: Derivatives of locations and of the logs of scales by positions, (d, m).
        self.by_location, self.by_scale = (
            (up - down) / (2.0 * STEP * sds[:, None])
            for up, down in zip(*((location, np.log(scale)) for location, scale in ends), strict=True)
        )
        self.location, self.scale = (part[0] for part in self.place(at[None]))

    def place(self, position: Array) -> tuple[Array, Array]:
        """Locations and scales (n, m) at positions (n, d)."""
        hierarchy = self._sampled.hierarchy
        assert hierarchy is not None
        moved, _ = hierarchy.forward(self._coordinates.evaluate(position).theta)
        shape = len(position), len(self.columns)
        with np.errstate(all="ignore"):
            location, scale, _ = self.node.stretch(moved.theta)
            if self._of_logarithm:
                location, scale = np.log(scale), np.ones(1)
        return np.broadcast_to(location, shape), np.broadcast_to(scale, shape)

    def below(self, units: list[_Units]) -> npt.NDArray[np.bool_]:
        """Which columns (d,) are of parameters that depend on these."""
        mask = np.zeros(len(self._at), dtype=bool)
        for other in units:
            if other is not self and (other.by_location[self.columns].any() or other.by_scale[self.columns].any()):
                mask[other.columns] = True
        return mask

    def prior_curvature(self, log_prior: Callable[[Array], Array]) -> Array:
        """Second derivatives (m,) of the prior's energy by each position."""
        step = CURVATURE_STEP * self.width
        moves = step[:, None] * np.eye(len(self._at))[self.columns]
        low, middle, high = (-log_prior(self._at + way * moves) for way in (-1.0, 0.0, 1.0))
        return np.asarray((low - 2.0 * middle + high) / np.square(step))

    def information(self, curvature: Array, prior: Array, below: npt.NDArray[np.intp]) -> Array:
        """Precision (m,) that the data add of each eta, whatever those ``below`` it are; 0 where it is none."""
        columns, own = self.columns, np.diag(curvature)[self.columns]
        if len(below):
            across = curvature[np.ix_(columns, below)]
            own = own - (across * np.linalg.solve(curvature[np.ix_(below, below)], across.T).T).sum(axis=1)
        added = own - prior
        return np.where(added > INFORMED / np.square(self.width), added / np.square(self.scale), 0.0)

    def estimates(self, misfit_slope: Array, information: Array) -> Array:
        """Where the data alone place each eta (m,)."""
        eta = self.location + self.scale * self._at[self.columns]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(eta - misfit_slope[self.columns] / self.scale / information)

    def log_scales(
        self,
        information: Array,
        estimates: Array,
        mean: Array,
        sds: Array,
        log_prior: Callable[[Array], Array],
    ) -> tuple[Array, Array]:
        """Means of the logs of the entries' scales, and their quantiles `SMALL` (m,), given what the data estimate."""
        expected, left = np.log(self.scale), np.flatnonzero((information > 0.0) & self.by_scale.any(axis=0))
        small = expected.copy()
        while len(left):
            direction = self.by_scale[:, left[0]] / np.linalg.norm(self.by_scale[:, left[0]])
            sizes = np.linalg.norm(self.by_scale[:, left], axis=0)
            same = left[direction @ self.by_scale[:, left] > (1.0 - 1e-6) * sizes]
            reach = REACH * float(np.linalg.norm(direction * sds))
            way = float(direction @ (mean - self._at)) + reach * np.linspace(-1.0, 1.0, NODES)
            points = self._at + way[:, None] * direction
            scales = self.place(points)[1][:, same]
            logs = log_prior(points) + self._log_likelihood(
                scales, information[same], estimates[same], self.by_location[:, same], mean - self._at, sds, same
            )
            logs = np.where(np.isfinite(logs), logs, -np.inf)
            share = np.exp(logs - logs.max())
            with np.errstate(divide="ignore", invalid="ignore"):
                log_scales = np.where(share[:, None] > 0.0, np.log(scales), 0.0)
            expected[same] = share @ log_scales / share.sum()
            # along the direction all of these scales increase
            small[same] = log_scales[np.searchsorted(np.cumsum(share), SMALL * share.sum())]
            left = np.setdiff1d(left, same)
        return expected, small

    def _log_likelihood(
        self, scales: Array, information: Array, estimates: Array, by: Array, moved: Array, sds: Array, same: Array
    ) -> Array:
        """Log density (n,) of estimates given scales (n, m), with locations integrated out, up to a constant."""
        used = by.any(axis=1)
        factor = (by[used] * sds[used, None]).T  # (m, r), of standard normal moves of what locations depend on
        away = estimates - self.location[same] - by.T @ moved - scales * self.middle[same]
        with np.errstate(all="ignore"):
            weights = 1.0 / (np.square(scales * self.width[same]) + 1.0 / information)
            values = 0.5 * (np.log(weights) - weights * np.square(away)).sum(axis=1)
            for k in np.flatnonzero(np.isfinite(values)):
                matrix = np.eye(factor.shape[1]) + (factor.T * weights[k]) @ factor
                along = factor.T @ (weights[k] * away[k])
                values[k] += 0.5 * along @ np.linalg.solve(matrix, along) - 0.5 * np.linalg.slogdet(matrix)[1]
        return np.asarray(values)
