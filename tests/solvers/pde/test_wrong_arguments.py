"""A wrong argument of an equation in UFL is named in the error."""

from __future__ import annotations

from itertools import islice

import pytest
from fuzzing import outcome, wrong_calls

pytestmark = pytest.mark.dolfinx


def test_wrong_arguments_are_named(monkeypatch, tmp_path):
    """Of 300 wrong calls every one; `tests.test_wrong_arguments` is the same for what needs no dolfinx."""
    pytest.importorskip("dolfinx")
    from pde_calls import pde_calls

    monkeypatch.chdir(tmp_path)
    calls = pde_calls()
    for call in calls.values():
        call()
    made = [outcome(name, calls[name], *rest) for name, *rest in islice(wrong_calls(calls, seed=0), 300)]
    assert not [str(one) for one in made if one.answer != "named"]
