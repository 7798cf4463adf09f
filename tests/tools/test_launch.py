from __future__ import annotations

import time
from pathlib import Path

import launch
import pytest


@pytest.mark.mpi
def test_all_ranks_run_the_script_with_its_arguments():
    out = launch.mpi(
        """
        import sys
        from mpi4py import MPI
        print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, sys.argv[1:], __name__)
        """,
        2,
        "--draws",
        3,
    ).stdout
    assert sorted(out.splitlines()) == [f"{rank} 2 ['--draws', '3'] __main__" for rank in range(2)]


@pytest.mark.mpi
def test_a_rank_that_raises_fails_the_test_with_its_words():
    script = """
        from mpi4py import MPI
        if MPI.COMM_WORLD.rank == 1:
            raise RuntimeError("told by rank 1")
        MPI.COMM_WORLD.barrier()
        """
    with pytest.raises(AssertionError, match="told by rank 1"):
        launch.mpi(script, 2)
    assert launch.mpi(script, 2, check=False).returncode != 0


@pytest.mark.mpi
def test_ranks_that_hang_are_killed_even_if_they_ignore_the_launcher():
    script = """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("pid", os.getpid(), flush=True)
        time.sleep(100)
        """
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="killed after") as caught:
        launch.mpi(script, 2, timeout=3)
    assert time.monotonic() - began < 20
    pids = [int(line.split()[1]) for line in str(caught.value).splitlines() if line.startswith("pid")]
    assert len(pids) == 2
    assert all(ended(pid) for pid in pids)


@pytest.mark.mpi
def test_a_launcher_of_another_library_skips(monkeypatch, tmp_path):
    stranger = tmp_path / "mpiexec"  # starts n processes that do not know each other
    stranger.write_text('#!/bin/sh\nshift 2\n"$@"; exec "$@"\n')
    stranger.chmod(0o755)
    pytest.importorskip("mpi4py")
    monkeypatch.setattr(launch, "_mpiexec", lambda: stranger)
    launch.no_mpi.cache_clear()
    try:
        assert "does not belong to this mpi4py" in launch.no_mpi()
        with pytest.raises(pytest.skip.Exception, match="asked for 2 ranks"):
            launch.mpi("", 2)
    finally:
        launch.no_mpi.cache_clear()


def test_python_runs_code_and_files(tmp_path):
    assert launch.python("import sys\nprint(sys.argv[1])", "hello").stdout == "hello\n"
    file = tmp_path / "script.py"
    file.write_text("raise SystemExit(3)")
    assert launch.python(file, check=False).returncode == 3
    with pytest.raises(TimeoutError, match="killed after"):
        launch.python("import time; time.sleep(60)", timeout=0.5)


def ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
