from __future__ import annotations

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
            raise RuntimeError("raised by rank 1")
        MPI.COMM_WORLD.barrier()
        """
    with pytest.raises(AssertionError, match="raised by rank 1"):
        launch.mpi(script, 2)
    assert launch.mpi(script, 2, check=False).returncode != 0


@pytest.mark.mpi
def test_ranks_that_hang_are_killed_even_if_they_ignore_the_launcher(tmp_path):
    if (reason := launch.no_mpi()) is not None:
        pytest.skip(reason)
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(1000)\n"
    )
    process = launch.start(launch.mpi_command(script, 2))
    pids = [int(process.stdout.readline()) for _ in range(2)]
    assert all(launch.alive(pid) for pid in pids)
    launch.stop(process)
    assert not any(launch.alive(pid) for pid in pids)


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
        launch.python("import time; time.sleep(1000)", timeout=0.5)
