"""Modes of a posterior, each with its Gaussian (Laplace)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincc

from invsamp.arguments import integer, optional
from invsamp.kernels.gaussian_reference import ModeReference
from invsamp.modes.as_html import as_html
from invsamp.modes.low_rank import LowRankGaussian
from invsamp.modes.tolerances import UNSEEN
from invsamp.protocols import Array, ExpectedMisfit, Reference

#: Probability of a chi-squared as large, or as small, below which the noise is said not to explain it.
UNLIKELY = 1e-3
#: Parameters of a mode that are printed.
SHOWN = 20


@dataclass(frozen=True)
class Modes:
    """Modes that `maximize` found; prints as a table. They are sorted, the highest density or likelihood first.

    Attributes
    ----------
    theta, position : ndarray, shape (k, d)
        Natural parameters, and the coordinates in which densities are maximized; of the likelihood those of
        `Posterior.with_bounds`.
    energies : ndarray, shape (k,)
        Negative log posterior density of positions, or negative log-likelihood.
    covariances : ndarray, shape (k, d, d)
        Of positions: the inverse of the energy's Hessian. NaN where it is not positive definite. Empty where Hessians
        are of low rank: see ``gaussians``.
    log_evidence : ndarray, shape (k,)
        Log of each mode's share of the evidence by Laplace. At or near bounds the Gaussian is cut by these
        (`invsamp.modes.half_spaces`). NaN where neither is known. The prior's density is used as stated. Within a
        domain, a prior that is normalized there, as `Run.log_evidence` uses it, has a larger density, by minus the log
        of the prior's share in the domain.
    counts : ndarray, shape (k,)
        Number of starts whose optimization ended there.
    on_wall : ndarray, shape (k,)
        Whether the gradient pushes a mode against the domain's bounds. Then its Gaussian, if any, is cut by them.
    unfinished : int
        Starts whose optimization did not converge.
    unsolved : int
        Starts at which the energy, or its gradient, was not finite, so that there was no optimization.
    evaluations : dict of str to int
        By fidelity, Hessians included.
    function_calls : dict of str to int
        How often the function behind them was called, which finite differences do several times for a gradient.
    labels : tuple of str
    to_theta : callable
        Positions to natural parameters.
    chi_squared : ndarray, shape (k,), or None
        Twice the misfit above that of data which are met exactly: for Gaussian noise the sum of squared residuals in
        units of the noise. None where noise has unknowns of its own, or a density is no posterior of data.
    data : int
        How many data that is of.
    expected : ExpectedMisfit or None
        Mean and standard deviation of half of it, at one theta, for data with the noise as it is stated.
    residuals : ndarray, shape (k, m), or None
        How far each datum is above what a mode predicts, in sds of its noise, data in C order; of other noise than
        Gaussian what its deviance makes it. NaN where a datum is missing, or its noise depends on that of others.
    gaussians : tuple of LowRankGaussian or None
        Each mode's, where Hessians are of low rank; None for one against bounds, or where there is no minimum.
    of : "posterior" or "likelihood"
        What was maximized. Maxima of the likelihood have no weights.
    log_likelihood : ndarray, shape (k,), or None
        With all constants. None where a density does not give it apart from a prior.
    at_bounds : tuple of tuple of str
        The unknowns of each mode that lie at bounds.
    left_out : int
        Starts that ended at points far less likely, from which the likelihood was not maximized.
    products : dict of str to int
        By fidelity, products of the Jacobian with vectors, by factors that evaluations have kept: each takes a tangent
        and an adjoint solve, or an adjoint one alone. Empty of a model without tangents, whose products take gradients.
    prior : Reference or None
        The prior's Gaussian in positions, where the modes were found by Newton steps in its coordinates.
    """

    theta: Array
    position: Array
    energies: Array
    covariances: Array
    log_evidence: Array
    counts: npt.NDArray[np.int64]
    on_wall: npt.NDArray[np.bool_]
    unfinished: int
    evaluations: dict[str, int]
    function_calls: dict[str, int]
    labels: tuple[str, ...]
    to_theta: Callable[[Array], Array] = field(repr=False)
    chi_squared: Array | None = None
    data: int = 0
    expected: ExpectedMisfit | None = None
    residuals: Array | None = None
    gaussians: tuple[LowRankGaussian | None, ...] | None = None
    unsolved: int = 0
    of: str = "posterior"
    log_likelihood: Array | None = None
    at_bounds: tuple[tuple[str, ...], ...] = ()
    left_out: int = 0
    products: dict[str, int] = field(default_factory=dict)
    prior: Reference | None = field(default=None, repr=False)

    @property
    def reduced_chi_squared(self) -> Array | None:
        """Chi-squared over the number of data less that of unknowns (k,): near 1 for a right model and Gaussian noise.

        None where there is no chi-squared, or no more data than unknowns.
        """
        freedom = self.data - self.position.shape[1]
        return None if self.chi_squared is None or freedom < 1 else self.chi_squared / freedom

    @property
    def reference(self) -> ModeReference:
        """The Gaussian of that mode which has the most mass, as the reference of kernels.

        Raises
        ------
        ValueError
            If it is not of low rank about a Gaussian prior, or there is none.
        """
        best = heaviest("reference", self)
        found = None if self.gaussians is None else self.gaussians[best]
        if found is None or self.prior is None:
            raise ValueError(
                "reference must be modes with Hessians of low rank about a Gaussian prior, got dense ones: "
                "give invsamp.maximize(problem, rank=...) the number of directions to keep"
            )
        return ModeReference(found.mean, self.prior.mean, found.metric)

    def __len__(self) -> int:
        return len(self.energies)

    @property
    def weights(self) -> Array:
        """Share of the mass of all modes that Laplace gives, by it (k,); NaN where it does not."""
        shares = np.exp(self.log_evidence - np.nanmax(self.log_evidence, initial=-np.inf))
        return np.asarray(shares / np.nansum(shares))

    @property
    def unseen(self) -> float:
        """About the share of all starts that lead to modes which are not among these.

        That of the starts whose mode no other reached: Good (1953, Biometrika 40), eq. (9).
        """
        return float(np.count_nonzero(self.counts == 1) / max(1, int(self.counts.sum())))

    @property
    def sds(self) -> Array:
        """Of positions (k, d), by each mode's Gaussian; NaN where there is none."""
        if self.gaussians is None:
            return np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        none = np.full(self.position.shape[1], np.nan)
        return np.sqrt([none if found is None else found.variances for found in self.gaussians])

    def draws(self, n: int, seed: int | None = None) -> Array:
        """Natural parameters (n, d) from the modes' Gaussians by their weights: starts for `sample`.

        Those of a mode at bounds are the mode itself.

        Raises
        ------
        ValueError
            If no mode has a weight.
        """
        integer("n", n, least=1)
        rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
        if self.of != "posterior":
            raise ValueError(f"draws needs modes of the posterior, got maxima of the {self.of}")
        weights = np.nan_to_num(self.weights)
        if not weights.any():
            raise ValueError("draws needs a mode with a weight, got none: they are flat in some direction")
        if self.gaussians is not None:
            which = rng.choice(len(weights), n, p=weights)
            parts = [found.draws(rng, n) for found in self.gaussians if found is not None]
            place = np.cumsum([found is not None for found in self.gaussians]) - 1
            return self.to_theta(np.stack(parts)[place[which], np.arange(n)])
        covariances = self.covariances[weights > 0.0]
        whole = np.isfinite(covariances).all(axis=(1, 2))
        factors = np.zeros_like(covariances)
        factors[whole] = np.linalg.cholesky(covariances[whole])
        which = rng.choice(len(factors), n, p=weights[weights > 0.0])
        noise = np.einsum("nij,nj->ni", factors[which], rng.standard_normal((n, self.position.shape[1])))
        return self.to_theta(self.position[weights > 0.0][which] + noise)

    def _repr_html_(self) -> str:
        own = self.of == "posterior"
        measures: dict[str, npt.NDArray[np.generic] | None] = {
            "energy": self.energies if own else None,
            "log-likelihood": self.log_likelihood,
            "weight": self.weights if own else None,
            "starts": self.counts,
        }
        notes = [self._where(k).removeprefix(", ") for k in range(len(self))]
        return as_html([self._headline(), *self._notes()], self.labels, self.theta, measures, notes)

    def __str__(self) -> str:
        lines = [self._headline()]
        for k in range(len(self)):
            lines.append(self._mode(k))
            if self.gaussians is not None and (found := self.gaussians[k]) is not None:
                lines.append(
                    f"  its Gaussian is the prior's but for {len(found.metric.values)} directions, {found.informed} of "
                    "which the data inform more than the prior does; all others may change the log evidence by "
                    f"{found.remainder + 0.0:+.2g}"  # without the sign of -0.0
                )
        return "\n".join([*lines, *self._notes()])

    def _headline(self) -> str:
        starts, solves = int(self.counts.sum()), ", ".join(map(self._solved, self.evaluations))
        plural = "s" * (len(self) != 1)
        what = f"posterior mode{plural}" if self.of == "posterior" else f"maximum{plural} of the likelihood"
        return f"{len(self)} {what.replace('maximums', 'maxima')} from {starts} starts; evaluations: {solves}"

    def _notes(self) -> list[str]:
        """Notes on the fit, and on the starts."""
        lines, starts = list[str](), int(self.counts.sum())
        if (reduced := self.reduced_chi_squared) is not None and len(self):
            lines.append(self._fit(float(reduced[0])))
        if self.residuals is not None and len(self) and np.isfinite(self.residuals[0]).any():
            found, worst = self.residuals[0], int(np.nanargmax(np.abs(self.residuals[0])))
            lines.append(
                f"residuals of the first: root mean square {np.sqrt(np.nanmean(found**2)):.3g} sds of the noise, the "
                f"largest {found[worst]:+.3g}, of datum {worst}"
            )
        if starts > 1 and self.unseen > UNSEEN:
            lines.append(
                f"{round(self.unseen * starts)} of {starts} starts reached a mode that no other start "
                f"reached. So about {100.0 * self.unseen:.0f}% of all starts lead to modes that are not among "
                "these; give more starts="
            )
        if self.of == "likelihood" and starts + self.left_out > 1 and self.counts[0] == 1:
            lines.append("only one start reached the first mode, so there may be a better one; give more starts=")
        if self.left_out:
            lines.append(f"{self.left_out} more starts ended at points that are far less likely, and are left out")
        if self.unsolved:
            lines.append(
                f"{self.unsolved} more starts could not be solved: narrow the prior or the domain to where the model "
                "works, or give starts="
            )
        if self.unfinished:
            lines.append(
                f"{self.unfinished} optimizations did not converge: allow more evaluations, or the density is unbounded"
            )
        return lines

    def _mode(self, k: int) -> str:
        """Its height, the number of starts that reached it, and its parameters."""
        shown = zip(self.labels[:SHOWN], self.theta[k, :SHOWN], strict=True)
        values = ", ".join(f"{name} {value:.4g}" for name, value in shown)
        values += f", and {len(self.labels) - SHOWN} more" if len(self.labels) > SHOWN else ""
        likelihood = "" if self.log_likelihood is None else f"log-likelihood {self.log_likelihood[k]:.7g}, "
        height = f"energy {self.energies[k]:.6g}, {likelihood}weight {self.weights[k]:.3g}, "
        height = height if self.of == "posterior" else likelihood
        return f"{height}from {self.counts[k]} starts{self._where(k)}: {values}"

    def _where(self, k: int) -> str:
        """Note on a mode without a covariance: a bound, or a flat direction. Empty where it has one."""
        if self.on_wall[k]:
            bounds = ", ".join(self.at_bounds[k]) if k < len(self.at_bounds) else ""
            return ", at a bound" + (f" ({bounds})" if bounds else "")
        if self.of == "posterior" and np.isnan(self.log_evidence[k]):
            return ", flat in some direction (improper, unless a prior or bounds limit it)"
        return ""

    def _solved(self, fidelity: str) -> str:
        count, calls = self.evaluations[fidelity], self.function_calls[fidelity]
        products = self.products.get(fidelity, 0)
        more = f" ({calls} function calls)" if calls != count else ""
        if products:
            return f"{count} of {fidelity}{more} with {products} products by tangents"
        by_gradients = self.gaussians is not None and fidelity == list(self.evaluations)[-1]
        return f"{count} of {fidelity}{more}" + by_gradients * " (no tangents: two gradients for each product)"

    def _fit(self, reduced: float) -> str:
        """Chi-squared against its distribution: exact for Gaussian noise, a gamma of the same moments for others."""
        assert self.chi_squared is not None and self.expected is not None
        d, (mean, sd) = self.position.shape[1], self.expected[2:4]
        shape = (mean / sd) ** 2 * (self.data - d) / self.data
        half = 0.5 * float(self.chi_squared[0]) * mean / sd**2
        below, above = float(gammainc(shape, half)), float(gammaincc(shape, half))
        said = "as it should be"
        if above < UNLIKELY:
            said = "more than noise explains: the model is incomplete, or the noise is larger than stated"
        elif below < UNLIKELY:
            said = "less than noise should leave: the noise is smaller than stated, or data are not independent"
        return (
            f"chi-squared {self.chi_squared[0]:.4g} of {self.data} data and {d} unknowns, reduced {reduced:.3g} "
            f"(p = {min(1.0, 2.0 * min(below, above)):.2g}): {said}"
        )


def heaviest(argument: str, modes: Modes) -> int:
    """Which mode of the posterior has the most mass, of those with a Gaussian; ``argument``: what was given."""
    if modes.of != "posterior":
        raise ValueError(f"{argument} must be modes of the posterior, got maxima of the {modes.of}")
    known = np.isfinite(modes.log_evidence)
    if not known.any():
        raise ValueError(
            f"{argument} must be modes of which one has a Gaussian, got none: they lie at bounds, or are flat"
        )
    return int(np.argmax(np.where(known, modes.log_evidence, -np.inf)))
