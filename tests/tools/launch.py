"""Scripts in processes of their own, alone or on several ranks, that cannot hang a test.

>>> launch.mpi("from mpi4py import MPI; print(MPI.COMM_WORLD.rank)", 2).stdout
>>> launch.python("import sys; print(sys.argv[1])", "hello").stdout
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

# variables of a launcher for its ranks: a test process that has started MPI would pass them to the next launcher
LAUNCHER_PREFIXES = ("OMPI_COMM_", "OMPI_UNIVERSE_", "PMIX_", "PMI_", "MPI_LOCAL", "HYDRA_")
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # the same, from Open MPI 5 on
    # ranks that wait would otherwise keep the cores from those that work
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
# From version 6.18 on, Linux makes a process pay for each time it yields: a rank that has waited gets hardly any time
# beside other work. A rank that sleeps instead pays nothing.
SLEEP_TO_YIELD = """
#include <time.h>
int sched_yield(void) { return nanosleep(&(struct timespec){0, 20000}, 0); }
"""


def mpi(
    script: str | Path, n: int, *args: object, timeout: float = 900, check: bool = True, through: str | None = "mpi4py"
) -> subprocess.CompletedProcess[str]:
    """Run a script on n ranks.

    Parameters
    ----------
    script : Path, or str
        A file (a `Path`, or one line that ends in ``.py``), or source code, which is dedented.
    n : int
        Number of ranks; asserted in each of them before the script begins.
    *args
        Strings that the script finds in ``sys.argv[1:]``.
    timeout : float
        Seconds after which all ranks are killed and `TimeoutError` is raised, with what they wrote. Only for what would
        never end: a slow machine with others at work on it needs a minute to import everything on several ranks.
    check : bool
        Whether a non-zero exit status raises `AssertionError` with what the ranks wrote.
    through : str or None
        Module that runs the script on the ranks: by ``mpi4py`` a rank that raises ends the others, by
        ``mpi4py.futures`` all but the first are workers.

    Notes
    -----
    Skips the test where mpi4py is not installed, or no mpiexec starts ranks that know each other.
    """
    if (reason := no_mpi()) is not None:
        import pytest

        pytest.skip(reason)
    with _ScriptFile(script) as path:
        return _finish(mpi_command(path, n, *args, through=through), timeout, check)


def python(
    script: str | Path, *args: object, timeout: float = 900, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a script, as in `mpi`, in one process of its own, without a launcher."""
    with _ScriptFile(script) as path:
        return _finish([sys.executable, "-u", str(path), *map(str, args)], timeout, check)


def mpi_command(path: Path, n: int, *args: object, through: str | None = "mpi4py") -> list[str]:
    """What `mpi` runs, for a test that starts it by `start` and talks to it."""
    module = ["-m", through] if through else []
    return [str(_mpiexec()), "-n", str(n), sys.executable, *module, __file__, str(n), str(path), *map(str, args)]


def start(command: list[str]) -> subprocess.Popen[str]:
    """Start a command in a session of its own, with the environment that launchers need; end it by `stop`."""
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )


def stop(process: subprocess.Popen[str]) -> None:
    """Kill a process that `start` made, with every process in its session."""
    process.terminate()  # a launcher takes its ranks with it
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
    while members := _session(process.pid):  # a process may take a moment to end, or start another one first
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(0.01)
    process.wait()


def alive(pid: int) -> bool:
    """Whether a process has not ended yet."""
    return _status(pid) is not None


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for what comes soon, or never: a slow machine alone must fail no test."""
    deadline = time.monotonic() + 300.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def environment() -> dict[str, str]:
    """This process's environment for a new launcher: single threads, Open MPI as root and on few cores."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    kept.pop("PYTHONUNBUFFERED", None)  # lines of several ranks would come in pieces
    if (library := _sleep_to_yield()) is not None:
        kept["LD_PRELOAD"] = ":".join(filter(None, (library, kept.get("LD_PRELOAD"))))
    return kept | OPEN_MPI | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@functools.cache
def _sleep_to_yield() -> str | None:
    """A library of `SLEEP_TO_YIELD` for LD_PRELOAD, removed at the end; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = f"{folder}/sleep_to_yield.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    compiled = subprocess.run(command, input=SLEEP_TO_YIELD, text=True, capture_output=True)
    return library if compiled.returncode == 0 else None


@functools.cache
def no_mpi() -> str | None:
    """Why no script can run on several ranks here; None if it can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    if _mpiexec() is None:
        return "no mpiexec found"
    with _ScriptFile("from mpi4py import MPI") as path:
        try:
            found = _finish(mpi_command(path, 2), 120, check=False)
        except TimeoutError:
            return f"{_mpiexec()} does not start two ranks of this mpi4py within two minutes"
    if found.returncode == 0:
        return None
    words = next((line for line in found.stderr.splitlines() if line.startswith("RuntimeError")), found.stderr[-300:])
    return f"{_mpiexec()} does not belong to this mpi4py: {words}"


def _mpiexec() -> Path | None:
    # an MPI library from PyPI brings its own launcher, beside the interpreter
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    return None if found is None else Path(found)


def _finish(command: list[str], timeout: float, check: bool) -> subprocess.CompletedProcess[str]:
    process, began = start(command), time.monotonic()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        out, err = process.communicate()
        took = time.monotonic() - began
        raise TimeoutError(f"killed after {took:.0f} s: {command}\n{out}\n{err}") from None
    finally:
        stop(process)  # also what the script left behind, and after Ctrl-C
    if check and process.returncode != 0:
        raise AssertionError(f"exit status {process.returncode}: {command}\n{out}\n{err}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _session(coordinator: int) -> list[int]:
    """Processes in a session; Open MPI puts each rank into a process group of its own, but not into a session."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if (status := _status(pid)) is not None and int(status[3]) == coordinator]


def _status(pid: int) -> list[str] | None:
    """What the kernel knows about a process: its state, parent, group, session and so on; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


class _ScriptFile:
    """A script as a file: a path as it is, code in a temporary file, so that tracebacks and spawn find it."""

    def __init__(self, script: str | Path) -> None:
        self._script = script
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Path:
        if isinstance(self._script, Path) or ("\n" not in self._script and self._script.endswith(".py")):
            return Path(self._script)
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "script.py"
        path.write_text(textwrap.dedent(self._script))
        return path

    def __exit__(self, *exception: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _rank() -> None:
    """What each rank runs: assert the size, then the script as ``__main__``."""
    from mpi4py import MPI

    wanted, script = int(sys.argv[1]), sys.argv[2]
    size = MPI.COMM_WORLD.size
    if size != wanted:
        raise RuntimeError(f"asked for {wanted} ranks, but this rank sees {size}")
    sys.argv[:] = sys.argv[2:]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    _rank()
