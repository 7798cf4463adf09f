"""Programs as forward models: what they are given to the last digit, and one row lost for each way to fail."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv
from invsamp.errors import ModelError, WrongShapeError

THETA = np.random.default_rng(0).normal(size=(5, 2)) * [1e-7, 1e3]
PRIOR = iv.Prior(a=iv.Normal(0.0, 1.0), b=iv.Normal(0.0, 1.0))


def printed(run: Path) -> np.ndarray:
    return np.loadtxt(run / "stdout.txt", ndmin=1)


def shell(script: str, outputs=printed, **settings):
    """A script of the shell as the program, which gets a and b as its arguments."""
    return iv.executable(["sh", "-c", script, "sh", "{{a}}", "{{b}}"], outputs, **settings)


class TestInputs:
    @pytest.mark.parametrize(
        "made",
        [
            {"command": "cat input.txt", "templates": {"input.txt": "{{a}} {{ b }}\n"}},
            {"command": "echo {{ a }} {{b}}"},
            {"command": ["tr", "-d", '{}:,"ab'], "stdin": True},
        ],
    )
    def test_every_digit_arrives(self, made, tmp_path):
        if made.pop("stdin", False):
            made = {"command": ["sh", "-c", "tr -d '{}:,\"ab' < parameters.json"], "parameters": ["a", "b"]}
        y = iv.executable(outputs=printed, **made)(THETA)
        np.testing.assert_array_equal(y, THETA)

    def test_a_template_may_be_a_file_have_formats_and_stand_in_a_folder(self, tmp_path):
        (tmp_path / "form").write_text("rate = {{a:10.3e}}\n{literal} {{b:.1f}}")
        model = iv.executable(
            ["cat", "in/put.txt"],
            lambda run: [float((run / "stdout.txt").read_text() == "rate =  1.235e+00\n{literal} 2.0")],
            templates={"in/put.txt": tmp_path / "form"},
        )
        assert model(np.array([[1.23456, 2.04]])) == 1.0

    def test_entries_of_a_vector(self):
        model = iv.executable(["echo", "{{k[1]}}", "{{x}}", "{{k[0]}}"], printed)
        assert model.parameters == ("k", "x") and model.sizes == (2, 1)
        np.testing.assert_array_equal(model(np.array([[1.0, 2.0, 3.0]])), [[2.0, 3.0, 1.0]])
        model = iv.executable(
            ["cat", "parameters.json"], lambda run: [len((run / "stdout.txt").read_text())], parameters={"k": 2}
        )
        assert model(np.array([[1.0, 2.0]])) == len('{"k": [1.0, 2.0]}\n')

    def test_files_are_linked_and_the_environment_is_added_to(self, tmp_path):
        (tmp_path / "mesh.txt").write_text("7\n")
        model = shell("cat mesh.txt; echo $SIZE", files=[tmp_path / "mesh.txt"], environment={"SIZE": "4"})
        np.testing.assert_array_equal(model(THETA[:1]), [[7.0, 4.0]])

    def test_a_program_of_the_present_directory(self, tmp_path, monkeypatch):
        (tmp_path / "own").write_text("#!/bin/sh\necho $1\n")
        (tmp_path / "own").chmod(0o755)
        monkeypatch.chdir(tmp_path)
        model = iv.executable("./own {{a}}", printed)
        monkeypatch.chdir("/")
        np.testing.assert_array_equal(model(THETA[:, :1]), THETA[:, :1])


class TestWorkers:
    WAIT = "touch {0}/$$; while [ $(ls {0} | wc -l) -lt 4 ]; do sleep .01; done; echo $1"

    def test_four_run_at_once(self, tmp_path):
        model = shell(self.WAIT.format(tmp_path), workers=4)
        np.testing.assert_array_equal(model(THETA[:4])[:, 0], THETA[:4, 0])

    def test_one_at_a_time_would_wait_for_ever(self, tmp_path):
        model = shell(self.WAIT.format(tmp_path), workers=1, time_limit=0.2)
        with pytest.raises(RuntimeError, match=r"no result within 0\.2 s"):
            model(THETA[:2])

    def test_each_run_is_returned_as_it_ends(self):
        model = shell("test $1 = 0.0 && sleep 1000; echo $1", workers=2)
        runs = model.finished(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
        assert [next(runs).row, next(runs).row] == [1, 2]
        begun = time.monotonic()
        runs.close()  # as Ctrl-C does; the first one is killed
        assert time.monotonic() < begun + 100

    def test_a_process_pool_takes_it(self):
        model = pickle.loads(pickle.dumps(shell("echo $1 $2")))
        with ProcessPoolExecutor(1) as pool:
            np.testing.assert_array_equal(pool.submit(model, THETA[:1]).result(), THETA[:1])


class TestFailures:
    @pytest.mark.parametrize(
        "script, kind, words",
        [
            ("echo no convergence >&2; exit 3", "raised", "exit status 3: no convergence"),
            ("kill -SEGV $$", "died", "killed by SIGSEGV"),
            ("echo diverged; sleep 1000", "timed_out", "no result within 1 s"),
            ("echo oh", "raised", "outputs could not be read: ValueError: could not convert string 'oh'"),
            ("echo 1 nan", "not_finite", "1 of 2 outputs are not finite: output 1 is nan"),
        ],
    )
    def test_a_row_that_fails_says_why(self, script, kind, words):
        good = "echo 1 2; exit 0"
        model = shell(f"if [ $1 = 0.0 ]; then {good}; fi; {script}", time_limit=1.0 if kind == "timed_out" else None)
        y = model(np.array([[0.0, 0.0], [1.0, 0.0]]))
        np.testing.assert_array_equal(y, [[1.0, 2.0], [np.nan, np.nan]])
        assert model.failures == dict.fromkeys(model.failures, 0) | {kind: 1}
        assert model.message.startswith(words)

    def test_what_a_program_has_started_ends_with_it(self, tmp_path):
        model = shell(f"sleep 1000 & echo $! > {tmp_path}/child; wait", time_limit=0.5)
        with pytest.raises(RuntimeError):
            model(THETA[:1])
        child = int((tmp_path / "child").read_text())
        while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
            time.sleep(0.01)

    def test_directories_are_kept_where_one_is_given(self, tmp_path):
        model = shell("echo $1; test $1 = 0.0", directory=tmp_path / "runs")
        model(np.array([[0.0, 0.0], [1.0, 0.0]]))
        assert len(list((tmp_path / "runs").glob("run-*/parameters.json"))) == 2
        assert (Path(model.message.partition("(in ")[2][:-1]) / "stderr.txt").exists()

    def test_a_changing_number_of_outputs_ends_the_run(self):
        with pytest.raises(WrongShapeError, match="outputs must be as many in every run, 1 as before, got 2"):
            shell("if [ $1 = 0.0 ]; then echo 1; else echo 1 2; fi")(np.array([[0.0, 0.0], [1.0, 0.0]]))

    def test_outputs_of_another_shape(self):
        with pytest.raises(RuntimeError, match=r"outputs have shape \(1, 1\), not \(m,\)"):
            shell("echo 1", lambda run: [[1.0]])(THETA)

    def test_a_program_that_has_gone_since_ends_the_run(self, tmp_path):
        (tmp_path / "own").write_text("#!/bin/sh\necho $1\n")
        (tmp_path / "own").chmod(0o755)
        model = iv.executable([tmp_path / "own", "{{a}}"], printed)
        (tmp_path / "own").unlink()
        with pytest.raises(ModelError, match=r"command must name a program that can be run: .*No such file"):
            model(THETA[:, :1])


class TestArguments:
    @pytest.mark.parametrize(
        "settings, words",
        [
            ({"command": "no-such-program"}, "command must name a program that is there and can be run, got 'no-such-"),
            ({"command": "./no/such"}, "command must name a program that is there and can be run, got './no/such'"),
            ({"command": "echo 'a"}, "command must be a command, .*No closing quotation"),
            ({"command": "echo"}, "parameters must be given, got None"),
            ({"command": "echo {{a b}}"}, r"command must have names of parameters between double braces, got {{a b}}"),
            ({"command": "echo {{a:x}}"}, "command must have a format of a float behind the colon, .*got 'x'"),
            ({"command": "echo {{a}}", "parameters": ["b"]}, r"templates must name parameters of \['b'\], got {{a}}"),
            (
                {"command": "echo {{a}}", "parameters": ["a", "b"]},
                "none of them, got none for 'b', which the program w",
            ),
            ({"command": "echo {{a}} {{a[0]}}"}, "templates must name either a or its entries"),
            ({"command": "echo {{a[0]}} {{a[2]}}"}, r"templates must name all entries of a, got none for a\[1\]"),
            (
                {"command": "echo {{a[0]}}", "parameters": {"a": 2}},
                r"parameters\['a'\] must be the number of its places",
            ),
            ({"command": "echo {{a}}", "files": ["/no/such"]}, "files must be there, got /no/such"),
            ({"command": "echo {{a}}", "templates": {"../x": ""}}, "templates must have names of files within"),
            ({"command": "echo {{a}}", "templates": {"x": 1}}, r"templates\['x'\] must be a text or a pathlib.Path"),
            ({"command": "echo {{a}}", "environment": {"x": 1}}, "environment must be a mapping from text to text"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, settings, words):
        with pytest.raises(ValueError, match=words):
            iv.executable(outputs=printed, **settings)


class TestPosterior:
    def test_a_place_that_names_no_parameter_of_the_prior(self):
        model = iv.executable(["echo", "{{a}}", "{{c}}"], printed)
        with pytest.raises(ValueError, match=r"forward\['model'\].parameters.*'c'"):
            iv.Posterior(PRIOR, model, np.zeros(2), iv.GaussianNoise(1.0))

    def test_a_parameter_that_the_program_does_not_get(self):
        model = iv.executable(["echo", "{{a}}"], printed)
        with pytest.warns(UserWarning, match="neither a model nor the noise uses 'b': the data do not inform it"):
            iv.Posterior(PRIOR, model, np.zeros(1), iv.GaussianNoise(1.0))

    def test_a_database_of_its_runs(self, tmp_path):
        log = tmp_path / "calls"
        model = shell(f"echo x >> {log}; echo $1 $2; test $1 != 0.5", workers=2, version="7")
        posterior = iv.Posterior(PRIOR, model, np.zeros(2), iv.GaussianNoise(1.0), simulations=tmp_path / "runs")
        theta = np.array([[1.0, 2.0], [0.5, 0.0], [1.0, 3.0]])
        for _ in range(2):
            y = posterior.predict(theta)
            np.testing.assert_array_equal(y, np.where(theta[:, :1] == 0.5, np.nan, theta))
        assert len(log.read_text().split()) == 3
        database = iv.simulations.SimulationDatabase.open(tmp_path / "runs", version="7")
        assert database.names == ("a", "b") and database.lookup(theta).messages[1] == "exit status 1"
        assert (database.table().seconds > 0.0).all()
