"""Going on with a run: the same draws, more draws, and refusals that show what differs."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap

import launch
import numpy as np
import pytest
from forks import in_a_fork
from stopping import stopping

import invsamp as iv
from invsamp.results.run import Run
from invsamp.resuming import resume
from invsamp.storage.directory import RunDirectory
from invsamp.storage.state import read_state, write_state

pytestmark = pytest.mark.filterwarnings("ignore:(R-hat|ess_|no replica|rungs|.*draws per chain)")
SETTINGS = {"draws": 10, "warmup": 12, "thin": 2, "chains": 2, "seed": 5, "progress": False}


def square(theta):
    return theta**2


def slope(theta):
    return 2.0 * theta[:, :, None] * np.eye(theta.shape[1])


def posed(function=square, sd=0.5, data=(1.0, 2.0), **more):
    prior = iv.Prior(a=iv.Normal(0, 1), b=iv.LogNormal(0, 1))
    return iv.Posterior(prior, iv.with_jacobian(function, slope), list(data), iv.GaussianNoise(sd), **more)


SAMPLER = iv.samplers.sgld(step_size=0.01, preconditioner=None)


def stopped(folder, problem=None, sampler=SAMPLER, after=1, **changed):
    """A run that was stopped after so many segments of three draws."""
    with stopping(lambda directory, _: len(directory.header.segments) == after):
        iv.sample(problem or posed(), sampler, **({"segment": 3} | SETTINGS | changed), directory=folder)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(Run, "warnings", lambda self: [])


@pytest.mark.parametrize("after", [0, 1, 2])
def test_resumed_is_uninterrupted(tmp_path, after):
    whole = iv.sample(posed(), SAMPLER, **SETTINGS)
    stopped(tmp_path / "run", after=after)
    run = resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)
    same = set(whole.report) - {"seconds", "evaluation_seconds"}
    assert {key: run.report[key] for key in same} == {key: whole.report[key] for key in same}
    assert run.report["seconds"] > 0
    assert run.domain == whole.domain
    for group in ("prior", "observed_data"):
        assert run.data[group].identical(whole.data[group])


def test_a_given_start_is_kept_for_a_run_that_had_not_begun(tmp_path, monkeypatch):
    whole = iv.sample(posed(), SAMPLER, **SETTINGS, start=[0.5, 2.0])

    def begin(self, positions=None):
        os._exit(3)

    def work():
        monkeypatch.setattr("invsamp.engine.driver.engine.Engine.begin", begin)
        iv.sample(posed(), SAMPLER, **SETTINGS, start=[0.5, 2.0], directory=tmp_path / "run")

    assert in_a_fork(work) == 3
    np.testing.assert_array_equal(resume(tmp_path / "run", progress=False).theta, whole.theta)


def test_a_run_that_fails_at_its_start_leaves_nothing(tmp_path):
    for error in (iv.ModelError, KeyboardInterrupt):

        def wrong(theta, error=error):
            raise error("no license")

        with pytest.raises(error, match="no license"):
            iv.sample(posed(wrong), SAMPLER, **SETTINGS, directory=tmp_path / "run")
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [iv.ModelError, KeyboardInterrupt, SystemExit])
def test_messages_at_the_end_of_a_run_say_how_to_resume(tmp_path, error, capsys):
    def wrong(theta):
        if (tmp_path / "run" / "segment-000001.nc").exists():
            raise error("no license")
        return square(theta)

    wrong.__qualname__ = square.__qualname__
    with pytest.raises(error, match="no license") as caught:
        iv.sample(posed(wrong), SAMPLER, **SETTINGS, directory=tmp_path / "run", segment=3)
    (note,) = caught.value.__notes__
    assert "with 6 draws per chain" in note and note.endswith(
        f"Continue it with invsamp.resume({str(tmp_path / 'run')!r})"
    )
    assert (note in capsys.readouterr().err) == (error is SystemExit)
    assert "lock" not in os.listdir(tmp_path / "run")
    whole = iv.sample(posed(), SAMPLER, **SETTINGS)
    np.testing.assert_array_equal(resume(tmp_path / "run", posed(), progress=False).theta, whole.theta)


def test_a_model_may_change_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "Läufe der Nacht").mkdir()

    def moving(theta):
        os.chdir(tmp_path / "elsewhere")
        return square(theta)

    run = iv.sample(posed(moving), SAMPLER, **SETTINGS, directory="Läufe der Nacht/1 µm", segment=3)
    assert os.listdir("/".join([str(tmp_path), "elsewhere"])) == []
    assert sorted(os.listdir(tmp_path)) == ["Läufe der Nacht", "elsewhere"]
    np.testing.assert_array_equal(run.theta, iv.sample(posed(), SAMPLER, **SETTINGS).theta)
    monkeypatch.chdir(tmp_path)
    more = resume("Läufe der Nacht/1 µm", posed(moving), draws=12, progress=False)
    loaded = iv.load(os.path.relpath(tmp_path / "Läufe der Nacht/1 µm"))
    assert more.theta.shape == loaded.theta.shape == (2, 12, 2)


@pytest.mark.parametrize("directory", [3, b"run", None])
def test_a_directory_is_a_path(directory):
    with pytest.raises(ValueError, match="directory must be a path, got"):
        resume(directory)
    if directory is not None:
        with pytest.raises(ValueError, match="directory must be a path, got"):
            iv.sample(posed(), SAMPLER, **SETTINGS, directory=directory)


def test_more_draws_can_be_asked_of_a_finished_run_and_of_an_unfinished_one(tmp_path):
    more = SETTINGS | {"draws": 17}
    whole = iv.sample(posed(), SAMPLER, **more)
    iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "finished")
    stopped(tmp_path / "unfinished")
    for name in ("finished", "unfinished"):
        run = resume(tmp_path / name, draws=17, progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        assert run.report["draws"] == 17 and not run.report["interrupted"]
        assert json.loads((tmp_path / name / "manifest.json").read_text())["plan"]["draws"] == 17
        assert resume(tmp_path / name, progress=False).theta.shape == whole.theta.shape
    with pytest.raises(ValueError, match=r"draws must be at least the 17 .* got 12"):
        resume(tmp_path / "finished", draws=12)


def test_a_finished_run_is_returned_without_a_solve(tmp_path):
    first = iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    run = resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(run.theta, first.theta)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize(
    ("name", "value"), [("thin", 3), ("warmup", 16), ("draws", 8), ("draws", 20), ("seed", 7), ("chains", 3)]
)
def test_nothing_is_read_from_the_manifest(tmp_path, name, value):
    """Other draws came of it, or another record of them, without a word."""
    whole = iv.sample(posed(), SAMPLER, **SETTINGS)
    stopped(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    before = path.read_text()
    changed = json.loads(before)
    assert changed["plan"][name] == SETTINGS[name]
    changed["plan"][name] = value
    for section in ("settings", "parameters", "versions", "posterior", "segment"):
        changed[section] = None
    path.write_text(json.dumps(changed))
    assert iv.load(tmp_path / "run").report["seed"] == 5
    run = resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)
    assert {key: run.report[key] for key in SETTINGS if key != "progress"} == {
        key: whole.report[key] for key in SETTINGS if key != "progress"
    }
    assert path.read_text() == before


def test_a_run_that_another_process_changes_is_left_to_it(tmp_path, monkeypatch):
    iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "run")
    real = RunDirectory.open

    def late(path):
        monkeypatch.setattr(RunDirectory, "open", real)
        resume(path, posed(), draws=14, progress=False)
        return real(path)

    monkeypatch.setattr(RunDirectory, "open", late)
    with pytest.raises(ValueError, match="another process has just changed the run"):
        resume(tmp_path / "run", posed(), draws=12, progress=False)
    assert resume(tmp_path / "run", progress=False).report["draws"] == 14
    assert sorted(os.listdir(tmp_path / "run"))[0] != "lock"


def test_a_finished_run_is_returned_from_a_read_only_folder(tmp_path, monkeypatch):
    first = iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "run")
    real = os.open

    def read_only(path, flags, *rest, **more):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", read_only)
    np.testing.assert_array_equal(resume(tmp_path / "run", progress=False).theta, first.theta)
    with pytest.raises(OSError, match="lock: the file system is read-only"):  # control: more of it cannot be had
        resume(tmp_path / "run", draws=12, progress=False)


@pytest.mark.slow
def test_for_real_on_a_file_system_that_is_read_only(tmp_path):
    alone = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"']
    if not shutil.which("unshare") or subprocess.run([*alone, tmp_path, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    code = """
        import sys
        import numpy as np
        import invsamp as iv
        def energy(x):
            return 0.5 * (x**2).sum(axis=1), x
        problem = iv.Target(iv.extending.FunctionPotential(energy, 2))
        if sys.argv[2] == "make":
            run = iv.sample(problem, iv.mala(0.3), draws=20, warmup=0, seed=1, progress=False, directory=sys.argv[1])
        else:
            run = iv.resume(sys.argv[1], problem, progress=False)
        print(run.theta.sum().hex())
    """
    first = launch.python(code, tmp_path / "run", "make").stdout
    source = tmp_path / "again.py"
    source.write_text(textwrap.dedent(code))
    command = [*alone, str(tmp_path), sys.executable, str(source), str(tmp_path / "run"), "resume"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == first


def test_a_run_does_not_begin_where_there_is_something(tmp_path):
    stopped(tmp_path / "run")
    with pytest.raises(ValueError, match=r"directory must be .*run, which holds a run: continue it by iv\.resume\("):
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"which holds notes\.txt"):
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "other")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="got the file"):
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "file")
    for segment in (0, 1.5, True):
        with pytest.raises(ValueError, match="segment must be an integer >= 1"):
            iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "new", segment=segment)
    assert not (tmp_path / "new").exists()
    with pytest.raises(FileNotFoundError, match="no run at"):
        resume(tmp_path / "new")


def other(theta):
    return theta**2 + 1e-6


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"sd": 0.25}, r"noise was GaussianNoise\(.*0\.5.*\), is GaussianNoise\(.*0\.25"),
        ({"data": (1.0, 2.5)}, r"data\[1\] was 2\.0, is 2\.5 \(1 of 2 entries differs\)"),
        ({"data": (1.0, 2.5, 3.0)}, r"data had shape \(2,\), has \(3,\)"),
        ({"function": other}, "forward.model.function was .*square.*, is .*other"),
        ({"domain": iv.Box(-3.0, 3.0)}, "domain was .*, is .*3"),
    ],
)
def test_another_posterior_is_refused_with_the_difference(tmp_path, changed, named):
    stopped(tmp_path / "run")
    with pytest.raises(ValueError, match=f"posterior must be that of the run in .*{named}"):
        resume(tmp_path / "run", posed(**changed), progress=False)
    resume(tmp_path / "run", posed(), progress=False)  # which did no harm


def test_another_sampler_is_refused_with_the_difference(tmp_path):
    stopped(tmp_path / "run")
    with pytest.raises(ValueError, match=r"^sampler must be .*run; sampler\.rungs\[0\]\.step_size was 0\.01, is 0\.02"):
        resume(tmp_path / "run", sampler=iv.samplers.sgld(step_size=0.02, preconditioner=None), progress=False)


def test_a_model_that_prints_the_same_and_computes_something_else_is_refused(tmp_path):
    def named_alike(theta):
        return theta**2 * (1 + 1e-6)

    named_alike.__qualname__ = square.__qualname__
    stopped(tmp_path / "run")
    with pytest.raises(ValueError, match=r"it has other values at .* the energy of fidelity 'model' was .*, is"):
        resume(tmp_path / "run", posed(named_alike), progress=False)


def test_a_posterior_that_cannot_be_pickled_is_asked_for(tmp_path):
    local = posed(lambda theta: theta**2)
    whole = iv.sample(local, SAMPLER, **SETTINGS)
    stopped(tmp_path / "run", local)
    assert "posterior.pickle" not in os.listdir(tmp_path / "run")
    with pytest.raises(ValueError, match=r"posterior must be given .*could not be pickled: .*lambda.*iv\.resume\("):
        resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(resume(tmp_path / "run", local, progress=False).theta, whole.theta)


def test_last_digits_that_may_differ_are_warned_about(tmp_path, monkeypatch):
    def almost(theta):
        return theta**2 * (1 + 1e-13)

    almost.__qualname__ = square.__qualname__
    stopped(tmp_path / "run")
    stopped(tmp_path / "old")
    with pytest.warns(UserWarning, match=r"may differ .* in their last digits: the energies differ") as caught:
        resume(tmp_path / "run", posed(almost), progress=False)
    assert caught[0].filename == __file__
    header, payload = read_state(tmp_path / "old")
    header.about["versions"]["numpy"] = "1.0"
    write_state(tmp_path / "old", header, payload)
    with pytest.warns(UserWarning, match=r"in their last digits: numpy was 1\.0, is"):
        resume(tmp_path / "old", progress=False)


def test_a_run_without_draws_cannot_be_read_yet(tmp_path):
    stopped(tmp_path / "run", after=0)
    with pytest.raises(ValueError, match=r"no draws in .*: there was no checkpoint with draws so far"):
        iv.load(tmp_path / "run")


class Halved:
    """A schedule of the user's own: no part of invsamp, so the state file cannot hold it."""

    def __call__(self, step):
        return 0.01 * 0.999**step

    def __repr__(self):
        return "Halved()"


def test_a_sampler_with_parts_of_the_users_own_is_pickled_or_asked_for(tmp_path):
    sampler = iv.samplers.sgld(step_size=Halved(), preconditioner=None)
    whole = iv.sample(posed(), sampler, **SETTINGS)
    stopped(tmp_path / "run", sampler=sampler)
    stopped(tmp_path / "other", sampler=sampler)
    np.testing.assert_array_equal(resume(tmp_path / "run", progress=False).theta, whole.theta)
    (tmp_path / "other" / "posterior.pickle").unlink()
    with pytest.raises(ValueError, match=r"sampler must be given .*\(directory, posterior, sampler=sampler\)"):
        resume(tmp_path / "other", posed(), progress=False)
    run = resume(tmp_path / "other", posed(), sampler=sampler, progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)


class Bomb:
    """A pickle that does something."""

    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def test_loading_runs_no_code_of_the_directory(tmp_path, monkeypatch):
    import pickle

    monkeypatch.chdir(tmp_path)
    stopped(tmp_path / "run")
    (tmp_path / "run" / "posterior.pickle").write_bytes(pickle.dumps((Bomb(), None)))
    assert iv.load(tmp_path / "run").theta.shape == (2, 3, 2)
    resume(tmp_path / "run", posed(), progress=False)  # nor does it where the posterior is given
    assert not (tmp_path / "exploded").exists()
    (tmp_path / "run" / "state.bin").unlink()
    iv.load(tmp_path / "run")
    assert not (tmp_path / "exploded").exists()
    # control: the pickle is one that does something
    with pytest.raises(TypeError), (tmp_path / "run" / "posterior.pickle").open("rb") as file:
        problem, _ = pickle.load(file)
        problem + 1
    assert (tmp_path / "exploded").exists()
