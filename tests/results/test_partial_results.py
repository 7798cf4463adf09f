"""What fails after the last step, stage by stage: the draws come back all the same, and what failed is said."""

from __future__ import annotations

import warnings

import launch
import matplotlib
import numpy as np
import pytest
from functions import squares, squares_slope

import invsamp as iv
from invsamp.engine.driver.draw_buffer import Draws
from invsamp.engine.driver.engine import Engine
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.results.run import Run
from invsamp.storage import contents

SETTINGS = {"draws": 10, "warmup": 6, "chains": 2, "seed": 5, "progress": False}
SAMPLER = iv.samplers.parallel_tempering((1.0, 3.0), step_size=0.01, preconditioner=None)


def posed():
    prior = iv.Prior(a=iv.Normal(0, 1), k=iv.LogNormal(0, 1, shape=2))
    return iv.Posterior(prior, iv.with_jacobian(squares, squares_slope), [1.0, 2.0, 0.5], iv.GaussianNoise(0.5))


def sampled(directory=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = iv.sample(posed(), SAMPLER, **SETTINGS, directory=directory)
    assert all(warning.filename == __file__ for warning in caught)
    return run, [str(warning.message) for warning in caught]


@pytest.fixture(scope="module")
def whole():
    return sampled()[0]


class Broken(Exception):
    """What a mistake somewhere raises."""


STAGES = {
    "the count of the draws outside of the domain": (Engine, "count"),
    "the report": (Engine, "report"),
    "the conversion to natural parameters": (Posterior, "to_theta"),
    "the record of the run": (Run, "from_arrays"),
    "the diagnostics": (Run, "warnings"),
}


@pytest.mark.parametrize("error", [Broken, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("stage", STAGES)
def test_the_draws_come_back(whole, monkeypatch, stage, error):
    where, name = STAGES[stage]
    real, calls = getattr(where, name), []

    def fail(*args, **kwargs):
        calls.append(name)
        if where is Run and name == "from_arrays" and len(calls) > 1:
            return real(*args, **kwargs)  # of what is left
        raise error("on purpose")

    monkeypatch.setattr(where, name, fail)
    run, said = sampled()
    assert calls
    (warning,) = (message for message in said if "after the last step" in message)
    assert warning.startswith(f"IV-INCOMPLETE: after the last step {stage} failed ({error.__name__}: on purpose)")
    if name != "warnings":
        assert warning in run.report["warnings"]
    if name == "to_theta":
        assert list(run.shapes) == ["position"]
        theta = whole.theta.copy()
        theta[..., 1:] = np.log(theta[..., 1:])
        np.testing.assert_allclose(run.theta, theta, rtol=1e-12)
        assert run.rung_theta(1).shape == theta.shape
    else:
        np.testing.assert_array_equal(run.theta, whole.theta)
        np.testing.assert_array_equal(run.rung_theta(1), whole.rung_theta(1))
    assert run.report["seed"] == 5 and run.report["warmup"] == 6
    assert set(run.data) >= {"posterior", "hot"}
    assert ("energy" in run.data.get("sample_stats", ())) == (name != "from_arrays")


@pytest.mark.parametrize("name", ["constants", "attributes_of", "groups_of"])
def test_the_draws_come_back_from_a_failure_within_the_record(whole, monkeypatch, name):
    """A prior that cannot be drawn from any more, a part that cannot be written as JSON."""
    real, calls = getattr(contents, name), []

    def fail(*args):
        calls.append(name)
        if len(calls) == 1:
            raise Broken("on purpose")
        return real(*args)

    monkeypatch.setattr(f"invsamp.results.run.{name}", fail)
    run, said = sampled()
    assert any(
        line.startswith("IV-INCOMPLETE: after the last step the record of the run failed (Broken: on purpose)")
        for line in said
    )
    np.testing.assert_array_equal(run.theta, whole.theta)


def test_a_conversion_to_another_shape(whole, monkeypatch):
    monkeypatch.setattr(Posterior, "to_theta", lambda self, positions: positions[0])
    run, said = sampled()
    assert any("failed (ValueError: to_theta gave the shape (2, 10, 3)" in line for line in said)
    assert run.draws("position").shape == whole.theta.shape


def test_a_prior_that_cannot_be_drawn_from_afterwards(whole, monkeypatch):
    real, begun = Prior.sample, []

    def sample(self, rng, n):
        if n == contents.PRIOR_DRAWS:
            raise Broken("on purpose")
        begun.append(n)
        return real(self, rng, n)

    monkeypatch.setattr(Prior, "sample", sample)
    run, _ = sampled()
    assert begun
    np.testing.assert_array_equal(run.theta, whole.theta)


@pytest.mark.parametrize("directory", [False, True])
def test_warnings_that_are_errors_are_printed(whole, tmp_path, capsys, directory):
    """They would leave `sample` in place of the draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run = iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "run" if directory else None)
    np.testing.assert_array_equal(run.theta, whole.theta)
    said = run.warnings()
    assert said
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")] == [
        f"warning: {message}" for message in said
    ]


def test_diagnostics_that_fail_take_no_run_of_a_directory_along(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "warnings", lambda self: 1 / 0)
    run, said = sampled(tmp_path / "run")
    assert said == [
        "IV-INCOMPLETE: after the last step the diagnostics failed (ZeroDivisionError: division by zero). "
        "No checks were made: run.warnings() tries again"
    ]
    np.testing.assert_array_equal(run.theta, whole.theta)


def test_an_interrupted_run_comes_back_where_warnings_are_errors(monkeypatch, capsys):
    real = Draws.append

    def append(self):
        real(self)
        if self.count == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Draws, "append", append)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run = iv.sample(posed(), SAMPLER, **SETTINGS)
    assert run.theta.shape == (2, 4, 3)
    assert "warning: IV-STOPPED: interrupted: the run holds the 4 draws" in capsys.readouterr().err


def test_the_first_step_waits_for_what_the_last_one_needs(monkeypatch):
    """An ArviZ that cannot be imported is reported before any solve."""

    def no():
        raise ImportError("no arviz")

    def never(theta):
        raise AssertionError("solved")

    monkeypatch.setattr("invsamp.sampling.load_arviz", no)
    with pytest.raises(ImportError, match="no arviz"):
        iv.sample(iv.Target(iv.extending.FunctionPotential(never, 1)), iv.mala(0.1), **SETTINGS)


def test_where_no_home_can_be_written(monkeypatch, tmp_path):
    """ArviZ writes to a folder below HOME when it is imported, and failed there."""
    monkeypatch.setenv("HOME", "/dev/null/x")
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())  # which would look for all fonts of the machine
    done = launch.python(
        """
        import os, sys
        import invsamp as iv
        target = iv.Target(iv.extending.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 1))
        run = iv.sample(target, iv.mala(0.1), draws=30, warmup=0, chains=2, seed=1, progress=False)
        run.save(sys.argv[1])
        print(iv.load(sys.argv[1]).theta.shape, run.data.posterior.sizes["draw"], os.environ["HOME"])
        """,
        tmp_path / "run.nc",
    )
    assert done.stdout.strip() == "(2, 30, 1) 30 /dev/null/x"


class Tired:
    """A model with a mistake that shows after some calls."""

    def __init__(self, calls=60):
        self.left = calls

    def __call__(self, theta):
        self.left -= 1
        if self.left < 0:
            raise iv.ModelError("the mesh file is gone")
        return theta**2


@pytest.mark.parametrize("report_fails", [False, True])
def test_a_run_that_a_mistake_of_the_model_ended_says_so(tmp_path, monkeypatch, report_fails):
    prior = iv.Prior(x=iv.Normal(0, 1))
    posterior = iv.Posterior(prior, iv.finite_differences(Tired()), [1.0], iv.GaussianNoise(0.5))
    if report_fails:
        monkeypatch.setattr(Engine, "report", lambda self: 1 / 0)
    with pytest.warns(UserWarning, match="the mesh file is gone") as caught:
        run = iv.sample(posterior, iv.mala(0.1), draws=500, warmup=0, chains=2, seed=1, progress=False)
    kept = run.theta.shape[1]
    assert 40 < kept < 60
    reason = run.warnings()[0]
    assert reason.startswith("IV-STOPPED: ModelError: the mesh file is gone (")
    assert reason == f"IV-STOPPED: {run.report['stopped']}"
    assert reason.endswith(f": the run holds the {kept} draws that were made, of 500")
    assert [str(warning.message) for warning in caught].count(reason) == 1
    assert reason in repr(run) and "no warnings" not in repr(run)
    run.save(tmp_path / "run.nc")
    assert iv.load(tmp_path / "run.nc").warnings()[0] == reason


def test_a_finished_run_was_not_stopped(whole):
    assert whole.report["stopped"] is None and not any("not finished" in text for text in whole.warnings())
