"""Parts that keep something without saying so: a run directory refuses them, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest

import invsamp as iv
from invsamp.evaluate import Request
from invsamp.kernels import Langevin
from invsamp.swaps.schemes import SwapScheme

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted

LENGTH = {"draws": 30, "warmup": 20, "chains": 3, "seed": 7, "progress": False}
SOLVES = []


def square(position):
    SOLVES.append(len(position))
    return (position**2).sum(axis=1), 2.0 * position


TARGET = iv.Target(iv.extending.FunctionPotential(square, 2))


@dataclass(frozen=True)
class Settings(Langevin):
    """A kernel as it should be."""

    counts: dict = field(default_factory=dict)

    @cached_property
    def computed(self):
        return np.arange(3)

    def step(self, rung, here, memory):
        assert self.computed[2] == 2
        return (yield from super().step(rung, here, memory))


class Free(Settings):
    """A kernel that changes as it likes, in attributes that are none of its settings."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "steps", 0)

    def step(self, rung, here, memory):
        object.__setattr__(self, "steps", self.steps + 1)
        return (yield from super().step(rung, here, memory))


@dataclass
class Thawed(SwapScheme):
    """A scheme that is no frozen dataclass."""

    attempts: int = 0

    def pairs(self, attempt, rungs, rng):
        return range(0, 1)


@dataclass(frozen=True)
class Counting:
    """An estimator of exact energies; what it binds counts, in an array or a generator."""

    how: str

    def bind(self, source, structure):
        return BoundCounting(source.fidelity, self.how)


class BoundCounting:
    exact = exact_energy = True
    degrees_of_freedom = None

    def __init__(self, fidelity, how):
        self.fidelity, self.how, self.seen, self.rng = fidelity, how, [np.zeros(2)], np.random.default_rng(0)

    def estimate(self, rng, position, gradient=True):
        if self.how == "array":
            self.seen[0][0] += 1.0
        elif self.how == "generator":
            self.rng.random()
        (found,) = yield (Request(self.fidelity, position, gradient),)
        return found


def single(**parts):
    return iv.ladder.Sampler([iv.ladder.Rung(step_size=0.1, **parts)])


def ladder(**swap):
    return iv.ladder.Sampler([iv.ladder.Rung(t, step_size=0.1) for t in (1.0, 2.0)], iv.ladder.Swap(**swap))


@pytest.mark.parametrize(
    "sampler",
    [
        single(kernel=Settings()),
        single(estimator=Counting("nothing")),
        iv.ladder.Sampler([iv.ladder.Rung(step_size=lambda k: 0.1 / (1.0 + k))]),
    ],
)
def test_settings_pass(sampler, tmp_path):
    run = iv.sample(TARGET, sampler, directory=tmp_path / "run", segment=10, **LENGTH)
    np.testing.assert_array_equal(iv.load(tmp_path / "run").theta, run.theta)


def test_a_part_that_is_no_settings_is_refused_before_anything_is_solved(tmp_path):
    SOLVES.clear()
    with pytest.raises(ValueError, match=r"directory needs parts that are settings, .* scheme Thawed\(attempts=0\)"):
        iv.sample(TARGET, ladder(scheme=Thawed()), directory=tmp_path / "run", **LENGTH)
    assert not SOLVES and not (tmp_path / "run").exists()
    iv.sample(TARGET, ladder(scheme=Thawed()), **LENGTH)  # in memory nothing is to be restored


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (lambda: single(kernel=Free()), r"the kernel Free\(.*\) has changed its 'steps'"),
        (lambda: single(estimator=Counting("array")), r"the estimator Counting\(.*has changed its 'seen'"),
        (lambda: single(estimator=Counting("generator")), r"the estimator Counting\(.*has changed its 'rng'"),
    ],
)
def test_a_part_that_changes_is_refused_in_its_first_steps(sampler, message, tmp_path):
    with pytest.raises(ValueError, match=f"directory needs parts that do not change, but {message}"):
        iv.sample(TARGET, sampler(), directory=tmp_path / "run", **LENGTH)
    assert iv.sample(TARGET, sampler(), **LENGTH).theta.shape[1] == 30


def test_one_that_changes_later_is_refused_at_the_next_checkpoint(tmp_path):
    class Late(Settings):
        def step(self, rung, here, memory):
            if rung.step_size < 0.05:
                self.counts["small"] = self.counts.get("small", 0) + 1
            return (yield from Langevin.step(self, rung, here, memory))

    sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=Late(), step_size=lambda k: 0.1 if k < 35 else 0.01)])
    with pytest.raises(ValueError, match=r"the kernel .*Late.* has changed its 'counts'"):
        iv.sample(TARGET, sampler, directory=tmp_path / "run", segment=10, **LENGTH)
    assert iv.load(tmp_path / "run").theta.shape[1] == 10
