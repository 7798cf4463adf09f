"""Where machine code is stored: in processes with few writable folders, or with another user's code."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from numba import njit
from numba.core import event

import invsamp
from invsamp import code_cache

#: numba as in a process that can write to the temporary files alone.
READ_ONLY = """
    import errno, os, sys, warnings
    from numba.core import caching
    real = caching._CacheLocator.ensure_cache_path
    def ensure(self):
        if not self.get_cache_path().startswith(os.environ["TMPDIR"]):
            raise OSError(errno.EROFS, "read-only")
        real(self)
    caching._CacheLocator.ensure_cache_path = ensure
"""
WORK = """
    import numba, tempfile
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import invsamp as iv
        import invsamp.solvers.ode
        from invsamp.solvers.ode.codegen import compile_cache as generated
        folder = generated.folder()
    print(numba.config.CACHE_DIR or "none")
    print(folder)
    print(*[w.message for w in caught if "code" in str(w.message)], sep="\\n")
"""


COMPILE = """
    import numpy as np
    from invsamp.kernels import proposals
    proposals._arrived(*np.ones((3, 1, 1)), 0.1, 0.1, np.empty((1, 1)))
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Temporary files, and nothing else that can be written to."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", "/dev/null/x")
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "tmp"


def lines(code, *command):
    done = subprocess.run([*command, sys.executable, "-P", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_where_nothing_else_can_be_written_it_is_a_private_temporary_folder(home):
    """`import invsamp` failed: numba found no place."""
    found, folder, *said = lines(READ_ONLY + WORK + COMPILE)
    own = home / f"invsamp-{os.getuid()}"
    assert found == str(own / "numba") and folder == str(own / "numba" / "invsamp")
    assert own.stat().st_mode & 0o777 == 0o700
    assert len(said) == 1 and f"compiled code is stored in {own}: there is no other folder" in said[0]
    assert list((own / "numba").glob("*/*.nbi"))
    # the next process finds it
    assert lines(READ_ONLY + WORK)[0] == found


@pytest.mark.parametrize("how", ["others may write", "another's", "a link"])
def test_a_temporary_folder_of_another_user_is_not_used(home, monkeypatch, how):
    own = home / f"invsamp-{os.getuid()}"
    own.mkdir()
    if how == "others may write":
        own.chmod(0o777)
    elif how == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(own, 12345, -1)
    else:
        own.rename(home / "elsewhere")
        own.symlink_to(home / "elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    code_cache.temporary_folder.cache_clear()
    with pytest.warns(UserWarning, match="compiled code is stored in"):
        found = code_cache.temporary_folder()
    code_cache.temporary_folder.cache_clear()
    assert found.parent == home and found != own
    assert found.stat().st_mode & 0o777 == 0o700
    assert not list(own.iterdir())


def test_a_numba_cache_dir_of_another_user_is_not_used(home, tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(theirs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found, folder, *said = lines("    import os, warnings\n" + WORK)
    assert found == "none"  # beside the sources, or in the user's folder for caches
    assert folder == str(tmp_path / "cache" / "invsamp")
    assert len(said) == 1 and f"NUMBA_CACHE_DIR={theirs} is not used" in said[0]
    assert not list(theirs.iterdir())


@pytest.mark.slow  # four processes
@pytest.mark.parametrize("theirs", ["", "invsamp_*"])
def test_a_cache_folder_of_another_user_is_not_used(home, tmp_path, monkeypatch, theirs):
    """Where the sources cannot be written to, numba stores in the user's folder for caches."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    elsewhere = READ_ONLY.replace('os.environ["TMPDIR"]', f'(os.environ["TMPDIR"], {str(cache)!r})')
    assert lines(elsewhere + WORK)[0] == "none"  # by itself it is right
    (taken,) = (cache / "numba").glob(theirs) if theirs else [cache / "numba"]
    taken.chmod(0o777)
    before = sorted(cache.rglob("*"))
    found, _, *said = lines(elsewhere + WORK + COMPILE)
    assert found == str(home / f"invsamp-{os.getuid()}" / "numba")
    assert len(said) == 1 and "compiled code is stored in" in said[0]
    assert sorted(cache.rglob("*")) == before


def test_an_own_numba_cache_dir_is_used_and_nothing_is_said(home, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "own"))
    assert lines("    import os, warnings\n" + WORK) == [str(tmp_path / "own"), str(tmp_path / "own" / "invsamp"), ""]


@pytest.mark.slow
def test_for_real_on_a_file_system_that_is_read_only(home, tmp_path):
    """The package, and HOME, where not even root can write."""
    alone = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"']
    copy = tmp_path / "copy"
    shutil.copytree(Path(invsamp.__file__).parent, copy / "invsamp", ignore=shutil.ignore_patterns("__pycache__"))
    command = [*alone, str(copy), "env", f"PYTHONPATH={copy}", f"HOME={copy}"]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    found, _, *said = lines("    import os, warnings\n" + WORK + COMPILE, *command)
    assert found == str(home / f"invsamp-{os.getuid()}" / "numba")
    assert "compiled code is stored in" in said[0]


class Watch(event.Listener):
    """Whether the garbage collector is on at the beginning of what is compiled, and after it."""

    def __init__(self):
        self.seen = []

    def on_start(self, event):
        self.seen.append(gc.isenabled())

    def on_end(self, event):
        pass


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_pauses_while_something_is_compiled_and_is_left_as_it_was(on):
    inner = njit(lambda x: x + 1.0)
    outer = njit(lambda x: inner(x))
    watch = Watch()
    event.register("numba:compile", watch)
    try:
        gc.enable() if on else gc.disable()
        outer(1.0)
        after = gc.isenabled()
        with code_cache.without_collector(), code_cache.without_collector():
            assert not gc.isenabled()
        assert gc.isenabled() == on
    finally:
        gc.enable()
        event.unregister("numba:compile", watch)
    assert watch.seen == [False, False] and after == on


def test_the_collector_goes_on_after_what_does_not_compile():
    refused = njit(lambda x: x.no_such_attribute)
    with pytest.raises(Exception, match="no_such_attribute"):
        refused(1.0)
    assert gc.isenabled()
