"""Draws do not depend on how many threads linear algebra may use."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import invsamp as iv
from invsamp import sampling
from invsamp.engine.driver.blas_threads import one_thread

#: 150 parameters: the decompositions of warm-up are large enough for BLAS to share them between threads. The energy is
#: computed without BLAS, so that what could differ is the sampler's own.
FACTOR = np.random.default_rng(0).standard_normal((150, 150)) / 10.0


def gaussian(position):
    pull = np.einsum("cd,de->ce", np.einsum("cd,ed->ce", position, FACTOR), FACTOR) + position
    return 0.5 * (pull * position).sum(axis=1), pull


def draws(draw, threads):
    target = iv.Target(iv.extending.FunctionPotential(gaussian, 150))
    with threadpool_limits(threads, user_api="blas"):
        return draw(target, iv.mala(), draws=5, warmup=100, chains=8).theta


def test_draws_do_not_depend_on_threads(draw, monkeypatch):
    one = draws(draw, 1)
    np.testing.assert_array_equal(draws(draw, 2), one)
    monkeypatch.setattr(sampling, "one_thread", contextlib.nullcontext)
    if (os.cpu_count() or 1) > 1 and np.array_equal(draws(draw, 2), one):
        pytest.skip("this BLAS gives the same digits by any number of threads, limited or not")


def test_limit_holds_within_and_ends_after():
    def counts():
        return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]

    np.ones((2, 2)) @ np.ones((2, 2))
    if not counts():
        pytest.skip("threadpoolctl knows of no BLAS here whose threads it could limit")
    with threadpool_limits(2, user_api="blas"):
        before = counts()
        with one_thread():
            assert set(counts()) == {1}
        assert counts() == before
