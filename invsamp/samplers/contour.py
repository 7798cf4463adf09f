"""Contour samplers: laws that are flat in the energy. See `invsamp.samplers` and `invsamp.tempering.contours`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy.typing as npt

from invsamp.arguments import array, instance, integer, optional, real
from invsamp.domains.boundary import Boundary
from invsamp.estimators.contract import Estimator
from invsamp.estimators.exact_energies import Exact
from invsamp.kernels import Langevin, LocalLangevin
from invsamp.kernels.contract import Kernel
from invsamp.kernels.schedules import Schedule
from invsamp.ladder import Rung, Sampler
from invsamp.ladder.rung import COARSEST
from invsamp.modes import Modes
from invsamp.samplers.shared import StepSizes, columns, exchange, plain_kernel
from invsamp.swaps.rules import SwapRule
from invsamp.swaps.schemes import SwapScheme, sweep
from invsamp.tempering import tempered
from invsamp.tempering.contour_learning import Field, Gain, Learning
from invsamp.tempering.contours import GAIN, Contour, Weighting, contour, published

#: The gain that the thesis prints, 1 / (k^.6 + 100).
_PUBLISHED = Gain(1.0, 100.0, 0.6)


def contour_exchange(
    hottest: float = 10.0,
    step_size: StepSizes = None,
    *,
    knots: npt.ArrayLike | int = 24,
    log_psi: npt.ArrayLike | None = None,
    zeta: float = 1.0,
    rungs: int = 3,
    kernel: Kernel | None = None,
    fidelities: Sequence[str | int] | None = None,
    swap: SwapRule | None = None,
    swap_fraction: float = 0.1,
    scheme: SwapScheme | None = None,
    preconditioner: str | Modes | None = "auto",
    boundary: Boundary | str = "reflect",
) -> Sampler:
    """Replica exchange with contour rungs in place of a ladder; exact, and draws have no weights.

    The cold rung is the posterior, by `mala`. The others, on the coarsest fidelity, are flat in the energy from the
    posterior's range up to that of the hottest temperature, so each walks between the two by itself, and hands its
    position on at every meeting. What warm-up learns of their laws can cost swaps, never the law of the draws.
    Other arguments: see `invsamp.samplers`.

    Parameters
    ----------
    hottest : float, > 1
        The temperature at which modes are to be connected, as of the hottest rung of a ladder.
    knots, log_psi, zeta
        As of `invsamp.tempering.contour`: by default what suits is found in warm-up.
    rungs : int, >= 1
        Contour rungs. Each brings about as much as the next, at one evaluation of the coarse model in each step.
    kernel : Kernel, optional
        How contour rungs move; one that accepts or refuses its steps. Default: `invsamp.kernels.LocalLangevin`, MALA whose
        steps are longer where the law is flatter. The energy walks by these; by the paths of `invsamp.kernels.Microcanonical`,
        at several evaluations of the coarse model in each step, it comes from one end to the other sooner.
    swap_fraction, scheme
        When rungs meet: at a tenth of the steps by default, all of them in turn (`sweep`), so that the cold one is
        offered a new position each time. Only its meetings take solves: a coarse energy, and a fine one for what this
        lets pass.
    fidelities : sequence of two, optional
        Of the cold rung and of the contour rungs. Default: the finest, and the coarsest.

    Raises
    ------
    ValueError
        If an argument is not what is said above, or ``kernel`` takes its steps without accepting or refusing them.

    References
    ----------
    Deng, Lin and Liang (2020), NeurIPS, for the law; that it is a rung beside the posterior's, and adjusted, is ours.
    """
    count = integer("rungs", rungs, least=1)
    target = contour(knots, log_psi, zeta, hottest=hottest)
    adjusted = Langevin(adjusted=True)
    levels = (0, COARSEST) if fidelities is None else fidelities
    steps, levels, _ = columns(2, step_size, levels, Exact())
    moves = optional(instance, "kernel", kernel, Kernel, "a Kernel, such as Microcanonical()") or LocalLangevin()
    if not moves.adjusted:
        raise ValueError(f"kernel must accept or refuse its steps, so that the law is exact, got {moves}")
    cold = Rung(tempered(1.0), levels[0], kernel=adjusted, step_size=steps[0])
    walking = Rung(target, levels[1], kernel=moves, step_size=steps[1])
    scheme = sweep() if scheme is None else scheme
    return exchange((cold, *[walking] * count), None, swap, swap_fraction, scheme, preconditioner, boundary)


def csgld(
    step_size: float | Schedule,
    ends: npt.ArrayLike,
    *,
    zeta: float = 0.75,
    temperature: float = 1.0,
    log_psi: npt.ArrayLike | None = None,
    initial_log_psi: npt.ArrayLike | None = None,
    gain: Gain | None = None,
    friction: float = 1.0,
    weights: Weighting = "exact",
    estimator: Estimator | None = None,
    fidelity: str | int = 0,
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""Contour SGLD as published, each chain with masses of its own. Approximate: it learns for ever, with a step bias.

    .. math:: x' = x - \epsilon M \nabla U + \sqrt{2 \tau \epsilon}\, \xi, \qquad
              M = 1 + \zeta \tau \frac{\log \theta_J - \log \theta_{J - 1}}{\Delta u},

    M = 1 in the first bin and in the last, where the print extrapolates and diverges. Draws have weights: those of the
    published :math:`\theta_J^\zeta` belong to no continuous law (right weights of the modes .638 for .6 in the thesis's
    mixture); by default they are :math:`\Psi(U)^\zeta`, which are exact for the law that is simulated.
    Other arguments: see `invsamp.samplers`.

    Parameters
    ----------
    step_size : float or Schedule
        :math:`\epsilon`, of the positions as they are: no preconditioner is found. It has to be below 2 over the
        largest curvature of the energy times the largest multiplier; its bias is that of `sgld`.
    ends : array_like of float (m - 1,), rising
        Upper ends of the bins of energy but the last, which has none. The first should lie above the lowest energy: a
        bin that holds nothing makes the multiplier of the next one grow without end.
    zeta : float, > 0
        :math:`\zeta`.
    temperature : float, > 0
        :math:`\tau`. Weights are for the posterior, temperature 1.
    log_psi : array_like of float (m,), optional
        Known log masses of the bins; then nothing is learned.
    initial_log_psi : array_like of float (m,), optional
        Log masses with which learning begins. Default: all bins alike.
    gain : Gain, optional
        Default: the printed :math:`1 / (k^{.6} + 100)`.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`; CSGHMC.
    weights : "exact" or "published"
        Which weights draws have.
    estimator : Estimator, optional
        `exact`, or `noisy` gradients with exact energies: noise in the energy, as of minibatches, is refused, for
        neither the bins nor the weights are then what they should be.

    References
    ----------
    Deng, Lin and Liang (2020), NeurIPS, Algorithm 1; Deng (2021), thesis, Purdue, eq. (5.7), (5.8), section 5.3.2.
    """
    target = _published("csgld", ends, zeta, temperature, weights, gain, log_psi, initial_log_psi)
    return _single(target, step_size, estimator, fidelity, boundary, friction)


def icsgld(
    step_size: float | Schedule,
    ends: npt.ArrayLike,
    *,
    zeta: float = 0.75,
    temperature: float = 1.0,
    log_psi: npt.ArrayLike | None = None,
    initial_log_psi: npt.ArrayLike | None = None,
    gain: Gain | None = None,
    friction: float = 1.0,
    weights: Weighting = "exact",
    estimator: Estimator | None = None,
    fidelity: str | int = 0,
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""Interacting contour SGLD as published: `csgld` whose chains learn the masses together. Approximate.

    Its random field has the factor :math:`\theta_J`, not :math:`\theta_J^\zeta`: its fixed point is the bins' masses to
    the power :math:`1 / \zeta`, so that the law that is simulated is flat whatever zeta is, a gain of learning only.

    Notes
    -----
    Arguments are those of `csgld`.

    References
    ----------
    Deng, Liang, Hao and Lin (2022), "Interacting contour stochastic gradient Langevin dynamics", ICLR, Algorithm 1;
    Deng (2021), thesis, Purdue, eq. (6.5) to (6.9).
    """
    target = _published("icsgld", ends, zeta, temperature, weights, gain, log_psi, initial_log_psi)
    return _single(target, step_size, estimator, fidelity, boundary, friction)


def awsgld(
    step_size: float | Schedule,
    ends: npt.ArrayLike,
    *,
    zeta: float = 1.0,
    temperature: float = 1.0,
    gain: Gain | None = None,
    estimator: Estimator | None = None,
    fidelity: str | int = 0,
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""Adaptively weighted SGLD as published: a baseline of optimization. Approximate.

    What is learned is an increasing function of the energy, :math:`\theta_m = 1`, whose power :math:`\zeta` goes to the
    distribution function of the energy. The multiplier of the gradient is never below 1 and often 20 to 100, above the
    last end too, where it is that of the last two bins: it leaves
    modes by steps that overshoot, as a longer step would, and where :math:`\epsilon M` times the curvature passes 2 the
    law is not that of any density. Weights are for the posterior, temperature 1 (:math:`\Psi^\zeta e^{-U (1 -
    1/\tau)}`).

    Notes
    -----
    Other arguments are those of `csgld`; ``temperature`` is the published :math:`\tau \ge T`.

    References
    ----------
    Deng, Lin and Liang (2022), "An adaptively weighted stochastic gradient MCMC algorithm for Monte Carlo simulation
    and global optimization", Statistics and Computing 32; Deng (2021), thesis, Purdue, eq. (7.4), (7.5).
    """
    target = _published("awsgld", ends, zeta, temperature, "exact", gain)
    return _single(target, step_size, estimator, fidelity, boundary)


def _published(
    field: Field,
    ends: npt.ArrayLike,
    zeta: float,
    temperature: float,
    weights: Weighting,
    gain: Gain | None,
    log_psi: npt.ArrayLike | None = None,
    initial: npt.ArrayLike | None = None,
) -> Contour:
    used = optional(instance, "gain", gain, Gain, GAIN) or _PUBLISHED
    learning = Learning(field, used, forever=True, shared=field != "csgld")
    tau, power = real("temperature", temperature, above=0), real("zeta", zeta, above=0)
    target = published(array("ends", ends, ("bins",)), learning, zeta=power, temperature=tau, weighting=weights)
    if initial is not None:
        if log_psi is not None:
            raise ValueError(f"initial_log_psi must be None where log_psi is known, got {initial!r}")
        return replace(target, log_psi=tuple(array("initial_log_psi", initial, (target.bins,)).tolist()))
    return target if log_psi is None else target.frozen(log_psi)


def _single(
    target: Contour,
    step_size: float | Schedule,
    estimator: Estimator | None,
    fidelity: str | int,
    boundary: Boundary | str,
    friction: float = 1.0,
) -> Sampler:
    if step_size is None:
        raise ValueError("step_size must be given, a positive number or a schedule, got None")
    used = Exact() if estimator is None else estimator
    rung = Rung(target, fidelity, used, kernel=plain_kernel(friction), step_size=step_size)
    return Sampler((rung,), boundary=boundary)
