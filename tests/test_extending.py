"""What docs/extending.md shows, as it stands there: the law, a ladder, a directory, a resume, and an evaluator."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from laws import CORRELATED, gaussian, second_moments, upper

import invsamp as iv

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The page's code as a user's module."""
    path = tmp_path_factory.mktemp("user") / "my_parts.py"
    path.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)))
    spec = importlib.util.spec_from_file_location("my_parts", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_parts"] = module  # pickled parts are found by it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["my_parts"]


TARGET = iv.Target(gaussian(np.linalg.inv(CORRELATED)))


@pytest.mark.parametrize("name", ["walk", "ladder"])
def test_the_kernel_has_its_law(script, draw, agrees, name):
    run = draw(TARGET, getattr(script, name), draws=500, thin=4, warmup=500)
    assert set(run.report["kernels"]) == {"rwm"}
    assert agrees(second_moments(run), upper(CORRELATED))


def test_a_kernel_that_never_refuses_is_rejected(script, draw, agrees, monkeypatch):
    monkeypatch.setattr(script, "decided", lambda accept, there, here: there)
    run = draw(TARGET, script.walk, draws=500, thin=4, warmup=500)
    assert not agrees(second_moments(run), upper(CORRELATED))


def precise(position):
    return 0.5 * (position**2).sum(axis=1), position


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_the_kernel_is_stored_and_resumed(script, tmp_path):
    target, settings = iv.Target(iv.FunctionPotential(precise, 2)), {"warmup": 200, "seed": 3, "progress": False}
    whole = iv.sample(target, script.ladder, draws=60, directory=tmp_path / "whole", **settings)
    iv.sample(target, script.ladder, draws=25, directory=tmp_path / "run", **settings)
    np.testing.assert_array_equal(iv.resume(tmp_path / "run", draws=60, progress=False).theta, whole.theta)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_evaluator_sees_all_rungs_at_a_time(script):
    own, settings = script.Counting(), {"draws": 20, "warmup": 200, "chains": 5, "seed": 3, "progress": False}
    run = iv.sample(TARGET, script.ladder, executor=own, **settings)
    np.testing.assert_array_equal(run.theta, iv.sample(TARGET, script.ladder, **settings).theta)
    # differences of gradients along both coordinates, of all chains of three rungs
    assert own.largest == 3 * 5 * 2


def test_parts_are_short():
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        assert len(code.splitlines()) <= 40
