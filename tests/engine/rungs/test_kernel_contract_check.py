"""Kernels that yield or return nonsense: an error names them, and nothing that was drawn is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.rungs.kernel_contract_check import PartError
from invsamp.evaluate import Estimate, Request
from invsamp.kernels.contract import Info, Point, decided

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted

TARGET = iv.Target(
    iv.extending.FunctionPotential(lambda x: ((x**2).sum(axis=1), 2.0 * x), 2), iv.Box([-2.0, -2.0], [2.0, 2.0])
)
LENGTH = {"draws": 300, "warmup": 20, "chains": 3, "seed": 7, "progress": False}


@dataclass(frozen=True)
class Walk:
    """Random-walk Metropolis, and in some steps what ``nonsense`` makes of it."""

    nonsense: ClassVar = None
    after: ClassVar = 0

    name: ClassVar[str] = "walk"
    gradient: ClassVar[bool] = True
    adjusted: ClassVar[bool] = True
    friction: ClassVar[float] = 1.0
    target_acceptance: ClassVar[float] = 0.3
    stability_limit: ClassVar[float] = 2.0
    longest_step: ClassVar[float] = np.inf
    short_step: ClassVar[float] = 1.0
    ensemble_size: ClassVar[int] = 1
    statistics: ClassVar[dict] = {}

    def init(self, rng, shape):
        return {"steps": np.zeros(())}

    def step(self, rung, here, memory):
        move = np.sqrt(2.0 * rung.step_size) * rung.normal()
        memory = {"steps": memory["steps"] + 1.0}
        if self.nonsense and memory["steps"] > self.after:
            return (yield from self.nonsense(rung, here, memory, move))
        there = Point(here.position + move, (yield from rung.evaluate(here.position + move)))
        log_ratio = rung.energy(here.estimate) - rung.energy(there.estimate)
        log_ratio[(np.abs(there.position) > 2.0).any(axis=1)] = -np.inf
        accept = rung.log_uniform() < log_ratio
        return decided(accept, there, here), memory, Info(log_ratio, int(accept.sum()))

    def arrived(self, rung, memory, rows, change):
        return memory


def sampler(nonsense, after=0):
    kernel = type("Walk", (Walk,), {"nonsense": nonsense, "after": after})()
    return iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.1)])


def asking(requests):
    def step(self, rung, here, memory, move):
        found = yield requests(here)
        return Point(here.position, found[0]), memory, Info(np.zeros(3))

    return step


def evaluating(position):
    def step(self, rung, here, memory, move):
        found = yield from rung.evaluate(position(here.position))
        return Point(here.position, found), memory, Info(np.zeros(3))

    return step


def returning(made):
    def step(self, rung, here, memory, move):
        end, _, _ = rung.follow(here.position, move)
        there = Point(end, (yield from rung.evaluate(end)))
        return made(there, memory, Info(np.zeros(3), 3))

    return step


def test_the_walk_itself_passes():
    run = iv.sample(TARGET, sampler(None), **LENGTH)
    assert run.theta.shape[1] == 300 and run.report["outside"] == [0.0]


ASKED = {
    "nothing": (lambda here: None, "yield a tuple of Requests, as .*, got None"),
    "an array": (lambda here: here.position, r"a tuple of Requests, .*, got an array of float64 of shape \(3, 2\)"),
    "a request": (lambda here: Request("target", here.position), "yield a tuple of Requests"),
    "a list": (lambda here: [Request("target", here.position)], "yield a tuple of Requests"),
    "another fidelity": (lambda here: (Request("fine", here.position),), r"the fidelities \['target'\], got fine"),
    "one position": (lambda here: (Request("target", here.position[0]),), r"\(rows, 2\), got .* of shape \(2,\)"),
    "lists": (lambda here: (Request("target", here.position.tolist()),), r"of shape \(rows, 2\), got \[\["),
    "another dimension": (lambda here: (Request("target", here.position[:, :1]),), r"\(rows, 2\), got .*\(3, 1\)"),
    "a batch of its own": (lambda here: (Request("target", here.position, True, 5),), "a Batch .*, got 5"),
}  # fmt: skip


@pytest.mark.parametrize("what", ASKED)
def test_asking_for(what):
    requests, message = ASKED[what]
    with pytest.raises(PartError, match=rf"the kernel .*Walk\(\) must .*{message}"):
        iv.sample(TARGET, sampler(asking(requests)), **LENGTH)


@pytest.mark.parametrize("position", [lambda x: x[0], lambda x: x.tolist(), lambda x: x.astype(int), lambda x: x.T])
def test_evaluating_at(position):
    with pytest.raises(
        PartError, match=r"the kernel .*Walk\(\) must rung.evaluate of positions .*of shape \(rows, 2\)"
    ):
        iv.sample(TARGET, sampler(evaluating(position)), **LENGTH)


def test_some_chains_asked_for_by_themselves():
    def step(self, rung, here, memory, move):
        rows = [2, 0]
        estimate = here.estimate.replaced(rows, (yield from rung.evaluate(here.position[rows] / 2.0, rows)))
        position = here.position.copy()
        position[rows] /= 2.0
        return Point(position, estimate), memory, Info(np.zeros(3))

    assert iv.sample(TARGET, sampler(step), **LENGTH).theta.shape[1] == 300
    halved = type("Walk", (Walk,), {"nonsense": lambda *args: (yield from args[1].evaluate(np.zeros((2, 2)), [1]))})()
    with pytest.raises(PartError, match=r"give rows, the chain of each of the 2 positions, got \[1\]"):
        iv.sample(TARGET, iv.ladder.Sampler([iv.ladder.Rung(kernel=halved, step_size=0.1)]), **LENGTH)


at = Point._replace
RETURNED = {
    "nothing": (lambda there, *kept: None, "a Point, its memory and an Info, got None"),
    "a point": (lambda there, *kept: there, "a Point, its memory and an Info, got Point"),
    "another order": (lambda there, *kept: (kept[0], there, kept[1]), r"a Point of positions and an Estimate, got \{"),
    "an array": (lambda there, *kept: (there.position, *kept), "a Point of positions and an Estimate, got an"),
    "NaN": (lambda there, *kept: (at(there, position=there.position * np.nan), *kept), "finite positions"),
    "other rows": (lambda there, *kept: (Point(there.position[:2], there.estimate), *kept), r"shape \(3, 2\)"),
    "far away": (lambda there, *kept: (at(there, position=there.position + 9.0), *kept), "the domain"),
    "another's energy": (
        lambda there, *kept: (at(there, position=np.zeros((3, 2))), *kept),
        r"with the energy that it was given there, got [\d.]+ at \[0.0, 0.0\] for chain 0",
    ),
    "another chain's": (
        lambda there, *kept: (Point(there.position[[1, 2, 0]], there.estimate.take([1, 2, 0])), *kept),
        r"leave each chain at a position that it asked for as that chain's own, got .* for chain 0",
    ),
    "no energy": (lambda there, *kept: (Point(there.position, None), *kept), "Point of positions and an Est"),
    "energies (3, 1)": (
        lambda there, *kept: (at(there, estimate=Estimate(np.zeros((3, 1)), there.position)), *kept),
        r"energies of shape \(3,\), got .*\(3, 1\)",
    ),
    "energies of NaN": (
        lambda there, *kept: (at(there, estimate=Estimate(np.full(3, np.nan), there.position)), *kept),
        "energies that are no NaN",
    ),
    "no gradient": (
        lambda there, *kept: (at(there, estimate=there.estimate._replace(gradient=None)), *kept),
        r"gradients of shape \(3, 2\), got None",
    ),
    "a number as memory": (lambda there, *kept: (there, 4.0, kept[1]), "a dict of arrays by name .*, got 4.0"),
    "numbers in memory": (lambda there, *kept: (there, {"a": 4.0}, kept[1]), "a dict of arrays by name as its memory"),
    "a flag": (lambda there, *kept: (there, kept[0], True), "return an Info, got True"),
    "no log ratio": (lambda there, *kept: (there, kept[0], Info()), "give log_ratio in Info, or acceptance if"),
    "one log ratio": (lambda there, *kept: (there, kept[0], Info(np.zeros(1))), r"log ratios of shape \(3,\)"),
    "one acceptance": (lambda there, *kept: (there, kept[0], Info(acceptance=np.zeros(1))), r"of shape \(3,\), each"),
    "acceptance above 1": (lambda there, *kept: (there, kept[0], Info(acceptance=np.full(3, 1.1))), r"in \[0, 1\]"),
    "a mask": (lambda there, *kept: (there, kept[0], Info(np.zeros(3), np.ones(3, bool))), "accepted as a count"),
    "more than there are": (lambda there, *kept: (there, kept[0], Info(np.zeros(3), 4)), "accepted as a count, got 4"),
}  # fmt: skip


@pytest.mark.parametrize("what", RETURNED)
def test_returning(what):
    made, message = RETURNED[what]
    with pytest.raises(PartError, match=rf"the kernel .*Walk\(\) must .*{message}"):
        iv.sample(TARGET, sampler(returning(made)), **LENGTH)


def test_a_step_that_is_no_generator():
    kernel = type("Walk", (Walk,), {"step": lambda self, rung, here, memory: (here, memory, Info(np.zeros(3)))})()
    with pytest.raises(PartError, match=r"Walk\(\) must have a step that is a generator, .*, got \(Point"):
        iv.sample(TARGET, iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.1)]), **LENGTH)


@pytest.mark.parametrize("memory", [None, [1.0], {"a": [1.0]}, {1: np.zeros(3)}])
def test_memory_from_the_start(memory):
    kernel = type("Walk", (Walk,), {"init": lambda self, rng, shape: memory})()
    with pytest.raises(PartError, match=r"the kernel .*Walk\(\) must keep a dict of arrays by name as its memory, got"):
        iv.sample(TARGET, iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.1)]), **LENGTH)


def raising(self, rung, here, memory, move):
    yield from rung.evaluate(here.position)
    raise IndexError("list index out of range")


class TestLater:
    def test_an_exception_names_the_kernel_and_keeps_the_draws(self):
        with pytest.warns(UserWarning, match=r"IndexError: list .*; in a step of the kernel .*Walk\(\) \(.*_contract_"):
            run = iv.sample(TARGET, sampler(raising, after=100), **LENGTH)
        assert run.theta.shape[1] == 80
        np.testing.assert_array_equal(run.theta, iv.sample(TARGET, sampler(None), **LENGTH).theta[:, :80])

    def test_a_stored_run_resumes_with_the_right_kernel(self, tmp_path):
        with pytest.raises(IndexError) as error:
            iv.sample(TARGET, sampler(raising, after=100), directory=tmp_path / "run", segment=10, **LENGTH)
        assert "in a step of the kernel" in error.value.__notes__[0]
        more = iv.resume(tmp_path / "run", TARGET, sampler=sampler(None), progress=False)
        np.testing.assert_array_equal(more.theta, iv.sample(TARGET, sampler(None), **LENGTH).theta)

    @pytest.mark.parametrize(
        ("what", "message"),
        [
            (lambda *there: None, "return a Point, its memory and an Info, got None"),
            (lambda there, *rest: (Point(there.position * np.nan, there.estimate), *rest), "return finite positions"),
            (lambda there, *rest: (Point(there.position + 0.1, there.estimate), *rest), "return positions with the"),
        ],
    )
    def test_nonsense_names_the_kernel_and_keeps_the_draws(self, what, message):
        with pytest.warns(UserWarning, match=rf"PartError: the kernel Walk\(\) must {message}"):
            run = iv.sample(TARGET, sampler(returning(what), after=100), **LENGTH)
        assert run.theta.shape[1] == 80

    def test_leaving_the_domain(self):
        def straight(self, rung, here, memory, move):
            far = here.position + 5.0
            return Point(far, (yield from rung.evaluate(far))), memory, Info(np.zeros(3), 3)

        with pytest.warns(UserWarning, match=r"the kernel Walk\(\) must stay within the domain"):
            run = iv.sample(TARGET, sampler(straight, after=50), **LENGTH)
        assert run.theta.shape[1] == 30 and run.report["outside"] == [0.0]
