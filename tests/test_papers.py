"""The table of the papers' names in docs/papers.md: every call makes its sampler, every preset has a line."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv
from invsamp import presets

PAGE = (Path(__file__).parents[1] / "docs" / "papers.md").read_text()
ROWS = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| `(iv\.[^`]+)` \|$", PAGE, re.MULTILINE)
CALLS = {f"{paper}: {name.strip()}": call for paper, name, call in ROWS}


def made(call):
    return eval(call, {"iv": iv})


@pytest.mark.parametrize("name", CALLS)
def test_every_call_makes_a_sampler(name):
    assert isinstance(made(CALLS[name]), iv.Sampler)


def test_all_five_papers_and_all_of_their_samplers_are_there():
    assert {paper for paper, *_ in ROWS} == {"reLD", "VR", "thesis", "f-reSGLD", "r2SGLD"}
    assert len(CALLS) == len(ROWS) > 30
    named = {re.match(r"iv\.(\w+)", call)[1] for call in CALLS.values()}
    assert named <= set(presets.__all__)
    approximate = {
        "cyclic_sgld",
        "sghmc",
        "sgld",
        "resgld",
        "r2sgld",
        "multi_variance_resgld",
        "fast_resgld",
        "vr_resgld",
    }
    baselines = {"csgld", "icsgld", "awsgld", "deo_sgd", "psgld", "svgd", "sgd"}
    assert named == approximate | baselines | {"relangevin", "paired_resgld", "contour_exchange"}


@pytest.mark.parametrize(
    "name", [name for name in presets.__all__ if "friction" in inspect.signature(getattr(presets, name)).parameters]
)
def test_at_friction_one_momentum_is_none(name):
    """The rung's kernel is that of its Langevin form; `sghmc` and `ghmc` keep theirs, which makes the same law."""
    contours = (0.1, [1.0, 2.0, 3.0])
    needed = {"paired_resgld": ([[0.0]],), "cyclic_sgld": (0.1,), "csgld": contours, "icsgld": contours}
    given = needed.get(name, ())
    plain, other = (getattr(presets, name)(*given, friction=friction).rungs for friction in (1.0, 0.3))
    assert all(rung.kernel.friction == 1.0 for rung in plain) and all(rung.kernel.friction == 0.3 for rung in other)
    if name not in ("sghmc", "ghmc"):
        assert all(isinstance(rung.kernel, iv.Langevin) for rung in plain)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sghmc_at_friction_one_makes_the_draws_of_sgld():
    target = iv.Target(iv.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x.copy()), 2))
    runs = [
        iv.sample(target, sampler, draws=20, warmup=0, seed=1, progress=False)
        for sampler in (iv.sghmc(0.1, friction=1.0), iv.sgld(0.1))
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=1e-12)
