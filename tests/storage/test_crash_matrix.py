"""Every fault of a disk, a process or a file, injected: what becomes of the run.

A run is killed (SIGKILL, in a forked process) at every ninth of its file operations, slowly at each, and resumed. Its
draws are those of an uninterrupted run, bit for bit, and no file is left over.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import itertools
import os
import re
import shutil
import signal
import stat

import numpy as np
import pytest
from forks import in_a_fork
from stopping import stopping

import invsamp as iv
from invsamp.engine.driver import checkpoint_loop
from invsamp.results.run import Run
from invsamp.resuming import resume
from invsamp.storage import files
from invsamp.storage.lock import DirectoryInUseError
from invsamp.storage.state import read_state

pytestmark = pytest.mark.filterwarnings("ignore:(R-hat|ess_|no replica|rungs)")
SETTINGS = {"draws": 12, "warmup": 10, "chains": 2, "seed": 5, "progress": False}


def square(theta):
    return theta**2


def slope(theta):
    return 2.0 * theta[:, :, None] * np.eye(theta.shape[1])


def shifted(theta):
    return theta**2 + 0.1


def posed(fine=square):
    prior = iv.Prior(a=iv.Normal(0, 1), k=iv.LogNormal(0, 1, shape=2))
    forward = {"coarse": iv.with_jacobian(shifted, slope), "fine": iv.with_jacobian(fine, slope)}
    return iv.Posterior(prior, forward, [1.0, 2.0, 0.5], iv.GaussianNoise(0.5))


SAMPLER = iv.samplers.fast_resgld(temperatures=(1.0, 3.0), step_size=0.01, preconditioner=None)


def sampled(folder, **changed):
    return iv.sample(posed(), SAMPLER, **(SETTINGS | changed), directory=folder)


def draws_of(run):
    names = {"posterior": ("a", "k"), "sample_stats": ("energy", "replica")}
    names |= {"hot": names["posterior"], "hot_stats": names["sample_stats"]}
    # without `data`, which would take a hundred times longer than such a run
    return {(group, name): run._source.read(group, name) for group in names for name in names[group]}


def assert_same(run, reference):
    found = draws_of(run)
    assert found.keys() == reference.keys()
    for key, values in reference.items():
        np.testing.assert_array_equal(found[key], values, err_msg=str(key))


class Clock:
    """By which checkpoints are planned: a run writes as often on a machine with other work as on another."""

    now = 0.0

    def perf_counter(self):
        self.now += 0.3
        return self.now


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """No diagnostics: short runs deserve their warnings, and they would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "warnings", lambda self: [])
        patch.setattr(checkpoint_loop, "time", Clock())
        yield


@pytest.fixture(scope="module")
def reference():
    run = iv.sample(posed(), SAMPLER, **SETTINGS)
    return draws_of(run)


class Operations:
    """Counts the file operations of a run, and does something at one of them."""

    def __init__(self, patch, at=-1, act=None):
        self.count, self.at, self.act = 0, at, act
        # before a rename; after it, where what is no more needed is removed; and within a file, below
        for name in ("replace", "unlink"):
            patch.setattr(os, name, self._counted(getattr(os, name)))
        patch.setattr(files, "open", self._open, raising=False)

    def _hit(self):
        self.count += 1
        return self.count - 1 == self.at

    def _counted(self, function):
        def wrapped(*args, **kwargs):
            if self._hit():
                self.act()
            return function(*args, **kwargs)

        return wrapped

    def _open(self, path, mode="r"):
        file = builtins.open(path, mode)  # noqa: SIM115
        return file if "r" in mode else Torn(file, self)

    def tear(self, file, piece):
        if self._hit():
            file.write(bytes(piece)[: len(piece) // 2])
            file.flush()
            self.act()


class Torn:
    """A file of which a crash may leave half."""

    def __init__(self, file, operations):
        self._file, self._operations = file, operations

    def write(self, piece):
        self._operations.tear(self._file, piece)
        return self._file.write(piece)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def operations_of(folder, **changed):
    with pytest.MonkeyPatch.context() as patch:
        counted = Operations(patch)
        sampled(folder, **changed)
    return counted.count


WHOLE = ["manifest.json", "posterior.pickle", "problem.nc"]


def listing(folder):
    return sorted(re.sub(r"\d+", "*", name) for name in os.listdir(folder))


@pytest.mark.parametrize(
    ("segment", "every"),
    [(5, 9), (None, 11), pytest.param(5, 1, marks=pytest.mark.slow)],  # odd: writes and renames come by twos
    ids=["draws", "clock", "everywhere"],
)
def test_killed_at_any_file_operation_a_run_resumes_to_the_same_draws(tmp_path, reference, segment, every):
    total = operations_of(tmp_path / "count", segment=segment)
    assert total > 30
    resumed = 0
    for place in range(2, total, every):
        folder = tmp_path / f"run{place}"

        def work(folder=folder, place=place):
            with pytest.MonkeyPatch.context() as patch:
                Operations(patch, place, kill)
                sampled(folder, segment=segment)

        assert in_a_fork(work) == -signal.SIGKILL
        if (folder / "state.bin").exists():
            run = resume(folder, progress=False)
            resumed += 1
        else:
            with pytest.raises(FileNotFoundError, match="no run at"):
                resume(folder, progress=False)
            run = sampled(folder, segment=segment)  # what is left over is no obstacle
        assert_same(run, reference)
        segments = len({name for name in os.listdir(folder) if name.startswith("segment")})
        assert listing(folder) == [*WHOLE, *["segment-*.nc"] * segments, "state.bin"]
        assert segments == (3 if segment else 1)
    assert resumed * every >= total // 2


def test_killed_while_more_draws_are_made_a_run_resumes_to_the_same_draws(tmp_path, reference):
    sampled(tmp_path / "short", segment=5, draws=7)

    def more(folder, place=-1):
        with pytest.MonkeyPatch.context() as patch:
            counted = Operations(patch, place, kill)
            resume(folder, draws=12, progress=False)
        return counted.count

    total = more(shutil.copytree(tmp_path / "short", tmp_path / "count"))
    assert total > 15
    for place in range(0, total, 5):
        folder = shutil.copytree(tmp_path / "short", tmp_path / f"run{place}")
        assert in_a_fork(lambda folder=folder, place=place: more(folder, place)) == -signal.SIGKILL
        assert iv.load(folder).report["draws"] >= 7
        run = resume(folder, draws=12, progress=False)
        assert_same(run, reference)
        assert [name for name in listing(folder) if not name.startswith("segment")] == [*WHOLE, "state.bin"]


def test_a_kill_loses_nothing_before_the_last_checkpoint(tmp_path, reference):
    """Killed in the forward solve of its ninth draw: two segments of four are there, and readable."""

    def mortal(theta):
        if (tmp_path / "run" / "segment-000001.nc").exists():
            kill()
        return square(theta)

    def work():
        iv.sample(posed(mortal), SAMPLER, **SETTINGS, segment=4, directory=tmp_path / "run")

    assert in_a_fork(work) == -signal.SIGKILL
    run = iv.load(tmp_path / "run")
    assert run.report["interrupted"] and run.report["draws"] == 8
    assert run.report["draws_planned"] == 12 and run.report["stopped"] is None
    np.testing.assert_array_equal(run.draws("a"), reference["posterior", "a"][:, :8])


FAILURES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "input/output error",
}


def test_a_write_that_fails_is_named_and_what_was_whole_is_kept(tmp_path, reference):
    total = operations_of(tmp_path / "count", segment=5)
    failed = set()
    for place, number in zip(range(6, total, 7), itertools.cycle(FAILURES)):
        folder = tmp_path / f"run{place}"

        def fail(number=number):
            raise OSError(number, os.strerror(number))

        with pytest.MonkeyPatch.context() as patch:
            Operations(patch, place, fail)
            try:
                sampled(folder, segment=5)
            except OSError as error:
                assert error.errno == number
                assert re.search(rf"cannot write .*/run{place}/\S+: .*{FAILURES[number]}", str(error)), error
                failed.add(number)
        named = [entry.name for entry in read_state(folder)[0].segments] if folder.exists() else []
        assert not folder.exists() or sorted(os.listdir(folder)) == sorted([*WHOLE, *named, "state.bin"])
        run = resume(folder, progress=False) if (folder / "state.bin").exists() else sampled(folder)
        assert_same(run, reference)
    assert failed == set(FAILURES)


def test_a_directory_without_permission_is_named_before_any_solve(tmp_path):
    def never(theta):
        raise AssertionError("solved")

    sampled(tmp_path / "other")  # what the other user may not read has been imported then
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)

    def work():
        if os.geteuid() == 0:
            os.chmod(tmp_path, 0o777)
            os.seteuid(65534)
        with pytest.raises(PermissionError, match=r"cannot write .*: there is no permission to write there"):
            iv.sample(posed(never), SAMPLER, **SETTINGS, directory=folder)

    # pytest's own folders above are closed to others
    for parent in list(tmp_path.parents)[:3]:
        if parent.owner() != "root" or parent.stat().st_mode & stat.S_ISVTX:  # open to all
            break
        parent.chmod(0o755)
    assert in_a_fork(work) == 0


def test_a_second_process_is_refused(tmp_path):
    seen = []

    def curious(theta):
        if not seen:
            again = posed(curious)
            for attempt in (lambda: resume(tmp_path / "run", again), lambda: sampled(tmp_path / "run")):
                with pytest.raises(DirectoryInUseError) as caught:
                    attempt()
                seen.append(str(caught.value))
        return square(theta)

    iv.sample(posed(curious), SAMPLER, **SETTINGS, directory=tmp_path / "run")
    assert len(seen) == 2
    assert all(f"is in use by process {os.getpid()} on host" in said for said in seen)


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    refused = 0
    for place in range(1, 18, 4):  # the state is written within these
        new, empty = tmp_path / f"new{place}", tmp_path / f"empty{place}"
        empty.mkdir()
        for folder in (new, empty):
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(OSError):
                Operations(patch, place, fail)
                sampled(folder, segment=5)
        assert new.exists() == (empty / "state.bin").exists()
        if not new.exists():
            refused += 1
            assert os.listdir(empty) == []
    assert 3 <= refused < 5


def stopped_early(folder, after=2, **changed):
    """A run that was stopped after so many segments."""
    with stopping(lambda directory, _: len(directory.header.segments) == after):
        sampled(folder, segment=3, **changed)


def damage(path, how):
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "missing":
        path.unlink()
    else:
        at = len(content) // 2
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])


@pytest.mark.parametrize("how", ["truncated", "damaged", "missing"])
def test_a_segment_that_is_not_whole_is_named_and_the_others_are_kept(tmp_path, reference, how):
    stopped_early(tmp_path / "run", after=3)
    damage(tmp_path / "run" / "segment-000001.nc", how)
    with pytest.raises(ValueError, match=rf"segment-000001\.nc \(draws 3 to 5\) is {how}.*iv\.load\("):
        resume(tmp_path / "run", progress=False)
    run = iv.load(tmp_path / "run")
    np.testing.assert_array_equal(run.draws("a"), np.delete(reference["posterior", "a"], [3, 4, 5], axis=1)[:, :6])
    assert run.data.posterior.coords["draw"].to_numpy().tolist() == [0, 1, 2, 6, 7, 8]
    assert len(run.report["warnings"]) == 1
    assert re.search(rf"segment-000001\.nc \(draws 3 to 5\) is {how}", run.report["warnings"][0])


@pytest.mark.parametrize("how", ["truncated", "damaged", "missing"])
def test_a_state_that_is_not_whole_is_named_and_the_draws_are_kept(tmp_path, reference, how):
    stopped_early(tmp_path / "run")
    damage(tmp_path / "run" / "state.bin", how)
    with pytest.raises(ValueError, match=rf"state\.bin is {how}"):
        resume(tmp_path / "run", progress=False)
    run = iv.load(tmp_path / "run")
    np.testing.assert_array_equal(run.draws("k"), reference["posterior", "k"][:, :6])
    assert re.search(rf"state\.bin is {how}", run.report["warnings"][0])
    assert run.shapes == {"a": (), "k": (2,)}
    assert "seed" not in run.report


@pytest.mark.parametrize("how", ["truncated", "damaged", "missing"])
def test_a_manifest_that_is_not_whole_is_nobodys_loss(tmp_path, reference, how):
    stopped_early(tmp_path / "run")
    whole = (tmp_path / "run" / "manifest.json").read_bytes()
    damage(tmp_path / "run" / "manifest.json", how)
    assert iv.load(tmp_path / "run").report["seed"] == 5
    assert_same(resume(tmp_path / "run", progress=False), reference)
    assert (tmp_path / "run" / "manifest.json").read_bytes() == whole


@pytest.mark.parametrize("how", ["truncated", "damaged", "missing"])
def test_a_pickle_that_is_not_whole_asks_for_the_posterior(tmp_path, reference, how):
    stopped_early(tmp_path / "run")
    damage(tmp_path / "run" / "posterior.pickle", how)
    with pytest.raises(ValueError, match=r"posterior must be given .*iv\.resume\(directory, posterior\)"):
        resume(tmp_path / "run", progress=False)
    assert_same(resume(tmp_path / "run", posed(), progress=False), reference)


@pytest.mark.parametrize("how", ["truncated", "damaged", "missing"])
def test_constants_that_are_not_whole_are_left_out_and_named(tmp_path, reference, how):
    stopped_early(tmp_path / "run")
    damage(tmp_path / "run" / "problem.nc", how)
    run = iv.load(tmp_path / "run")
    np.testing.assert_array_equal(run.draws("k"), reference["posterior", "k"][:, :6])
    assert re.search(rf"problem\.nc is {how}.*: the data and the draws from the prior", run.report["warnings"][0])
    assert "observed_data" not in run.data
    run = resume(tmp_path / "run", progress=False)  # which can do without
    assert_same(run, reference)
    assert re.search(rf"problem\.nc is {how}", run.report["warnings"][0])


def test_a_run_that_raises_can_be_resumed(tmp_path, reference):
    """An error in the model ends the run at once, with its traceback; corrected, it resumes at the last checkpoint."""

    def wrong(theta):
        if (tmp_path / "run" / "segment-000001.nc").exists():
            return square(theta)[:, :1]
        return square(theta)

    with pytest.raises(ValueError, match="the jacobian must have shape"):
        iv.sample(posed(wrong), SAMPLER, **SETTINGS, segment=3, directory=tmp_path / "run")
    assert "lock" not in os.listdir(tmp_path / "run")
    part = iv.load(tmp_path / "run")
    (reason,), kept = part.report["warnings"], part.report["draws"]
    assert re.match("IV-STOPPED: WrongShapeError: the jacobian must have shape .*, line ", reason)
    assert reason.endswith(f": the run holds the {kept} draws of its last checkpoint, of 12")
    part.save(tmp_path / "part.nc")
    assert iv.load(tmp_path / "part.nc").report["stopped"] == reason.removeprefix("IV-STOPPED: ")
    with pytest.raises(ValueError, match=r"forward\.fine\.function was .*wrong.*, is .*square"):
        resume(tmp_path / "run", posed(), progress=False)
    # the same name, mended
    mended = posed(square)
    square.__qualname__, before = wrong.__qualname__, square.__qualname__
    try:
        assert_same(resume(tmp_path / "run", mended, progress=False), reference)
    finally:
        square.__qualname__ = before
