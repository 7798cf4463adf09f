"""Cost of FitzHugh-Nagumo written in JAX, as users do for NumPyro, compared with invsamp's own model.

    .peers/numpyro/bin/python benchmarks/peers/in_jax.py

Classical Runge-Kutta with two fixed steps between data, about as many as the adaptive integrator takes; energies differ
from invsamp's by a constant, which is asserted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invsamp.problems import fitzhugh_nagumo

#: Steps between two data, and calls that are timed.
STEPS, CALLS = 2, 200


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    posterior = fitzhugh_nagumo.nerve()
    potential, energy = posterior.potential(), in_jax(np.asarray(posterior.data))
    true = dict(fitzhugh_nagumo.TRUTH)
    positive = [np.log(true[name]) for name in ("c", "sigma[0]", "sigma[1]")]
    truth = np.array([true["a"], true["b"], positive[0], true["v0"], true["r0"], *positive[1:]])
    points = np.stack([truth, truth + 0.01 * np.random.default_rng(0).normal(size=7)])
    here, there = np.diff(potential.energy(points))[0], float(energy(points[1]) - energy(points[0]))
    assert abs(here - there) < 1e-3 * abs(here), (here, there)
    reverse = jax.jit(jax.value_and_grad(energy))
    forward = jax.jit(lambda x: (energy(x), jax.jacfwd(energy)(x)))
    for name, call in (
        ("in JAX, reverse mode", lambda: jax.block_until_ready(reverse(truth))),
        ("in JAX, forward mode", lambda: jax.block_until_ready(forward(truth))),
        ("invsamp's model", lambda: potential.energy_and_gradient(truth[None])),
    ):
        print(f"{name}: {1e3 * seconds(call):.2f} ms for an energy with its gradient")


def in_jax(data: Any) -> Callable[[Any], Any]:
    """Minus log posterior density of a position (a, b, log c, v0, r0, log sigmas), up to a constant."""
    step = float(fitzhugh_nagumo.TIMES[1] - fitzhugh_nagumo.TIMES[0]) / STEPS

    def energy(x: Any) -> Any:
        start, sigma = x[3:5], x[5:]
        parameters = x[0], x[1], jnp.exp(x[2])

        def slope(state: Any) -> Any:
            return jnp.array(fitzhugh_nagumo.rhs(0.0, state, parameters))

        def interval(state: Any, _: None) -> Any:
            for _step in range(STEPS):
                first = slope(state)
                second = slope(state + step / 2 * first)
                third = slope(state + step / 2 * second)
                last = slope(state + step * third)
                state = state + step / 6 * (first + 2 * second + 2 * third + last)
            return state, state

        later = jax.lax.scan(interval, start, None, length=len(data) - 1)[1]
        left = (data - jnp.concatenate([start[None], later])) / jnp.exp(sigma)
        prior = (
            jnp.sum((x[:3] - jnp.array([0.0, 0.0, 1.0])) ** 2) / 0.5**2 + jnp.sum(start**2) + jnp.sum((sigma + 1) ** 2)
        )
        return jnp.sum(left**2 / 2 + sigma) + prior / 2

    return energy


def seconds(call: Callable[[], object]) -> float:
    """Processor seconds of a call: the least of five tenths of `CALLS`."""
    call()
    found = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(CALLS // 10):
            call()
        found.append((time.process_time() - began) / (CALLS // 10))
    return min(found)


if __name__ == "__main__":
    main()
