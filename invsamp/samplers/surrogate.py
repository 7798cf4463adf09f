"""Moves on a coarse model, which the fine one only decides. See `invsamp.samplers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from invsamp.arguments import boolean, instance, integer, one_of, optional
from invsamp.estimators.contract import Estimator
from invsamp.estimators.exact_energies import Exact
from invsamp.kernels import CrankNicolson, DelayedAcceptance, Langevin, Momentum
from invsamp.kernels.contract import Kernel
from invsamp.kernels.schedules import Schedule
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.ladder.corrected_exchange import LOCAL, PAIRS, CorrectedExchange
from invsamp.ladder.preconditioner import LearnedMap
from invsamp.ladder.rung import ESTIMATOR, VARIANCE_MODEL, as_fidelity
from invsamp.modes import Modes
from invsamp.samplers.options import MoveOptions, preset
from invsamp.samplers.shared import single
from invsamp.surrogates.learning import LEAST_PAIRS
from invsamp.surrogates.pairs import KINDS, Kind
from invsamp.swaps.rules import product_target
from invsamp.tempering import tempered
from invsamp.tempering.checks import as_ladder
from invsamp.tempering.target_distribution import TargetDistribution
from invsamp.variances.models import VarianceModel, known

#: Steps between two exchanges where nothing is measured.
OFTEN_UNMEASURED = 20
#: Share of the momentum that is lost in a step of the coarse chains.
_FRICTION = 0.1


@preset()
def surrogate_exchange(
    temperatures: Sequence[TargetDistribution | float] | None = (1.0,),
    *,
    correct: Kind | Literal["auto"] | None = None,
    enhanced: bool = False,
    pairs: int = PAIRS,
    exchange_interval: int | None = None,
    local_move_interval: int = LOCAL,
    estimator: Estimator | None = None,
    energy_variance: VarianceModel | None = None,
    kernel: Kernel | None = None,
    coarse: str | int = "coarsest",
    preconditioner: str | Modes | LearnedMap | None = "auto",
) -> Sampler:
    r"""Few fine solves: a coarse model does the moving, the fine one only decides. Exact.

    A fine rung at temperature 1 exchanges positions every so many steps with a coarse rung at temperature 1, by

    .. math:: \log S = U_f(t_f) - U_f(t_c) + U_c(t_c) - U_c(t_f),

    which keeps both targets whatever the coarse model is. An attempt takes one fine energy, and no gradient. The coarse
    rung may be the cold end of a ladder, all of it on the coarse model. Swaps are accepted where its energy is off by
    less than about 1, up to a constant, over the posterior: so warm-up is to correct that model (``correct="auto"``),
    unless that was done before (`invsamp.correct`).

    With ``correct`` warm-up samples the coarse model alone until its chains agree. It solves both models at some of
    the draws, fits the correction and freezes it. Only then the fine rung begins, where the coarse chains are. A step
    of the run is then all coarse steps up to the next exchange, so that each draw comes after one.

    Parameters
    ----------
    temperatures : sequence of float or TargetDistribution, optional
        Of the coarse rungs, from 1 upwards. (1, 3, 9, 27) lets them cross between modes. None, with ``correct``: what
        moves the coarse model is chosen as `invsamp.sample` does, with a ladder where it has several modes.
    correct : "auto", "none", "offset", "affine" or "polynomial", optional
        What warm-up learns of the difference between the two models, as of `invsamp.correct`; "polynomial" is for few
        unknowns. None: nothing, and none of its pairs are solved.
    enhanced : bool
        With ``correct``: whether the covariance of what the correction leaves is added to the noise of the coarse
        posterior, as of `invsamp.correct`.
    pairs : int
        Fine solves that it learns from, at least ten.
    exchange_interval : int, optional
        Steps of the coarse rungs between two exchanges: about as many as it takes these to forget where they were, if
        that costs less than a fine solve. Default: 20, or with ``correct`` what costs least by the autocorrelation of
        the coarse chains and the ratio of costs. Without ``correct``, ``thin=exchange_interval`` makes each draw one
        after an exchange.
    local_move_interval : int
        The fine rung moves by itself after so many exchanges (one step of preconditioned Crank-Nicolson, one fine
        energy), so that no chain stands for ever where the coarse model is far off.
    estimator : Estimator, optional
        Of the fine rung's energy: exact by default. Noisy energies are those of `minibatch`, `noisy`, or of your own
        for a model with Monte Carlo inside. They are drawn afresh at both ends of an exchange and of the rung's own
        moves, which pay for their variances. The coarse rungs' are exact. Pairs are solved without the estimator.
    energy_variance : VarianceModel, optional
        How their variance is known. Default: as the estimator states it.
    kernel : Kernel, optional
        Of the coarse rungs. Default: that of ``ghmc(0.1)``.
    coarse : str or int
        Fidelity of the coarse rungs, as in `invsamp.ladder.Rung`, but not the finest.

    Raises
    ------
    ValueError
        If an argument is wrong.

    Notes
    -----
    With two rungs of one temperature this is a subchain on the coarse level (Christen and Fox 2005, "Markov chain Monte
    Carlo using an approximation"; Lykkegaard et al. 2023, "Multilevel delayed acceptance MCMC"). The coarse chain
    continues, with its momentum, where the fine one left off.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.surrogate_exchange(correct="auto")
    >>> str(sampler).split(",")[0]
    'a coarse model'
    """
    if correct is not None:
        one_of("correct", correct, ("auto", *KINDS))
    often = optional(integer, "exchange_interval", exchange_interval, least=1)
    local = integer("local_move_interval", local_move_interval, least=1)
    integer("pairs", pairs, least=LEAST_PAIRS)
    if boolean("enhanced", enhanced) and correct is None:
        raise ValueError("enhanced must be False where correct is None: nothing is learned, got True")
    if temperatures is None and correct is None:
        raise ValueError("temperatures must be given where correct is None, got None")
    if temperatures is None and kernel is not None:
        raise ValueError(f"kernel must be None where it is chosen with the temperatures, got {kernel!r}")
    level = _coarse_level(coarse)
    moves = optional(instance, "kernel", kernel, Kernel, "a Kernel, such as Momentum(...)") or Momentum(_FRICTION, True)
    coarse_rungs = [
        Rung(target, level, kernel=moves) for target in as_ladder((1.0,) if temperatures is None else temperatures)
    ]
    steps = OFTEN_UNMEASURED if often is None else often
    # the coarse pairs' rule by default: they are of one fidelity, for which `product_target` is the same
    estimates = optional(instance, "estimator", estimator, Estimator, ESTIMATOR) or Exact()
    variance = optional(instance, "energy_variance", energy_variance, VarianceModel, VARIANCE_MODEL) or known()
    own = CrankNicolson(steps * local)
    rungs = [Rung(tempered(1.0), 0, estimates, own, energy_variance=variance), *coarse_rungs]
    swap = Swap(product_target(), every=steps)
    if correct is None:
        return Sampler(rungs, swap, preconditioner)
    alone = None if temperatures is None else Sampler(coarse_rungs, preconditioner=preconditioner)
    return CorrectedExchange(
        rungs,
        swap,
        preconditioner,
        correct=correct,
        pairs=pairs,
        exchange_interval=often,
        local_move_interval=local,
        enhanced=enhanced,
        alone=alone,
    )


@preset()
def two_stage(
    step_size: float | Schedule | None = None,
    *,
    kernel: Kernel | None = None,
    coarse: str | int = "coarsest",
    steps: int = 1,
    **options: Unpack[MoveOptions],
) -> Sampler:
    r"""Delayed acceptance within a move: a coarse model screens proposals, the fine one decides on those that pass.

    Exact whatever the coarse model is: see `invsamp.kernels.DelayedAcceptance`. For one coarse fidelity and no ladder;
    `invsamp.correct` makes it agree with the fine one first, and `surrogate_exchange`, whose coarse chains go on where
    these wait, takes fewer fine solves where posteriors are hard. In warm-up fine solves come with gradients.

    Parameters
    ----------
    step_size : float, Schedule or None
        Of the kernel. None: found in warm-up, by the acceptance on the coarse model.
    kernel : Kernel, optional
        What moves on the coarse model, adjusted and reversible. Default: MALA.
    coarse : str or int
        Its fidelity, as in `invsamp.ladder.Rung`, but not the finest.
    steps : int
        Of the kernel for each fine solve.

    Raises
    ------
    ValueError
        If an argument is wrong; in a run, if there is no coarser fidelity.

    References
    ----------
    Christen and Fox (2005), JCGS 14(4); Efendiev, Hou and Luo (2006), SIAM Journal on Scientific Computing 28(2),
    Algorithm II; Lykkegaard et al. (2023), SIAM/ASA JUQ 11(1).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.two_stage(steps=5)
    >>> sampler.rungs[0].kernel.steps
    5
    """
    moves = optional(instance, "kernel", kernel, Kernel, "a Kernel, such as Langevin(adjusted=True)")
    delayed = DelayedAcceptance(moves or Langevin(adjusted=True), _coarse_level(coarse), steps)
    return single(delayed, step_size, options)


def _coarse_level(coarse: str | int) -> str | int:
    level = as_fidelity("coarse", coarse)
    if level == 0:
        raise ValueError(f"coarse must be another fidelity than the finest, got {coarse!r}")
    return level
