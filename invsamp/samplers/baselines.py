"""Baselines of the literature: approximate, for comparisons, never to be relied on. See `invsamp.samplers`."""

from __future__ import annotations

from typing import Unpack

from invsamp.arguments import real
from invsamp.kernels import DeoSgd, GradientDescent, RmsLangevin, Stein
from invsamp.kernels.contract import Kernel
from invsamp.ladder import Sampler
from invsamp.samplers.options import BaselineOptions, preset
from invsamp.samplers.shared import single


@preset()
def deo_sgd(
    step_size: float = 0.003,
    *,
    highest: float = 0.6,
    processes: int = 16,
    target: float = 0.4,
    window: int = 8,
    buffer: float = 4.0,
    **options: Unpack[BaselineOptions],
) -> Sampler:
    """DEO*-SGD as its program runs. Approximate: see `invsamp.kernels.DeoSgd`.

    ``run.data.sample_stats`` holds where each chain's first process is (``first_process``), how many round trips its
    processes have made (``process_round_trips``), and how many pairs would swap (``swap_rate``).

    Parameters
    ----------
    step_size, highest : float, > 0
        Lowest and highest learning rate: the second must be above the first.
    processes, target, window, buffer
        As of `invsamp.kernels.DeoSgd`.

    Notes
    -----
    A domain is refused.

    References
    ----------
    Deng (2021), thesis, Purdue, Algorithm 4.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.deo_sgd(0.003, processes=4))
    DEO*-SGD (4 processes, window 8; approximate), preconditioner None
    """
    lowest = real("step_size", step_size, above=0)
    kernel = DeoSgd(processes, real("highest", highest, above=lowest), target, window, buffer)
    return _baseline(kernel, lowest, options)


@preset()
def psgld(
    step_size: float,
    *,
    data: float = 1.0,
    decay: float = 0.999,
    floor: float = 0.1,
    **options: Unpack[BaselineOptions],
) -> Sampler:
    """pSGLD without its Gamma. Approximate: see `invsamp.kernels.RmsLangevin`.

    Parameters
    ----------
    data, decay, floor
        As of `invsamp.kernels.RmsLangevin`.

    Notes
    -----
    A domain is refused.

    References
    ----------
    Li, Chen, Carlson and Carin (2016), AAAI.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.psgld(0.01))
    pSGLD without its Gamma (approximate), preconditioner None
    """
    return _baseline(RmsLangevin(data, decay, floor), step_size, options)


@preset()
def svgd(step_size: float, **options: Unpack[BaselineOptions]) -> Sampler:
    """SVGD, the chains as particles. Approximate: see `invsamp.kernels.Stein`.

    Take the last draw of many chains; the diagnostics of a run, which are those of chains that mix, say nothing of it.

    Notes
    -----
    A domain is refused.

    References
    ----------
    Liu and Wang (2016), NeurIPS.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.svgd(0.1))
    SVGD (approximate), preconditioner None
    """
    return _baseline(Stein(), step_size, options)


@preset()
def sgd(step_size: float, *, momentum: float = 0.0, **options: Unpack[BaselineOptions]) -> Sampler:
    """Stochastic gradient descent: samples nothing. Its iterates make `invsamp.results.swag`'s Gaussian.

    Chains begin apart and stay apart, so that the last draws of several are a deep ensemble.

    Parameters
    ----------
    momentum
        As of `invsamp.kernels.GradientDescent`.

    Notes
    -----
    A domain is refused.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.samplers.sgd(0.01, momentum=0.9))
    gradient descent, momentum 0.9 (samples nothing), preconditioner None
    """
    return _baseline(GradientDescent(momentum), step_size, options)


def _baseline(kernel: Kernel, step_size: float, options: BaselineOptions) -> Sampler:
    return single(kernel, real("step_size", step_size, above=0), options)
