"""Checks of arguments take what stands for a value, refuse what does not, and name what was wrong."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invsamp import arguments, from_jax, from_pymc, from_torch
from invsamp.estimators.exact_energies import Exact
from invsamp.solvers.ode import from_sbml
from invsamp.surrogates.residuals import GaussianProcess

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("check", "value", "clean"),
    [
        (arguments.boolean, np.True_, True),
        (arguments.integer, np.int32(3), 3),
        (arguments.integer, np.array(3), 3),
        (arguments.real, 2, 2.0),
        (arguments.real, np.float32(0.5), 0.5),
        (arguments.real, np.array(0.5), 0.5),
        (arguments.real, Fraction(1, 4), 0.25),
        (arguments.text, np.str_("a"), "a"),
        (arguments.names, ["a", "b"], ("a", "b")),
        (arguments.sequence, np.arange(2), (0, 1)),
        (arguments.sequence, range(2), (0, 1)),
    ],
)
def test_clean_values(check: Callable[[str, Any], Any], value: Any, clean: Any) -> None:
    found = check("x", value)
    assert found == clean and type(found) is type(clean)


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (arguments.boolean, "no", "x must be True or False, got 'no'"),
        (arguments.boolean, 1, "x must be True or False, got 1"),
        (arguments.integer, 2.0, "x must be an integer, got 2.0"),
        (arguments.integer, True, "x must be an integer, got True"),
        (arguments.integer, np.True_, "x must be an integer, got"),
        (arguments.real, True, "x must be a finite number, got True"),
        (arguments.real, np.nan, "x must be a finite number, got nan"),
        (arguments.real, "1", "x must be a finite number, got '1'"),
        (arguments.real, 1j, "x must be a finite number, got 1j"),
        (arguments.real, 10**400, "x must be a finite number, got 1000"),
        (arguments.real, np.ones(1), "x must be a finite number, got array([1.])"),
        (arguments.real, np.ma.masked, "x must be a finite number, got"),
        (arguments.array, [1.0, "2"], "x must be finite numbers, got [1.0, '2']"),
        (arguments.array, [1.0, None], "x must be finite numbers, got [1.0, None]"),
        (arguments.array, [[1.0], [1.0, 2.0]], "x must be finite numbers, got [[1.0], [1.0, 2.0]]"),
        (arguments.array, [1.0, 1j], "x must be finite numbers, got [1.0, 1j]"),
        (arguments.array, [True], "x must be finite numbers, got [True]"),
        (arguments.array, [[0.0, np.inf]], "x must be finite numbers, got inf at index (0, 1)"),
        (arguments.array, [], "x must have at least one entry, got none"),
        (arguments.array, np.ma.array([1.0, 2.0], mask=[0, 1]), "x must have no masked entries, got 1 of 2"),
        (arguments.text, "", "x must be a string that is not empty, got ''"),
        (arguments.function, 3, "x must be a function, got 3"),
        (arguments.sequence, "abc", "x must be a sequence of at least one entry, got 'abc'"),
        (arguments.sequence, {"a": 1}, "x must be a sequence of at least one entry, got {'a': 1}"),
        (arguments.sequence, (), "x must be a sequence of at least one entry, got ()"),
        (arguments.sequence, iter([1]), "x must be a sequence of at least one entry, got"),
        (arguments.names, ["a", "a"], "x must be a sequence of distinct names, got ['a', 'a']"),
        (arguments.names, ["a", 1], "x must be a sequence of distinct names, got ['a', 1]"),
        (arguments.mapping, [1], "x must be a mapping, got [1]"),
    ],
)
def test_refused(check: Callable[[str, Any], Any], value: Any, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        check("x", value)


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "right"),
    [
        ({"above": 0}, 1e-300, 0.0, "a positive finite number"),
        ({"least": 0}, 0.0, -0.1, "a finite number >= 0"),
        ({"above": 0, "most": 1}, 1.0, 0.0, "a number in (0, 1]"),
        ({"least": 0.5, "below": 1}, 0.5, 1.0, "a number in [0.5, 1)"),
        ({"below": 3}, 2.0, 3.0, "a number < 3"),
        ({"least": 1, "finite": False}, np.inf, np.nan, "a number >= 1"),
    ],
)
def test_ranges(limits: dict[str, Any], inside: float, outside: float, right: str) -> None:
    assert arguments.real("x", inside, **limits) == inside
    assert arguments.array("x", [[inside]], **limits).tolist() == [[inside]]
    with pytest.raises(ValueError, match=re.escape(f"x must be {right}, got {outside}")):
        arguments.real("x", outside, **limits)
    several = right[2:].replace("number", "numbers")
    with pytest.raises(ValueError, match=re.escape(f"x must be {several}, got {outside} at index 1")):
        arguments.array("x", [inside, outside], **limits)


def test_integers_in_a_range() -> None:
    assert arguments.integer("x", 2, least=1, most=2) == 2
    for limits, words in (({"least": 3}, "an integer >= 3"), ({"least": 3, "most": 5}, "an integer in [3, 5]")):
        with pytest.raises(ValueError, match=re.escape(f"x must be {words}, got 2")):
            arguments.integer("x", 2, **limits)


def test_shapes() -> None:
    assert arguments.array("x", np.ones((3, 2)), ("k", 2)).shape == (3, 2)
    assert arguments.array("x", np.ones((0, 2)), ("k", 2), empty=True).shape == (0, 2)
    for shape, value in (((2, 2), np.ones(2)), (("n", "n"), np.ones((2, 3))), (("k",), 1.0)):
        with pytest.raises(ValueError, match=r"x must have shape \("):
            arguments.array("x", value, shape)


def test_an_array_of_floats_is_passed_on() -> None:
    values = np.ones(3)
    assert arguments.array("x", values) is values
    assert np.isnan(arguments.array("x", [np.nan], nan=True)).all()


def test_a_class_is_no_object_of_its_own() -> None:
    class Batch:
        def bind(self, potential: Any, structure: Any) -> Any: ...

    assert arguments.instance("x", Exact(), Exact, "an Exact") == Exact()
    for value in (Exact, Batch):
        with pytest.raises(ValueError, match="x must be an estimator, got <class"):
            arguments.instance("x", value, (Exact, Batch), "an estimator")


def test_options_are_reported() -> None:
    assert arguments.one_of("x", "b", ("a", "b")) == "b"
    for value in ("c", None, ["a"], np.array(["a", "b"])):
        with pytest.raises(ValueError, match="x must be one of 'a', 'b', got"):
            arguments.one_of("x", value, ("a", "b"))
    with pytest.raises(ValueError, match="x must be one of 1, 2, got True"):
        arguments.one_of("x", True, (1, 2))


def test_a_value_that_cannot_be_shown_or_is_long() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    assert arguments.shown(Silent()) == "an object of Silent"
    assert len(arguments.shown("x" * 10_000)) < 210


def _fit_gaussian_process() -> None:
    GaussianProcess().fitted(np.zeros((2, 1)), np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("extra", "module", "use"),
    [
        ("jax", "jax", lambda: from_jax(abs)(np.ones((1, 1)))),
        ("torch", "torch", lambda: from_torch(abs)(np.ones((1, 1)))),
        ("pymc", "pymc", lambda: from_pymc(None)),
        ("gp", "sklearn", _fit_gaussian_process),
        ("petab", "libsbml", lambda: from_sbml(__file__)),
    ],
)
def test_what_an_extra_brings_is_asked_for_by_its_name(
    extra: str, module: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(
        ModuleNotFoundError, match=rf"{module}, which is not installed: pip install 'invsamp\[{extra}\]'"
    ):
        use()
    assert extra in EXTRAS


def test_what_a_package_of_an_extra_lacks_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        arguments.needed("it needs", "extra", "half_installed")
