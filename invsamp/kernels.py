r"""Kernels: how one rung moves, given the gradient at its position.

All kernels make a move v of temperature tau in whitened coordinates w,

.. math:: v' = (1 - \alpha)\, v - \eta\, \nabla_w U + \sqrt{2 \alpha \eta \tau}\, \xi,

and follow the domain's specular path along v', which turns v' with it. The Langevin kernels forget the last move
(friction alpha = 1). Adjusted kernels accept or refuse what they find at the path's end, the others go there. All
functions are vectorised over chains; the step size is a number, or (chains, 1) while warm-up adapts it per chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, real, store
from invsamp.contract import Array

StepSize = float | Array
#: How far the thresholds of `persistent_acceptance` move on in a step.
LEVEL_STEP = 0.02


@dataclass(frozen=True)
class Langevin:
    """Langevin kernel, Metropolis-adjusted (MALA) or not (SGLD).

    The adjusted form needs exact energies. In a domain its proposal is the specular path, an involution of
    (position, velocity) that keeps volume, so reflection leaves no boundary layer.
    """

    adjusted: bool = False
    friction: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        store(self, adjusted=boolean("adjusted", self.adjusted))


@dataclass(frozen=True)
class Momentum:
    r"""Langevin kernel with momentum: SGHMC or, Metropolis-adjusted, generalised Hamiltonian Monte Carlo.

    Unadjusted, in whitened coordinates w, with the unit masses that these stand for, the move v keeps a share of the
    last one:

    .. math:: v' = (1 - \alpha) v - \eta \nabla U(w) + N(0, 2 \alpha \eta \tau I - \eta^2 S), \qquad w' = w + v',

    S the covariance of the gradient's noise if it is to be taken out, else 0. Kick, friction and noise enter at one
    place, so that the budget is exact: with it, noisy Gaussian gradients give the law of exact ones. On a Gaussian of
    curvature :math:`\lambda` that law has variance

    .. math:: \frac{\tau}{\lambda} \Bigl(1 - \frac{\eta \lambda}{2 (2 - \alpha)}\Bigr)^{-1},

    and it is stable for :math:`\eta \lambda < 2 (2 - \alpha)`. At :math:`\alpha = 1` it is SGLD.

    A wall turns v. Where a move is refused (no path was found, or the solve at its end failed), the chain stays and
    v is reversed: staying with v unchanged would not keep volume.

    What is kept is :math:`r = v / \sqrt{\eta}`, whose law N(0, tau I) depends neither on the step size nor on the
    preconditioner. At a swap positions move and momenta stay with their rungs: the joint law is the product of the
    tempered densities and of each rung's N(0, tau I), and exchanging positions leaves the second factor as it is. That
    is so for the momentum at the position, :math:`r - \sqrt{\eta} \nabla U(w) / 2`: the v above belongs half a kick
    earlier, and its correlation with w, of the order of :math:`\sqrt{\eta \lambda}`, would spoil the law at every swap.

    Adjusted, the momentum r belongs at the position. It is refreshed in part, then a leapfrog step of length
    :math:`\sqrt{2 \eta}` is accepted or refused, and turned back if refused:

    .. math:: r' = (1 - \alpha) r + \sqrt{\tau (1 - (1 - \alpha)^2)}\, \xi, \qquad
              w' = w - \eta \nabla U(w) + \sqrt{2 \eta}\, r'.

    That is MALA's move, with its step size, whose noise remembers the last one. The law is exact at any step size. Long
    paths survive only if refusals are rare and come close together, hence `persistent_acceptance`.

    Parameters
    ----------
    friction : float in (0, 1]
        :math:`\alpha`, the share of the momentum that is lost in a step.
    adjusted : bool
        Whether steps are accepted or refused. Needs exact energies.

    Raises
    ------
    ValueError
        If the friction is out of range.

    References
    ----------
    Chen, Fox and Guestrin (2014), "Stochastic gradient Hamiltonian Monte Carlo", ICML, eq. (13)-(15), where S enters
    as :math:`\hat\beta = \eta S / 2`. The kick comes before the drift here, and temperatures are theirs times tau.
    Adjusted: Horowitz (1991), Physics Letters B 268, 247-252.
    """

    friction: float = 0.1
    adjusted: bool = False

    def __post_init__(self) -> None:
        store(
            self, friction=real("friction", self.friction, above=0, most=1), adjusted=boolean("adjusted", self.adjusted)
        )


Kernel = Langevin | Momentum


def stability_limit(kernel: Kernel) -> float:
    """Largest step size times curvature at which the kernel is stable without adjustment."""
    return 2.0 * (2.0 - kernel.friction)


def target_acceptance(kernel: Kernel) -> float:
    """Mean acceptance at which an adjusted kernel's step size is best, or nearly so.

    MALA: 0.574 (Roberts and Rosenthal 1998). With momentum each refusal undoes the path so far: 0.93 was best in trials
    on a posterior of 64 unknowns, by a flat maximum.
    """
    return 0.574 if kernel.friction == 1.0 else 0.93


class Proposal(NamedTuple):
    """A move of w (chains, d), and how many entries of its noise had no variance left."""

    move: Array
    clipped: int


def propose(gradient: Array, noise: Array, step_size: StepSize, temperature: float) -> Proposal:
    """Langevin move for an exact gradient; ``gradient`` is with respect to w.

    With friction, ``temperature`` is that times the friction, and the share of the last move that is kept is yet to be
    added.
    """
    variance = 2.0 * temperature * step_size
    # the square root of a Python float costs a tenth of NumPy's, and this runs at every step
    sd = math.sqrt(variance) if isinstance(variance, float) else np.sqrt(variance)
    return Proposal(sd * noise - step_size * gradient, 0)


def propose_within_budget(
    gradient: Array, noise: Array, step_size: StepSize, temperature: float, gradient_variance: Array
) -> Proposal:
    r"""Langevin move whose injected noise leaves room for the gradient's own.

    .. math:: \mathrm{cov} = 2 \tau \eta I - \eta^2 S

    Negative eigenvalues (S over the budget) are set to zero and counted.

    Parameters
    ----------
    gradient_variance : ndarray
        S in whitened coordinates: isotropic (chains,), diagonal (chains, d) or full (chains, d, d).

    References
    ----------
    Li, Lin, Zhang and Zhou (2023), "Fast replica exchange SGLD", eq. (13) and (15), which print
    :math:`\tau \eta` where :math:`2 \tau \eta` is right.
    """
    if gradient_variance.ndim == 3:
        injected, clipped = _correlated(gradient_variance, noise, step_size, temperature)
    else:
        by_entry = gradient_variance[:, None] if gradient_variance.ndim == 1 else gradient_variance
        sd, clipped = _spent(2.0 * temperature * step_size - step_size**2 * by_entry)
        injected = sd * noise
    return Proposal(injected - step_size * gradient, clipped)


def log_acceptance(
    energies: tuple[Array, Array],
    noise: Array,
    end_velocity: Array,
    end_gradient: Array,
    step_size: StepSize,
    temperature: float,
) -> Array:
    r"""Log Metropolis ratio of a Langevin move along a specular path.

    With the velocity v drawn as an auxiliary variable from :math:`N(-\eta g, 2 \eta \tau I)`, the path sends
    (w, v) to (w', v') and back from (w', -v'), so the ratio compares the density of -v' at w' with that of
    v at w. Without reflection v' = v and this is MALA (Roberts and Tweedie 1996).

    Parameters
    ----------
    energies : (before, after), each of shape (chains,)
    noise : ndarray, shape (chains, d)
        The standard normal draws in the move.
    end_velocity, end_gradient : ndarray, shape (chains, d)
        Velocity and gradient at the end of the path, in whitened coordinates.

    Returns
    -------
    ndarray, shape (chains,)
    """
    back = step_size * end_gradient - end_velocity
    quadratic = back * back / (4.0 * step_size * temperature)
    before, after = energies
    return (before - after) / temperature + (0.5 * (noise * noise) - quadratic).sum(axis=1)


def refreshed(momentum: Array, noise: Array, friction: float, temperature: float) -> Array:
    r"""Momenta r of an adjusted kernel after friction and noise, over :math:`\sqrt{\tau}`: the noise of its move."""
    kept = 1.0 - friction
    after: Array = (kept / math.sqrt(temperature)) * momentum + math.sqrt(1.0 - kept * kept) * noise
    return after


def end_momentum(velocity: Array, gradient: Array, step_size: StepSize) -> Array:
    """Momenta r at the end of a leapfrog step, from the velocity and the gradient there."""
    momentum: Array = (velocity - step_size * gradient) / np.sqrt(2.0 * step_size)
    return momentum


def persistent_acceptance(level: Array, log_ratio: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    r"""Which chains accept, and the next levels, both (chains,): Metropolis by thresholds that remember.

    The threshold :math:`|s|` is uniform on (0, 1) at any step, but s is not drawn anew: it moves on a little, through
    the ring (-1, 1), and is divided by the ratio of the densities where the chain moves, which keeps it uniform given
    the new state. Refusals, which turn momenta back, come in clusters then, with long ways between them.

    Parameters
    ----------
    level : ndarray, shape (chains,)
        s, in (-1, 1); uniform at the start of a run.
    log_ratio : ndarray, shape (chains,)
        Log Metropolis ratio of a move that is a function of the state; NaN is refused.

    References
    ----------
    Neal (2020), "Non-reversibly updating a uniform [0,1] value for Metropolis accept/reject decisions",
    arXiv:2001.11950, Section 3.
    """
    level = level + LEVEL_STEP
    level = np.where(level >= 1.0, level - 2.0, level)
    accept = np.abs(level) < np.exp(np.minimum(log_ratio, 0.0))
    return accept, level * np.exp(-np.where(accept, log_ratio, 0.0))


def _correlated(covariance: Array, noise: Array, step_size: StepSize, temperature: float) -> tuple[Array, int]:
    """Injected noise (chains, d) for full covariances (chains, d, d), and how many chains have overspent."""
    step = np.asarray(step_size)[..., None]
    left = 2.0 * temperature * step * np.eye(noise.shape[1]) - step**2 * covariance
    try:
        # a fifth of the time of the eigenvalues, which only an overspent budget needs
        return (np.linalg.cholesky(left) @ noise[:, :, None])[:, :, 0], 0
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(left)
        sd, clipped = _spent(values)
        return (vectors @ (sd * noise)[:, :, None])[:, :, 0], clipped


def _spent(left: Array) -> tuple[Array, int]:
    """Standard deviations of the variances that are left (chains, d), and how many chains have overspent."""
    if left.min() >= 0.0:
        return np.sqrt(left), 0
    return np.sqrt(np.maximum(left, 0.0)), int((left < 0.0).any(axis=1).sum())
