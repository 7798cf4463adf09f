"""Each toolkit as its documentation uses it, on a density of positions or, where it needs them, on prior and model.

A sampler takes a posterior, a seed and its settings. It returns positions (chains, draws, d) without warm-up, and its
counts {"solves": ..., "gradients": ...} in solves of the finest level.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from _battery_nuts import nuts
from _problems import CASES, Density

import invsamp as iv
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array

CHAINS = 4
#: Optimizations at the start of pyPESTO.
STARTS = 20
Found = tuple[Array, dict[str, float]]


def invsamp(name: str, posterior: Posterior, seed: int, draws: int) -> Found:
    """`iv.sample(posterior, draws=..., seed=...)`: default settings, all levels."""
    run = iv.sample(posterior, draws=draws, seed=seed, progress=False)
    weights, counts = CASES[name].weights, run.report["evaluations"]
    solves = sum(weights[fidelity] * count for fidelity, count in counts.items())
    position = posterior.to_position(run.theta.reshape(-1, posterior.dimension)).reshape(run.theta.shape)
    return position, {"solves": solves, "gradients": solves}


def numpyro(name: str, posterior: Posterior, seed: int, warmup: int, draws: int) -> Found:
    """NUTS with a diagonal metric, its default, on a potential that calls the model from JAX."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    density = Density(posterior)
    shapes = jax.ShapeDtypeStruct((), np.float64), jax.ShapeDtypeStruct((density.dimension,), np.float64)

    def outside(x: Any) -> Any:
        value, gradient = density.with_gradient(x)
        return np.float64(-value), np.asarray(-gradient, dtype=np.float64)

    @jax.custom_vjp
    def energy(x: Any) -> Any:
        return jax.pure_callback(outside, shapes, x)[0]

    energy.defvjp(lambda x: jax.pure_callback(outside, shapes, x), lambda gradient, cotangent: (cotangent * gradient,))
    mcmc = MCMC(
        NUTS(potential_fn=energy),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed), init_params=jnp.asarray(density.starts(seed, CHAINS)))
    return np.asarray(mcmc.get_samples(group_by_chain=True)), counted(density)


def nutpie(name: str, posterior: Posterior, seed: int, draws: int) -> Found:
    """NUTS with its low-rank metric and 400 steps of warm-up."""
    density = Density(posterior)
    found = nuts(density, draws, CHAINS, seed, starts=density.starts(seed, CHAINS))
    return found.positions, counted(density)


def nutpie_own(name: str, posterior: Posterior, seed: int, draws: int) -> Found:
    """The same from starts uniform in (-2, 2), its default; with false modes the starts matter."""
    density = Density(posterior)
    return nuts(density, draws, CHAINS, seed).positions, counted(density)


def pints(name: str, posterior: Posterior, seed: int, steps: int, start: Array | None = None) -> Found:
    """Adaptive Metropolis of Haario and Bardenet, its default; the first half dropped."""
    import pints as toolkit

    density = Density(posterior)

    class LogPdf(toolkit.LogPDF):  # type: ignore[misc]
        def n_parameters(self) -> int:
            return density.dimension

        def __call__(self, x: Any) -> float:
            return density(x)

    np.random.seed(seed)  # noqa: NPY002 (which it draws from)
    starts = density.starts(seed, CHAINS) if start is None else start
    spread = posterior.sample_start(np.random.default_rng(0), 200).std(axis=0)
    control = toolkit.MCMCController(LogPdf(), CHAINS, starts, sigma0=(0.1 * spread) ** 2)
    control.set_max_iterations(steps)
    control.set_log_to_screen(False)
    return control.run()[:, steps // 2 :], counted(density)


def pypesto(name: str, posterior: Posterior, seed: int, steps: int, temperatures: int) -> Found:
    """`STARTS` optimizations, then adaptive parallel tempering from the best, four times; the first half dropped."""
    import pypesto as toolkit
    from pypesto import optimize, sample

    logging.disable(logging.WARNING)
    density = Density(posterior)
    draws = posterior.sample_start(np.random.default_rng(0), 200)
    spread = draws.std(axis=0)
    lower, upper = draws.min(axis=0) - spread, draws.max(axis=0) + spread
    if name == "heat_modes":
        lower, upper = np.zeros(2), np.ones(2)

    def with_gradient(x: Array) -> tuple[float, Array]:
        value, gradient = density.with_gradient(x)
        return -value, -gradient

    objective = toolkit.Objective(lambda x: -density(x), grad=lambda x: with_gradient(x)[1])
    problem = toolkit.Problem(objective, lb=lower, ub=upper, x_guesses=density.starts(seed, STARTS))
    np.random.seed(seed)  # noqa: NPY002
    result = optimize.minimize(problem, n_starts=STARTS, progress_bar=False)
    chains = []
    for _ in range(CHAINS):
        sampler = sample.AdaptiveParallelTemperingSampler(
            sample.AdaptiveMetropolisSampler(), n_chains=temperatures, options={"show_progress": False}
        )
        result = sample.sample(problem, steps, sampler, result=result)
        chains.append(result.sample_result.trace_x[0, steps // 2 :])
    shortest = min(map(len, chains))
    return np.stack([chain[-shortest:] for chain in chains]), counted(density)


def cuqipy(name: str, posterior: Posterior, seed: int, warmup: int, draws: int, depth: int) -> Found:
    """NUTS on the log density."""
    import cuqi

    density = Density(posterior)
    target = cuqi.distribution.UserDefinedDistribution(
        dim=density.dimension, logpdf_func=density, gradient_func=lambda x: density.with_gradient(x)[1]
    )
    np.random.seed(seed)  # noqa: NPY002
    chains = []
    for start in density.starts(seed, CHAINS):
        sampler = cuqi.sampler.NUTS(target, initial_point=start, max_depth=depth)
        sampler.warmup(warmup)
        sampler.sample(draws)
        chains.append(sampler.get_samples().samples.T[-draws:])
    return np.stack(chains), counted(density)


def tinyda(name: str, posterior: Posterior, seed: int, steps: int, coarse: int) -> Found:
    """Delayed acceptance: ``coarse`` steps on the coarsest level between two on the finest; first half dropped.

    By preconditioned Crank-Nicolson under a normal prior, else by adaptive Metropolis.
    """
    import tinyDA as toolkit
    from scipy import stats

    density, names = Density(posterior), posterior.fidelities
    used = names[0], names[-1]
    counts = dict.fromkeys(used, 0)
    starts = density.starts(seed, CHAINS)
    if name == "heat_modes":
        prior = toolkit.CompositePrior([stats.uniform(), stats.uniform()])
        shift, scale = 0.0, 1.0
        proposal = toolkit.AdaptiveMetropolis(C0=0.01 * np.eye(2), t0=200, period=100, adaptive=True)
    else:
        shift, scale = (4.0, 2.0) if name == "poisson64" else (0.0, 1.0)
        prior = stats.multivariate_normal(np.zeros(density.dimension), np.eye(density.dimension))
        proposal = toolkit.CrankNicolson(scaling=0.1, adaptive=True)
    spread = np.broadcast_to(np.asarray(posterior.noise.scale, dtype=float), posterior.data.shape)
    likelihood = toolkit.GaussianLogLike(np.ravel(posterior.data), np.diag(np.ravel(spread) ** 2))

    def model(fidelity: str) -> Callable[[Array], Array]:
        def solve(z: Array) -> Array:
            counts[fidelity] += 1
            point = shift + scale * np.asarray(z, dtype=float)[None]
            if name == "heat_modes" and not density.domain.contains(point)[0]:
                return np.full(posterior.data.size, 1e3)
            return np.ravel(posterior.predict(point, fidelity))

        return solve

    links = [toolkit.BlackBoxLinkFactory(model(fidelity), prior, likelihood) for fidelity in used]
    np.random.seed(seed)  # noqa: NPY002
    found = toolkit.sample(
        links,
        proposal,
        steps,
        n_chains=CHAINS,
        initial_parameters=list((starts - shift) / scale),
        subsampling_rate=coarse,
        force_sequential=True,
    )
    chains = np.stack(
        [np.stack([link.parameters for link in found[f"chain_fine_{k}"]])[-steps // 2 :] for k in range(CHAINS)]
    )
    solves = sum(CASES[name].weights[fidelity] * count for fidelity, count in counts.items())
    return shift + scale * chains, {"solves": solves, "gradients": 0}


def counted(density: Density) -> dict[str, float]:
    """Its solves so far."""
    return {"solves": density.solves, "gradients": density.gradients}


#: Settings of each toolkit for each problem: few draws, in some ten seconds of a processor.
SETTINGS: dict[tuple[str, str], dict[str, int]] = {
    **{("invsamp", name): {"draws": 500} for name in CASES},
    **{("nutpie", name): {"draws": 200} for name in CASES},
    ("nutpie_own", "hare_lynx"): {"draws": 200},
    **{("numpyro", name): {"warmup": 200, "draws": 200} for name in ("hare_lynx", "fitzhugh_nagumo")},
    ("numpyro", "heat_modes"): {"warmup": 150, "draws": 150},
    **{("pints", name): {"steps": 6000} for name in ("hare_lynx", "fitzhugh_nagumo", "heat_modes")},
    **{
        ("pypesto", name): {"steps": 2000, "temperatures": 3} for name in ("hare_lynx", "fitzhugh_nagumo", "heat_modes")
    },
    ("cuqipy", "conductivity"): {"warmup": 100, "draws": 100, "depth": 6},
    ("cuqipy", "poisson64"): {"warmup": 50, "draws": 50, "depth": 6},
    ("cuqipy", "heat_modes"): {"warmup": 250, "draws": 250, "depth": 6},
    ("tinyda", "conductivity"): {"steps": 1500, "coarse": 5},
    ("tinyda", "poisson64"): {"steps": 1500, "coarse": 5},
    ("tinyda", "heat_modes"): {"steps": 3000, "coarse": 5},
}
SAMPLERS: dict[str, Callable[..., Found]] = {
    "invsamp": invsamp,
    "nutpie": nutpie,
    "nutpie_own": nutpie_own,
    "numpyro": numpyro,
    "pints": pints,
    "pypesto": pypesto,
    "cuqipy": cuqipy,
    "tinyda": tinyda,
}
#: Their names on PyPI.
PACKAGES = {"cuqipy": "CUQIpy", "nutpie_own": "nutpie", "numpyro": "numpyro", "pypesto": "pypesto", "tinyda": "tinyDA"}


@contextlib.contextmanager
def silent() -> Any:
    """Suppress progress bars and logs of toolkits that have no option for this."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
