"""Wrong arguments are named in errors: none is accepted, and none fails from inside."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from base_calls import base_calls, found, methods
from fuzzing import Call, Hanging, deadline, kinds_of, names, outcome, wrong_calls
from public_names import NAMESPACES

import invsamp as iv
from invsamp import diagnostics
from invsamp.kernels.schedules import constant, step_size_at
from invsamp.problems import heat_modes, mixtures
from invsamp.solvers.fem.fields import PerBlock
from invsamp.solvers.heat import HeatEquation

BOWL = iv.extending.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 1)


def run(sampler: iv.ladder.Sampler, **settings: Any) -> iv.Run:
    return iv.sample(iv.Target(BOWL), sampler, **({"draws": 5, "warmup": 5, "progress": False} | settings))


#: What would change a result in silence, or be read as something else; and the argument that has to be named.
NONSENSE: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("assume_unbiased", lambda: iv.swaps.state_dependent_penalty(assume_unbiased="no")),
    ("assume_unbiased", lambda: iv.samplers.multi_variance_resgld(assume_unbiased="False")),
    ("equalize", lambda: iv.swaps.noise_penalty(equalize="no")),
    ("adjusted", lambda: iv.samplers.parallel_tempering(adjusted="False")),
    ("adjusted", lambda: iv.kernels.Langevin(adjusted="no")),
    ("progress", lambda: run(iv.samplers.sgld(0.1), progress="no")),
    ("precompute", lambda: HeatEquation(4, 2, 0.1).observe([[0.5, 0.5]], precompute="no")),
    ("averaged", lambda: heat_modes.posterior([8], averaged="no")),
    ("size", lambda: iv.estimators.minibatch(2.7)),
    ("size", lambda: iv.estimators.minibatch(True + 1.0)),
    ("groups", lambda: iv.estimators.minibatch(2, groups=[0.2, 0.9, 1.7])),
    ("states", lambda: iv.variances.kernel_ridge(states=100.0)),
    ("cycle", lambda: iv.kernels.schedules.cyclic_cosine(0.1, 2.5)),
    ("begin", lambda: iv.kernels.schedules.exponential(0.1, 0.9, begin=2.5)),
    ("fidelity", lambda: iv.mala(fidelity=np.nan)),
    ("fidelity", lambda: iv.mala(fidelity=True)),
    ("fidelities", lambda: iv.samplers.parallel_tempering(fidelities="ab")),
    ("step_size", lambda: run(iv.samplers.sgld(lambda k: -0.01))),
    ("step_size", lambda: run(iv.samplers.sgld(lambda k: 0.1 if k < 5 else np.nan))),
    ("step_size", lambda: run(iv.samplers.sgld(lambda k: 0.1 - 0.02 * k))),
    ("step_size", lambda: run(iv.samplers.sghmc(lambda k: "0.1"))),
    ("swap", lambda: iv.samplers.r2sgld(swap={})),
    ("scheme", lambda: iv.samplers.r2sgld(scheme=[])),
    ("estimator", lambda: iv.samplers.r2sgld(estimator="")),
    ("estimator", lambda: iv.samplers.sgld(0.1, estimator=[])),
    ("estimator", lambda: iv.samplers.sgld(0.1, estimator=iv.estimators.exact)),
    ("energy_variance", lambda: iv.samplers.multi_variance_resgld(energy_variance="x")),
    ("energy_variance", lambda: iv.resgld(energy_variance=[])),
    ("variance", lambda: iv.samplers.fast_resgld(variance=0)),
    ("temperatures", lambda: iv.samplers.parallel_tempering(("1", "4"))),
    ("mean", lambda: iv.Normal([], 1)),
    ("sd", lambda: iv.Normal(0, True)),
    ("shape", lambda: iv.Normal(0, 1, shape=True)),
    ("shape", lambda: iv.Normal(0, 1, shape="")),
    ("scale", lambda: iv.GaussianNoise("")),
    ("degrees_of_freedom", lambda: iv.StudentTNoise(True, 1.0)),
    ("dimension", lambda: iv.extending.FunctionPotential(BOWL.function, 1.5)),
    ("function", lambda: iv.extending.FunctionPotential("energy", 1)),
    ("names", lambda: iv.Target(iv.extending.FunctionPotential(BOWL.function, 2), names="ab")),
    ("start", lambda: iv.Target(BOWL, start=[[np.nan]])),
    ("potentials", lambda: iv.Target(iv.extending.FunctionPotential)),
    ("parameters", lambda: iv.finite_differences(lambda t: t, parameters=["a", 1])),
    ("relative_step", lambda: iv.finite_differences(lambda t: t, relative_step=True)),
    ("seed", lambda: run(iv.samplers.sgld(0.1), seed=1.0)),
    ("radius", lambda: iv.domains.Ball([0.0], True)),
    ("center", lambda: iv.domains.Ball([True], 1.0)),
    ("resolution", lambda: iv.domains.LevelSet(lambda x: x[:, 0], lambda x: np.ones_like(x), 1, resolution="0.1")),
    ("value", lambda: iv.variances.known(True)),
    ("value", lambda: iv.variances.known("1.0")),
    ("shape", lambda: PerBlock("k", (2.5, 2))),
    ("path", lambda: diagnostics.round_trips([0.4, 1.2], 2)),
    ("n", lambda: diagnostics.iid_floor([0.5, 0.5], 5.5)),
    ("method", lambda: diagnostics.ess(np.zeros((2, 10)), "median")),
    ("means", lambda: mixtures.GaussianMixture([1.0], [np.nan], [1.0])),
)


@pytest.mark.parametrize("number", range(len(NONSENSE)))
def test_nonsense_is_not_accepted(number: int) -> None:
    argument, call = NONSENSE[number]
    with pytest.raises(ValueError) as error:
        call()
    assert names(str(error.value), argument), f"{argument}: {error.value}"


def test_a_schedule_is_asked_for_its_last_step_first() -> None:
    with pytest.raises(
        ValueError, match=r"step_size must be a positive finite number, got -1.0 from .* at iteration 9"
    ):
        step_size_at(lambda k: -1.0, 9)
    assert step_size_at(constant(0.1), 10**6) == 0.1


def test_everything_public_has_a_call_to_start_from() -> None:
    calls = base_calls()
    missing = {name for name in found() if name not in calls}
    assert not missing, f"tests/tools/base_calls.py needs a valid call of each of {sorted(missing)}"
    called = {name.split(".")[-1] for name in calls}
    spaces = [iv, *(importlib.import_module(name) for name in NAMESPACES)]
    classes = [value for space in spaces for name in space.__all__ if isinstance(value := getattr(space, name), type)]
    classes = [value for value in classes if not getattr(value, "_is_protocol", False)]
    missing = {method for value in classes for method in methods(value)} - called
    assert not missing, f"tests/tools/base_calls.py needs a valid call of each of the methods {sorted(missing)}"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:More than 20 figures:RuntimeWarning")
def test_the_calls_that_are_made_wrong_are_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, call in base_calls().items():
        assert call() is not Ellipsis, name


@pytest.mark.filterwarnings("ignore:More than 20 figures:RuntimeWarning")
def test_wrong_arguments_are_named(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of 5,000 wrong calls (``--fuzz N`` makes more) none is accepted or hangs, and 99% name the argument."""
    monkeypatch.chdir(tmp_path)
    calls, number = base_calls(), request.config.getoption("--fuzz")
    made = [outcome(name, calls[name], *rest) for name, *rest in islice(wrong_calls(calls, seed=0), number)]
    answers = Counter(one.answer for one in made)
    print(f"\n{number} wrong calls of {len(calls)} public callables: {dict(answers)}")
    others = "\n".join(str(one) for one in made if one.answer != "named")
    assert not answers["hangs"] and not answers["accepted"], others
    assert answers["named"] >= 0.99 * number, others


class TestTheFuzzer:
    """It would notice."""

    def test_what_is_accepted_or_fails_from_inside(self) -> None:
        def deaf(size: int = 1) -> Any:
            return size if isinstance(size, str) else 1 + size

        assert outcome("deaf", Call(deaf), "size", lambda: "no").answer == "accepted"
        assert outcome("deaf", Call(deaf), "size", list).answer == "from inside"
        assert outcome("named", Call(iv.estimators.minibatch), "size", list).answer == "named"

    def test_a_call_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fuzzing.SECONDS", 0.05)
        with pytest.raises(Hanging), deadline():
            while True:
                pass

    def test_what_names_an_argument(self) -> None:
        assert names("sizes[2] must be positive, got 0", "sizes") and not names("resizes must be", "sizes")
        assert names("a must be positive, got 0", "a") and not names("this is a list", "a")

    def test_kinds(self) -> None:
        assert kinds_of("float | Sequence[float | None] | None") == {"integer", "real", "entries", "none"}
        assert kinds_of("Callable[[Array], Array] | None") == {"function", "none"}
        assert kinds_of("Posterior") == {"part"}
