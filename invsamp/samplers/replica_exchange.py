"""Presets with replica exchange: a cold rung that is the posterior, and hotter ones. See `invsamp.samplers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy.typing as npt

from invsamp.arguments import instance, optional
from invsamp.estimators.contract import Estimator
from invsamp.estimators.control_variates import ControlVariate, control_variate
from invsamp.estimators.coupled_sums import CoupledSum
from invsamp.estimators.quadratic_controls import Expansion, fixed_control
from invsamp.evaluate.requests import Structure
from invsamp.kernels import Langevin, Momentum
from invsamp.kernels.contract import Kernel
from invsamp.ladder import GradientNoise, Sampler
from invsamp.ladder.rung import VARIANCE_MODEL, Beyond
from invsamp.samplers.options import ExchangeOptions, NoisyExchangeOptions, NoisyLadderOptions, StepSizes, preset
from invsamp.samplers.shared import ladder_of, plain_kernel
from invsamp.swaps import rules
from invsamp.tempering.target_distribution import TargetDistribution
from invsamp.variances.models import Known, VarianceModel, known, running_average

#: Temperatures of a cold and a hot rung, where none are given.
R2_PAIR = (1.0, 10.0)


@preset()
def parallel_tempering(
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    adjusted: bool = True,
    friction: float = 1.0,
    kernel: Kernel | None = None,
    fidelities: Sequence[str | int] | None = None,
    swap: rules.SwapRule | None = None,
    **options: Unpack[ExchangeOptions],
) -> Sampler:
    """Replica-exchange Langevin (reLD) with exact energies; exact in every part by default.

    Parameters
    ----------
    adjusted : bool
        Metropolis-adjusted kernels. False: plain Langevin steps, with their step-size bias.
    friction : float in (0, 1]
        Less than 1: kernels with momentum, as of `ghmc` (adjusted) or `sghmc`.
    kernel : Kernel, optional
        Any other one in their place, as `invsamp.kernels.Microcanonical()` (that of `mams`).
    swap : SwapRule, optional
        Default: exact for rungs of any fidelities, in two stages where they differ (`delayed_acceptance`).

    Raises
    ------
    ValueError
        If an argument is wrong, or a kernel is given and ``adjusted`` or ``friction`` ask for another one.

    References
    ----------
    Chen et al. (2019), ICLR, "Accelerating nonconvex learning via replica exchange Langevin diffusion".

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.parallel_tempering([1.0, 2.0, 4.0]))
    MALA, preconditioner auto (dense up to 1000 parameters); 3 rungs, swaps by the default rule
    """
    momentum = Momentum(friction, adjusted)
    if kernel is not None and momentum != Momentum(1.0, adjusted=True):
        raise ValueError(f"kernel must be None where adjusted or friction say which, got {kernel!r} and {momentum!r}")
    if kernel is None:
        kernel = Langevin(momentum.adjusted) if momentum.friction == 1.0 else momentum
    return ladder_of(temperatures, step_size, swap, options, fidelities=fidelities, kernel=kernel)


@preset()
def resgld(
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    friction: float = 1.0,
    swap: rules.SwapRule | None = None,
    **options: Unpack[NoisyExchangeOptions],
) -> Sampler:
    """Replica-exchange SGLD with one fidelity and noisy energies; its gradients' noise is not taken out.

    Parameters
    ----------
    swap : SwapRule, optional
        `metropolis`, or `noise_penalty` with a factor F. Default: ``noise_penalty()``.
    energy_variance : VarianceModel, optional
        `known`, or estimated on the fly in warm-up by `running_average` (the default, except for control variates,
        whose noise grows until the next snapshot: their energies state it).
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`; reSGHMC.
    fidelities : sequence, optional
        Default: the finest on every rung.

    References
    ----------
    Deng et al. (2020), ICML, "Non-convex learning via replica exchange stochastic gradient MCMC", eq. (7).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.resgld([1.0, 4.0], [0.01, 0.02])
    >>> [str(rung.target) for rung in sampler.rungs]
    ['T = 1', 'T = 4']
    """
    rule = rules.noise_penalty() if swap is None else swap
    parts = {"energy_variance": _energy_variance(options), "kernel": plain_kernel(friction)}
    fidelities = "finest" if options["fidelities"] is None else options["fidelities"]
    return ladder_of(temperatures, step_size, rule, options, fidelities=fidelities, **parts)


@preset()
def r2sgld(
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    friction: float = 1.0,
    swap: rules.SwapRule | None = None,
    **options: Unpack[NoisyLadderOptions],
) -> Sampler:
    """r2SGLD: replica-exchange SGLD with reflection of every rung at the domain's boundary.

    `resgld` with ``boundary="reflect"`` and the published temperatures. As published: a step size for each rung, and
    swaps corrected for the energies' noise (eq. 7 with C = 2 for the variance of the energies' difference). Two things
    differ from the source. An attempt follows a tenth of the steps, not every one (``swap_fraction=1.0``). The
    reflection is the specular path; its end is that of the published one if a move hits one flat face.

    Parameters
    ----------
    temperatures : sequence of float or TargetDistribution, optional
        Default: 1 and 10.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`; r2SGHMC.

    References
    ----------
    Zheng et al. (2024), "Constrained exploration via reflected replica exchange stochastic gradient Langevin
    dynamics", ICML, Algorithm 1, eq. (7).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.r2sgld([1.0, 4.0], [0.01, 0.02])
    >>> [str(rung.target) for rung in sampler.rungs]
    ['T = 1', 'T = 4']
    """
    if temperatures is None and options["ladder"] is None:
        temperatures = R2_PAIR
    return resgld(temperatures, step_size, friction=friction, swap=swap, **options)


@preset()
def multi_variance_resgld(
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    weight: float | None = None,
    assume_unbiased: bool = False,
    **options: Unpack[NoisyExchangeOptions],
) -> Sampler:
    """m-reSGLD: each rung its own fidelity and noise, swaps by both rungs' energies at both positions.

    Parameters
    ----------
    weight : float in [0, 1], optional
        Weight a1 of the cold rung's energies. Default: that of least variance, from warm-up.
    assume_unbiased : bool
        Rungs of different deterministic fidelity are refused unless you say that their energies differ by
        noise alone (see `invsamp.swaps.rules.multi_variance`).

    References
    ----------
    Lin, Wang and Zhang (2022), "Multi-variance replica exchange SGMCMC for inverse and forward problems via
    Bayesian PINN", eq. (11).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.multi_variance_resgld([1.0, 4.0])
    >>> [str(rung.target) for rung in sampler.rungs]
    ['T = 1', 'T = 4']
    """
    rule = rules.multi_variance(weight, assume_unbiased=assume_unbiased)
    return ladder_of(temperatures, step_size, rule, options, energy_variance=_energy_variance(options))


@preset()
def fast_resgld(
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    variance: VarianceModel | None = None,
    structure: Structure = "isotropic",
    on_noise_overflow: Beyond = "shrink",
    probes: int = 10,
    friction: float = 1.0,
    swap: rules.SwapRule | None = None,
    **options: Unpack[NoisyExchangeOptions],
) -> Sampler:
    """f-reSGLD: the noise of each fidelity's gradient is taken out of the injected noise, that of its energy out of
    the swaps.

    Parameters
    ----------
    variance : VarianceModel, optional
        Of the gradients: `known` (what the estimator states; the default), `running_average` (the default with a
        `coupled_sum`, as in ``estimator=[coupled_sum(), exact()]``) or `kernel_ridge`.
    energy_variance : VarianceModel, optional
        Of the energies. Default: as ``variance``, or what the estimator states where that has a value.
    structure : "isotropic", "diagonal" or "full"
        Form of the gradient noise's covariance.
    on_noise_overflow : "shrink", "effective_temperature", "refuse" or "clip"
        What is done where a gradient is noisier than the noise that the step injects
        (`invsamp.ladder.GradientNoise`). "effective_temperature" is for the hot rungs: the cold one shrinks its step.
    probes : int
        Repeated estimates per pilot state, for the variance models that learn.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`; the budget is the friction times as large then.
    swap : SwapRule, optional
        Default: eq. (18) (`state_dependent_penalty`) between rungs of one fidelity, `delayed_acceptance` between rungs
        of two, whose energies differ by more than noise, so that eq. (18) would be biased.
        ``state_dependent_penalty(assume_unbiased=True)`` gives the published rule all the same.

    References
    ----------
    Li, Lin, Zhang and Zhou (2023), "Fast replica exchange SGLD", Algorithm 1, eq. (13), (15), (18).

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = {"estimator": iv.estimators.noisy(), "variance": iv.variances.running_average()}
    >>> sampler = iv.samplers.fast_resgld([1.0, 4.0], **noise)
    >>> [str(rung.target) for rung in sampler.rungs]
    ['T = 1', 'T = 4']
    """
    model = optional(instance, "variance", variance, VarianceModel, VARIANCE_MODEL)
    if model is None:  # a coupled sum's draw does not state its variance
        model = running_average() if any(isinstance(e, CoupledSum) for e in _estimators(options)) else known()
    energy_variance = options["energy_variance"]
    if energy_variance is None:
        energy_variance = known() if variance is None or isinstance(variance, Known) else variance
    noise, kernel = GradientNoise(model, structure, on_noise_overflow), plain_kernel(friction)
    parts = {"gradient_noise": noise, "probes": probes, "kernel": kernel}
    fidelities = options["fidelities"]
    return ladder_of(
        temperatures, step_size, swap, options, fidelities=fidelities, energy_variance=energy_variance, **parts
    )


@preset()
def vr_resgld(
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    size: int = 100,
    refresh: int = 40,
    groups: npt.ArrayLike | None = None,
    adaptive: bool = False,
    friction: float = 1.0,
    swap: rules.SwapRule | None = None,
    energy_variance: VarianceModel | None = None,
    **options: Unpack[ExchangeOptions],
) -> Sampler:
    """Variance-reduced replica-exchange SGLD as published: energies of swaps less those of a snapshot. Approximate.

    Their noise grows with the distance from the snapshot, and one running variance stands for it: at F = 1 the mode
    that is reached is too wide by half with ``refresh`` 40. As corrected here, snapshots travel with positions and the
    variance is estimated before they are renewed. `paired_resgld` is exact in its swaps.

    Parameters
    ----------
    size, refresh, groups, adaptive
        As of `invsamp.estimators.control_variate` with ``order="constant"``; ``adaptive`` is Algorithm 2.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`.
    swap : SwapRule, optional
        Default: ``noise_penalty()``.
    energy_variance : VarianceModel, optional
        Default: `running_average`.

    References
    ----------
    Deng, Feng, Karagiannis, Lin and Liang (2021), "Accelerating convergence of replica exchange stochastic gradient
    MCMC via variance reduction", ICLR, Algorithms 1 and 2. Its eq. (6) takes d^2 v / F where v is the variance of the
    difference; d^2 v / 2 is right.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.vr_resgld([1.0, 4.0], size=50, refresh=20)
    >>> [str(rung.target) for rung in sampler.rungs]
    ['T = 1', 'T = 4']
    """
    estimator = control_variate(size, refresh, groups, order="constant", adaptive=adaptive)
    variance = running_average() if energy_variance is None else energy_variance
    rule = rules.noise_penalty() if swap is None else swap
    parts = {"estimator": estimator, "energy_variance": variance, "kernel": plain_kernel(friction)}
    return ladder_of(temperatures, step_size, rule, options, fidelities="finest", **parts)


@preset()
def paired_resgld(
    references: npt.ArrayLike,
    temperatures: Sequence[TargetDistribution | float] | None = None,
    step_size: StepSizes = None,
    *,
    size: int = 8,
    groups: npt.ArrayLike | None = None,
    order: Expansion = "quadratic",
    friction: float = 1.0,
    structure: Structure = "isotropic",
    **options: Unpack[ExchangeOptions],
) -> Sampler:
    """Replica exchange by minibatches whose noise nearly vanishes: fixed references, one batch for both chains of a
    swap.

    Terms are taken less their expansions about the modes (`invsamp.estimators.fixed_control`). Swaps take one batch for
    both positions, so that the noise is the same for the reverse swap. The gradients' noise is taken out of the
    injected noise. What is left is the bias of the step, as of `sgld`. For many experiments with a solve each,
    ``groups=`` by experiment.

    Parameters
    ----------
    references, size, groups, order
        As of `invsamp.estimators.fixed_control`; references are positions, such as
        ``invsamp.maximize(posterior).position``.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`.
    structure : "isotropic", "diagonal" or "full"
        Form of the gradient noise's covariance.

    References
    ----------
    The exact form of `vr_resgld` is ours.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.paired_resgld([[0.0, 1.0]], [1.0, 4.0], size=8)
    >>> [str(rung.target) for rung in sampler.rungs]
    ['T = 1', 'T = 4']
    """
    estimator = fixed_control(size, references, groups, order=order)
    noise, kernel = GradientNoise(known(), structure), plain_kernel(friction)
    parts = {"estimator": estimator, "gradient_noise": noise, "kernel": kernel, "swap_energies": "paired"}
    return ladder_of(temperatures, step_size, rules.state_dependent_penalty(), options, fidelities="finest", **parts)


def _energy_variance(options: NoisyLadderOptions) -> VarianceModel:
    """As given, or by default an average, except for control variates, which state theirs."""
    if options["energy_variance"] is not None:
        return options["energy_variance"]
    return known() if any(isinstance(e, ControlVariate) for e in _estimators(options)) else running_average()


def _estimators(options: NoisyLadderOptions) -> Sequence[Estimator | None]:
    given = options["estimator"]
    return given if isinstance(given, Sequence) else [given]
