"""The progress bar: what it says, when, and to whom."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.driver import progress_bar
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target

STEPS = 40


def made(**settings):
    target = Target(FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 1))
    sampler = iv.samplers.parallel_tempering((1.0, 3.0), step_size=0.3, swap_fraction=0.5)
    with pytest.warns(UserWarning):  # too short a run
        return iv.sample(target, sampler, draws=30, warmup=10, chains=2, seed=1, **settings)


def looks(capsys):
    """What the bar said, look by look, the first one at nothing."""
    return [look for look in capsys.readouterr().err.split("\r") if "step" in look]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_file_gets_few_lines_and_a_terminal_many(terminal, capsys, monkeypatch):
    """By a clock that goes on by a second with every step."""
    seconds = count()
    monkeypatch.setattr(progress_bar, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    made()
    shown = looks(capsys)
    assert len(shown) >= STEPS if terminal else 3 <= len(shown) <= 5
    assert f"{STEPS}/{STEPS}" in shown[-1] and "solves" in shown[-1] and "swaps=" in shown[-1]


def test_a_slow_step_is_shown_at_once(capsys, monkeypatch):
    """However few they are."""
    monkeypatch.setattr(progress_bar, "LOGGED", 0.0)
    made()
    assert any(look.strip().startswith("2%") and f"1/{STEPS}" in look for look in looks(capsys))


@pytest.mark.parametrize("good", [0, 3])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("I/O operation on closed file.")])
def test_a_bar_that_cannot_be_shown_ends_no_run(error, good, monkeypatch):
    """As when its terminal is closed, or the disk of a log file is full."""
    written = []

    class Broken:
        encoding = "utf-8"

        def write(self, text):
            written.append(text)
            if len(written) > good:
                raise error

        def flush(self):
            self.write("")

        def isatty(self):
            return True

    monkeypatch.setattr(progress_bar, "LIVE", 0.0)
    monkeypatch.setattr("sys.stderr", Broken())
    target = Target(FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 1))
    with pytest.warns(UserWarning):
        run = iv.sample(target, iv.mala(0.1), draws=30, warmup=0, chains=2, seed=1)
    assert run.theta.shape == (2, 30, 1)
    assert good < len(written) < 20


def test_none_where_there_is_no_standard_error(monkeypatch):
    expected = made(progress=False).theta
    monkeypatch.setattr("sys.stderr", None)
    np.testing.assert_array_equal(made().theta, expected)


def test_none_where_none_is_wanted(capsys):
    made(progress=False)
    assert not looks(capsys)
