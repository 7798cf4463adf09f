"""Models of SBML files against closed forms, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from petab_cases import algebraic, assignment, conversion, delay, event, parameter, reaction, rule, species, write_sbml

from invsamp.solvers.ode import OdeModel, SteadyState, from_sbml

pytest.importorskip("libsbml")  # of the extra petab

TIMES = [0.5, 1.0, 2.0]
MATHML = "http://www.w3.org/1998/Math/MathML"


def solved(path, of=("A",), parameters=None, theta=None, **settings) -> np.ndarray:
    """What is observed at `TIMES`, at the file's values."""
    model = from_sbml(path, parameters=parameters, **settings)
    observed = model.observe(TIMES, of=list(of))
    values = [list(model.values.values())] if theta is None else [theta]
    return observed(np.array(values).reshape(1, -1))[0].reshape(len(TIMES), -1)


def test_reactions(tmp_path):
    model = from_sbml(write_sbml(tmp_path / "m.xml"))
    assert isinstance(model, OdeModel)
    assert (model.states, model.parameters, model.values) == (("A", "B"), ("k1", "k2"), {"k1": 0.8, "k2": 0.6})
    found = model.observe(TIMES)(np.array([[0.8, 0.6], [0.5, 0.6]]))
    for row, k1 in zip(found, (0.8, 0.5), strict=True):
        np.testing.assert_allclose(row.reshape(3, 2)[:, 0], conversion(TIMES, k1, 0.6, 1, 0), rtol=1e-5)


def test_initial_values_may_be_changed_and_what_depends_on_them_follows(tmp_path):
    path = write_sbml(tmp_path / "m.xml", initial=assignment("B", "2 * A"))
    model = from_sbml(path, extra=["a0"])
    found = model.observe(TIMES, {"A": "a0"}, of=["A", "a0 * B"])(np.array([[0.8, 0.6, 3.0]]))[0].reshape(3, 2)
    a = conversion(TIMES, 0.8, 0.6, 3, 6)
    np.testing.assert_allclose(found, np.stack([a, 3 * (9 - a)], axis=1), rtol=1e-5)


def test_initial_values_are_those_of_the_time_at_which_they_hold(tmp_path):
    parts = {
        "species": species("A", None) + species("B", 2.0),
        "parameters": parameter("k", 0.5) + parameter("w", constant=False),
        "rules": rule("assignment", "w", "3 * time"),
        "initial": assignment("A", "B + w"),
        "reactions": reaction("in", "", "A", "k * time"),
    }
    model = from_sbml(write_sbml(tmp_path / "m.xml", **parts))
    times = np.array([2.0, 3.0, 4.0])
    for t0 in (0.0, 2.0):
        found = model.observe(times, of=["A"], t0=t0)(np.array([[0.5]]))[0]
        np.testing.assert_allclose(found, 2 + 3 * t0 + 0.25 * (times**2 - t0**2), rtol=1e-6)


def test_a_start_at_another_time_is_refused_where_the_equations_are_those_of_zero(tmp_path):
    constant = {"parameters": parameter("k1", 0.8) + parameter("k2", 0.6), "initial": assignment("k2", "1 + time")}
    model = from_sbml(write_sbml(tmp_path / "m.xml", **constant), parameters=["k1"])
    model.observe(TIMES)
    with pytest.raises(ValueError, match=r"t0 must be 0 where the file computes \['k2'\] .* got 0.5"):
        model.observe(TIMES, t0=0.5)
    model = from_sbml(write_sbml(tmp_path / "m.xml", events=event("time > 1", A="A + 1")))
    model.observe(TIMES, t0=0.5)
    first = tuple(replace(each, before=False) for each in model.system.events)
    model = replace(model, system=replace(model.system, events=first))
    with pytest.raises(ValueError, match=r"t0 must be 0 where events of the file may happen at the start, got 0\.5"):
        model.observe(TIMES, t0=0.5)


@pytest.mark.parametrize("many", [1, 2])
def test_amounts_concentrations_and_stoichiometry(tmp_path, many):
    parts = {
        "size": 4,
        "species": species("A", None, initialAmount=8) + species("B", 0.0, hasOnlySubstanceUnits="true"),
        "parameters": parameter("k1", 0.8),
        "reactions": reaction("fwd", "A", "B", "c * k1 * A", many=many),
    }
    found = solved(write_sbml(tmp_path / "m.xml", **parts), ["A", "B"])
    a = 2 * np.exp(-0.8 * np.array(TIMES))
    np.testing.assert_allclose(found, np.stack([a, many * 4 * (2 - a)], axis=1), rtol=1e-5)


def test_functions_local_parameters_rules_and_boundary_species(tmp_path):
    variables = "".join(f"<bvar><ci>{name}</ci></bvar>" for name in "ab")
    product = f"<lambda>{variables}<apply><times/><ci>a</ci><ci>b</ci></apply></lambda>"
    function = f'<functionDefinition id="f"><math xmlns="{MATHML}">{product}</math></functionDefinition>'
    parts = {
        "functions": function,
        "species": species("A") + species("source", 3.0, boundaryCondition="true"),
        "parameters": parameter("k1", 0.8) + parameter("rate", constant=False) + parameter("z", 1.0, constant=False),
        "rules": rule("assignment", "rate", "f(k1, source)") + rule("rate", "z", "fwd - z"),
        "reactions": reaction("fwd", "source", "A", "c * own * rate", '<parameter id="own" value="0.5"/>'),
    }
    found = solved(write_sbml(tmp_path / "m.xml", **parts), ["A", "z", "rate"], ["k1"])
    t = np.array(TIMES)
    np.testing.assert_allclose(found[:, 0], 1 + 1.2 * t, rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], 1.2 - 0.2 * np.exp(-t), rtol=1e-5)
    np.testing.assert_allclose(found[:, 2], 2.4)


PULSE = {
    "species": species("A", 0.0),
    "parameters": parameter("on", 0.7) + parameter("k", 2.0),
    "reactions": reaction("in", "", "A", "piecewise(k, time - on >= 0, 0)"),
}


@pytest.mark.parametrize("formula", ["piecewise(k, time - on >= 0, 0)", "piecewise(0, on > time, k)"])
def test_formulas_that_switch_in_time(tmp_path, formula):
    model = from_sbml(write_sbml(tmp_path / "m.xml", **{**PULSE, "reactions": reaction("in", "", "A", formula)}))
    assert model.breakpoints == ("on",)
    assert model.derivatives == "traced"
    y, jacobian = model.observe(TIMES).jacobian(np.array([[0.7, 2.0]]))
    late = np.maximum(np.array(TIMES) - 0.7, 0.0)
    np.testing.assert_allclose(y[0], 2 * late, atol=1e-8)
    np.testing.assert_allclose(jacobian[0], np.stack([-2.0 * (late > 0), late], axis=1), atol=1e-7)


def test_formulas_that_switch_where_a_state_does(tmp_path):
    distribution = "piecewise(k, A < on, 3 * k)"
    model = from_sbml(write_sbml(tmp_path / "m.xml", **{**PULSE, "reactions": reaction("in", "", "A", distribution)}))
    assert len(model.events) == 1
    y, jacobian = model.observe(TIMES).jacobian(np.array([[0.7, 1.0]]))
    t = np.array(TIMES)
    np.testing.assert_allclose(y[0], np.where(t < 0.7, t, 0.7 + 3 * (t - 0.7)), rtol=1e-6)
    np.testing.assert_allclose(jacobian[0, :, 0], np.where(t < 0.7, 0.0, -2.0), atol=1e-6)


@pytest.mark.parametrize(("trigger", "first"), [("time >= on", 0.7), ("A < 0.5", np.log(2.0) / 0.8)])
def test_events_by_time_and_by_state(tmp_path, trigger, first):
    parts = {
        "species": species("A"),
        "parameters": parameter("on", 0.7) + parameter("k", 0.8),
        "reactions": reaction("out", "A", "", "c * k * A"),
        "events": event(trigger, A="A + 1"),
    }
    found = solved(write_sbml(tmp_path / "m.xml", **parts))[:, 0]
    times, a, last, wanted = iter(TIMES), 1.0, 0.0, []
    next_event = first
    for t in times:
        while next_event < t:
            a, last = a * np.exp(-0.8 * (next_event - last)) + 1, next_event
            next_event = np.inf if trigger.startswith("time") else next_event + np.log(a / 0.5) / 0.8
        wanted.append(a * np.exp(-0.8 * (t - last)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def counted(path: Path, before: bool) -> Path:
    """The file at level 3, whose trigger counts as true before the start, or as false."""
    import libsbml

    document = libsbml.readSBMLFromFile(str(path))
    document.setLevelAndVersion(3, 1, False)
    trigger = document.getModel().getEvent(0).getTrigger()
    trigger.setInitialValue(before)
    trigger.setPersistent(True)
    libsbml.writeSBMLToFile(document, str(path))
    return path


@pytest.mark.parametrize(
    ("trigger", "before", "happens"),
    [
        ("time >= 0", True, False),
        ("time >= 0", False, True),
        ("time > 0", True, True),
        ("time > -1", True, False),
        ("time > -1", False, True),
        ("time < 0.2", True, False),
        ("A >= 1", True, False),
    ],
)
def test_events_at_the_start_happen_if_their_trigger_becomes_true_there(tmp_path, trigger, before, happens):
    parts = {
        "species": species("A"),
        "parameters": parameter("k", 0.8),
        "reactions": reaction("out", "A", "", "c * k * A"),
        "events": event(trigger, A="9"),
    }
    found = solved(counted(write_sbml(tmp_path / "m.xml", **parts), before))[:, 0]
    np.testing.assert_allclose(found, (9 if happens else 1) * np.exp(-0.8 * np.array(TIMES)), rtol=1e-5)


def test_files_are_read_once_per_model_and_start_alike(tmp_path):
    path = write_sbml(tmp_path / "m.xml", initial=assignment("B", "k1 * k2"))
    model = from_sbml(path)
    assert model.initial_values() is model.initial_values()
    rest = SteadyState(model.initial_values(), {"k1": 0.3}, then={"B": "k2"})
    found = model.observe([0.0], rest)(np.array([[0.8, 0.6]]))[0]
    np.testing.assert_allclose(found, [0.6 * (1 + 0.18) / 0.9, 0.6], rtol=1e-6)


class TestRefusals:
    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"rules": algebraic("A - B")}, "algebraic rules"),
            ({"reactions": reaction("fwd", "A", "B", "delay(A, 2)")}, "functions.*delay"),
            ({"events": event("time > 1", delay("1"), A="2")}, "delays of events"),
            ({"events": event("and(time > 1, A > 1)", A="2")}, "no single comparison"),
            ({"events": event("A < 1", A="2")}, "begins at its threshold"),
            ({"reactions": reaction("fwd", "A", "B", "piecewise(1, sin(time) > 0, 2)")}, "not linear in time"),
            ({"reactions": reaction("fwd", "A", "B", "piecewise(1, A == 1, 2)")}, "comparisons for equality"),
            ({"reactions": reaction("fwd", "A", "B", "factorial(A)")}, "functions.*factorial"),
            ({"initial": assignment("A", "B") + assignment("B", "A")}, "cycle"),
            ({"reactions": reaction("fwd", "A", "B", "k3 * A"), "parameters": parameter("k3")}, "k3"),
        ],
    )  # fmt: skip
    def test_by_name(self, tmp_path, parts, message):
        path = write_sbml(tmp_path / "m.xml", **parts)
        with pytest.raises(ValueError, match=message):
            from_sbml(path, parameters=()).initial_values()

    @pytest.mark.parametrize("trigger", ["time < 1", "A > 0.5"])
    def test_events_at_the_start_by_their_initial_value(self, tmp_path, trigger):
        path = write_sbml(tmp_path / "m.xml", events=event(trigger, A="2"))
        assert len(from_sbml(path).events) == (trigger == "A > 0.5")
        with pytest.raises(ValueError, match="events at the start"):
            from_sbml(counted(path, False))

    def test_parameters_and_names(self, tmp_path):
        path = write_sbml(tmp_path / "m.xml", species=species("A") + species("B", None))
        with pytest.raises(ValueError, match=r"parameters must be constants of the file.*\['A'\]"):
            from_sbml(path, parameters=["A"])
        with pytest.raises(ValueError, match="initial must have a value for 'B'"):
            from_sbml(path).observe(TIMES)
        with pytest.raises(ValueError, match=r"initial must be of states.*\['C'\]"):
            from_sbml(path).observe(TIMES, {"C": 1.0})
        with pytest.raises(
            ValueError, match=r"initial\['B'\] must be a finite number, the name of a parameter or a formula"
        ):
            from_sbml(path).observe(TIMES, {"B": lambda p: p[0]})
        by_formula = from_sbml(path, parameters=["k1"]).observe(TIMES, {"B": "2 * k1 + 1"})
        by_number = from_sbml(path, parameters=["k1"]).observe(TIMES, {"B": 2.6})
        np.testing.assert_allclose(by_formula([[0.8]]), by_number([[0.8]]), rtol=1e-12)
        with pytest.raises(ValueError, match="which does not exist"):
            from_sbml(tmp_path / "nowhere.xml")
        (tmp_path / "other.xml").write_text("<sbml>")
        with pytest.raises(ValueError, match="must be an SBML file"):
            from_sbml(tmp_path / "other.xml")
