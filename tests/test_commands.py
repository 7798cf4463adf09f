"""The command `invsamp`: what it says of runs, that it runs nothing unasked, and its exit status."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zlib
from dataclasses import replace
from pathlib import Path

import launch
import pytest
from flaky_models import observations
from matplotlib.figure import Figure

import invsamp as iv
from invsamp import commands, doctor
from invsamp.commands import main
from invsamp.storage.directory import PICKLE
from invsamp.storage.state import File, read_state, write_state


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prior = iv.Prior(x=iv.Normal(0, 1), y=iv.Normal(0, 1))
    model = iv.finite_differences(observations)
    posterior = iv.Posterior(prior, model, data=[0.1, 0.2, 1.0], noise=iv.GaussianNoise(0.5))
    path = tmp_path_factory.mktemp("commands") / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few draws
        iv.sample(posterior, iv.mala(0.3), draws=20, warmup=20, seed=1, directory=path, progress=False)
    return path


def test_information_in_words_and_for_scripts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(run)]) == 0
    words = capsys.readouterr().out
    assert "20 of 20 draws per chain" in words and "parameters: x, y" in words and "solves of model: " in words
    assert iv.load(run).verdict in words
    assert main(["info", str(run), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["finished"] and not printed["at_work"] and printed["seed"] == 1
    assert printed["judgment"] == iv.load(run).warnings()


def copied(run: Path, folder: Path, pickled: bytes, **changed: object) -> Path:
    """The run with another stored posterior, and other entries of its header."""
    folder.mkdir()
    for file in run.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / PICKLE).write_bytes(pickled)
    header, payload = read_state(folder)
    files = [file for file in header.files if file.name != PICKLE] + [File(PICKLE, len(pickled), zlib.crc32(pickled))]
    write_state(folder, replace(header, files=tuple(files), **changed), payload)
    return folder


def test_a_run_that_was_stopped_in_warm_up_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(run, tmp_path / "stopped", (run / PICKLE).read_bytes(), step=7, segments=())
    assert main(["info", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "in warm-up, at step 7 of 20; stopped, continue with `invsamp resume" in printed
    assert "no draws yet" in printed
    assert main(["info", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 0


def test_a_run_that_was_killed_after_a_short_warm_up_is_not_in_warm_up(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warm-up ended at step 9 of at most 20."""
    header, _ = read_state(run)
    about = header.about | {"plan": header.about["plan"] | {"draws": 40, "stops_early": True}}
    changed = {"step": 15, "about": about, "report": header.report | {"warmup": 9, "interrupted": True}}
    pickled = (run / PICKLE).read_bytes()
    assert main(["info", str(copied(run, tmp_path / "drawing", pickled, **changed))]) == 0
    printed = capsys.readouterr().out
    assert "state: 20 of 40 draws per chain; stopped, " in printed and "in warm-up" not in printed
    assert "the run is not finished: it holds 20 of 40 draws" in printed
    assert main(["info", str(copied(run, tmp_path / "before", pickled, **changed, segments=()))]) == 0
    assert "state: 0 of 40 draws per chain; stopped, " in capsys.readouterr().out
    warming = changed | {"report": header.report | {"warmup": 20, "warming": True, "stopped": "the mesh is gone"}}
    assert main(["info", str(copied(run, tmp_path / "warming", pickled, **warming, segments=()))]) == 0
    printed = capsys.readouterr().out
    assert "in warm-up, at step 15 of at most 20" in printed and "the mesh is gone\n" in printed


def test_what_a_script_defines_is_asked_of_the_script(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(run, tmp_path / "posed", b"c__main__\nhunting\n.", step=30)
    assert main(["resume", str(folder), "--yes"]) == 1
    printed = capsys.readouterr()
    assert (
        "definitions of the script that made its posterior (hunting)" in printed.err
        and "iv.resume(" in printed.err
        and not printed.out
    )
    header, payload = read_state(folder)
    write_state(folder, replace(header, segments=()), payload)
    assert main(["info", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "stopped, continue with iv.resume(" in printed
    assert "posterior: pickled, but needs definitions of the script that made it (hunting)" in printed


@pytest.mark.parametrize("name", ["info", "summary", "plot", "report", "resume", "simulations", "doctor"])
def test_help_has_examples_that_parse_and_the_exit_status(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    words = capsys.readouterr().out
    examples = [line.split()[1:] for line in words.splitlines() if line.startswith(f"  invsamp {name}")]
    assert len(examples) >= 2 and commands.STATUS in words
    for example in examples:
        assert commands._parser().parse_args(example).command == name
    with pytest.raises(SystemExit) as ended:
        main([name, "--unknown"])
    assert ended.value.code == 2


def test_a_saved_file_is_a_run_too(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    iv.load(run).save(tmp_path / "run.nc")
    assert main(["summary", str(tmp_path / "run.nc"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["x"]["mean"] == pytest.approx(iv.load(run).summary()["mean"]["x"])
    assert main(["info", str(tmp_path / "run.nc")]) == 0


@pytest.mark.parametrize("kind", sorted(commands.FIGURES))
def test_every_figure(kind: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []

    def figure(run: iv.Run, **settings: object) -> Figure:
        made.append(settings)
        return Figure()

    monkeypatch.setitem(commands.FIGURES, kind, figure)
    out = tmp_path / "figure.png"
    named = ["--names", "x"]
    assert main(["plot", str(run), kind, "--out", str(out), *(named if kind in commands.NAMED else [])]) == 0
    assert out.stat().st_size > 0 and made == [{"names": ["x"]} if kind in commands.NAMED else {}]
    if kind not in commands.NAMED:
        assert main(["plot", str(run), kind, "--out", str(out), *named]) == 1


def test_a_figure_that_a_run_has_not_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatched = tmp_path / "swaps.png"
    assert main(["plot", str(run), "swaps", "--out", str(monkeypatched)]) == 1
    assert capsys.readouterr().err.startswith("invsamp plot: ") and not monkeypatched.exists()


@pytest.mark.parametrize("out", ["figure", "figure.txt", ".", ""])
def test_a_figure_goes_to_a_file_of_its_name_alone(out: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(run), "trace", "--out", out]) == 1
    assert "invsamp plot: --out must end in .png, .pdf or .svg, got" in capsys.readouterr().err


def test_a_folder_is_no_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (".", str(tmp_path)):
        assert main(["report", str(run), "--out", folder]) == 1
        assert f"cannot write {folder}: is a directory" in capsys.readouterr().err


def test_what_is_no_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["info"], ["summary"], ["resume"]):
        assert main([*command, str(tmp_path / "nothing")]) == 1
        assert "nothing" in capsys.readouterr().err


def test_resume_asks_before_it_runs_anything(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["resume", str(run), "--draws", "30"]) == 1  # without an interactive user
    shown = capsys.readouterr()
    assert "flaky_models.observations" in shown.out and "--yes" in shown.err
    assert "invsamp.posing.posterior.posterior.Posterior" in shown.out

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert main(["resume", str(run), "--draws", "30"]) == 1
    assert iv.load(run).theta.shape[1] == 20
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert main(["resume", str(run), "--draws", "30"]) == 0
    assert iv.load(run).theta.shape[1] == 30
    shown = capsys.readouterr()
    assert shown.out.count("R-hat is above") == 1
    assert shown.err == "invsamp resume: not resumed; nothing was executed\n"  # no bar where there is no terminal
    assert main(["resume", str(run), "--draws", "40", "--yes"]) == 0
    assert iv.load(run).theta.shape[1] == 40


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_a_pickle_would_run_is_shown_and_not_run(
    protocol: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(run, tmp_path / "run", pickle.dumps(("posix", "mkdir", Trap()), protocol))
    monkeypatch.chdir(tmp_path)
    assert main(["resume", str(folder)]) == 1
    assert f"  {os.mkdir.__module__}.mkdir\n" in capsys.readouterr().out
    assert not (tmp_path / "trapped").exists()


def test_simulations_are_listed_and_written_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    for name, version in (("coarse", ""), ("fine", "1"), ("fine", "2")):
        database = iv.simulations.SimulationDatabase.open(folder / name, ["a", "b"], version)
        database.record([0.0, 1.0], [1.0, 2.0], seconds=2.0)
        database.record([0.5, 1.0], failure="exit status 3")
    assert main(["simulations", str(folder)]) == 0
    words = capsys.readouterr().out
    assert words.count("2 simulations, 1 failed, 2 outputs, 2 s in all") == 3 and "1 failed: exit status 3" in words
    assert main(["simulations", str(folder), "--csv", str(tmp_path / "runs.csv")]) == 1
    assert "FOLDER must be one database, got several in" in capsys.readouterr().err
    fine = str(folder / "fine")
    assert main(["simulations", fine, "--csv", str(tmp_path / "runs.csv")]) == 1
    assert "--label must be one of the versions ['1', '2'] in" in capsys.readouterr().err
    files = ["--csv", str(tmp_path / "runs.csv"), "--netcdf", str(tmp_path / "runs.nc")]
    assert main(["simulations", fine, "--label", "2", *files]) == 0
    assert (tmp_path / "runs.csv").read_text().splitlines()[1] == "0.0,1.0,1.0,2.0,False,,2.0,2"
    assert (tmp_path / "runs.nc").exists()
    assert main(["simulations", fine, "--label", "1", "--forget-failures"]) == 0
    assert not iv.simulations.SimulationDatabase.open(fine, version="1").table().failed.any()
    assert main(["simulations", str(tmp_path / "none")]) == 1


def test_doctor_says_what_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", {"no_such_module": "nothing; `pip install it`"})
    monkeypatch.setattr(doctor, "_mpi", lambda: doctor.Finding("mpiexec", False, "not tried"))
    assert main(["doctor"]) == 0
    words = capsys.readouterr().out
    assert f"ok  numpy           {doctor.version('numpy')}\n" in words
    assert "--  no_such_module  not installed: nothing; `pip install it`\n" in words
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["numpy"]["good"] and not found["no_such_module"]["good"]


@pytest.mark.mpi
def test_doctor_tries_mpi() -> None:
    found = next(finding for finding in doctor.examine() if finding.name == "mpiexec")
    assert found.good == (launch.no_mpi() is None), found


@pytest.mark.mpi
def test_doctor_tries_mpi_where_one_has_begun_already() -> None:
    """An MPI started as a singleton marks every child process as its own."""
    script = """
        import os, subprocess
        from mpi4py import MPI
        from invsamp import doctor
        lines = subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines()
        os.environ.update(line.split("=", 1) for line in lines if line.startswith(("OMPI_", "PMIX_")))
        print(doctor._mpi().good)
    """
    if launch.no_mpi() is None:
        assert launch.python(script).stdout.strip() == "True"


def test_as_a_process_of_its_own(run: Path) -> None:
    command = [sys.executable, "-m", "invsamp", "summary", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "ess_bulk" in done.stdout and not done.stderr
    # whoever reads may go at any time: `invsamp summary run | head`
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(300) == 0
    process.stderr.close()
