"""Contour samplers: targets that are flat in the energy. See `invsamp.samplers` and `invsamp.tempering.contours`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy.typing as npt

from invsamp.arguments import array, instance, integer, optional, real
from invsamp.estimators import exact
from invsamp.kernels import Langevin, LocalLangevin
from invsamp.kernels.contract import Kernel
from invsamp.kernels.schedules import Schedule
from invsamp.ladder import Rung, Sampler
from invsamp.samplers.options import ContourOptions, FixedLadderOptions, LearnedContourOptions, StepSizes, preset
from invsamp.samplers.shared import columns, exchange, plain_kernel, single
from invsamp.swaps.rules import SwapRule
from invsamp.swaps.schemes import sweep
from invsamp.tempering import tempered
from invsamp.tempering.contour_learning import Field, Gain, Learning
from invsamp.tempering.contours import GAIN, Contour, Weighting, contour, published

#: The gain that the thesis prints, 1 / (k^.6 + 100).
_PUBLISHED = Gain(1.0, 100.0, 0.6)


@preset(swap_fraction=0.1)
def contour_exchange(
    max_temperature: float = 10.0,
    step_size: StepSizes = None,
    *,
    energy_bins: npt.ArrayLike | int = 24,
    log_psi: npt.ArrayLike | None = None,
    zeta: float = 1.0,
    rungs: int = 3,
    kernel: Kernel | None = None,
    fidelities: Sequence[str | int] | None = None,
    swap: SwapRule | None = None,
    **options: Unpack[FixedLadderOptions],
) -> Sampler:
    """Replica exchange with contour rungs in place of a ladder; exact, and draws have no weights.

    The cold rung is the posterior, by `mala`. The others, on the coarsest fidelity, have a flat histogram of energies,
    from the posterior's range up to that of the hottest temperature. So each walks between the two by itself, and
    passes its position on at every swap. Errors in what warm-up estimates of their targets can cost swaps, never the
    target of the draws.

    Parameters
    ----------
    max_temperature : float, > 1
        The temperature at which modes are to be connected, as of the hottest rung of a ladder.
    energy_bins, log_psi, zeta
        As of `invsamp.tempering.contour`: by default what suits is found in warm-up.
    rungs : int, >= 1
        Contour rungs. Each brings about as much as the next, at one evaluation of the coarse model in each step.
    kernel : Kernel, optional
        How contour rungs move; one that accepts or refuses its steps. Default: `invsamp.kernels.LocalLangevin`, MALA
        whose steps are longer where the target is flatter. The energy walks by these; by the paths of
        `invsamp.kernels.Microcanonical`, at several evaluations of the coarse model in each step, it comes from one end
        to the other sooner.
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
    Deng, Lin and Liang (2020), NeurIPS, for the target; that it is a rung beside the posterior's, and adjusted, is
    ours.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.contour_exchange(max_temperature=20.0)
    >>> len(sampler.rungs)
    4
    """
    count = integer("rungs", rungs, least=1)
    target = contour(energy_bins, log_psi, zeta, max_temperature=max_temperature)
    adjusted = Langevin(adjusted=True)
    levels = ("finest", "coarsest") if fidelities is None else fidelities
    steps, levels, _ = columns(2, step_size, levels, exact())
    moves = optional(instance, "kernel", kernel, Kernel, "a Kernel, such as Microcanonical()") or LocalLangevin()
    if not moves.adjusted:
        raise ValueError(f"kernel must have an acceptance step, so that the target is exact, got {moves}")
    cold = Rung(tempered(1.0), levels[0], kernel=adjusted, step_size=steps[0])
    walking = Rung(target, levels[1], kernel=moves, step_size=steps[1])
    options["scheme"] = sweep() if options["scheme"] is None else options["scheme"]
    return exchange((cold, *[walking] * count), None, swap, options)


@preset()
def csgld(step_size: float | Schedule, ends: npt.ArrayLike, **options: Unpack[LearnedContourOptions]) -> Sampler:
    r"""Contour SGLD as published, each chain with masses of its own. Approximate: it learns for ever, with a step bias.

    .. math:: x' = x - \epsilon M \nabla U + \sqrt{2 \tau \epsilon}\, \xi, \qquad
              M = 1 + \zeta \tau \frac{\log \theta_J - \log \theta_{J - 1}}{\Delta u},

    M = 1 in the first bin and in the last, where the print extrapolates and diverges. Draws have weights. The
    published ones, :math:`\theta_J^\zeta`, belong to no continuous target: in the thesis's mixture a mode of weight .6
    gets .638. By default they are :math:`\Psi(U)^\zeta`, which are exact for the target that is simulated.

    Parameters
    ----------
    step_size : float or Schedule
        :math:`\epsilon`, of the positions as they are: no preconditioner is found. It has to be below 2 over the
        largest curvature of the energy times the largest multiplier; its bias is that of `sgld`.
    ends : array_like of float (m - 1,), rising
        Upper ends of the bins of energy but the last, which has none. The first should lie above the lowest energy: a
        empty bin makes the multiplier of the next one grow without bound.
    temperature : float, > 0
        :math:`\tau`. Weights are for the posterior, temperature 1.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`; CSGHMC.
    estimator : Estimator, optional
        `exact`, or `noisy` gradients with exact energies: noise in the energy, as of minibatches, is refused, for
        neither the bins nor the weights are then what they should be.

    References
    ----------
    Deng, Lin and Liang (2020), NeurIPS, Algorithm 1; Deng (2021), thesis, Purdue, eq. (5.7), (5.8), section 5.3.2.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.csgld(0.01, ends=[1.0, 2.0, 5.0])
    >>> [str(rung.target) for rung in sampler.rungs]
    ['contour (3 knots from 1 to 5, zeta 0.75)']
    """
    return _learned("csgld", step_size, ends, options)


@preset()
def icsgld(step_size: float | Schedule, ends: npt.ArrayLike, **options: Unpack[LearnedContourOptions]) -> Sampler:
    r"""Interacting contour SGLD as published: `csgld` whose chains learn the masses together. Approximate.

    Its random field has the factor :math:`\theta_J`, not :math:`\theta_J^\zeta`. So its fixed point is the bins' masses
    to the power :math:`1 / \zeta`. The simulated target is flat for every zeta, which changes the learning alone.

    Parameters
    ----------
    step_size, ends, temperature, estimator
        As of `csgld`.

    References
    ----------
    Deng, Liang, Hao and Lin (2022), "Interacting contour stochastic gradient Langevin dynamics", ICLR, Algorithm 1;
    Deng (2021), thesis, Purdue, eq. (6.5) to (6.9).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.icsgld(0.01, ends=[1.0, 2.0, 5.0])
    >>> [str(rung.target) for rung in sampler.rungs]
    ['contour (3 knots from 1 to 5, zeta 0.75)']
    """
    return _learned("icsgld", step_size, ends, options)


@preset(zeta=1.0)
def awsgld(step_size: float | Schedule, ends: npt.ArrayLike, **options: Unpack[ContourOptions]) -> Sampler:
    r"""Adaptively weighted SGLD as published: a baseline of optimization. Approximate.

    It learns an increasing function of the energy, :math:`\theta_m = 1`, whose power :math:`\zeta` goes to the
    distribution function of the energy. The multiplier of the gradient is never below 1 and often 20 to 100. Above the
    last end it is that of the last two bins. The sampler leaves modes by steps that overshoot, as a longer step would.
    Where :math:`\epsilon M` times the curvature passes 2, the target is not that of any density. Weights are for the
    posterior, temperature 1 (:math:`\Psi^\zeta e^{-U (1 - 1/\tau)}`).

    Parameters
    ----------
    step_size, ends, estimator
        As of `csgld`.
    temperature : float, > 0
        The published :math:`\tau \ge T`.

    References
    ----------
    Deng, Lin and Liang (2022), "An adaptively weighted stochastic gradient MCMC algorithm for Monte Carlo simulation
    and global optimization", Statistics and Computing 32; Deng (2021), thesis, Purdue, eq. (7.4), (7.5).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.awsgld(0.01, ends=[1.0, 2.0, 5.0])
    >>> [str(rung.target) for rung in sampler.rungs]
    ['contour (3 knots from 1 to 5)']
    """
    return _single(_published("awsgld", ends, options, "exact"), step_size, options)


def _learned(field: Field, step_size: float | Schedule, ends: npt.ArrayLike, options: LearnedContourOptions) -> Sampler:
    target, initial = _published(field, ends, options, options["weights"]), options["initial_log_psi"]
    if initial is not None:
        if options["log_psi"] is not None:
            raise ValueError(f"initial_log_psi must be None where log_psi is known, got {initial!r}")
        target = replace(target, log_psi=tuple(array("initial_log_psi", initial, (target.bins,)).tolist()))
    elif options["log_psi"] is not None:
        target = target.frozen(options["log_psi"])
    return _single(target, step_size, options, options["friction"])


def _published(field: Field, ends: npt.ArrayLike, options: ContourOptions, weights: Weighting) -> Contour:
    used = optional(instance, "gain", options["gain"], Gain, GAIN) or _PUBLISHED
    learning = Learning(field, used, forever=True, shared=field != "csgld")
    tau, power = real("temperature", options["temperature"], above=0), real("zeta", options["zeta"], above=0)
    return published(array("ends", ends, ("bins",)), learning, zeta=power, temperature=tau, weighting=weights)


def _single(target: Contour, step_size: float | Schedule, options: ContourOptions, friction: float = 1.0) -> Sampler:
    if step_size is None:
        raise ValueError("step_size must be given, a positive number or a schedule, got None")
    return single(plain_kernel(friction), step_size, options, target)
