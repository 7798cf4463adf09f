"""Signals during an emulation: it ends at once, keeps what was finished, and says how to go on."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv
from invsamp.emulation.runs.stop import stopped

FINISHED = 10


def posed(number: int | None) -> iv.Posterior:
    """A posterior whose simulator gets a signal after ten simulations."""
    rows: list[int] = []

    def model(theta: np.ndarray) -> np.ndarray:
        if sum(rows) >= FINISHED and number is not None:
            signal.raise_signal(number)
        rows.append(len(theta))
        return theta @ np.array([[1.0, 0.5, 0.2], [0.2, 1.0, -1.0]])

    return iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=2)), model, [1.0, 1.0, 0.0], iv.GaussianNoise(0.1))


def test_a_request_to_end_keeps_what_was_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        iv.emulate(posed(signal.SIGTERM), 40, seed=1, directory=tmp_path, progress=False)
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    last, folder = capsys.readouterr().err.strip().splitlines()[-1], tmp_path / "simulations"
    assert last == f"stopped: {FINISHED} finished simulations are in {folder}. The same call resumes from there"
    assert len(iv.simulations.SimulationDatabase.open(folder)) == FINISHED


def test_control_c_is_the_one_exception_that_is_seen(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="The same call resumes") as caught:
        iv.emulate(posed(signal.SIGINT), 40, seed=1, directory=tmp_path, progress=False)
    assert caught.value.__suppress_context__


def test_without_a_folder_it_says_that_nothing_is_kept() -> None:
    with pytest.raises(KeyboardInterrupt, match=r"nothing is kept\. With directory="):
        iv.emulate(posed(signal.SIGINT), 40, seed=1, progress=False)


def test_handlers_of_the_users_own_stay() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with stopped(lambda: ""):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_thread_leaves_signals_alone() -> None:
    found: list[object] = []

    def enter() -> None:
        with stopped(lambda: ""):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
