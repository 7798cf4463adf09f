"""Ctrl-C, SIGTERM and SIGHUP: a process gets them at a known step, writes a checkpoint, and says how to go on."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import threading
import time

import launch
import numpy as np
import pytest
from forks import forked, in_a_fork, status_of

import invsamp as iv
from invsamp.engine.driver.signals import Interrupts, leave
from invsamp.results.run import Run
from invsamp.resuming import resume

SETTINGS = {"draws": 300, "warmup": 600, "chains": 2, "seed": 3, "progress": False}
SAMPLER = iv.mala()


class Slow:
    """Half the squared norm; the process waits at one evaluation until it gets a signal, or for good.

    Files say that it is there, that the signal was sent, and that it was heard: the next one is the handler's before.
    """

    def __init__(self, folder=None, at=-1, patient=True):
        self.folder, self.at, self.patient, self.calls = folder, at, patient, 0
        self.handler = signal.getsignal(signal.SIGINT)

    def __repr__(self):
        return "Slow()"

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            (self.folder / "there").touch()
            while self.patient or not (self.folder / "signaled").exists():
                if signal.getsignal(signal.SIGINT) is self.handler:
                    (self.folder / "heard").touch()
                time.sleep(0.01)
        return 0.5 * (x**2).sum(axis=1), x


def posed(function):
    return iv.Target(iv.extending.FunctionPotential(function, 2))


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "warnings", lambda self: [])
        yield


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Evaluations of a run before its first step, and after its last one."""
    function, found = Slow(), {}
    real = Interrupts.__enter__

    def note(self):
        found["before"] = function.calls
        return real(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interrupts, "__enter__", note)
        iv.sample(posed(function), SAMPLER, **SETTINGS, directory=tmp_path_factory.mktemp("calls") / "run")
    return found["before"], function.calls


@pytest.fixture(scope="module")
def reference():
    return iv.sample(posed(Slow()), SAMPLER, **SETTINGS).theta


def signaled(folder, at, number, ignored=False):
    """The status of a run in ``folder / "run"`` that gets a signal at an evaluation, and goes on with it."""

    def work():
        if ignored:
            signal.signal(number, signal.SIG_IGN)
        iv.sample(posed(Slow(folder, at, patient=False)), SAMPLER, **SETTINGS, directory=folder / "run")

    with forked(work) as child:
        launch.wait_for((folder / "there").exists)
        os.kill(child, number)
        (folder / "signaled").touch()
        return status_of(child)


def test_the_steps_of_this_run_are_one_evaluation_each(calls):
    first, last = calls
    assert last - first >= SETTINGS["warmup"] + SETTINGS["draws"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("where", ["warm-up", "draw"])
def test_a_signal_ends_the_step_writes_a_checkpoint_and_says_how_to_resume(
    tmp_path, reference, calls, number, where, capfd
):
    folder = tmp_path / "run"
    status = signaled(tmp_path, calls[0] + 100 if where == "warm-up" else calls[1] - 100, number)
    last = capfd.readouterr().err.strip().splitlines()[-1]
    if number == signal.SIGINT:
        assert last.startswith("KeyboardInterrupt: ")
    else:
        assert status == 128 + number
    assert f"{number.name}: stopped in {where}" in last
    assert last.endswith(f"Continue it with invsamp.resume('{folder}')")
    assert "lock" not in os.listdir(folder)
    if where == "draw":
        # all that was made: the steps after the signal's would be about a hundred
        assert 195 <= iv.load(folder).report["draws"] <= 205
    np.testing.assert_array_equal(resume(folder, posed(Slow()), progress=False).theta, reference)


def test_a_signal_at_the_start_is_obeyed_after_it(tmp_path, reference, capfd):
    assert signaled(tmp_path, 1, signal.SIGTERM) == 143
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("SIGTERM: stopped in warm-up, step 1 of 600; ")
    assert "lock" not in os.listdir(tmp_path / "run")
    np.testing.assert_array_equal(resume(tmp_path / "run", posed(Slow()), progress=False).theta, reference)


def test_a_signal_in_the_last_step_is_obeyed_after_it(tmp_path, reference, calls, capfd):
    assert signaled(tmp_path, calls[1], signal.SIGTERM) == 143
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("SIGTERM: the run was complete; it is in ") and "invsamp.load(" in last
    np.testing.assert_array_equal(iv.load(tmp_path / "run").theta, reference)


def test_a_second_signal_leaves_a_step_that_hangs(tmp_path, reference, calls, capfd):
    def work():
        iv.sample(posed(Slow(tmp_path, calls[1] - 30)), SAMPLER, **SETTINGS, directory=tmp_path / "run", segment=50)

    with forked(work) as child:
        launch.wait_for((tmp_path / "there").exists)
        os.kill(child, signal.SIGINT)
        launch.wait_for((tmp_path / "heard").exists)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)  # the step is waited for
        os.kill(child, signal.SIGINT)
        assert status_of(child) == 1
    said = capfd.readouterr().err
    assert "SIGINT: finishing this step and writing a checkpoint; another signal stops at once" in said
    assert said.strip().splitlines()[-2] == "KeyboardInterrupt"
    assert (
        f"the run is in {tmp_path / 'run'} as of its last checkpoint, with 250 draws per chain. Continue it with"
        in said
    )
    found = iv.load(tmp_path / "run")
    assert found.report["draws"] == 250
    np.testing.assert_array_equal(found.theta, reference[:, :250])


def test_a_script_ends_with_the_status_of_its_signal(tmp_path):
    done = launch.python(
        f"""
        import os, signal
        import invsamp as iv
        calls = []
        def energy(x):
            calls.append(1)
            if len(calls) == 700:
                os.kill(os.getpid(), signal.SIGTERM)
            return 0.5 * (x**2).sum(axis=1), x
        target = iv.Target(iv.extending.FunctionPotential(energy, 2))
        iv.sample(target, iv.mala(), draws=1000, chains=2, seed=3, progress=False, directory={str(tmp_path / "run")!r})
        print("finished")
        """,
        check=False,
    )
    assert done.returncode == 143
    assert "finished" not in done.stdout
    assert done.stderr.strip().splitlines()[-1].startswith("SIGTERM: stopped in ")


def test_a_terminal_that_is_closed_costs_nothing(tmp_path, reference, calls):
    """By the real thing: the system sends SIGHUP, what is written to it fails, and the shell sends another one."""
    folder = tmp_path / "run"

    def work():
        function = Slow(tmp_path, calls[1] - 100, patient=False)
        iv.sample(posed(function), SAMPLER, **SETTINGS | {"progress": True}, directory=folder)

    child, terminal = pty.fork()
    if child == 0:
        status = 1
        try:
            work()
        except SystemExit as end:
            status = end.code
        finally:
            os._exit(status)
    try:
        launch.wait_for((tmp_path / "there").exists)
        os.close(terminal)
        os.kill(child, signal.SIGHUP)
        (tmp_path / "signaled").touch()
        assert status_of(child) == 129
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert 195 <= iv.load(folder).report["draws"] <= 205
    assert "lock" not in os.listdir(folder)
    np.testing.assert_array_equal(resume(folder, posed(Slow()), progress=False).theta, reference)


def test_under_nohup_a_run_continues(tmp_path, reference, calls):
    assert signaled(tmp_path, calls[1] - 100, signal.SIGHUP, ignored=True) == 0
    np.testing.assert_array_equal(iv.load(tmp_path / "run").theta, reference)


def test_hanging_up_twice_is_no_second_signal_and_does_not_use_up_the_first():
    before = {number: signal.signal(number, lambda *_: said.append(_[0])) for number in (1, 15)}
    said = []
    try:
        with Interrupts() as interrupts:
            for number in (1, 1, 15, 1):
                signal.raise_signal(number)
            assert interrupts.received == signal.SIGHUP
            assert said == []
            signal.raise_signal(signal.SIGTERM)
            assert said == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signals_are_put_back_and_the_first_one_is_kept():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        assert interrupts.received is None
        assert signal.getsignal(signal.SIGINT) is not before
        signal.raise_signal(signal.SIGINT)
        assert interrupts.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_hears_nothing_and_fails_at_nothing():
    found = []

    def work():
        with Interrupts() as interrupts:
            found.append(interrupts.received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]


def test_leaving_is_what_the_signal_would_have_done(capsys):
    with pytest.raises(KeyboardInterrupt, match="go on"):
        leave(signal.SIGINT, "go on")
    with pytest.raises(SystemExit) as caught:
        leave(signal.SIGTERM, "go on")
    assert caught.value.code == 143
    assert capsys.readouterr().err == "go on\n"
    with pytest.raises(SystemExit) as caught:
        leave(signal.SIGHUP, "")
    assert caught.value.code == 129


def test_a_fork_such_as_a_worker_of_a_pool_says_nothing(capfd):
    """The process that made it does, and a pool ends its workers by SIGTERM."""
    with Interrupts("finishing this step"):
        assert in_a_fork(lambda: signal.raise_signal(signal.SIGTERM)) == 0
        assert capfd.readouterr().err == ""
        signal.raise_signal(signal.SIGTERM)
    assert "SIGTERM: finishing this step" in capfd.readouterr().err
