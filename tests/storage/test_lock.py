from __future__ import annotations

import os
import signal
import socket
import time

import pytest
from forks import forked, status_of

from invsamp.storage.lock import DirectoryInUseError, Lock, check_unlocked


def test_the_second_process_is_refused_with_the_number_of_the_first(tmp_path):
    def hold():
        with Lock(tmp_path):
            (tmp_path / "held").touch()
            time.sleep(100)

    with forked(hold) as holder:
        while not (tmp_path / "held").exists():
            time.sleep(0.01)
        (tmp_path / "held").unlink()
        with pytest.raises(DirectoryInUseError, match=f"is in use by process {holder} on host {socket.gethostname()}"):
            Lock(tmp_path)
        os.kill(holder, signal.SIGKILL)  # it cannot clean up
        status_of(holder)
    assert os.listdir(tmp_path) == ["lock"]
    with Lock(tmp_path):  # which locks nothing any more
        assert os.listdir(tmp_path) == ["lock"]
    assert os.listdir(tmp_path) == []


def test_a_lock_is_for_one_holder_within_a_process_too(tmp_path):
    with Lock(tmp_path), pytest.raises(DirectoryInUseError, match=f"process {os.getpid()}"):
        Lock(tmp_path)
    with Lock(tmp_path) as lock:
        lock.release()
        lock.release()
        with Lock(tmp_path):
            pass


def test_a_lock_whose_file_was_removed_between_opening_and_locking_is_taken_anew(tmp_path, monkeypatch):
    calls = []
    real = Lock._lock

    def race(self, descriptor):
        real(self, descriptor)
        calls.append(descriptor)
        if len(calls) == 1:  # its last holder removes the name now
            (tmp_path / "lock").unlink()

    monkeypatch.setattr(Lock, "_lock", race)
    with Lock(tmp_path):
        assert len(calls) == 2
        with pytest.raises(DirectoryInUseError):
            Lock(tmp_path)


def test_a_fork_does_not_hold_the_lock_of_its_parent(tmp_path):
    """A pool of a model's own may live on after the process that made the run was killed."""

    def hold():
        with Lock(tmp_path) as lock:
            if os.fork() == 0:
                lock.release()  # as at the end of a fork that returns from the run: not its business
                assert os.listdir(tmp_path) == ["lock"]
                (tmp_path.parent / "forked").write_text(str(os.getpid()))
                time.sleep(100)
            time.sleep(100)

    with forked(hold) as holder:
        while not (tmp_path.parent / "forked").exists() or not (tmp_path.parent / "forked").read_text():
            time.sleep(0.01)
        orphan = int((tmp_path.parent / "forked").read_text())
        try:
            with pytest.raises(DirectoryInUseError, match=f"by process {holder} "):
                Lock(tmp_path)
            os.kill(holder, signal.SIGKILL)
            status_of(holder)
            os.kill(orphan, 0)  # it is there
            with Lock(tmp_path):
                pass
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_whether_a_directory_is_locked_can_be_asked_without_a_trace(tmp_path):
    check_unlocked(tmp_path)
    check_unlocked(tmp_path / "no")
    assert os.listdir(tmp_path) == []
    with Lock(tmp_path), pytest.raises(DirectoryInUseError, match=f"is in use by process {os.getpid()} "):
        check_unlocked(tmp_path)
    (tmp_path / "lock").write_text("left over")
    check_unlocked(tmp_path)


def test_a_file_system_without_locks_is_warned_about(tmp_path, monkeypatch):
    import errno
    import fcntl

    def cannot(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", cannot)
    with pytest.warns(UserWarning, match="cannot lock files"), Lock(tmp_path):
        pass


def test_a_directory_that_cannot_be_written(tmp_path, monkeypatch):
    real = os.open

    def fail(path, *rest):
        if str(path).endswith("lock"):
            raise OSError(30, "Read-only file system")
        return real(path, *rest)

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match="lock: the file system is read-only"):
        Lock(tmp_path)
