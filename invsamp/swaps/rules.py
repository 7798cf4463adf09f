r"""Swap rules: the log acceptance of exchanging the positions of two neighboring rungs.

Every rule is a sum over at most four energies, those of both rungs' models at both positions, of the values that the
two rungs' targets give them, less a penalty for their noise. With the colder rung c at position t_c, the hotter rung h
at t_h, their targets :math:`L_c` and :math:`L_h`, and weights w,

.. math:: \log S = \sum_{e} w_{ce} L_c(e) + w_{he} L_h(e) - \frac{1}{2F} \sum_{e} k_e^2 v_e, \qquad
          e \in \{U_c(t_c), U_c(t_h), U_h(t_h), U_h(t_c)\},

v_e the variance of the noise of energy e. The noise is in the misfit: where the targets are linear, with factors b of
the misfit (:math:`1/\tau` at a temperature), :math:`k_e = w_{ce} b_c + w_{he} b_h`. Other targets need exact energies.
For Gaussian noise of known variance that is the same for the forward and the reverse swap, F = 1 keeps detailed balance
exactly (Ceperley and Dewing 1999). Rules with all four energies have the same variance both ways by construction. Those
with each rung's own energy have it where the two variances are constant or the same function, and are equalized where
they are not (see `state_dependent_penalty`). A rule with several stages accepts if every stage accepts, and evaluates a
stage only after the one before. Each stage draws its noisy energies afresh and pays its own penalty, so that each keeps
detailed balance by itself.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from invsamp.arguments import boolean, instance, optional, real
from invsamp.stored import stored_dataclass
from invsamp.swaps.discrepancy import Discrepancy


class Weights(NamedTuple):
    """Factors of an energy in the values of the colder rung's target and of the hotter one's."""

    cold: float = 0.0
    hot: float = 0.0


class Stage(NamedTuple):
    """One stage's log acceptance: a model's energy at a position enters by both targets.

    What was learned of the difference of the energies enters as a misfit does in the colder rung's target.
    """

    cold_at_cold: Weights = Weights()
    cold_at_hot: Weights = Weights()
    hot_at_hot: Weights = Weights()
    hot_at_cold: Weights = Weights()
    learned_at_cold: float = 0.0
    learned_at_hot: float = 0.0


@runtime_checkable
class SwapRule(Protocol):
    """The interface of every rule."""

    @property
    def factor(self) -> float:
        """Divisor F of the noise penalty: 1 is unbiased, infinity drops the penalty."""

    @property
    def needs_common_energy(self) -> bool:
        """Whether the rule is wrong for two rungs whose mean energies differ (two meshes, say)."""

    @property
    def equalize(self) -> bool:
        """Whether noise is added to the log ratio until its variance is that of the reverse swap."""

    @property
    def discrepancy(self) -> Discrepancy | None:
        """How the difference of the two rungs' energies is learned, where the rule uses it."""

    def stages(self) -> tuple[Stage, ...]:
        """Weights of each stage."""

    def resolve(self, cold_variance: float, hot_variance: float) -> SwapRule:
        """The rule with settings that depend on the mean energy variances filled in, after warm-up."""


class _Unbiased:
    """Rules of one stage, without a penalty's factor, for rungs of equal mean energies."""

    factor: float = 1.0
    assume_unbiased: bool
    equalize: bool = False
    discrepancy: ClassVar[None] = None

    @property
    def needs_common_energy(self) -> bool:
        """True unless the user vouches for equal mean energies."""
        return not self.assume_unbiased


@stored_dataclass
class OwnEnergies(_Unbiased):
    r"""Each rung's own energy at its own position: :math:`\delta (U_c(t_c) - U_h(t_h))`, less the penalty."""

    name: str
    factor: float = 1.0
    assume_unbiased: bool = False
    equalize: bool = False

    def __str__(self) -> str:
        return self.name.replace("_", " ")

    def stages(self) -> tuple[Stage, ...]:
        """One stage."""
        return (Stage(cold_at_cold=Weights(1.0, -1.0), hot_at_hot=Weights(-1.0, 1.0)),)

    def resolve(self, cold_variance: float, hot_variance: float) -> SwapRule:
        """Nothing to fill in."""
        return self


@stored_dataclass
class MultiVariance(_Unbiased):
    """m-reSGLD: a weighted mean of the energy differences that the two rungs see."""

    weight: float | None = None
    assume_unbiased: bool = False

    def __str__(self) -> str:
        return "a weighted mean of both rungs' energy differences"

    def stages(self) -> tuple[Stage, ...]:
        """One stage with all four energies."""
        cold = 0.5 if self.weight is None else self.weight
        hot = 1.0 - cold
        return (Stage(Weights(cold, -cold), Weights(-cold, cold), Weights(-hot, hot), Weights(hot, -hot)),)

    def resolve(self, cold_variance: float, hot_variance: float) -> SwapRule:
        """The weight of least variance, hot / (cold + hot), where none was given."""
        total = cold_variance + hot_variance
        if self.weight is not None or not total > 0.0:
            return self
        return replace(self, weight=hot_variance / total)


@stored_dataclass
class ProductTarget:
    """Metropolis rule of the product of two rungs' targets, of different models, in one stage or two."""

    delayed: bool = False
    discrepancy: Discrepancy | None = None

    factor: ClassVar[float] = 1.0
    needs_common_energy: ClassVar[bool] = False
    equalize: ClassVar[bool] = False

    def __str__(self) -> str:
        learned = "" if self.discrepancy is None else ", with a learned discrepancy"
        return f"the product of both targets{' in two stages' if self.delayed else ''}{learned}"

    def stages(self) -> tuple[Stage, ...]:
        """One stage with all four energies, or a cheap one with the hot rung's and a second with the rest."""
        here, there = Weights(cold=1.0), Weights(cold=-1.0)
        if not self.delayed:
            return (Stage(here, there, Weights(hot=1.0), Weights(hot=-1.0)),)
        learned = 0.0 if self.discrepancy is None else 1.0
        return (
            Stage(
                hot_at_cold=Weights(1.0, -1.0),
                hot_at_hot=Weights(-1.0, 1.0),
                learned_at_cold=learned,
                learned_at_hot=-learned,
            ),
            Stage(here, there, here, there, -learned, learned),
        )

    def resolve(self, cold_variance: float, hot_variance: float) -> SwapRule:
        """Nothing to fill in."""
        return self


def metropolis(*, assume_unbiased: bool = False) -> SwapRule:
    r"""Exact energies of one fidelity, or noisy ones taken as exact (then biased: the control case).

    .. math:: \log S = \delta (U_c(t_c) - U_h(t_h)), \qquad \delta = 1/\tau_c - 1/\tau_h

    Parameters
    ----------
    assume_unbiased : bool
        Vouch that rungs of different fidelity have the same mean energy; refused otherwise.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.swaps.metropolis()
    OwnEnergies(name='metropolis', factor=inf, assume_unbiased=False, equalize=False)
    """
    return OwnEnergies("metropolis", math.inf, boolean("assume_unbiased", assume_unbiased))


def noise_penalty(factor: float = 1.0, *, equalize: bool = True, assume_unbiased: bool = False) -> SwapRule:
    r"""Noisy energies of one fidelity.

    .. math:: \log S = \delta (U_c(t_c) - U_h(t_h)) - \delta^2 (v_c + v_h) / (2F)

    Parameters
    ----------
    factor : float, > 0
        Correction factor F. 1 is unbiased for Gaussian noise; larger values swap more, with bias.
    equalize : bool
        As in `state_dependent_penalty`.
    assume_unbiased : bool
        Vouch that rungs of different fidelity have the same mean energy; refused otherwise.

    Raises
    ------
    ValueError
        If ``factor`` is not positive.

    References
    ----------
    Deng et al. (2020), ICML, eq. (7), whose correction uses one variance for both chains.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.swaps.noise_penalty()
    OwnEnergies(name='noise_penalty', factor=1.0, assume_unbiased=False, equalize=True)
    """
    return OwnEnergies(
        "noise_penalty",
        real("factor", factor, above=0, finite=False),
        boolean("assume_unbiased", assume_unbiased),
        boolean("equalize", equalize),
    )


def state_dependent_penalty(*, equalize: bool = True, assume_unbiased: bool = False) -> SwapRule:
    r"""f-reSGLD: each rung's own energy at its own position, with its own, state-dependent variance.

    .. math:: \log S = \delta \left[ U_c(t_c) - U_h(t_h) - \delta\, (v_c(t_c) + v_h(t_h)) / 2 \right]

    Exact where the noise is Gaussian and :math:`v = v_c(t_c) + v_h(t_h)` is the same before and after the swap. It is
    not exact where the two variances are different functions of the state. For example, variances of 1 on the cold rung
    and :math:`(6 / (1 + e^{-x}))^2` on the hot one turn a mode's weight of 0.59 into 0.03. There the rule adds Gaussian
    noise to the log ratio up to the larger of v and its value after the swap. That is the same both ways, and the rule
    pays the penalty of that noise.

    Parameters
    ----------
    equalize : bool
        Add that noise where the variances of two rungs may differ as functions of the state. It needs both variances
        at both positions: free where a model predicts them, one more energy of each rung where the estimator states
        them. False is the published rule.
    assume_unbiased : bool
        Vouch that rungs of different fidelity have the same mean energy. Two meshes do not: a constant
        offset of half a unit of energy moves a mode's weight from 0.60 to 0.64. Refused otherwise.

    References
    ----------
    Li, Lin, Zhang and Zhou (2023), "Fast replica exchange SGLD", eq. (18).

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.swaps.state_dependent_penalty()
    OwnEnergies(name='state_dependent_penalty', factor=1.0, assume_unbiased=False, equalize=True)
    """
    return OwnEnergies(
        "state_dependent_penalty", 1.0, boolean("assume_unbiased", assume_unbiased), boolean("equalize", equalize)
    )


def multi_variance(weight: float | None = None, *, assume_unbiased: bool = False) -> SwapRule:
    r"""m-reSGLD: both rungs' energies at both positions, :math:`a_1 + a_2 = 1`.

    .. math:: \log S = \delta [a_1 (U_c(t_c) - U_c(t_h)) + a_2 (U_h(t_c) - U_h(t_h))
              - \delta (a_1^2 v_c + a_2^2 v_h)]

    Parameters
    ----------
    weight : float in [0, 1], optional
        :math:`a_1`. Default: that of least variance, :math:`v_h / (v_c + v_h)`, from warm-up.
    assume_unbiased : bool
        Vouch that rungs of different fidelity have the same mean energy; refused otherwise.

    Raises
    ------
    ValueError
        If ``weight`` does not lie in [0, 1].

    References
    ----------
    Lin, Wang and Zhang (2022), "Multi-variance replica exchange SGMCMC", eq. (11).

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.swaps.multi_variance()
    MultiVariance(weight=None, assume_unbiased=False)
    """
    share = optional(real, "weight", weight, least=0, most=1)
    return MultiVariance(share, boolean("assume_unbiased", assume_unbiased))


def product_target() -> SwapRule:
    r"""Metropolis rule of the product target, for rungs of any two fidelities.

    .. math:: \log S = (U_c(t_c) - U_c(t_h)) / \tau_c + (U_h(t_h) - U_h(t_c)) / \tau_h

    Keeps both rungs' targets exactly whatever the coarse model is. Costs one solve of each fidelity for each
    attempt. Noisy energies carry the penalty of their variances.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.swaps.product_target()
    ProductTarget(delayed=False, discrepancy=None)
    """
    return ProductTarget()


def delayed_acceptance(discrepancy: Discrepancy | None = None) -> SwapRule:
    r"""`product_target` in two stages: the hot rung's cheap model screens, the fine model decides.

    .. math:: \log S_1 = \delta (U_h(t_c) - U_h(t_h)) + (m(t_c) - m(t_h)) / \tau_c, \qquad
              \log S_2 = (D(t_c) - m(t_c) - D(t_h) + m(t_h)) / \tau_c, \quad D = U_c - U_h

    Stage 2 is tried only where stage 1 accepted. Keeps the same target as `product_target` (Christen and Fox 2005)
    whatever m is, with a fine solve at those attempts only that pass the first stage. Where a swap is accepted and the
    cold rung's energies are exact, that solve is the one of its next step. Noisy energies are drawn afresh for each
    stage, which carries the penalty of its own. Stage 1 takes those of the hot rung times :math:`\delta`, the one stage
    of `product_target` times :math:`1/\tau_h` only: where they are noisy, that one swaps more.

    Parameters
    ----------
    discrepancy : Discrepancy, optional
        Learn m, the mean of D at a position, from the states at which warm-up solved both models anyway. The better
        it is, the surer what passes the first stage passes the second. None: m = 0. A sampler that is given no rule
        learns it where fidelities differ.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.swaps.delayed_acceptance()
    ProductTarget(delayed=True, discrepancy=None)
    """
    learned = optional(instance, "discrepancy", discrepancy, Discrepancy, "a Discrepancy")
    return ProductTarget(delayed=True, discrepancy=learned)
