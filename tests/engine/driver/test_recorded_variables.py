"""Quantities of interest at each draw, and runs that keep them in place of their parameters."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

POSTERIOR = iv.Posterior(
    iv.Prior(a=iv.Normal(0, 1, shape=2), b=iv.LogNormal(0, 1)),
    iv.with_jacobian(
        lambda t: t[:, :2] * t[:, 2:],
        lambda t: np.stack(
            [np.stack([t[:, 2], 0 * t[:, 0], t[:, 0]], axis=1), np.stack([0 * t[:, 0], t[:, 2], t[:, 1]], axis=1)],
            axis=1,
        ),
    ),
    [0.5, -0.3],
    iv.GaussianNoise(0.2),
)
LENGTH = {"draws": 40, "warmup": 100, "chains": 3}


def norm(theta: np.ndarray) -> np.ndarray:
    return np.square(theta).sum(axis=1)


def outer(theta: np.ndarray) -> np.ndarray:
    return (theta[:, :2, None] * theta[:, None, :]).astype(np.float32)


RECORD = {"norm": norm, "outer": outer}


@pytest.mark.parametrize("sampler", [iv.mala(), iv.samplers.parallel_tempering((1, 4))], ids=["one rung", "two rungs"])
def test_functions_of_the_draws_that_are_kept(sampler, draw):
    plain = draw(POSTERIOR, sampler, thin=2, **LENGTH)
    run = draw(POSTERIOR, sampler, thin=2, record=RECORD, **LENGTH)
    np.testing.assert_array_equal(run.theta, plain.theta)  # recording changes nothing
    rows = run.theta.reshape(-1, 3)
    np.testing.assert_array_equal(run.draws("norm").ravel(), norm(rows))
    np.testing.assert_array_equal(run.draws("outer").reshape(-1, 2, 3), outer(rows))
    assert run.draws("outer").dtype == np.float32
    assert run.recorded == {"norm": (), "outer": (2, 3)} and run.shapes == {"a": (2,), "b": ()}
    assert run.summary().index.tolist()[:5] == ["a[0]", "a[1]", "b", "norm", "outer[0, 0]"]
    np.testing.assert_allclose(run.summary()["mean"]["norm"], norm(rows).mean())
    assert run.rungs == plain.rungs


@pytest.mark.parametrize("sampler", [iv.mala(), iv.samplers.parallel_tempering((1, 4))], ids=["one rung", "two rungs"])
def test_in_place_of_parameters(sampler, draw, monkeypatch):
    plain = draw(POSTERIOR, sampler, **LENGTH)
    run = draw(POSTERIOR, sampler, record=RECORD, keep=False, **LENGTH)
    np.testing.assert_array_equal(run.draws("norm").ravel(), norm(plain.theta.reshape(-1, 3)))
    assert run.shapes == {} and set(run.data.posterior.data_vars) == {"norm", "outer"}
    assert "prior" not in run.data and "hot" not in run.data
    with pytest.raises(ValueError, match=r"keeps no parameters \(keep=False\), but \['norm', 'outer'\]"):
        run.theta  # noqa: B018
    monkeypatch.undo()
    assert any(message.startswith("IV-ESS: ess_bulk is below 300: ") for message in run.warnings())
    assert "norm" in repr(run)
    some = draw(POSTERIOR, sampler, record={"norm": norm}, keep="b", **LENGTH)
    np.testing.assert_array_equal(some.draws("b"), plain.draws("b"))
    assert some.shapes == {"b": ()} and some.recorded == {"norm": ()} and some.theta.shape == (3, 40, 1)
    assert set(some.data.prior.data_vars) == {"b"}
    for name in ("energy", "acceptance_rate"):
        np.testing.assert_array_equal(some.data.sample_stats[name], plain.data.sample_stats[name])
    assert some.report["outside"] == plain.report["outside"] and some.report["draws"] == 40
    with pytest.raises(ValueError, match="posterior must have the parameters of the run"):
        some.posterior_predictive(POSTERIOR)


@pytest.mark.parametrize(
    "keep", [pytest.param(True, marks=pytest.mark.slow), ("b",), False], ids=["all", "some", "none"]
)
def test_saved_and_resumed(keep, draw, tmp_path):
    sampler = iv.samplers.parallel_tempering((1, 4))
    settings = {"record": RECORD, "keep": keep}
    whole = draw(POSTERIOR, sampler, **settings, **LENGTH)
    draw(POSTERIOR, sampler, directory=tmp_path / "run", segment=7, **settings, **(LENGTH | {"draws": 15}))
    again = iv.resume(tmp_path / "run", POSTERIOR, draws=40, progress=False, record=RECORD)
    for name in ("norm", "outer", *whole.shapes):
        np.testing.assert_array_equal(again.draws(name), whole.draws(name))
    assert again.shapes == whole.shapes and again.recorded == whole.recorded
    whole.save(tmp_path / "run.nc")
    loaded = iv.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded.draws("outer"), whole.draws("outer"))
    assert loaded.recorded == whole.recorded and loaded.shapes == whole.shapes
    for record in (None, {"norm": norm}):
        with pytest.raises(ValueError, match=r"record must have the functions \['norm', 'outer'\]"):
            iv.resume(tmp_path / "run", POSTERIOR, draws=50, progress=False, record=record)


def test_a_weighted_run(draw):
    target = iv.Target(iv.LogDensity(lambda x: -0.5 * x[:, 0] ** 2, lambda x: -x, dimension=1))
    run = draw(
        target, iv.samplers.csgld(0.1, np.arange(0.5, 4, 0.5)), record={"x": lambda x: x[:, 0]}, keep=False, **LENGTH
    )
    assert run.weights.shape == (3, 40)
    np.testing.assert_allclose(run.summary()["mean"]["x"], np.average(run.draws("x"), weights=run.weights))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"record": norm}, "record must be a mapping of names to functions"),
        ({"record": {"norm": 1.0}}, r"record\['norm'\] must be a function"),
        ({"record": {"a": norm}}, "record must have names that nothing else in a run has, got 'a'"),
        ({"record": {"energy": norm}}, "record must have names that nothing else in a run has, got 'energy'"),
        ({"record": {"a/b": norm}}, "cannot be called 'a/b'"),
        (
            {"record": {"norm": lambda theta: 1.0}},
            r"result of record\['norm'\] must have a row for each of the 3 theta",
        ),
        ({"record": {"norm": lambda theta: "one"}}, r"result of record\['norm'\] must be"),
        ({"keep": False}, "keep must hold a parameter"),
        ({"keep": "c"}, "keep must be one of 'a', 'b', got 'c'"),
        ({"keep": 3}, "keep must be"),
    ],
)
def test_refused(changed, message, draw):
    with pytest.raises(ValueError, match=message):
        draw(POSTERIOR, iv.mala(), **changed, **LENGTH)


def test_a_shape_that_changes(draw):
    shapes = iter(range(1, 100))
    with pytest.raises(ValueError, match="must return one shape for all theta"):
        draw(POSTERIOR, iv.mala(), record={"some": lambda theta: np.ones((3, next(shapes)))}, **LENGTH)
