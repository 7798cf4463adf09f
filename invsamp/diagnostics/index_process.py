r"""The index process: how walkers travel through a ladder whose pairs accept with fixed chances, whatever the states.

The paths that walkers take where energies forget themselves between attempts. Of it are the times of round trips that
the literature states, by which schemes and windows are compared (`invsamp.swaps.schemes`).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, instance, integer, one_of, real
from invsamp.diagnostics.ladders import passage_times, round_trips
from invsamp.swaps.schemes import SwapScheme

#: Schemes of which a time is known in closed form.
Known = Literal["deo", "seo"]
Rungs = npt.NDArray[np.intp]


def round_trip_time(rejections: npt.ArrayLike, window: int = 1, scheme: Known = "deo") -> float:
    r"""Mean iterations of a walker from the coldest rung to the hottest and back.

    .. math:: E[T] = 2 W P \Bigl(1 + \sum_p \frac{r_p^W}{1 - r_p^W}\Bigr) \quad \text{(DEO, window W)}, \qquad
              E[T] = 2 P (P - 1) + 2 P \sum_p \frac{r_p}{1 - r_p} \quad \text{(SEO)}.

    All P walkers together make P / E[T] trips in an iteration.

    Parameters
    ----------
    rejections : array_like of float (P - 1,) in [0, 1)
        :math:`r_p`, by pair.
    window : int, >= 1
        W of DEO.
    scheme : "deo" or "seo"

    Raises
    ------
    ValueError
        If a rejection is not in [0, 1), or a window goes with "seo".

    References
    ----------
    Deng (2021), thesis, Purdue, eq. (4.4); Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), JRSS B 84(2).
    """
    r = array("rejections", rejections, ("pairs",), least=0, below=1)
    window, rungs = integer("window", window, least=1), len(r) + 1
    if one_of("scheme", scheme, ("deo", "seo")) == "seo":
        if window > 1:
            raise ValueError(f"window must be 1 for 'seo', got {window}")
        return float(2 * rungs * (rungs - 1) + 2 * rungs * (r / (1.0 - r)).sum())
    stuck = r**window
    return float(2 * window * rungs * (1.0 + (stuck / (1.0 - stuck)).sum()))


def best_window(rungs: int, rejection: float) -> int:
    r"""The window of DEO with the shortest round trips, pairs being rejected alike: the least of eq. (4.4).

    The printed :math:`W^* = \lceil (\log P + \log \log P) / (-\log r) \rceil` is within 6% of it but for few rungs.

    Parameters
    ----------
    rungs : int, >= 2
    rejection : float in [0, 1)

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Deng (2021), thesis, Purdue, Theorem 4.1.
    """
    rungs, r = integer("rungs", rungs, least=2), real("rejection", rejection, least=0, below=1)
    if r == 0.0:
        return 1
    longest = 2 + math.ceil(3.0 * (math.log(rungs) + 1.0) / -math.log(r))
    return min(range(1, longest), key=lambda window: round_trip_time([r] * (rungs - 1), window))


class Travels(NamedTuple):
    """How the walkers of an index process traveled, all together."""

    round_trips: int  # from the coldest rung to the hottest and back
    up: float  # mean iterations from the coldest rung to the hottest, of the passages that were made; NaN if none was
    down: float  # and back
    path: npt.NDArray[np.intp]  # (iterations + 1, P, ladders): the rung of each walker


def simulate(
    scheme: SwapScheme,
    rejections: npt.ArrayLike,
    iterations: int,
    rng: np.random.Generator,
    *,
    attempts: int = 1,
    ladders: int = 1,
) -> Travels:
    """Let walkers travel by a scheme through a ladder whose pairs accept with fixed chances.

    Parameters
    ----------
    scheme : SwapScheme
        A window closes the gate of a pair that has swapped, until the window is over.
    rejections : array_like of float (P - 1,) in [0, 1)
        By pair of neighbors. Of `invsamp.swaps.all_pairs` the chance of rungs further apart is that of all between to
        accept.
    iterations : int
    rng : Generator
    attempts : int, >= 1
        In an iteration, one after the other.
    ladders : int, >= 1
        Independent ones.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    r = array("rejections", rejections, ("pairs",), least=0, below=1)
    instance("scheme", scheme, SwapScheme, "a swap scheme, such as deo(), or a subclass of SwapScheme")
    iterations, attempts = integer("iterations", iterations, least=1), integer("attempts", attempts, least=1)
    ladders = integer("ladders", ladders, least=1)
    generator("rng", rng)
    rungs, window = len(r) + 1, scheme.window
    every = np.arange(ladders)
    at = np.repeat(np.arange(rungs)[:, None], ladders, axis=1)  # the walker at each rung
    path, free = np.empty((iterations + 1, rungs, ladders), dtype=np.intp), np.ones((rungs, rungs, ladders), dtype=bool)
    path[0], log_accept = at, np.log1p(-r)
    for k in range(iterations * attempts):
        if k % window == 0:
            free[:] = True
        meeting = np.array(scheme.pairs(k, rungs, rng), dtype=np.intp).reshape(-1, 2)
        # those that share a rung one after the other
        for one in [meeting] if len(np.unique(meeting)) == meeting.size else meeting[:, None]:
            i, j = one.T
            accept = rng.random((len(i), ladders)) < np.exp(_between(log_accept, i, j))[:, None]
            if window > 1:
                accept &= free[i, j]
                free[i, j] &= ~accept
            _exchange(at, i, j, accept)
        if k % attempts == attempts - 1:
            path[k // attempts + 1, at, every] = np.arange(rungs)[:, None]
    return Travels(round_trips(path, rungs, "coldest"), *passage_times(path, rungs), path)


def _between(log_accept: npt.NDArray[np.float64], i: Rungs, j: Rungs) -> npt.NDArray[np.float64]:
    """Sums of what is between rungs i and j."""
    sums = np.concatenate([[0.0], np.cumsum(log_accept)])
    return sums[j] - sums[i]


def _exchange(at: Rungs, i: Rungs, j: Rungs, accept: npt.NDArray[np.bool_]) -> None:
    at[i], at[j] = np.where(accept, at[j], at[i]), np.where(accept, at[i], at[j])
