"""Simulation-based calibration of the exchange with a corrected coarse model; the control never freezes its correction.

    python benchmarks/exchange_calibration.py [--replicates N] [--only NAME...] [--keep FOLDER] [--steep S]

`iv.calibrate` of `iv.samplers.surrogate_exchange`, on two posteriors. One is the conductivity of a plate, 12x12 over
3x3 squares. The other has two modes, whose weights differ in the coarse model; the correction is an offset or a
polynomial. Any frozen map leaves the target distribution invariant. In the control each draw is followed by another
map: S times the slope, through the pair of solves at the fine chain's position. ``--steep 1`` refits an offset.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import ClassVar, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.stats import norm

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.compiled_blocks import Recorder
from invsamp.problems import conductivity
from invsamp.protocols import Array, VectorJacobianProduct
from invsamp.solvers.fem.fields import LogField, Modes
from invsamp.solvers.fem.random_fields import karhunen_loeve, square_rule
from invsamp.solvers.poisson import PoissonEquation
from invsamp.surrogates.affine import Map
from invsamp.surrogates.learning import Correction

#: Default slope of the control's map.
STEEP = 3.0


class Bent:
    """y = (a x0^2 + b sin(2 x0), x1 + a x0 / 2), which hardly distinguishes two values of x0."""

    def __init__(self, a: float, b: float, work: float) -> None:
        self.a, self.b, self.work = a, b, work

    def __call__(self, theta: Array) -> Array:
        """Observations (n, 2)."""
        x, y = theta.T
        return np.column_stack([self.a * x**2 + self.b * np.sin(2.0 * x), y + 0.1 * self.a * x])

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations, and the product with their Jacobian."""
        slope = 2.0 * self.a * theta[:, 0] + 2.0 * self.b * np.cos(2.0 * theta[:, 0])

        def product(cotangent: Array) -> Array:
            return np.column_stack([slope * cotangent[:, 0] + 0.1 * self.a * cotangent[:, 1], cotangent[:, 1]])

        return self(theta), product


def plate(unknowns: int = 4) -> iv.Posterior:
    """The posterior of `invsamp.problems.conductivity`, with the first few modes of the field only."""
    field = LogField(Modes("z", karhunen_loeve(conductivity.COVARIANCE, *square_rule(20), count=unknowns)))
    forward = {
        name: PoissonEquation(cells, field, source=0.0, boundary=conductivity.BOUNDARY).observe(conductivity.SENSORS)
        for name, cells in {"coarse": 3, "fine": 12}.items()
    }
    data, noise = np.zeros(len(conductivity.SENSORS)), iv.GaussianNoise(conductivity.NOISE_SD)
    return iv.Posterior(iv.Prior(z=iv.Normal(0.0, 1.0, shape=unknowns)), forward, data, noise)


def two_modes() -> iv.Posterior:
    forward = {"coarse": Bent(0.5, 0.3, 1.0), "fine": Bent(1.0, 0.0, 30.0)}
    return iv.Posterior(iv.Prior(x=iv.Normal([0.2, 0.0], 1.0)), forward, np.zeros(2), iv.GaussianNoise(0.3))


class Case(NamedTuple):
    posterior: Callable[[], iv.Posterior]
    sampler: iv.ladder.Sampler
    chains: int
    draws: int


CASES = {
    "conductivity": Case(plate, iv.samplers.surrogate_exchange(correct="offset", pairs=20, exchange_interval=6), 1, 96),
    "two modes": Case(
        two_modes,
        iv.samplers.surrogate_exchange((1.0, 4.0, 16.0), correct="offset", pairs=20, exchange_interval=6),
        2,
        80,
    ),
    "two modes, polynomial": Case(
        two_modes,
        iv.samplers.surrogate_exchange((1.0, 4.0, 16.0), correct="polynomial", pairs=40, exchange_interval=6),
        2,
        80,
    ),
}


class Unfrozen(Engine):
    """The control: after each draw another map, which is exact at the positions of the fine chains."""

    steep: ClassVar[float] = STEEP

    def step(self, most: int = 1, recorder: Recorder | None = None) -> None:
        super().step(most, recorder)
        if self.coarse is None or self.coarse.found is None or self.warming:
            return
        posterior, fine, coarse = self.problem, self.rungs[0], self.rungs[1]
        assert isinstance(posterior, iv.Posterior)
        theta = posterior.to_theta(fine.position)
        own = posterior.predict(theta, coarse.fidelity)
        offset = posterior.predict(theta, fine.fidelity) - self.steep * own
        self.coarse.correct(Correction(coarse.fidelity, Map(offset.mean(axis=0), self.steep * np.eye(own.shape[1]))))
        self.bound.dispatch.do([rung.reevaluate(np.arange(len(theta))) for rung in self.rungs[1:]])


def calibrated(
    name: str, replicates: int, steep: float | None, keep: Path | None, workers: int
) -> iv.calibration.Calibration:
    """Calibration of the exchange, or of the control with a map of this slope."""
    case = CASES[name]
    engine = Engine if steep is None else type("Unfrozen", (Unfrozen,), {"steep": steep})
    kind = "" if steep is None else "-control" if steep == STEEP else f"-control-{steep:g}"
    folder = None if keep is None else keep / f"{name.replace(' ', '-').replace(',', '')}{kind}"
    with (
        patch("invsamp.sampling.Engine", engine),
        ProcessPoolExecutor(workers, get_context("fork")) as executor,  # forked processes have the patch, too
    ):
        return iv.calibrate(
            case.posterior(),
            case.sampler,
            replicates=replicates,
            ranks=15,
            draws=case.draws,
            warmup=150,
            chains=case.chains,
            seed=1,
            progress=False,
            directory=folder,
            executor=executor,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--control", action="store_true", help="only the control")
    parser.add_argument("--steep", type=float, default=STEEP, help="slope of the control's map")
    parser.add_argument("--right", action="store_true", help="only the exchange")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for the replicates: the same call resumes")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(
        "| problem | correction | replicates | calibrated | least p | its quantity | largest offset (sds) | seconds |"
    )
    print("|---|---|---:|---|---:|---|---:|---:|")
    for name in given.only:
        for control in [False] * (not given.control) + [True] * (not given.right):
            began = time.perf_counter()
            steep = given.steep if control else None
            found = calibrated(name, given.replicates, steep, given.keep, given.workers)
            worst = int(np.argmin(found.p_values))
            correction = f"follows the chains, slope {steep:g}" if control else "frozen"
            figures = f"{len(found.ranks)} | {'yes' if found.calibrated else 'no'} | {found.p_values[worst]:.2g}"
            figures += f" | {found.labels[worst]} | {np.abs(found.offset).max():.2f}"
            print(f"| {name} | {correction} | {figures} | {time.perf_counter() - began:.0f} |", flush=True)
            print(f"z {np.round(norm.isf(found.p_values / 2), 1).tolist()}, short {len(found.short)}", flush=True)


if __name__ == "__main__":
    main()
