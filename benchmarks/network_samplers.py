"""A perceptron on handwritten digits by SGLD, SGHMC and cyclic SGLD; BlackJAX and posteriors at equal steps.

    python benchmarks/network_samplers.py [--seeds N] [--steps N]

64-100-10 units with tanh, prior N(0, 1), 1300 of scikit-learn's digits, 497 held out, 4 chains, batches of 100, all in
single precision on one thread. Equal steps, of one size: 2e-5 for SGLD, 2e-6 with friction 0.1 for SGHMC, and cosine
cycles from 4e-5. Draws are every tenth of the second half of the steps. Prints accuracy and log score of the averaged
probabilities, mean and sd over the seeds. Times are milliseconds of the processor per step of all chains. They include
predictions and invsamp's diagnostics, not the first compilation.

BlackJAX's SGHMC draws new momenta every ten gradients, which share a batch; each gradient counts as a step here. It
runs in `lax.scan`, its chains by `vmap`; posteriors' transforms get the log posterior of all chains together, by
`torch.func.vmap`. Packages that are not installed are left out: ``pip install blackjax posteriors scikit-learn``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

# one thread, as torch has; XLA reads this when jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
import torch
from sklearn.datasets import load_digits

import invsamp as iv
from invsamp.torch import categorical, module_posterior

CHAINS, BATCH, THIN, TRAINED, CYCLES = 4, 100, 10, 1300, 4
PLAIN, MOMENTUM, CYCLIC, FRICTION = 2e-5, 2e-6, 4e-5, 0.1
#: Gradients between two momenta of BlackJAX.
LEGS = 10

Logits = np.ndarray
Run = Callable[[str, int, int], Logits]


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    held = load_digits()
    x, y = (held.data / 16).astype(np.float32), held.target
    return x[:TRAINED], y[:TRAINED], x[TRAINED:], y[TRAINED:]


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.Tanh(), torch.nn.Linear(100, 10))


def starts(seed: int) -> list[dict[str, np.ndarray]]:
    """Starting weights of each chain, as torch initializes layers."""
    modules = [network(100 * seed + k) for k in range(CHAINS)]
    return [{name: part.detach().numpy() for name, part in module.named_parameters()} for module in modules]


def cosine(k: int, steps: int) -> float:
    cycle = math.ceil(steps / CYCLES)
    return 0.5 * CYCLIC * (1 + math.cos(math.pi * (k % cycle) / cycle))


def with_invsamp(method: str, steps: int, seed: int) -> Logits:
    x, y, held, _ = digits()
    posterior = module_posterior(network(seed), (x, y), categorical())
    data = iv.estimators.minibatch(BATCH)
    sampler = {
        "sgld": iv.samplers.sgld(PLAIN, estimator=data, preconditioner=None),
        "sghmc": iv.samplers.sghmc(MOMENTUM, friction=FRICTION, estimator=data, preconditioner=None),
        "cyclic": iv.samplers.cyclic_sgld(CYCLIC, cycles=CYCLES, estimator=data),
    }[method]
    wanted = {"logits": posterior.outputs(held)}
    settings = {"draws": steps // 2 // THIN, "warmup": steps // 2, "thin": THIN, "chains": CHAINS, "seed": seed}
    run = iv.sample(posterior, sampler, record=wanted, keep=False, progress=False, check_gradient=False, **settings)
    return run.draws("logits").reshape(-1, len(held), 10)


def with_posteriors(method: str, steps: int, seed: int) -> Logits:
    import posteriors

    x, y, held, _ = (torch.as_tensor(part) for part in digits())
    module = network(seed)
    stacked = {k: torch.stack([torch.as_tensor(one[k]) for one in starts(seed)]) for k in starts(seed)[0]}
    scale = TRAINED / BATCH

    def of_chain(parameters, inputs, targets):
        logits = torch.func.functional_call(module, parameters, inputs)
        misfit = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return -scale * misfit - sum((part**2).sum() for part in parameters.values()) / 2

    def log_posterior(parameters, batch):  # the sum over the independent chains
        return torch.func.vmap(of_chain)(dict(parameters), *batch).sum(), torch.zeros(())

    epsilon = math.sqrt(MOMENTUM)
    size = {"lr": PLAIN}
    if method == "sghmc":
        transform = posteriors.sgmcmc.sghmc.build(log_posterior, lr=epsilon, alpha=FRICTION / epsilon, momenta=0.0)
    else:
        transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=lambda _: size["lr"])
    state = transform.init(stacked)
    rng = np.random.default_rng(seed)
    found = []
    for k in range(steps):
        size["lr"] = cosine(k, steps) if method == "cyclic" else PLAIN
        rows = torch.as_tensor(rng.integers(TRAINED, size=(CHAINS, BATCH)))
        state, _ = transform.update(state, (x[rows], y[rows]))
        if k >= steps // 2 and (k + 1) % THIN == 0:
            with torch.no_grad():
                said = torch.func.vmap(lambda parameters: torch.func.functional_call(module, parameters, held))
                found.append(said(dict(state.params)).numpy())
    return np.concatenate(found)


@functools.cache
def stretch(method: str) -> Callable[..., tuple[Any, Any]]:
    """Several steps of BlackJAX, and logits of the held-out data after them; compiled once."""
    import blackjax
    import jax
    import jax.numpy as jnp

    x, y, held, _ = (jnp.asarray(part) for part in digits())

    def logits(p, inputs):
        return jnp.tanh(inputs @ p["0.weight"].T + p["0.bias"]) @ p["2.weight"].T + p["2.bias"]

    def log_prior(p):
        return -sum((part**2).sum() for part in p.values()) / 2

    def log_likelihood(p, datum):
        return jax.nn.log_softmax(logits(p, datum[0]))[datum[1]]

    slope = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, TRAINED)
    with_momentum = method == "sghmc"
    kernel = blackjax.sghmc(slope, LEGS, FRICTION / math.sqrt(MOMENTUM)) if with_momentum else blackjax.sgld(slope)

    def one(p, key, size):
        chosen, moved = jax.random.split(key)
        rows = jax.random.randint(chosen, (BATCH,), 0, TRAINED)
        return kernel.step(moved, p, (x[rows], y[rows]), size)

    @jax.jit
    def steps(p, key, sizes):
        def body(p, with_size):
            key, size = with_size
            return jax.vmap(one, in_axes=(0, 0, None))(p, jax.random.split(key, CHAINS), size), None

        p, _ = jax.lax.scan(body, p, (jax.random.split(key, len(sizes)), sizes))
        return p, jax.vmap(logits, in_axes=(0, None))(p, held)

    return steps


def with_blackjax(method: str, steps: int, seed: int) -> Logits:
    import jax
    import jax.numpy as jnp

    position = {k: jnp.stack([one[k] for one in starts(seed)]) for k in starts(seed)[0]}
    if method == "sghmc":
        sizes, taken = [math.sqrt(MOMENTUM)] * steps, THIN // LEGS  # one draw per ten gradients for all methods
    else:
        sizes, taken = [cosine(k, steps) if method == "cyclic" else PLAIN for k in range(steps)], THIN
    found, key = [], jax.random.key(seed)
    for k in range(0, steps, THIN):
        key, own = jax.random.split(key)
        position, said = stretch(method)(position, own, jnp.array(sizes[k : k + taken]))
        if k >= steps // 2:
            found.append(np.asarray(said))
    return np.concatenate(found)


LIBRARIES: dict[str, tuple[str, Run]] = {
    "invsamp": ("invsamp", with_invsamp),
    "BlackJAX": ("blackjax", with_blackjax),
    "posteriors": ("posteriors", with_posteriors),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1200)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    labels = digits()[3]
    print(f"{settings.steps} steps, {settings.seeds} seeds")
    print(f"{'':22s}{'accuracy':>16s}{'nll':>16s}{'ms per step':>14s}")
    for method in ("sgld", "sghmc", "cyclic"):
        for name, (package, run) in LIBRARIES.items():
            if importlib.util.find_spec(package) is None:
                continue
            run(method, 200, 0)  # compiles
            scores, times = [], []
            for seed in range(1, settings.seeds + 1):
                begin = time.process_time()
                logits = run(method, settings.steps, seed)
                times.append(1e3 * (time.process_time() - begin) / settings.steps)
                scores.append(iv.results.predicted_classes(logits.astype(float)).scores(labels)[:2])
            mean, sd = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1) if len(scores) > 1 else (np.nan, np.nan)
            columns = "".join(f"{m:9.4f} ±{s:6.4f}" for m, s in zip(mean, sd, strict=True))
            print(f"{method:8s}{name:14s}{columns}{min(times):14.2f}", flush=True)


if __name__ == "__main__":
    main()
