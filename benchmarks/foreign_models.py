"""Overhead of sampling a model of JAX or PyMC: an energy with gradient, compared with the bare function.

Both are called in turns in one run, by one thread, so that other load affects both.
Run: ``python benchmarks/foreign_models.py``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

import invsamp as iv

# XLA's threads wait for each other if cores are busy
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

CHAINS, WARM, CALLS = 4, 20, 1000


def compared(name: str, bare: Callable[[], object], here: Callable[[], object]) -> None:
    """Print the median times of both, called in turns, and the overhead of the second."""
    functions, times = (bare, here), np.empty((CALLS, 2))
    for k in range(-WARM, CALLS):
        for column in (0, 1) if k % 2 else (1, 0):
            begin = time.perf_counter()
            functions[column]()
            times[k, column] = time.perf_counter() - begin
    first, second = 1e3 * np.median(times, axis=0)
    print(
        f"{name:44s} bare {first:8.4f} ms   here {second:8.4f} ms   overhead {100 * (second / first - 1):5.1f}%",
        flush=True,
    )


def in_jax() -> None:
    """A logistic regression as a log density, and a stiff chain of reactions as a forward model."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp, rng = jax.numpy, np.random.default_rng(0)
    x, y = rng.normal(size=(5000, 50)), rng.random(5000) < 0.5

    def density(theta: object) -> object:
        return -jnp.sum(jnp.logaddexp(0.0, jnp.where(y, -1.0, 1.0) * (x @ theta)))

    theta = 0.1 * rng.normal(size=(CHAINS, 50))
    bare = jax.jit(jax.vmap(jax.value_and_grad(density)))
    prior = iv.Prior(w=iv.Normal(0, 1, shape=50))
    potential = iv.Posterior(prior, log_likelihood=iv.LogDensity(iv.from_jax(density))).potential()
    compared(
        "JAX, logistic regression, 5000 x 50",
        lambda: [np.asarray(part) for part in bare(theta)],
        lambda: potential.energy_and_gradient(theta),
    )

    def chain(theta: object) -> object:
        """Ten reactions in series, by 2,000 steps of the classical Runge-Kutta method, observed at the end."""
        rates = jnp.exp(theta)

        def slope(state: object) -> object:
            flow = rates * state
            return jnp.concatenate([-flow[:1], flow[:-1] - flow[1:]])

        def step(state: object, _: object) -> tuple[object, None]:
            h = 1e-3
            k1 = slope(state)
            k2 = slope(state + 0.5 * h * k1)
            k3 = slope(state + 0.5 * h * k2)
            k4 = slope(state + h * k3)
            return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return jax.lax.scan(step, jnp.eye(10)[0], None, length=2000)[0]

    theta = 0.1 * rng.normal(size=(CHAINS, 10))
    data = np.asarray(chain(theta[0]))
    whole = jax.jit(lambda t: (lambda y, vjp: (y, vjp(100.0 * (y - data))[0]))(*jax.vjp(jax.vmap(chain), t)))
    prior = iv.Prior(log_rate=iv.Normal(0, 1, shape=10))
    own = iv.Posterior(prior, iv.from_jax(chain), data, iv.GaussianNoise(0.1)).potential()
    compared(
        "JAX, ten reactions, 2000 steps",
        lambda: [np.asarray(part) for part in whole(theta)],
        lambda: own.energy_and_gradient(theta),
    )


def in_pymc() -> None:
    """Eight schools, and a linear regression on 20,000 data."""
    import pymc as pm

    rng = np.random.default_rng(0)
    with pm.Model() as schools:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        pm.Normal("y", mu + tau * z, [15, 10, 16, 11, 9, 11, 10, 18], observed=[28, 8, -3, 7, -1, 1, 18, 12])
    x = rng.normal(size=(20_000, 20))
    with pm.Model() as regression:
        weights, sd = pm.Normal("weights", 0, 1, shape=20), pm.HalfNormal("sd", 1)
        pm.Normal("y", (x * weights).sum(axis=1), sd, observed=x.sum(axis=1) + rng.normal(size=len(x)))
    for name, model in (("PyMC, eight schools", schools), ("PyMC, regression, 20000 x 20", regression)):
        posterior = iv.from_pymc(model)
        potential = posterior.potential()
        position = posterior.to_position(posterior.sample_prior(rng, CHAINS))
        bare = model.logp_dlogp_function(ravel_inputs=True)
        bare.set_extra_values({})
        compared(
            name,
            lambda bare=bare, position=position: [bare(row) for row in position],
            lambda potential=potential, position=position: potential.energy_and_gradient(position),
        )


if __name__ == "__main__":
    in_jax()
    in_pymc()
