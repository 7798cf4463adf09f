"""Other toolkits on the problems of `fine_solves.py` that have a normal prior, by the best settings that were found."""

from __future__ import annotations

import contextlib
import io
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from _battery_nuts import Nuts, nuts

import invsamp as iv
from invsamp.protocols import Array

CHAINS = 4


class Drawn(NamedTuple):
    """Theta after warm-up, and the solves of the whole run."""

    theta: Array  # (chains, draws, d)
    fine: int
    before: int  # of these, in warm-up
    coarse: int


def nutpie(posterior: iv.Posterior, seed: int, draws: int = 250) -> Drawn:
    """NUTS with a diagonal metric on the finest model, 400 steps of warm-up; each chain in a process."""
    with ProcessPoolExecutor(CHAINS) as executor:
        calls = [executor.submit(_chain, posterior, draws, CHAINS * seed + k) for k in range(CHAINS)]
        found = [call.result() for call in calls]
    positions = np.concatenate([one.positions for one in found])
    theta = posterior.to_theta(positions.reshape(-1, posterior.dimension)).reshape(positions.shape)
    before = sum(one.warmup_gradients for one in found)
    return Drawn(theta, before + sum(one.gradients for one in found), before, 0)


def _chain(posterior: iv.Posterior, draws: int, seed: int) -> Nuts:
    return nuts(posterior.potential(), draws, 1, seed, low_rank=False)


def tinyda(posterior: iv.Posterior, seed: int, steps: int = 1000, often: int = 40) -> Drawn:
    """Delayed acceptance with ``often`` coarse steps between two fine ones, and an adaptive error model.

    Adaptive Metropolis from draws of a normal about the coarse posterior's mode, with that one's covariance; what
    these take is not counted. The first fifth is dropped.
    """
    import tinyDA as toolkit
    from scipy import stats

    coarse, fine = posterior.fidelities[0], posterior.fidelities[-1]
    counts = dict.fromkeys((coarse, fine), 0)
    modes, d = iv.maximize(posterior.alone(coarse), seed=seed), posterior.dimension
    starts, covariance = modes.draws(CHAINS, seed), modes.covariances[0]
    prior = stats.multivariate_normal(np.zeros(d), np.eye(d))
    spread = np.diag(np.broadcast_to(np.asarray(posterior.noise.scale, dtype=float) ** 2, posterior.data.size))

    def link(fidelity: str, likelihood: type) -> object:
        def solve(z: Array) -> Array:
            counts[fidelity] += 1
            return np.ravel(posterior.predict(np.asarray(z, dtype=float)[None], fidelity))

        return toolkit.BlackBoxLinkFactory(solve, prior, likelihood(np.ravel(posterior.data), spread))

    links = [link(coarse, toolkit.AdaptiveGaussianLogLike), link(fine, toolkit.GaussianLogLike)]
    np.random.seed(seed)  # noqa: NPY002 (which it draws from)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = toolkit.sample(
            links,
            toolkit.AdaptiveMetropolis(C0=covariance, t0=500, period=100, adaptive=True),
            steps,
            n_chains=CHAINS,
            initial_parameters=list(starts),
            subsampling_rate=often,
            adaptive_error_model="state-independent",
            force_sequential=True,
        )
    chains = [[one.parameters for one in found[f"chain_fine_{k}"]] for k in range(CHAINS)]
    before = steps // 5
    return Drawn(np.array(chains)[:, -(steps - before) :], counts[fine], CHAINS * before, counts[coarse])


PEERS = {"nutpie": nutpie, "tinyda": tinyda}
