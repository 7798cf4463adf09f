r"""Coupled sums over a hierarchy of fidelities: gradients unbiased for the finest, at little more than a coarse cost.

With :math:`g_0, \dots, g_L` the gradients of the levels from coarse to fine, :math:`\Delta_0 = g_0`,
:math:`\Delta_l = g_l - g_{l-1}`, and random :math:`I_l \in \{0, 1\}` of mean :math:`p_l`, drawn for each chain anew,

.. math:: \hat g = \sum_{l=0}^{L} \frac{I_l}{p_l} \Delta_l, \qquad E\,\hat g = g_L, \qquad
          \mathrm{cov}\,\hat g = \sum_{l, k} \Bigl(\frac{E[I_l I_k]}{p_l p_k} - 1\Bigr) \Delta_l \Delta_k^T.

A level is solved for those chains only whose sum needs it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, one_of, optional
from invsamp.estimators.contract import BoundEstimator, Source
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass

Scheme = Literal["coupled", "independent", "single"]
SCHEMES: tuple[Scheme, ...] = ("coupled", "independent", "single")
#: Default ratio of the probabilities of neighboring levels. Where each level costs eight times the one before, four of
#: them then cost a fifteenth of the finest; the least cost for a given noise often lies lower (`measure_levels`).
DECAY = 0.35
#: The covariance at a pilot state is computed, not estimated.
COMPUTED = 10**6


def coupled_sum(
    levels: Sequence[str] | None = None, probabilities: Sequence[float] | None = None, scheme: Scheme = "coupled"
) -> CoupledSum:
    r"""Estimator of a fidelity's gradient from cheap solves of coarser ones, and rare solves of finer ones.

    Its noise is to be taken out of the injected noise: ``GradientNoise(running_average(), "full")``, fitted in warm-up,
    where each pilot state is solved at all levels once and gives the covariance above. A draw by itself says next to
    nothing about the variance, so none is stated.

    The same sum of energies is unbiased too, and heavy-tailed: a swap's acceptance is no linear function of it, and no
    penalty makes it right. So it is recorded with the draws and never enters a swap. Swaps get the energy of the rung's
    own fidelity, solved when they ask for it: two such solves for each attempt that reaches them, which
    `invsamp.swaps.rules.delayed_acceptance` keeps rare.

    A failed solve refuses the move when its level is looked at. Where the finest fails and the coarser ones do not,
    that is at some of the visits only: such places belong outside the domain.

    Parameters
    ----------
    levels : sequence of str, optional
        Fidelities from coarse to fine, the rung's own last. Default: all up to the rung's own.
    probabilities : sequence of float, optional
        :math:`p_l`, one for each level, the first 1. Default: :math:`0.35^l`; `measure_levels` finds good ones.
    scheme : {"coupled", "independent", "single"}
        "coupled": one random level per chain, and all below it, so that a level's probability is also the share of
        the chains that solve it. "independent": each difference by itself. "single": level 0 and one difference.

    Raises
    ------
    ValueError
        If a probability is not in (0, 1], the first is not 1, they increase ("coupled") or those above the first sum to
        more than 1 ("single"). In a run, also if the levels are not those of the problem up to the rung's own.

    References
    ----------
    Rhee and Glynn (2015), "Unbiased estimation with square root convergence for SDE models", Operations Research
    63(5), Theorem 1 for the coupled sum; the independent and the single-term sums are theirs as well.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.estimators.coupled_sum(["coarse", "fine"], [1.0, 0.1])
    CoupledSum(levels=('coarse', 'fine'), probabilities=(1.0, 0.1), scheme='coupled')
    """
    one_of("scheme", scheme, SCHEMES)
    names = optional(arguments.names, "levels", levels)
    if names is not None and len(names) < 2:
        raise ValueError(f"levels must name at least two distinct fidelities, got {list(names)}")
    if probabilities is None:
        return CoupledSum(names, None, scheme)
    chosen = tuple(array("probabilities", probabilities, ("k",), above=0, most=1).tolist())
    if chosen[0] != 1.0:
        raise ValueError(f"probabilities must lie in (0, 1] and start with 1, got {list(chosen)}")
    if names is not None and len(names) != len(chosen):
        raise ValueError(f"probabilities must have one entry for each of the {len(names)} levels, got {len(chosen)}")
    if scheme == "coupled" and any(finer > coarser for coarser, finer in itertools.pairwise(chosen)):
        raise ValueError(f"probabilities of a coupled sum must not increase, got {list(chosen)}")
    if scheme == "single" and sum(chosen[1:]) > 1.0:
        raise ValueError(f"probabilities above the first must sum to at most 1 for a single term, got {list(chosen)}")
    return CoupledSum(names, chosen, scheme)


@stored_dataclass
class CoupledSum:
    """A randomly truncated sum over levels, each chain with its own. Made by `coupled_sum`."""

    levels: tuple[str, ...] | None = None
    probabilities: tuple[float, ...] | None = None
    scheme: Scheme = "coupled"

    def levels_below(self, own: str, fidelities: Sequence[str]) -> tuple[str, ...]:
        """The levels for a rung of fidelity ``own``, which is the last; ``fidelities`` are those of the problem.

        Raises
        ------
        ValueError
            If they do not end with the rung's own, are not in the order of the problem, or are fewer than two or not
            as many as the probabilities.
        """
        names = tuple(fidelities)
        levels = names[: names.index(own) + 1] if self.levels is None else self.levels
        order = [names.index(level) if level in names else -1 for level in levels]
        if levels[-1] != own or -1 in order or order != sorted(order):
            raise ValueError(
                f"levels of a coupled sum must go from coarse to fine and end with the rung's own fidelity {own!r}, "
                f"got {list(levels)} of {list(names)}"
            )
        if len(levels) < 2:
            raise ValueError(f"a coupled sum needs a coarser fidelity than the rung's own {own!r}, of {list(names)}")
        if self.probabilities is not None and len(self.probabilities) != len(levels):
            raise ValueError(
                f"probabilities must have one entry for each of the {len(levels)} levels {list(levels)}, "
                f"got {list(self.probabilities)}"
            )
        return levels

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity, which knows the others."""
        levels = self.levels_below(source.fidelity, tuple(source.fidelities))
        probabilities = self.probabilities or tuple(DECAY**level for level in range(len(levels)))
        return _BoundCoupledSum(levels, probabilities, self.scheme, structure)


class _BoundCoupledSum:
    exact = False
    exact_energy = True
    degrees_of_freedom: int | None = None

    def __init__(
        self, levels: Sequence[str], probabilities: Sequence[float], scheme: Scheme, structure: Structure | None
    ) -> None:
        #: Fidelities that it may ask for, from coarse to fine.
        self.levels = tuple(levels)
        self._probabilities, self._scheme, self._structure = np.array(probabilities), scheme, structure
        self._covariance = _covariance_of_weights(self._probabilities, scheme)

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients = True
    ) -> EvaluationRequests[Estimate]:
        if not gradient:  # a sum over levels has no place in a swap
            (finest,) = yield (Request(self.levels[-1], position, gradient=False),)
            return finest
        weights = _indicators(rng, len(position), self._probabilities, self._scheme) / self._probabilities
        # of the levels themselves, in place of their differences
        weights[:, :-1] -= weights[:, 1:]
        wanted = [np.flatnonzero(weight) for weight in weights.T]
        solved = yield tuple(
            Request(level, position[rows], gradient)
            for level, rows in zip(self.levels, wanted, strict=True)
            if len(rows)
        )
        energy, slope = np.zeros(len(position)), np.zeros(position.shape)
        prior = None if solved[0].prior is None else np.zeros(len(position))
        prior_slope = None if solved[0].prior_gradient is None else np.zeros(position.shape)
        failed = np.zeros(len(position), dtype=bool)
        found = iter(solved)
        for weight, rows in zip(weights.T, wanted, strict=True):
            if not len(rows):
                continue
            level = next(found)
            fine = np.isfinite(level.energy)
            failed[rows] |= ~fine
            energy[rows] += weight[rows] * np.where(fine, level.energy, 0.0)
            slope[rows] += weight[rows, None] * level.gradient
            if prior is not None:
                prior[rows] += weight[rows] * level.prior
            if prior_slope is not None:
                prior_slope[rows] += weight[rows, None] * level.prior_gradient
        if failed.any():
            energy[failed], slope[failed] = np.inf, 0.0
        if prior is not None:
            prior[np.isnan(prior)] = np.inf  # infinite at all levels, which do not cancel
        return Estimate(energy, slope, prior=prior, prior_gradient=prior_slope, failed=bool(failed.any()))

    def probe(self, position: Array) -> EvaluationRequests[tuple[Array, Array, int]]:
        """Variances of the sums at a position, from one solve of each level."""
        solved = yield tuple(Request(level, position) for level in self.levels)
        with np.errstate(invalid="ignore"):  # infinite energies: the row is dropped
            energies = np.diff([level.energy for level in solved], axis=0, prepend=0.0)
            energy = np.einsum("lk,lc,kc->c", self._covariance, energies, energies)
        gradients = np.diff([level.gradient for level in solved], axis=0, prepend=0.0)
        if self._structure == "full":
            return energy, np.einsum("lk,lci,kcj->cij", self._covariance, gradients, gradients), COMPUTED
        by_entry = np.einsum("lk,lci,kci->ci", self._covariance, gradients, gradients)
        return energy, by_entry if self._structure == "diagonal" else by_entry.mean(axis=1), COMPUTED


def _indicators(rng: np.random.Generator, chains: int, probabilities: Array, scheme: Scheme) -> npt.NDArray[np.bool_]:
    """Which differences each chain's sum holds, shape (chains, levels)."""
    if scheme == "independent":
        uniform = np.concatenate([np.zeros((chains, 1)), rng.random((chains, len(probabilities) - 1))], axis=1)
        return np.asarray(uniform < probabilities)
    uniform = rng.random((chains, 1))
    if scheme == "coupled":
        return np.asarray(uniform < probabilities)
    ends = np.cumsum(probabilities[1:])
    inside = (uniform < ends) & (uniform >= np.concatenate([[0.0], ends[:-1]]))
    return np.concatenate([np.ones((chains, 1), dtype=bool), inside], axis=1)


def _covariance_of_weights(probabilities: Array, scheme: Scheme) -> Array:
    """Covariances of I_l / p_l, shape (levels, levels)."""
    if scheme == "coupled":
        # the scarcer of two nested indicators decides: E[I_l I_k] is the smaller probability
        return 1.0 / np.maximum.outer(probabilities, probabilities) - 1.0
    covariance = np.diag(1.0 / probabilities - 1.0)
    if scheme == "single":
        covariance[1:, 1:] = np.diag(1.0 / probabilities[1:]) - 1.0
    return covariance
