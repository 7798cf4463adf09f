"""Presets of one rung: the samplers of the literature that are a single temperature. See `invsamp.samplers`."""

from __future__ import annotations

from typing import Unpack

from invsamp.arguments import optional, real
from invsamp.domains.boundary import Boundary
from invsamp.kernels import (
    CrankNicolson,
    Hamiltonian,
    InfinityHamiltonian,
    InfinityMicrocanonical,
    Langevin,
    Microcanonical,
    Momentum,
)
from invsamp.kernels.contract import Kernel
from invsamp.kernels.gaussian_reference import as_reference
from invsamp.kernels.rotations import QUARTER
from invsamp.kernels.schedules import Schedule, cyclic_cosine
from invsamp.ladder import Sampler
from invsamp.modes import Modes
from invsamp.samplers.options import NoisyRungOptions, RungOptions, preset
from invsamp.samplers.shared import plain_kernel, single
from invsamp.tempering.cooling import of_temperature


@preset()
def sgld(step_size: float | Schedule | None = None, **options: Unpack[NoisyRungOptions]) -> Sampler:
    r"""Stochastic-gradient Langevin dynamics, :math:`\theta' = \theta - \eta g + \sqrt{2 \eta} \xi`.

    Its stationary distribution is off by its step: variance :math:`1 / (1 - \eta \lambda / 2)` of the right one along
    curvature
    :math:`\lambda`, and further off by gradient noise unless ``gradient_noise`` takes that out.

    In a domain this is R-SGLD: the drift is reflected with the noise, which leaves a boundary layer of the order of
    the square root of the step (`mala` has none). The published SGLD is ``boundary="ignore"``.

    References
    ----------
    Welling and Teh (2011), ICML, eq. (4), with :math:`\eta = \epsilon / 2`.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.sgld(0.01, estimator=iv.estimators.minibatch(10)))
    Langevin, preconditioner None; Minibatch(size=10); approximate: steps without an acceptance step
    """
    return _noisy(Langevin(), step_size, options)


@preset(preconditioner=None)
def cyclic_sgld(
    step_size: float, *, cycles: int = 5, friction: float = 1.0, **options: Unpack[NoisyRungOptions]
) -> Sampler:
    """SGLD whose step size falls along a cosine and starts anew, in cycles that fill the run.

    A cycle begins with large steps, which reach other modes, and ends with small ones. ``warmup`` counts: with a
    fifth of all steps for warm-up, the first of 5 cycles is warm-up. Draws are those of every part of a cycle, with
    the bias of their step size; see `invsamp.kernels.schedules` for averages weighted by it.

    The published exploration stage is left out: there the first part of each cycle has no noise, and its draws are
    dropped. It adds a descent from where the last cycle ended. A mode's weight then becomes how often descents end in
    it, not its mass.

    Parameters
    ----------
    step_size : float
        At the start of each cycle.
    cycles : int, >= 1
        Number of cycles in ``warmup + draws * thin`` steps.
    friction : float in (0, 1]
        Less than 1: with momentum, as of `sghmc`; cyclic SGHMC.

    References
    ----------
    Zhang et al. (2020), "Cyclical stochastic gradient MCMC for Bayesian deep learning", ICLR, eq. (1), Algorithm 1.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.cyclic_sgld(0.1, cycles=10))
    Langevin, preconditioner None; approximate: steps without an acceptance step
    """
    schedule = cyclic_cosine(step_size, cycles=cycles)
    return _noisy(plain_kernel(friction), schedule, options)


@preset()
def sghmc(
    step_size: float | Schedule | None = None, *, friction: float = 0.1, **options: Unpack[NoisyRungOptions]
) -> Sampler:
    r"""Stochastic-gradient Hamiltonian Monte Carlo: SGLD with momentum, which a boundary reflects with the move.

    Its stationary distribution and stability are those of `invsamp.kernels.Momentum`. At a given step size a direction
    of small curvature relaxes :math:`1 / \alpha` times as fast as with `sgld`. The noise that may be taken out of the
    injected noise is :math:`\alpha` times what it is there.

    Parameters
    ----------
    step_size : float, Schedule or None
        :math:`\eta = \epsilon^2`, as in SGLD.
    friction : float in (0, 1]
        :math:`\alpha`, the share of the momentum that is lost in a step; 1 is SGLD.

    References
    ----------
    Chen, Fox and Guestrin (2014), ICML, eq. (15).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.sghmc(0.05, friction=0.2))
    Langevin with momentum (friction 0.2), preconditioner None; approximate: steps without an acceptance step
    """
    return _noisy(Momentum(friction), step_size, options)


@preset()
def mala(step_size: float | Schedule | None = None, **options: Unpack[RungOptions]) -> Sampler:
    """Metropolis-adjusted Langevin, for exact energies: no bias from the step size, nor from reflection.

    References
    ----------
    Roberts and Tweedie (1996), Bernoulli 2(4).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.mala(0.1))
    MALA, preconditioner None
    """
    return single(Langevin(adjusted=True), step_size, options)


@preset()
def ghmc(
    step_size: float | Schedule | None = None, *, friction: float = 0.05, **options: Unpack[RungOptions]
) -> Sampler:
    r"""Generalized Hamiltonian Monte Carlo: MALA with momentum, which refusals and bounds turn. Exact as MALA is.

    One gradient per step, as with `mala`; a move keeps the direction of the last :math:`1 / \alpha`, so that chains go
    along directions of small curvature instead of diffusing. See `invsamp.kernels.Momentum`.

    Parameters
    ----------
    step_size : float, Schedule or None
        As of `mala`: half of the square of the leapfrog step.
    friction : float in (0, 1]
        :math:`\alpha`, the share of the momentum that is lost in a step; 1 is MALA but for its thresholds.

    References
    ----------
    Horowitz (1991), Physics Letters B 268; thresholds by Neal (2020), arXiv:2001.11950.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.ghmc(friction=0.1))
    Metropolis-adjusted Langevin with momentum (friction 0.1), preconditioner auto (dense up to 1000 parameters)
    """
    return single(Momentum(friction, adjusted=True), step_size, options)


@preset()
def hmc(step_size: float | Schedule | None = None, *, length: float = 0.8, **options: Unpack[RungOptions]) -> Sampler:
    r"""Hamiltonian Monte Carlo with jittered path lengths: a draw costs several gradients. Exact as MALA is.

    See `invsamp.kernels.Hamiltonian`. Squares and energies mix faster by it than by `ghmc`, whose energy changes by its
    friction alone.

    Parameters
    ----------
    step_size : float, Schedule or None
        As of `mala`: half of the square of the leapfrog step.
    length : float, > 0
        Mean length of a path in whitened coordinates, in which the posterior is about one wide. A path has at most 256
        steps.

    References
    ----------
    Duane, Kennedy, Pendleton and Roweth (1987), Physics Letters B 195.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.hmc(length=1.0))
    Hamiltonian Monte Carlo (mean path length 1), preconditioner auto (dense up to 1000 parameters)
    """
    return single(Hamiltonian(length), step_size, options)


@preset()
def mams(step_size: float | Schedule | None = None, *, length: float = 1.0, **options: Unpack[RungOptions]) -> Sampler:
    r"""The Metropolis-adjusted microcanonical sampler: `hmc` at constant speed. Exact as MALA is; two unknowns or more.

    See `invsamp.kernels.Microcanonical`. Energies mix faster by it than by any other kernel here.

    Parameters
    ----------
    step_size : float, Schedule or None
        As of `mala`: half of the square of the leapfrog step.
    length : float, > 0
        Mean length of a path in whitened coordinates, in which the posterior is about one wide, by :math:`\sqrt{d}`. A
        path has at most 256 steps.

    References
    ----------
    Robnik, Cohn-Gordon and Seljak (2025), arXiv:2503.01707.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.mams(length=2.0)
    >>> sampler.rungs[0].kernel
    Microcanonical(length=2.0)
    """
    return single(Microcanonical(length), step_size, options)


@preset()
def pcn(
    step_size: float | Schedule | None = None,
    *,
    reference: Modes | None = None,
    fidelity: str | int = "finest",
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""Preconditioned Crank-Nicolson: no gradients, any number of dimensions. Exact as MALA is.

    Its proposals leave the prior as it is, where that is Gaussian in the coordinates that the sampler moves in, and the
    misfit alone decides: see `invsamp.kernels.CrankNicolson`. Without gradients it needs many more steps than `mala`
    where the data say much; on a ladder of tempered likelihoods the hot rungs hardly need them:
    ``Rung(tempered_likelihood(0.1), kernel=CrankNicolson())``. A proposal outside the domain is refused, whatever
    ``boundary`` says of moves that leave the domain.

    Parameters
    ----------
    step_size : float in (0, 1], Schedule or None
        s, called beta in the source: the share of a proposal that is new; 1 is a draw from the prior.
    reference : Modes, optional
        The result of `invsamp.maximize` for a prior that is Gaussian in 80 unknowns or more. Proposals then leave the
        Gaussian of the mode of most mass invariant, in place of the prior. That takes far fewer steps (generalized
        pCN).

    References
    ----------
    Cotter, Roberts, Stuart and White (2013), Statistical Science 28(3).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.pcn(0.2))
    preconditioned Crank-Nicolson, preconditioner None
    """
    if step_size is not None and not callable(step_size):
        step_size = real("step_size", step_size, above=0, most=1, also=", a schedule or None")
    kernel = CrankNicolson(reference=optional(as_reference, "reference", reference))
    return single(kernel, step_size, {"fidelity": fidelity, "preconditioner": None, "boundary": boundary})


@preset()
def infinity_hmc(
    step_size: float | Schedule | None = None,
    *,
    length: float = 1.6,
    reference: Modes | None = None,
    fidelity: str | int = "finest",
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""Hamiltonian Monte Carlo that rotates about a Gaussian reference: for fields on meshes. Exact as MALA is.

    Its acceptance does not depend on how finely a field is resolved; see `invsamp.kernels.InfinityHamiltonian`. Without
    a ``reference`` it rotates about the prior, which takes short steps where the data say much. `invsamp.sample` finds
    modes and takes this sampler by itself where the prior is Gaussian in 80 unknowns or more.

    Parameters
    ----------
    step_size : float in (0, pi/2], Schedule or None
        The angle of a step.
    length : float, > 0
        Mean angle of a path.
    reference : Modes, optional
        What `invsamp.maximize` found: the Gaussian of the mode of most mass is the reference.

    References
    ----------
    Beskos, Pinski, Sanz-Serna and Stuart (2011), Stochastic Processes and their Applications 121.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.infinity_hmc())
    infinity-HMC (mean angle of a path 1.6) about the prior, preconditioner None
    """
    kernel = InfinityHamiltonian(length, optional(as_reference, "reference", reference))
    return _rotating(kernel, step_size, fidelity, boundary)


@preset()
def infinity_mams(
    step_size: float | Schedule | None = None,
    *,
    length: float = 1.5,
    reference: Modes | None = None,
    fidelity: str | int = "finest",
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""`infinity_hmc` that is microcanonical in the directions which the data inform. Exact as MALA is.

    See `invsamp.kernels.InfinityMicrocanonical`. Energies mix faster by it.

    Parameters
    ----------
    step_size : float in (0, pi/2], Schedule or None
        The angle of a step.
    length : float, > 0
        Mean angle of a path.
    reference : Modes, optional
        What `invsamp.maximize` found: the Gaussian of the mode of most mass is the reference.

    References
    ----------
    Robnik, Cohn-Gordon and Seljak (2025), arXiv:2503.01707; Beskos et al. (2011).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.infinity_mams())
    infinity-MAMS (mean length of a path 1.5) about the prior, preconditioner None
    """
    kernel = InfinityMicrocanonical(length, optional(as_reference, "reference", reference))
    return _rotating(kernel, step_size, fidelity, boundary)


def _rotating(
    kernel: Kernel, step_size: float | Schedule | None, fidelity: str | int, boundary: Boundary | str
) -> Sampler:
    if step_size is not None and not callable(step_size):
        step_size = real("step_size", step_size, above=0, most=QUARTER, also=", a schedule or None")
    return single(kernel, step_size, {"fidelity": fidelity, "preconditioner": None, "boundary": boundary})


def _noisy(kernel: Kernel, step_size: float | Schedule | None, options: NoisyRungOptions) -> Sampler:
    return single(kernel, step_size, options, of_temperature(options["temperature"]))
