"""Speed-up of a run with more workers than chains, when idle workers evaluate ahead.

    python benchmarks/speculation.py [--seconds S] [--measured 4 8 16] [--predicted 4 16 64 256 1024] [--chains 4 16]

Measured: a model that sleeps for the given seconds, four chains of pCN, threads as workers. Its energy is quadratic in
two unknowns, which a regression predicts exactly, or curved in eight. Predicted: a replay in
virtual time. There costs of evaluations are those measured for a Poisson equation with an unknown conductivity (64 x 64
cells), in units of their mean; all else takes no time. A speed-up is the total time of the evaluations that the run
used, over the time of its steps. The draws have to be the same in all rows.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures._base import DoneAndNotDoneFutures
from dataclasses import dataclass
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.evaluate import speculation
from invsamp.evaluate.requests import Request
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.problems import conductivity
from invsamp.protocols import Array
from invsamp.tempering import tempered

PRIOR = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Normal(0.0, 1.0))


def identity(theta: Array) -> Array:
    """A model whose cost is given separately."""
    return theta


def curved(theta: Array) -> Array:
    """Neighbors that bend each other, and decays."""
    bent = theta[:, 1:] + np.square(theta[:, :-1])
    return np.column_stack([bent, np.exp(-np.square(theta - 0.5).sum(axis=1))])


@dataclass(frozen=True)
class Sleeping:
    """A model whose rows take some seconds."""

    function: Callable[[Array], Array]
    seconds: float

    def __call__(self, theta: Array) -> Array:
        """Observations."""
        time.sleep(self.seconds * len(theta))
        return self.function(theta)


def recorded(count: int) -> Array:
    """Costs of evaluations of a Poisson problem, in units of their mean."""
    posterior = conductivity.posterior()
    theta = posterior.sample_prior(np.random.default_rng(1), count)
    potential, seconds = posterior.potential("fine"), []
    for row in posterior.to_position(theta):
        begin = time.perf_counter()
        potential.energy(row[None])
        seconds.append(time.perf_counter() - begin)
    return np.array(seconds[5:]) / np.mean(seconds[5:])


class VirtualWorkers(Executor):
    """Workers in virtual time: results are computed at once, and visible when their time has passed."""

    def __init__(self, workers: int, costs: Array) -> None:
        self._max_workers, self._costs = workers, costs
        self.now, self.work = 0.0, 0.0
        self._free = [0.0] * workers

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        future: Any = _VirtualFuture(self)
        future.set_result(function(*arguments))
        request = arguments[2]
        assert isinstance(request, Request)
        cost = sum(self.cost(row) for row in request.position)
        begin = max(heapq.heappop(self._free), self.now)
        future.at = begin + cost
        heapq.heappush(self._free, future.at)
        self.work += cost
        return future

    def cost(self, row: Array) -> float:
        """Cost of a position, always the same."""
        number = int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "little")
        return float(self._costs[number % len(self._costs)])


class _VirtualFuture(Future):  # type: ignore[type-arg]
    def __init__(self, workers: VirtualWorkers) -> None:
        super().__init__()
        self._workers, self.at = workers, 0.0

    def result(self, timeout: float | None = None) -> Any:
        self._workers.now = max(self._workers.now, self.at)
        return super().result()

    def cancel(self) -> bool:
        """Never cancels: every evaluation runs to its end."""
        return False


def virtual_wait(futures: Iterable[Any], limit: float | None = None, when: str = "") -> Any:
    """Like `concurrent.futures.wait`, in virtual time; with a limit, which is short, it takes no time."""
    pending = set(futures)
    workers = next(iter(pending))._workers
    if limit is None:
        workers.now = max(workers.now, min(future.at for future in pending))
    done = {future for future in pending if future.at <= workers.now}
    return DoneAndNotDoneFutures(done, pending - done)


def timed(executor: Executor, posterior: Any, sampler: Any, draws: int, chains: int, workers: int, ahead: bool) -> Any:
    """A run, and the times at which its steps of draws began."""
    stamps, follow = [], Engine._follow
    clock = (lambda: executor.now) if isinstance(executor, VirtualWorkers) else time.perf_counter

    def stamped(engine: Engine, steps: int) -> None:
        stamps.append(clock())
        follow(engine, steps)

    Engine._follow = stamped  # type: ignore[method-assign]
    try:
        evaluator = iv.evaluate.executed(executor, workers=workers, speculate=ahead)
        settings: dict[str, Any] = {
            "warmup": 0,
            "chains": chains,
            "seed": 1,
            "progress": False,
            "check_gradient": False,
        }
        run = iv.sample(posterior, sampler, draws=draws, executor=evaluator, **settings)
    finally:
        Engine._follow = follow  # type: ignore[method-assign]
    return run, np.array(stamps)


def measured(seconds: float, workers: Iterable[int], draws: int) -> None:
    """Speed-ups with models that sleep."""
    plain = iv.Posterior(PRIOR, Sleeping(identity, seconds), np.zeros(2), iv.GaussianNoise(1.0))
    prior = iv.Prior(x=iv.Normal(0.0, 1.0, shape=8))
    bent = iv.Posterior(prior, Sleeping(curved, seconds), np.full(8, 0.5), iv.GaussianNoise(0.7))
    for name, posterior, sampler in (("quadratic", plain, iv.pcn(0.75)), ("curved", bent, iv.pcn(0.25))):
        of_posterior(name, posterior, sampler, seconds, workers, draws)


def of_posterior(name: str, posterior: Any, sampler: Any, seconds: float, workers: Iterable[int], draws: int) -> None:
    """Speed-ups for one posterior."""
    print(f"measured, {name}: 4 chains, {1e3 * seconds:g} ms a row, {draws} draws; speed-up over one worker")
    rows, skipped = set(), 10
    for count in workers:
        found = []
        for ahead in (False, True):
            with ThreadPoolExecutor(count) as threads:
                run, stamps = timed(threads, posterior, sampler, draws, 4, count, ahead)
            rows.add(run.theta.tobytes())
            found.append(4 * (len(stamps) - 1 - skipped) * seconds / (stamps[-1] - stamps[skipped]))
        print(f"  {count:5d} workers: {found[0]:6.2f} without, {found[1]:6.2f} with speculation")
    assert len(rows) == 1, "the draws depend on the workers"
    print(f"  acceptance {run.report['acceptance'][0]:.2f}")


def predicted(workers: Iterable[int], chains: Iterable[int], draws: int, costs: Array) -> None:
    """Speed-ups in virtual time."""
    wait, speculation.wait = speculation.wait, virtual_wait  # type: ignore[assignment]
    worth = iv.evaluate.executors.WORTH, iv.evaluate.executors.WORTH_SPECULATION
    iv.evaluate.executors.WORTH = iv.evaluate.executors.WORTH_SPECULATION = -1.0
    posterior = iv.Posterior(PRIOR, identity, np.zeros(2), iv.GaussianNoise(1.0))
    print(f"predicted by a replay of costs with a coefficient of variation of {costs.std():.2f}; {draws} draws")
    print("  chains  temperatures  workers  without  with  efficiency")
    try:
        for count in chains:
            for sampler, temperatures in ((iv.pcn(0.75), 1), (ladder(), 4)):
                for many in workers:
                    found = []
                    for ahead in (False, True):
                        executor = VirtualWorkers(many, costs)
                        stamps = timed(executor, posterior, sampler, draws, count, many, ahead)[1]
                        used = np.mean(costs) * count * temperatures * (len(stamps) - 1)
                        found.append(used / (stamps[-1] - stamps[0]))
                    without, with_it = found
                    print(f"  {count:6d}  {temperatures:12d}  {many:7d}  {without:7.1f} {with_it:6.1f}", end="")
                    print(f"  {with_it / many:9.0%}")
    finally:
        speculation.wait = wait
        iv.evaluate.executors.WORTH, iv.evaluate.executors.WORTH_SPECULATION = worth


def ladder() -> Any:
    """pCN at four temperatures."""
    rungs = tuple(Rung(tempered(t), kernel=iv.kernels.CrankNicolson(), step_size=0.75) for t in (1.0, 2.0, 4.0, 8.0))
    return Sampler(rungs, swap=Swap(), preconditioner=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--measured", type=int, nargs="*", default=[4, 8, 16])
    parser.add_argument("--predicted", type=int, nargs="*", default=[4, 16, 64, 256, 1024])
    parser.add_argument("--chains", type=int, nargs="*", default=[4, 16])
    parser.add_argument("--draws", type=int, default=150)
    settings = parser.parse_args()
    warnings.simplefilter("ignore")  # of few draws
    if settings.measured:
        measured(settings.seconds, settings.measured, settings.draws)
    if settings.predicted:
        predicted(settings.predicted, settings.chains, settings.draws, recorded(200))


if __name__ == "__main__":
    main()
