"""Set-up that must come before any test module is imported, and what many tests share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("MPLBACKEND", "Agg")
# several test processes share few cores: nested threads would only slow each other down
os.environ.setdefault("OMP_NUM_THREADS", "1")

# h5py after dolfinx fails with "Not a datatype": the two bring different HDF5 libraries and the first one loaded wins
with contextlib.suppress(ImportError):
    import h5py  # noqa: F401

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import t as student

from invsamp.results.run import Run
from invsamp.sampler import sample

# the first call of a compiled function takes seconds on a busy machine; the same examples on every run
hypothesis.settings.register_profile("invsamp", deadline=None, derandomize=True)
hypothesis.settings.load_profile("invsamp")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", type=int, default=5_000, metavar="N", help="calls with wrong arguments that are tried")


@dataclass(frozen=True)
class Agreement:
    """Scores |mean - truth| / standard error, and the bound that they keep if the sampler is right."""

    scores: npt.NDArray[np.float64]
    bound: float

    def __bool__(self) -> bool:
        return bool((self.scores <= self.bound).all())


@pytest.fixture
def agrees() -> Callable[..., Agreement]:
    """Check that means over independent chains are what they should be.

    ``agrees(values, truth)``: ``values`` (chains,) or (chains, k), one statistic per chain and column, independent
    between chains, so their spread gives the standard error whatever the autocorrelation within a chain. A right
    sampler fails once in 100,000 calls: the bound is Student's quantile with chains - 1 degrees of freedom, divided
    over the k comparisons. ``truth_sd`` is the standard error of the truth, where that was learnt too.
    """

    def check(values: npt.ArrayLike, truth: npt.ArrayLike, truth_sd: npt.ArrayLike = 0.0) -> Agreement:
        values = np.asarray(values, dtype=float)
        values = values.reshape(len(values), -1)
        chains, k = values.shape
        assert chains >= 64
        error = np.sqrt(values.var(axis=0, ddof=1) / chains + np.ravel(truth_sd) ** 2)
        scores = np.abs(values.mean(axis=0) - np.ravel(truth)) / error
        return Agreement(scores, float(student.isf(1e-5 / (2 * k), chains - 1)))

    return check


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """`invsamp.sample` with 256 chains, without its bar and without the warnings that short test runs deserve."""
    # the diagnostics of many short chains would take longer than the runs
    monkeypatch.setattr(Run, "warnings", lambda self: [])

    def quiet(problem: object, sampler: object, **settings: object) -> Run:
        return sample(problem, sampler, **({"progress": False, "chains": 256, "seed": 1} | settings))

    return quiet
