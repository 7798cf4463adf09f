from __future__ import annotations

import math
import re

import launch
import margins
import numpy as np
import pytest


@pytest.mark.slow
def test_shifts_are_other_draws_and_their_margins_stand_in_a_table(tmp_path):
    command = ["--shifts", 2, "--folder", tmp_path, "tests/swaps/test_schemes.py", "tests/estimators/test_batches.py"]
    printed = launch.python(margins.ROOT / "tests" / "tools" / "margins.py", *command).stdout
    assert printed.startswith("shift 0: passed\nshift 1: passed\n")
    found, failures = margins.ratios(tmp_path)
    assert not failures
    for name, by_shift in found.items():
        assert sorted(by_shift) == [0, 1]
        assert by_shift[0] != by_shift[1], name
        assert [ratio > 1 for ratio in by_shift[0]] in ([False], [False, True])  # the wrong one after the right one
    assert any(len(by_shift[0]) == 2 for by_shift in found.values())
    assert all(line in printed for line in margins.table(found))
    # what one shift lacks is run; one shift twice is the same draws
    for report in tmp_path.glob("1-*.xml"):
        pattern = r"(?s)<testcase classname=.tests.estimators.test_batches.*?</testcase>"
        report.write_text(re.sub(pattern, "", report.read_text()))
    lacks = {name for name, by_shift in margins.ratios(tmp_path)[0].items() if 1 not in by_shift}
    assert lacks == {name for name in found if name.startswith("estimators.test_batches")}
    printed = launch.python(margins.ROOT / "tests" / "tools" / "margins.py", "--lacking", *command).stdout
    assert "shift 0" not in printed and printed.count("shift 1: passed") == 1
    assert margins.ratios(tmp_path)[0] == found


def test_verdicts_distinguish_right_from_wrong_distributions():
    by_shift = {0: [0.25, 4.0], 1: [0.5, math.e], 2: [0.75, math.e**2]}
    (right, least, sds), wrong = margins.verdicts(by_shift)
    assert (right, least, sds) == ("right", 1 / 0.75, 2.0)
    assert wrong[:2] == ("wrong", math.e)
    np.testing.assert_allclose(wrong[2], np.mean(np.log([4.0, math.e, math.e**2])) / np.std([np.log(4), 1, 2], ddof=1))
    rows = list(margins.table({"a::b[1]": by_shift, "a::b[2]": {0: [0.9]}}))
    assert len(rows) == 2 and rows[1].startswith("| a::b | 1 | 1.11 |")
