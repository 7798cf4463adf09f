"""Options that presets share: help shows them, wrong names are refused, and one that is left out has its default."""

from __future__ import annotations

import inspect
import re
from typing import Unpack

import pytest

from invsamp import samplers
from invsamp.kernels import Langevin
from invsamp.ladder import Rung, Sampler
from invsamp.samplers.options import DEFAULTS, DESCRIPTIONS, RungOptions, preset

PRESETS = {name: getattr(samplers, name) for name in samplers.__all__}


@preset(fidelity=2)
def example(step_size: float, **options: Unpack[RungOptions]) -> Sampler:
    """An example.

    Raises
    ------
    ValueError
        Never.
    """
    rung = Rung(fidelity=options["fidelity"], kernel=Langevin(adjusted=True), step_size=step_size)
    return Sampler((rung,), preconditioner=options["preconditioner"], boundary=options["boundary"])


def described(text: str) -> set[str]:
    """Arguments that a docstring in numpydoc's form has an entry for."""
    entries = re.findall(r"^(\w+(?:, \w+)*)(?: : .*)?\n    \S", text, re.MULTILINE)
    return {name for entry in entries for name in entry.split(", ")}


@pytest.mark.parametrize("name", PRESETS)
def test_help_shows_and_describes_every_argument(name: str) -> None:
    parameters = inspect.signature(PRESETS[name]).parameters
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values())
    assert set(parameters) <= described(inspect.getdoc(PRESETS[name]) or "")


@pytest.mark.parametrize("name", PRESETS)
def test_a_misspelt_argument_is_refused_by_name(name: str) -> None:
    needed = [p.name for p in inspect.signature(PRESETS[name]).parameters.values() if p.default is p.empty]
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'boundry'"):
        PRESETS[name](**dict.fromkeys(needed, 0.1), boundry="reflect")


def test_signature_defaults_and_docstring() -> None:
    assert str(inspect.signature(example)) == (
        "(step_size: 'float', *, preconditioner: 'str | Modes | LearnedMap | None' = 'auto', "
        "boundary: 'Boundary | str' = 'reflect', fidelity: 'str | int' = 2) -> 'Sampler'"
    )
    (rung,) = example(0.1).rungs
    assert rung.fidelity == 2 and example(0.1).preconditioner == Sampler((rung,), preconditioner="auto").preconditioner
    assert example(0.1, fidelity=1, boundary="ignore").rungs[0].fidelity == 1
    text = inspect.getdoc(example) or ""
    assert described(text) == {"step_size", "preconditioner", "boundary", "fidelity", "ValueError"}
    assert text.index("Parameters\n---") < text.index("Raises\n---")
    with pytest.raises(TypeError, match=r"example\(\) missing a required argument: 'step_size'"):
        example()  # type: ignore[call-arg]


def test_every_option_has_a_default_and_a_description() -> None:
    assert set(DEFAULTS) <= set(DESCRIPTIONS)
