"""Steps of a network on the processor and on a GPU, in single and double precision, and their agreement.

    python benchmarks/network_devices.py [--device cuda] [--steps N] [--threads N]

SGLD by minibatches of 4 chains on 2,000 synthetic images of 28 x 28, in batches of 100 and 1,000. The networks are a
perceptron of 50 hidden units, one of two layers of 1,000, a small convolutional network and a larger one. Printed are
the seconds per step of a run's engine, without its diagnostics: the least of up to five turns, each step synchronized
with the device. Beside them is the time of the gradient alone. Errors of misfits and gradients are relative to the
processor in double precision. Positions and random numbers are NumPy's: each step transfers 8 bytes for each parameter
of each chain in either direction. The more weights a network has for its work, the less a GPU gains.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from torch import nn

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.torch import ModulePosterior, categorical, module_posterior

CHAINS, DATA, STEP, TURNS = 4, 2000, 1e-7, 5
#: Seconds after which no further turn starts.
LONGEST = 3.0
BATCHES = 100, 1000


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    small = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()]
    large = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    large += [nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10)]
    return {
        "perceptron, 50": nn.Sequential(nn.Flatten(), nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10)),
        "perceptron, 1000-1000": nn.Sequential(
            *(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10))
        ),
        "convolutions, 8-16": nn.Sequential(*small, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10)),
        "convolutions, 32-64-64": nn.Sequential(*large),
    }


def posed(module: nn.Module, dtype: torch.dtype, device: str) -> ModulePosterior:
    rng = np.random.default_rng(0)
    data = rng.random((DATA, 1, 28, 28)), rng.integers(10, size=DATA)
    return module_posterior(module, data, categorical(), 0.3, dtype=dtype, device=device)


def seconds(posterior: ModulePosterior, batch: int, steps: int) -> tuple[float, float]:
    """Seconds of a step, and of its gradient; the least of some turns."""
    engine = Engine(
        posterior,
        iv.samplers.sgld(STEP, estimator=iv.estimators.minibatch(batch)),
        Plan(10**6, 0, 1, CHAINS, 1, check_gradient=False),
    )
    engine.begin()
    rng = np.random.default_rng(1)
    position, potential = posterior.sample_start(rng, CHAINS), posterior.potential()
    rows = rng.integers(DATA, size=(CHAINS, batch))
    found: list[tuple[float, float]] = []
    engine.step()  # warm-up of the device
    until = time.perf_counter() + LONGEST
    while not found or (len(found) < TURNS and time.perf_counter() < until):
        begin = time.perf_counter()
        for _ in range(steps):
            engine.step()
        middle = time.perf_counter()
        for _ in range(steps):
            potential.batch_terms(position, rows, True, DATA / batch)
        found.append(((middle - begin) / steps, (time.perf_counter() - middle) / steps))
    step, gradient = np.min(found, axis=0)
    return float(step), float(gradient)


def apart(posterior: ModulePosterior, truth: ModulePosterior) -> tuple[float, float]:
    """Errors of the misfits of all data and of the gradients, relative to the largest true ones."""
    position = truth.sample_start(np.random.default_rng(2), CHAINS)
    here, there = (part.potential().parts(position, True) for part in (posterior, truth))
    pairs = (here.energy - here.prior, there.energy - there.prior), (here.gradient, there.gradient)
    misfit, gradient = (float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)
    return misfit, gradient


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    warnings.simplefilter("ignore")
    name = torch.cuda.get_device_name() if chosen.device.startswith("cuda") else chosen.device
    print(f"torch {torch.__version__}, {name}, {chosen.threads} threads of the processor, {CHAINS} chains")
    print(f"{'':54s}{'ms per step (gradient), batches of':>40s}{'relative error of':>26s}")
    print(
        f"{'network':38s}{'precision':>9s}{'device':>7s}{BATCHES[0]:>22d}{BATCHES[1]:>18d}{'misfit':>14s}{'gradient':>12s}"
    )
    for label, module in networks().items():
        truth = posed(module, torch.float64, "cpu")
        for dtype in (torch.float32, torch.float64):
            for device in dict.fromkeys(("cpu", chosen.device)):
                posterior = posed(module, dtype, device)
                steps = chosen.steps if device != "cpu" else max(1, chosen.steps // 20)
                took = [seconds(posterior, batch, steps) for batch in BATCHES]
                times = "".join(f"{1e3 * step:10.2f} ({1e3 * slope:7.2f})" for step, slope in took)
                errors = "".join(f"{error:12.1e}" for error in apart(posterior, truth))
                kind, count = str(dtype).removeprefix("torch."), f"{label} ({posterior.dimension:,})"
                print(f"{count:38s}{kind:>9s}{device:>7s}{times}{errors}", flush=True)


if __name__ == "__main__":
    main()
