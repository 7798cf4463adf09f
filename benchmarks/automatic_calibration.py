"""Simulation-based calibration of the complete automatic procedure, with controls that have a wrong Jacobian.

    python benchmarks/automatic_calibration.py [--replicates N] [--only NAME...] [--control KIND] [--keep FOLDER]

`iv.calibrate` without a sampler: each replicate draws parameters and data and calls `iv.sample(posterior, draws=400)`.
Mode search, parameterization, metric, map, pilot run and jumps are those of that data set. The pilot run's draws are
kept, as in a user's call. Ranks are among 31 draws.

Controls: ``map`` leaves the scales out of a transport map's log determinant, and of its gradient. ``form`` leaves the
scale out of the density of centered parameters.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import invsamp as iv
from invsamp.calibration import replicates
from invsamp.engine.adaptation import step_size_and_metric
from invsamp.engine.adaptation.coordinate_learning import learned
from invsamp.posing.priors.conditional_distribution import Conditional
from invsamp.protocols import Array
from invsamp.transport import TransportMap
from invsamp.transport.triangular import Image, Triangular

SETTINGS: dict[str, Any] = {"ranks": 31, "draws": 400}


def funnel() -> iv.Posterior:
    """Three values with one unknown scale, each measured with its own error; centered.

    Errors of 1, with a scale between .1 and 10: some data leave the funnel as it is, others remove its neck.
    """
    prior = iv.Prior(scale=iv.LogNormal(0, 1), x=iv.Normal(0, "scale", shape=3, centered=True))
    return iv.Posterior(prior, _itself("x", 3), np.zeros(3), iv.GaussianNoise(1.0))


def hierarchy() -> iv.Posterior:
    """Groups of two to 200 data, of unknown mean and spread, in the parameterization that the run chooses for each."""
    errors = np.array([2, 2, 5, 20, 50, 200]) ** -0.5
    prior = iv.Prior(mu=iv.Normal(0, 1), tau=iv.HalfNormal(1), theta=iv.Normal("mu", "tau", shape=6))
    return iv.Posterior(prior, _itself("theta", 6), np.zeros(6), iv.GaussianNoise(errors))


def banana() -> iv.Posterior:
    """y + x^2 is measured much better than x."""

    def slope(t: Array) -> Array:
        zero, one = np.zeros(len(t)), np.ones(len(t))
        return np.stack([np.stack([2 * t[:, 0], one], 1), np.stack([one, zero], 1)], 1)

    model = iv.with_jacobian(lambda t: np.stack([t[:, 1] + t[:, 0] ** 2, t[:, 0]], axis=1), slope)
    prior = iv.Prior(x=iv.Normal(0, 1.5), y=iv.Normal(0, 5))
    return iv.Posterior(prior, model, np.zeros(2), iv.GaussianNoise([0.3, 2.0]))


def two_modes() -> iv.Posterior:
    """x^2 exp(x / 3) does not determine the sign of x; the two modes have different widths and weights."""

    def value(t: Array) -> Array:
        return np.stack([t[:, 0] ** 2 * np.exp(t[:, 0] / 3), t[:, 0] + t[:, 1]], axis=1)

    def slope(t: Array) -> Array:
        x = t[:, 0]
        first = np.stack([(2 * x + x**2 / 3) * np.exp(x / 3), 0 * x], axis=1)
        return np.stack([first, np.ones((len(t), 2))], axis=1)

    prior = iv.Prior(x=iv.Normal(0.3, 1.5), z=iv.Normal(0, 1))
    return iv.Posterior(prior, iv.with_jacobian(value, slope), np.zeros(2), iv.GaussianNoise([0.3, 1.0]))


def _itself(name: str, d: int) -> Any:
    """The model that observes a parameter of d entries."""
    return iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(np.eye(d), (len(t), d, d)), parameters=(name,))


CASES: dict[str, Callable[[], iv.Posterior]] = {
    "funnel": funnel,
    "hierarchy": hierarchy,
    "banana": banana,
    "two modes": two_modes,
}


class Unscaled(TransportMap):
    """A map whose log determinant, and its gradient, lack the logs of the scales."""

    def forward(self, z: Array) -> Image:
        """Positions, with a wrong log of the determinant."""
        found = super().forward(z)
        inner: Any = found.kept
        return found._replace(log_det=found.log_det - inner.kept.log_scale.sum(axis=1))

    def pull_back(self, image: Image, gradient: Array) -> Array:
        """The gradient of U(x(z)) less the wrong log determinant."""
        inner: Any = image.kept
        by_u = super().pull_back(image, gradient) - super().pull_back(image, np.zeros_like(gradient))
        return by_u - inner.kept.margin.bend


def _learned(*arguments: Any) -> Any:
    found = learned(*arguments)
    if found is None or not isinstance(found[0].core, Triangular):
        return found
    right, metric = found
    return Unscaled(right.family, right.center, right.frame, right.core), metric


def _without_spread(density: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: Conditional, seen: Array, stretch: Any, entries: npt.NDArray[np.bool_]) -> Any:
        value, by_seen, by_parents = density(self, seen, stretch, entries)
        log = np.where(entries, np.log(stretch.scale), 0.0).sum(axis=1)
        slopes = [
            (c, by + entries / stretch.scale * db)
            for (c, by), (_, _, db) in zip(by_parents, stretch.by_column, strict=True)
        ]
        return value + log, by_seen, slopes

    return wrong


@contextmanager
def wrong_map() -> Iterator[None]:
    """Transport maps whose log determinant lacks the scales."""
    with patch.object(step_size_and_metric, "learned", _learned):
        yield


@contextmanager
def wrong_form() -> Iterator[None]:
    """Centered parameters whose density lacks the log of the scale."""
    with patch.object(Conditional, "standardized_density", _without_spread(Conditional.standardized_density)):
        yield


CONTROLS: dict[str | None, Callable[[], Any]] = {None: nullcontext, "map": wrong_map, "form": wrong_form}


@contextmanager
def recorded(found: list[dict[str, Any]]) -> Iterator[None]:
    """Record what each run chose."""
    sample = replicates.sample

    def noted(*arguments: Any, **settings: Any) -> iv.Run:
        run = sample(*arguments, **settings)
        coordinates = run.report["coordinates"][0]
        entries = np.concatenate([np.ravel(f["centered"]) for f in run.report["centering"].values()] or [np.zeros(0)])
        found.append(
            {
                "family": "" if coordinates is None else coordinates["family"],
                "centered": f"{entries.sum():.0f} of {len(entries)}",
                "kernel": run.report["kernels"][0],
                "gradients": sum(run.report["evaluations"].values()),
            }
        )
        return run

    with patch.object(replicates, "sample", noted):
        yield


def main() -> None:
    """Print a line for each case and control."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--control", choices=[name for name in CONTROLS if name], help="what is wrong")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the replicates: the same call resumes")
    given = parser.parse_args()
    for name in given.only:
        runs: list[dict[str, Any]] = []
        began = time.process_time()
        keep = None if given.keep is None else given.keep / f"{name}-{given.control}-{given.seed}".replace(" ", "-")
        with CONTROLS[given.control](), recorded(runs), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = iv.calibrate(
                CASES[name](), replicates=given.replicates, seed=given.seed, progress=False, directory=keep, **SETTINGS
            )
        print(f"\n## {name}, control {given.control}\n{result}")
        if runs:
            gradients = np.array([run["gradients"] for run in runs])
            kinds = [dict(Counter(run[key] for run in runs)) for key in ("family", "kernel", "centered")]
            print(f"{len(runs)} runs: {kinds}, gradients {np.median(gradients):,.0f} (most {gradients.max():,})")
            print(f"{time.process_time() - began:.0f} s of a processor")
        print(flush=True)


if __name__ == "__main__":
    main()
