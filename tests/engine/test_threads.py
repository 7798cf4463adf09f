"""Draws do not depend on how many threads linear algebra may use."""

from __future__ import annotations

import os

import launch
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from invsamp.engine.threads import one_thread

#: 150 parameters: the decompositions of warm-up are large enough for BLAS to share them between threads. The energy is
#: computed without BLAS, so that what could differ is the sampler's own.
SCRIPT = """
import contextlib, hashlib, os, sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[2]  # before BLAS is loaded
import numpy as np
import invsamp as iv
from invsamp import sampler
from invsamp.results.run import Run

if sys.argv[1] == "unlimited":
    sampler.one_thread = contextlib.nullcontext
Run.warnings = lambda self: []
factor = np.random.default_rng(0).standard_normal((150, 150)) / 10.0

def gaussian(position):
    pull = np.einsum("cd,de->ce", np.einsum("cd,ed->ce", position, factor), factor) + position
    return 0.5 * (pull * position).sum(axis=1), pull

target = iv.Target(iv.FunctionPotential(gaussian, 150))
run = iv.sample(target, iv.mala(), draws=5, warmup=100, chains=8, seed=1, progress=False)
print(hashlib.sha256(run.theta.tobytes()).hexdigest())
"""


def draws(threads, *, limit):
    return launch.python(SCRIPT, "limited" if limit else "unlimited", threads).stdout


@pytest.mark.slow
def test_draws_do_not_depend_on_threads():
    one = draws(1, limit=True)
    assert draws(2, limit=True) == one
    if (os.cpu_count() or 1) > 1 and draws(2, limit=False) == one:
        pytest.skip("this BLAS gives the same digits by any number of threads, limited or not")


def test_limit_holds_within_and_ends_after():
    def counts():
        return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        before = counts()
        with one_thread():
            assert set(counts()) == {1}
        assert counts() == before
