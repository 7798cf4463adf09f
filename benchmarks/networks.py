"""Milliseconds per step of SGLD on networks, compared with a plain loop of torch; memory of a million parameters.

    python benchmarks/networks.py [--steps N] [--rounds N] [--million] [--momentum]

Multilayer perceptrons of about 10,000 and 100,000 parameters in single precision, 4 chains, each with its own batches
of 100 of 1300 handwritten digits, without replacement, and nothing recorded. The plain loop is what a user would write:
parameters of all chains in one tensor, `torch.func.vmap` of `grad`, a normal prior, torch's own noise. A second one
avoids what it can: parameters by name, updated in place. Neither checks for values that are not finite, or computes
energies. All run in turns in one process, and medians of the rounds count. Goals: 25% over the plain loop for 10,000
parameters, 10% for 100,000.

``--momentum``: SGHMC with friction 0.1 on 100,000 parameters, with one chain and with 4.

``--million``: a run of 1,000,000 parameters with 4 chains, in a process of its own; goal: less than 4 GB at its peak.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.torch import categorical, module_posterior

CHAINS, BATCH, STEP, FRICTION = 4, 100, 1e-6, 0.1
WIDTHS = {"10,000": 133, "100,000": 1333}


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1797 images of handwritten digits of 8 x 8, or as many of noise without scikit-learn."""
    if importlib.util.find_spec("sklearn"):
        from sklearn.datasets import load_digits

        held = load_digits()
        return torch.tensor(held.data / 16, dtype=torch.float32), torch.tensor(held.target)
    rng = np.random.default_rng(0)
    return torch.tensor(rng.random((1797, 64)), dtype=torch.float32), torch.tensor(rng.integers(10, size=1797))


def network(width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))


def plain(
    width: int, x: torch.Tensor, y: torch.Tensor, chains: int = CHAINS, friction: float = 1.0
) -> Callable[[int], None]:
    """SGLD as a user would write it, or SGHMC with a friction below 1."""
    module = network(width)
    names = list(dict(module.named_parameters()))
    shapes = [part.shape for part in module.parameters()]
    sizes = [part.numel() for part in module.parameters()]
    n, d = len(x), sum(sizes)

    def loss(vector: torch.Tensor, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        parts = {k: v.view(s) for k, v, s in zip(names, vector.split(sizes), shapes, strict=True)}
        logits = torch.func.functional_call(module, parts, xs)
        return n / BATCH * torch.nn.functional.cross_entropy(logits, ys, reduction="sum")

    slope = torch.func.vmap(torch.func.grad(loss))
    state = torch.cat([part.detach().ravel() for part in module.parameters()]).repeat(chains, 1)
    velocity = torch.zeros_like(state)

    def walk(steps: int) -> None:
        nonlocal state, velocity
        for _ in range(steps):
            rows = batches(n, chains)
            gradient = slope(state, x[rows], y[rows]) + state
            noise = (2 * STEP * friction) ** 0.5 * torch.randn(chains, d)
            if friction < 1.0:
                velocity = (1.0 - friction) * velocity - STEP * gradient + noise
                state = state + velocity
            else:
                state = state - STEP * gradient + noise

    return walk


def spared(width: int, x: torch.Tensor, y: torch.Tensor) -> Callable[[int], None]:
    """The same with parameters by name, updated in place."""
    module, n = network(width), len(x)

    def loss(parts: dict[str, torch.Tensor], xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(module, parts, xs)
        return n / BATCH * torch.nn.functional.cross_entropy(logits, ys, reduction="sum")

    slope = torch.func.vmap(torch.func.grad(loss))
    state = {name: part.detach().repeat(CHAINS, *[1] * part.ndim) for name, part in module.named_parameters()}

    def walk(steps: int) -> None:
        for _ in range(steps):
            rows = batches(n, CHAINS)
            gradient = slope(state, x[rows], y[rows])
            for name, part in state.items():
                noise = torch.randn(part.shape)
                part.mul_(1 - STEP).add_(gradient[name], alpha=-STEP).add_(noise, alpha=(2 * STEP) ** 0.5)

    return walk


def batches(n: int, chains: int) -> torch.Tensor:
    """Data (chains, batch) without replacement."""
    return torch.stack([torch.randperm(n)[:BATCH] for _ in range(chains)])


def ours(
    width: int, x: torch.Tensor, y: torch.Tensor, chains: int = CHAINS, friction: float = 1.0
) -> Callable[[int], None]:
    """The same by invsamp: the steps of a run's engine, without diagnostics."""
    posterior = module_posterior(network(width), (x, y), categorical())
    data = iv.estimators.minibatch(BATCH)
    with_momentum = friction < 1.0
    sampler = (
        iv.samplers.sghmc(STEP, friction=friction, estimator=data)
        if with_momentum
        else iv.samplers.sgld(STEP, estimator=data)
    )
    engine = Engine(posterior, sampler, Plan(10**6, 0, 1, chains, 1, check_gradient=False))
    engine.begin()

    def walk(steps: int) -> None:
        for _ in range(steps):
            engine.step()

    return walk


def in_turns(walks: dict[str, Callable[[int], None]], steps: int, rounds: int) -> dict[str, np.ndarray]:
    """Milliseconds of the processor per step (rounds,) of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in walks}
    for _ in range(rounds + 1):  # the first is a warm-up
        for name, walk in walks.items():
            begin = time.process_time()
            walk(steps)
            found[name].append(1e3 * (time.process_time() - begin) / steps)
    return {name: np.array(took[1:]) for name, took in found.items()}


def million() -> None:
    """Report the peak memory of a run of a million parameters."""
    x, y = digits()
    posterior = module_posterior(network(13334), (x[:1300], y[:1300]), categorical(), block=200)
    wanted = {"logits": posterior.outputs(x[1300:], block=100)}
    begin = time.process_time()
    sampler = iv.samplers.sgld(STEP, estimator=iv.estimators.minibatch(BATCH))
    iv.sample(posterior, sampler, draws=10, warmup=10, chains=CHAINS, seed=1, record=wanted, keep=False, progress=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(
        f"{posterior.dimension:,} parameters, {CHAINS} chains: {peak:.2f} GB at the peak (goal: below 4), "
        f"{time.process_time() - begin:.0f} s of the processor for a run of 20 steps"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--momentum", action="store_true")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    if settings.alone:
        million()
        return
    if settings.million:
        subprocess.run([sys.executable, __file__, "--alone"], check=True)
        return
    x, y = digits()
    data = x[:1300], y[:1300]
    if settings.momentum:
        for chains in (1, CHAINS):
            walks = {
                "plain torch": plain(WIDTHS["100,000"], *data, chains, FRICTION),
                "invsamp": ours(WIDTHS["100,000"], *data, chains, FRICTION),
            }
            report(f"100,000 parameters, SGHMC, chains: {chains}", in_turns(walks, settings.steps, settings.rounds))
        return
    for name, width in WIDTHS.items():
        walks = {"plain torch": plain(width, *data), "in place": spared(width, *data), "invsamp": ours(width, *data)}
        report(f"{name} parameters", in_turns(walks, settings.steps, settings.rounds))


def report(title: str, found: dict[str, np.ndarray]) -> None:
    """Print medians and least values, and how invsamp compares."""
    figures = ", ".join(f"{k} {np.median(v):.2f} (least {v.min():.2f})" for k, v in found.items())
    print(f"{title}, ms per step: {figures}")
    own = found.pop("invsamp")
    for other, took in found.items():
        over = np.median(own) / np.median(took) - 1, own.min() / took.min() - 1, np.median(own / took) - 1
        print(
            f"  over {other}: medians {over[0]:+.0%}, leasts {over[1]:+.0%}, median of ratios {over[2]:+.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
