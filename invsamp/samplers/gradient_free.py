"""Presets without gradients that move by other states, for models that have no derivatives. See `invsamp.samplers`."""

from __future__ import annotations

from invsamp.arguments import real
from invsamp.domains.boundary import Boundary
from invsamp.kernels import DifferentialEvolution, Stretch
from invsamp.kernels.contract import Kernel
from invsamp.kernels.schedules import Schedule
from invsamp.ladder import Sampler
from invsamp.samplers.options import preset
from invsamp.samplers.shared import single


@preset()
def stretch(
    step_size: float | Schedule = 1.0,
    *,
    walkers: int = 16,
    fidelity: str | int = "finest",
    boundary: Boundary | str = "reflect",
) -> Sampler:
    r"""The affine-invariant ensemble sampler: no gradients, no scale to tune. Exact.

    Walkers move along lines through each other: see `invsamp.kernels.Stretch`. ``chains`` of `invsamp.sample` is a
    multiple of ``walkers``; each ensemble counts as one chain for R-hat and effective sample sizes, so take several:
    ``iv.sample(posterior, iv.samplers.stretch(), chains=64)``. It evaluates half of all chains at the same time.
    A proposal outside the domain is refused, whatever ``boundary`` says of moves that leave the domain.

    Parameters
    ----------
    step_size : float, > 0, or Schedule
        a - 1, where a is how far a walker may move away, as a multiple of its distance from the other. 1 is the
        published choice.
    walkers : int, even, >= 4
        Chains of an ensemble, at least twice as many as parameters.

    References
    ----------
    Goodman and Weare (2010), Communications in Applied Mathematics and Computational Science 5(1).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.stretch(walkers=8))
    stretch move, ensembles of 8 walkers, preconditioner None
    """
    return _single(Stretch(walkers), _length(step_size), fidelity, boundary)


@preset()
def differential_evolution(
    step_size: float | Schedule = 1.0, *, fidelity: str | int = "finest", boundary: Boundary | str = "reflect"
) -> Sampler:
    r"""Differential evolution with past states and snooker moves: no gradients, no scale to tune. Exact.

    Chains jump along differences of states that warm-up has kept: see `invsamp.kernels.DifferentialEvolution`. Chains
    are independent of each other after warm-up, and few will do. A proposal outside the domain is refused, whatever
    ``boundary`` says of moves that leave the domain.

    Parameters
    ----------
    step_size : float, > 0, or Schedule
        Length of jumps, in units of :math:`2.38 / \sqrt{2 d}` differences. 1 is the published choice.

    References
    ----------
    ter Braak and Vrugt (2008), Statistics and Computing 18, 435-446.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.differential_evolution())
    differential evolution, preconditioner None
    """
    return _single(DifferentialEvolution(), _length(step_size), fidelity, boundary)


def _length(step_size: float | Schedule) -> float | Schedule:
    """A step size that need not be found: of what moves by other states it has no unit."""
    return step_size if callable(step_size) else real("step_size", step_size, above=0, also=", or a schedule")


def _single(
    kernel: Kernel, step_size: float | Schedule | None, fidelity: str | int, boundary: Boundary | str
) -> Sampler:
    """The sampler of one rung; without gradients there is no preconditioner."""
    return single(kernel, step_size, {"fidelity": fidelity, "preconditioner": None, "boundary": boundary})
