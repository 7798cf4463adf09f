"""Whoever passes a wrong argument is told which one: nothing wrong is accepted, and nothing fails from inside."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from base_calls import base_calls, found, methods
from fuzzing import outcome, wrong_calls

import invsamp as iv


def test_everything_public_has_a_call_to_start_from() -> None:
    calls = base_calls()
    missing = {name for name in found() if name not in calls}
    assert not missing, f"tests/tools/base_calls.py needs a valid call of each of {sorted(missing)}"
    called = {name.split(".")[-1] for name in calls}
    classes = [value for name in iv.__all__ if isinstance(value := getattr(iv, name), type)]
    missing = {method for value in classes for method in methods(value)} - called
    assert not missing, f"tests/tools/base_calls.py needs a valid call of each of the methods {sorted(missing)}"


def test_wrong_arguments_are_told_by_name(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    calls, number = base_calls(), request.config.getoption("--fuzz")
    made = [outcome(name, calls[name], *rest) for name, *rest in islice(wrong_calls(calls, seed=0), number)]
    answers = Counter(one.answer for one in made)
    print(f"\n{number} wrong calls of {len(calls)} public callables:", dict(answers))
    others = [str(one) for one in made if one.answer != "told"]
    assert not answers["hangs"] and not answers["accepted"], others
    assert answers["told"] >= 0.99 * number, others
