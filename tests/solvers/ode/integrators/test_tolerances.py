"""A sample of the random problems of benchmarks/ode_accuracy.py: errors stay within some tens of tolerances."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from invsamp.solvers.ode import Status

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "ode_accuracy.py"
#: Of one step's tolerance, at the end. Errors of the phase of an oscillation add up to some tens of it.
MOST = 200.0


@pytest.fixture(scope="module")
def accuracy():
    spec = importlib.util.spec_from_file_location("ode_accuracy", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ode_accuracy"] = module  # its named tuples look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["ode_accuracy"]


def errors(found, exact, rtol):
    """The largest, in tolerances at the largest value of each state: some states pass zero."""
    return float((np.abs(found.states - exact.states) / (1e-9 + rtol * np.abs(exact.states).max(axis=1))).max())


def test_a_sample_of_random_problems_stays_within_its_tolerances(accuracy):
    kinds = accuracy.problems(3, 11)
    found, loose = [], []
    for name in ("growth", "epidemic", "cascade", "neuron", "autocatalysis"):
        for problem in kinds[name]:
            exact = accuracy.solved(problem, "DOP853", 1e-13, 1e-24)
            for rtol in (1e-6, 1e-9):
                solution = accuracy.solved(problem, "auto", rtol, 1e-9)
                assert solution.status[0] == Status.OK
                found.append(errors(solution, exact, rtol))
                loose.append(errors(accuracy.solved(problem, "auto", 1e4 * rtol, 1e-5), exact, rtol))
    assert np.median(found) < 5.0 and max(found) < MOST
    # what is solved for a tolerance that is ten thousand times as large does not pass
    assert np.median(loose) > MOST
