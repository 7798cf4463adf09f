"""Step-size schedules against their formulas."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from invsamp.kernels.schedules import CyclicCosine, constant, cyclic_cosine, exponential, over, polynomial


def test_constant():
    assert {constant(0.1)(k) for k in (0, 1, 10**9)} == {0.1}
    assert constant(np.float32(0.5))(0) == 0.5


def test_polynomial():
    schedule = polynomial(0.2, offset=10.0, exponent=0.5)
    assert schedule(0) == 0.2
    assert schedule(30) == pytest.approx(0.2 * (1.0 + 3.0) ** -0.5)
    # the sum of steps diverges at the default exponent, that of their squares does not grow faster than k^(1/3)
    assert polynomial(1.0)(7) == pytest.approx(0.5)


def test_exponential_waits_until_it_begins():
    schedule = exponential(0.2, 0.5, begin=10)
    assert [schedule(k) for k in (0, 10, 11, 13)] == pytest.approx([0.2, 0.2, 0.1, 0.025])
    assert exponential(0.2, 1.0)(1000) == 0.2


def test_cyclic_cosine():
    schedule = cyclic_cosine(0.2, 8)
    assert [schedule(k) for k in (0, 4, 8, 12)] == pytest.approx([0.2, 0.1, 0.2, 0.1])
    one_cycle = [schedule(k) for k in range(8)]
    assert all(a > b > 0.0 for a, b in pairwise(one_cycle))


def test_cycles_fill_the_run():
    schedule = cyclic_cosine(0.2, cycles=5)
    assert over(schedule, 100) == CyclicCosine(0.2, 20)
    assert over(schedule, 101) == CyclicCosine(0.2, 21)  # the last cycle is the shorter one
    assert over(schedule, 10) == CyclicCosine(0.2, 2)
    with pytest.raises(ValueError, match="cycles must be at most half of the 9 steps of the run, got 5"):
        over(schedule, 9)
    with pytest.raises(ValueError, match=r"Cycles\(step_size=0.2, cycles=5\) needs the length of the run"):
        schedule(0)


def test_over_leaves_other_schedules_alone():
    def own(k):
        return 0.1

    for schedule in (constant(0.1), cyclic_cosine(0.2, 8), own):
        assert over(schedule, 100) is schedule
    assert over(cyclic_cosine(0.2, cycles=5), None) == cyclic_cosine(0.2, cycles=5)


@pytest.mark.parametrize("step_size", [0.0, -1.0, float("nan"), float("inf"), "small"])
@pytest.mark.parametrize(
    "make",
    [
        constant,
        polynomial,
        lambda h: exponential(h, 0.9),
        lambda h: cyclic_cosine(h, 5),
        lambda h: cyclic_cosine(h, cycles=5),
    ],
)
def test_step_size_must_be_positive(make, step_size):
    with pytest.raises(ValueError, match=f"step_size must be a positive finite number, got {step_size!r}"):
        make(step_size)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: polynomial(0.1, offset=0.0), "offset must be a positive finite number, got 0.0"),
        (lambda: polynomial(0.1, exponent=-1.0), "exponent must be a positive finite number, got -1.0"),
        (lambda: exponential(0.1, 1.1), r"rate must be a number in \(0, 1\], got 1.1"),
        (lambda: cyclic_cosine(0.1, 1), "cycle must be an integer >= 2, got 1"),
        (lambda: cyclic_cosine(0.1, cycles=0), "cycles must be an integer >= 1, got 0"),
        (lambda: cyclic_cosine(0.1, cycles=2.5), "cycles must be an integer >= 1, got 2.5"),
        (lambda: cyclic_cosine(0.1), "exactly one of cycle and cycles must be given, got cycle=None and cycles=None"),
        (lambda: cyclic_cosine(0.1, 5, cycles=5), "exactly one of cycle and cycles .* cycle=5 and cycles=5"),
    ],
)
def test_other_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
