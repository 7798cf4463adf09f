"""Evaluations ahead of a run: the draws are those without, and most of what is evaluated ahead is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import invsamp as iv
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request
from invsamp.evaluate.speculation import Speculation
from invsamp.protocols import Array

SECONDS = 6e-3  # of a row: more than `invsamp.evaluate.executors.WORTH_SPECULATION`


class Slow:
    """A density whose evaluation takes some milliseconds a row."""

    dimension = 2

    def energy(self, position: Array) -> Array:
        time.sleep(SECONDS * len(position))
        return 0.5 * np.square(position).sum(axis=1) + 0.1 * position[:, 0] ** 4

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        gradient = position.copy()
        gradient[:, 0] += 0.4 * position[:, 0] ** 3
        return self.energy(position), gradient


def model(theta: Array) -> Array:
    time.sleep(SECONDS * len(theta))
    return theta + 0.1 * theta**2


def cheap(theta: Array) -> Array:
    return 1.02 * theta + 0.1 * theta**2


PRIOR = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Normal(0.0, 1.0))
POSTERIOR = iv.Posterior(PRIOR, model, np.array([0.5, -0.2]), iv.GaussianNoise(0.5))
DENSITY = iv.Target(Slow())
RUNS: dict[str, tuple[iv.Posterior | iv.Target, iv.samplers.options.Sampler]] = {
    "pcn": (POSTERIOR, iv.pcn(0.8)),
    "pcn, mostly accepted": (POSTERIOR, iv.pcn(0.1)),
    "ensemble": (POSTERIOR, iv.samplers.stretch(walkers=4)),
    "past states": (POSTERIOR, iv.samplers.differential_evolution()),
    "gradients": (DENSITY, iv.mala(1.5, preconditioner=None)),
    "paths": (DENSITY, iv.mams(1.0, preconditioner=None)),
    "temperatures": (DENSITY, iv.samplers.parallel_tempering((1.0, 4.0), 1.0, preconditioner=None)),
}


def drawn(problem: iv.Posterior | iv.Target, sampler: object, speculate: bool) -> iv.Run:
    with ThreadPoolExecutor(12) as threads:
        executor = iv.evaluate.executed(threads, workers=12, speculate=speculate)
        settings = {"draws": 15, "warmup": 20, "chains": 4, "seed": 3, "progress": False, "check_gradient": False}
        return iv.sample(problem, sampler, executor=executor, **settings)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RUNS)
def test_the_draws_are_those_without_it(name: str) -> None:
    ahead, plain = drawn(*RUNS[name], True), drawn(*RUNS[name], False)
    assert np.array_equal(ahead.theta, plain.theta)
    assert ahead.report["evaluations"] == plain.report["evaluations"]
    assert "speculation" not in plain.report["processes"]
    counts = ahead.report["processes"]["speculation"]
    assert counts["used"] < counts["made"] < 5 * counts["used"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_decisions_that_energies_predict_are_guessed_right() -> None:
    """By the rate of acceptance alone 1.63 to 1.73 times as many evaluations are made as used (four seeds)."""
    with ThreadPoolExecutor(12) as threads:
        executor = iv.evaluate.executed(threads, workers=12, speculate=True)
        settings = {"draws": 60, "warmup": 20, "chains": 4, "seed": 3, "progress": False, "check_gradient": False}
        counts = iv.sample(*RUNS["pcn"], executor=executor, **settings).report["processes"]["speculation"]
    assert counts["made"] < 1.4 * counts["used"]


def steps_from(place: int, end: int) -> Callable[[], EvaluationRequests[None]]:
    """A run of one chain that asks for ``place``, ``place`` + 1, ... while they are rejected, and else for 100."""

    def requests() -> EvaluationRequests[None]:
        at, accepted = place, False
        while at < end:
            (found,) = yield (Request("fine", np.array([[100.0 if accepted else float(at)]]), False),)
            at, accepted = at + 1, bool(np.isfinite(found.energy[0]))

    return requests


class Worker:
    """Answers at once that a solve failed; raises at one position."""

    def __init__(self, raises: float) -> None:
        self.asked: list[float] = []
        self._raises = raises

    def __call__(self, request: Request) -> Future[Estimate | None]:
        (at,) = request.position[0].tolist()
        self.asked.append(at)
        future: Future[Estimate | None] = Future()
        if at == self._raises:
            future.set_exception(RuntimeError(f"nothing is at {at}"))
        else:
            future.set_result(Estimate(np.array([np.inf]), None, failed=True))  # type: ignore[arg-type]
        return future


def followed(worker: Worker, end: int) -> None:
    speculation = Speculation(
        worker, worker, solved=lambda request: pytest.fail(), cheap=lambda request: False, workers=6
    )
    for place in range(end):
        speculation.begin()
        speculation.evaluate([Request("fine", np.array([[float(place)]]), False)], steps_from(place, end), None)


def test_each_position_is_evaluated_once_and_failures_count_where_the_run_comes() -> None:
    worker = Worker(raises=100.0)
    followed(worker, 9)
    assert 100.0 in worker.asked
    assert sorted(set(worker.asked) - {100.0}) == list(range(9))
    assert len([at for at in worker.asked if at < 100.0]) == 9
    with pytest.raises(RuntimeError, match="nothing is at 5"):
        followed(Worker(raises=5.0), 9)
