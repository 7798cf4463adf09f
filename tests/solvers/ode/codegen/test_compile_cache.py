"""The folder of generated source: written once, found by the next process, which compiles nothing."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from forks import in_a_fork
from numba import njit
from numba.core.errors import NumbaError

from invsamp import code_cache
from invsamp.solvers.ode.codegen import compile_cache

PROGRAM = """
import sys
import numpy as np
from numba.core import event
from invsamp.solvers.ode.model.ode_model import OdeModel

table = np.linspace(0.0, 1.0, 7)

def traced(t, x, p):
    return -p[0] * x[0] + np.sin(t),

def branching(t, x, p):
    return table[3] - p[0] * x[0] if x[0] > 0.1 else 1.0,

with event.install_recorder("numba:run_pass") as passes:
    model = OdeModel(traced, ["x"], ["k"])
    print(model.solve_with_sensitivities([[0.5]], [1.0], [0.0, 1.0]))
    model = OdeModel(branching, ["x"], ["k"], stop=lambda t, x, p: x[0] - 5.0)
    print(model.solve([[0.5]], [1.0], [0.0, 1.0]))
mine = [entry for _, entry in passes.buffer if "solvers" not in entry.data["qualname"]]
print("passes", len(mine), "sympy" in sys.modules, file=sys.stderr)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "cache"


def run(environment, folder):
    environment = {**os.environ, **environment}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    _, passes, sympy = result.stderr.split()
    return result.stdout, int(passes), sympy == "True"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME is Linux's")
def test_a_second_process_compiles_nothing(cache, tmp_path):
    first, passes, sympy = run({}, tmp_path)
    assert passes > 0 and not sympy  # right-hand sides are traced without it
    sources = sorted((cache / "invsamp").glob("*.py"))
    written = [path.stat().st_mtime_ns for path in sources]
    assert {path.name.rsplit("_", 1)[0] for path in sources} >= {"states_traced", "states_direct", "stop_direct"}
    second, passes, sympy = run({}, tmp_path)
    assert second == first
    assert passes == 0 and not sympy
    assert [path.stat().st_mtime_ns for path in sources] == written


def test_a_file_is_written_once_and_whole(cache):
    text = "x = 1\n" * 1000
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: compile_cache.store("once.py", text), range(64)))
    (path,) = paths
    assert path.read_text() == text
    assert [entry.name for entry in path.parent.iterdir()] == ["once.py"]
    assert compile_cache.store("once.py", "other") == path and path.read_text() == text


def test_the_folder_follows_the_environment(cache, tmp_path, monkeypatch):
    assert compile_cache.folder() == cache / "invsamp"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert compile_cache.folder() == tmp_path / "numba" / "invsamp"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "relative")
    found = compile_cache.folder()
    monkeypatch.chdir("/")
    assert found == compile_cache.folder() == tmp_path / "relative" / "invsamp"


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for cached in (compile_cache._folder, code_cache.temporary_folder):
        cached.cache_clear()
    yield tmp_path / "temporary"
    for cached in (compile_cache._folder, code_cache.temporary_folder):
        cached.cache_clear()


def test_without_a_writable_home_a_temporary_folder_serves(cache, tmp_path, monkeypatch, temporary):
    blocked = tmp_path / "file"
    blocked.write_text("a folder cannot be made below this")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.warns(UserWarning, match=r"compiled code is stored in .*: there is no other folder"):
        assert compile_cache.folder().parent == temporary


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
@pytest.mark.parametrize("how", ["others may write", "another's", "a link"])
def test_code_of_others_is_not_run(cache, tmp_path, monkeypatch, temporary, variable, how):
    """A writable folder of another user was used if NUMBA_CACHE_DIR named it."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "shared"))
    theirs = tmp_path / "shared" / ("invsamp" if variable != "HOME" else ".cache/invsamp")
    theirs.mkdir(parents=True)
    source = "def evaluate(t, y, p, out):\n    out[0] = 1.0\n"
    planted = theirs / compile_cache._filename("name", "a" * 64)
    planted.write_text(source.replace("1.0", "666.0"))
    if how == "others may write":
        theirs.chmod(0o777)
    elif how == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(theirs, 12345, -1)
    else:
        theirs.rename(tmp_path / "elsewhere")
        theirs.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="there is no other folder that this user, and no one else, can write to"):
        assert compile_cache.folder().parent == temporary
    assert "666" not in compile_cache.store(planted.name, source).read_text()


def test_the_next_folder_is_taken(cache, tmp_path, monkeypatch, temporary):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    (tmp_path / "shared" / "invsamp").mkdir(parents=True)
    (tmp_path / "shared" / "invsamp").chmod(0o777)
    assert compile_cache.folder() == cache / "invsamp"
    assert os.stat(cache / "invsamp").st_mode & 0o077 == 0


def test_source_that_does_not_compile_leaves_no_file(cache):
    with pytest.raises(NumbaError):
        compile_cache.compiled("def evaluate(t, y, p, out):\n    out[0] = undefined\n", "broken", key="a" * 64)
    assert not list(compile_cache.folder().glob("broken*"))


def test_compiled_functions_read_and_write_through_pointers(cache):
    from invsamp.solvers.ode.integrators.restarted_trajectory import evaluate

    source = "def evaluate(t, y, p, out):\n    out[0] = t + y[1] * p[0]\n    out[1] = 1 / y[0]\n"
    for key in (None, compile_cache.digest(source)):
        function = compile_cache.compiled(source, "product", key=key)
        out = np.zeros((1, 2))
        finite = evaluate(
            function.address, 0.5, -np.inf, np.inf, np.array([0.0, 3.0]), np.array([2.0]), np.zeros(2), out
        )
        np.testing.assert_array_equal(out, [[6.5, np.inf]])
        assert not finite
    assert [path.suffix for path in Path(compile_cache.folder()).glob("product*")] == [".py"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_stored_code_of_two_processes_is_distinguished(cache):
    """Both have functions of the same names, too large to be inlined: the second one's was lost."""
    factors = (0.5, 0.25)
    for factor in factors:
        assert in_a_fork(partial(compile_large, factor)) == 0
    for factor in factors:
        y, out = np.ones(1), np.zeros(1)
        stored = compile_large(factor).function.ctypes
        stored(0.0, *(array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in (y, y, out)))
        expected = 0.0
        for _ in range(50):
            expected = factor * math.sin(expected) + 1.0
        np.testing.assert_allclose(out[0], expected, rtol=1e-12)


def compile_large(factor):
    steps = "    s = FACTOR * math.sin(s) + y[0]\n" * 50
    source = (
        f"@njit\ndef body(s, y, out):\n{steps}    out[0] = s\n\n\ndef evaluate(t, y, p, out):\n    body(t, y, out)\n"
    )
    scope = {"njit": njit, "math": math, "FACTOR": factor}
    return compile_cache.compiled(source, "large", key=compile_cache.digest(source, str(factor)), scope=scope)


def test_code_that_cannot_be_loaded_is_compiled_again(cache, monkeypatch):
    source = "def evaluate(t, y, p, out):\n    out[0] = 2.0 * y[0]\n"
    compile_cache.compiled(source, "twice", key="a")
    compiled, asked = compile_cache._compiled, []

    def broken(*arguments, cache):
        asked.append(cache)
        if cache:
            raise AttributeError("'NoneType' object has no attribute 'startswith'")
        return compiled(*arguments, cache=cache)

    monkeypatch.setattr(compile_cache, "_compiled", broken)
    assert compile_cache.compiled(source, "twice", key="a").address
    assert asked == [True, False]
    assert not (compile_cache.folder() / compile_cache._filename("twice", "a")).exists()
    # what never compiled is not tried twice
    with pytest.raises(AttributeError, match="startswith"):
        compile_cache.compiled(source, "twice", key="b")
    assert asked == [True, False, True]


EXECUTED = """
from invsamp.solvers.ode.model.ode_model import OdeModel
scope = {}
exec("def rhs(t, x, p):\\n    return (-p[0] * x[0] if t < 1 else step(x[0]),)", scope)
exec("def step(x):\\n    return -x if x > 0 else x", scope)
print(OdeModel(scope["rhs"], ["x"], ["k"]).derivatives)
"""


@pytest.mark.slow
def test_functions_made_by_exec_are_found_by_the_next_process(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    for _ in range(2):
        command = [sys.executable, "-c", EXECUTED]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "complex step\n"), done.stderr
        files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "numba" / "invsamp").rglob("*.py")}
        assert len(files) == 2
