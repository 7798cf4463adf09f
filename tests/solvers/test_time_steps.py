from __future__ import annotations

import pytest

from invsamp.solvers.time_steps import step_numbers


def test_times_are_found_among_the_steps():
    assert step_numbers(None, 8, 0.4) == (8,)
    assert step_numbers([0.0, 0.1, 0.35], 8, 0.4) == (0, 2, 7)
    # 0.1 * 3 is not 0.3: rounding must not count
    assert step_numbers([0.1 * 3], 4, 0.4) == (3,)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([], "times must have at least one entry"),
        ([0.2, 0.1], "increasing"),
        ([0.1, 0.1], "increasing"),
        ([0.12], "multiples"),
        ([0.45], "up to"),
    ],
)
def test_others_are_refused(times, words):
    with pytest.raises(ValueError, match=words):
        step_numbers(times, 8, 0.4)
