"""`iv.calibrate` of the complete automatic choice, a short form of `benchmarks/automatic_calibration.py`.

Each replicate searches, chooses a form, a metric and a map, makes its pilot run, and jumps between modes. The bound is
on the least p-value of all quantities: a calibrated procedure falls below e^-11 at one of 20 seeds of all four
posteriors with probability .005. In the benchmark's runs of 20 replicates, at three seeds, the control had p-values of
e^-21 to e^-27; here it has e^-18.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from automatic_calibration import CASES, CONTROLS, SETTINGS

pytestmark = pytest.mark.slow
BOUND = 11.0


def scores(name, control, replicates):
    """Minus the logarithms of the p-values of all quantities."""
    with CONTROLS[control](), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = iv.calibrate(CASES[name](), replicates=replicates, seed=1, progress=False, **SETTINGS)
    assert not found.failed
    return -np.log(found.p_values)


@pytest.mark.parametrize(("name", "replicates"), [("funnel", 20), ("hierarchy", 10), ("banana", 10), ("two modes", 10)])
def test_ranks_are_uniform(name, replicates, within):
    assert within(scores(name, None, replicates), BOUND)


def test_a_map_with_a_wrong_determinant_is_rejected(within):
    assert not within(scores("funnel", "map", 20), BOUND)
