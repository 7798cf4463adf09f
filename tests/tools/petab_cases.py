"""PEtab problems written from a few lines: A and B turn into each other, a' = k2 b - k1 a, b' = -a'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[1] / "data" / "petab"

SBML = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level2/version4" level="2" version="4"><model id="m">
<listOfFunctionDefinitions>{functions}</listOfFunctionDefinitions>
<listOfCompartments><compartment id="c" size="{size}"/></listOfCompartments>
<listOfSpecies>{species}</listOfSpecies>
<listOfParameters>{parameters}</listOfParameters>
<listOfInitialAssignments>{initial}</listOfInitialAssignments>
<listOfRules>{rules}</listOfRules>
<listOfReactions>{reactions}</listOfReactions>
<listOfEvents>{events}</listOfEvents>
</model></sbml>"""


def math(text: str) -> str:
    """A formula of SBML's text format as MathML."""
    import libsbml

    shown = libsbml.writeMathMLToString(libsbml.parseL3Formula(text))
    return shown.split("?>", 1)[1].strip()


def species(name: str, start: float | None = 1.0, **attributes: Any) -> str:
    words = {"initialConcentration": start} | attributes if start is not None else attributes
    shown = " ".join(f'{key}="{value}"' for key, value in words.items())
    return f'<species id="{name}" compartment="c" {shown}/>'


def reaction(name: str, before: str, after: str, target: str, local: str = "", many: int = 1) -> str:
    sides = [
        f"<{kind}><speciesReference species='{each}' stoichiometry='{count}'/></{kind}>" if each else ""
        for kind, each, count in (("listOfReactants", before, 1), ("listOfProducts", after, many))
    ]
    parameters = f"<listOfParameters>{local}</listOfParameters>" if local else ""
    return (
        f"<reaction id='{name}' reversible='false'>{''.join(sides)}"
        f"<kineticLaw>{math(target)}{parameters}</kineticLaw></reaction>"
    )


def parameter(name: str, value: float | None = None, constant: bool = True) -> str:
    known = "" if value is None else f' value="{value}"'
    return f'<parameter id="{name}"{known} constant="{str(constant).lower()}"/>'


def rule(kind: str, name: str, formula: str) -> str:
    return f'<{kind}Rule variable="{name}">{math(formula)}</{kind}Rule>'


def assignment(name: str, formula: str) -> str:
    return f'<initialAssignment symbol="{name}">{math(formula)}</initialAssignment>'


def delay(time: str) -> str:
    return f"<delay>{math(time)}</delay>"


def algebraic(formula: str) -> str:
    return f"<algebraicRule>{math(formula)}</algebraicRule>"


def event(trigger: str, more: str = "", **sets: str) -> str:
    listed = "".join(f'<eventAssignment variable="{k}">{math(v)}</eventAssignment>' for k, v in sets.items())
    return (
        f"<event><trigger>{math(trigger)}</trigger>{more}"
        f"<listOfEventAssignments>{listed}</listOfEventAssignments></event>"
    )


def write_sbml(path: Path, **parts: Any) -> Path:
    """An SBML file of some parts, by default A and B."""
    conversion = {
        "functions": "",
        "size": 1,
        "species": species("A") + species("B", 0.0),
        "parameters": parameter("k1", 0.8) + parameter("k2", 0.6),
        "initial": "",
        "rules": "",
        "reactions": reaction("fwd", "A", "B", "c * k1 * A") + reaction("rev", "B", "A", "c * k2 * B"),
        "events": "",
    }
    text = SBML.format(**{**conversion, **parts})
    for name in ("FunctionDefinitions", "Parameters", "InitialAssignments", "Rules", "Events", "Reactions", "Species"):
        text = text.replace(f"<listOf{name}></listOf{name}>", "")
    path.write_text(text)
    return path


def write_problem(
    folder: Path,
    measurements: str,
    conditions: str = "conditionId\nc0\n",
    observables: str = "observableId observableFormula noiseFormula\nobs A 0.5\n",
    parameters: str = "",
    yaml: str = "",
    **parts: Any,
) -> Path:
    """A problem of PEtab from tables with blanks between the cells; by default k1 and k2 are estimated."""
    known = "parameterId parameterScale lowerBound upperBound nominalValue estimate\n"
    parameters = parameters or f"{known}k1 lin 0 10 0.8 1\nk2 lin 0 10 0.6 1\n"
    tables = {"conditions": conditions, "observables": observables, "parameters": parameters}
    for name, table in (tables | {"measurements": measurements}).items():
        (folder / f"{name}.tsv").write_text(table.replace(" ", "\t").replace("~", ""))
    write_sbml(folder / "model.xml", **parts)
    path = folder / "problem.yaml"
    path.write_text(
        "format_version: 1\nparameter_file: parameters.tsv\nproblems:\n- condition_files: [conditions.tsv]\n"
        "  measurement_files: [measurements.tsv]\n  observable_files: [observables.tsv]\n"
        f"  sbml_files: [model.xml]\n{yaml}"
    )
    return path


def write_problem_2(
    folder: Path,
    measurements: str,
    conditions: str = "",
    experiments: str = "",
    observables: str = "obs A 0.5 normal\n",
    parameters: str = "k1 0.8\nk2 0.6\n",
    **parts: Any,
) -> Path:
    """A problem of PEtab 2 from rows of tables with blanks between the cells; parameters lie between 0 and 10."""
    rows = "".join(f"{line} 0 10 true\n" for line in parameters.splitlines())
    tables = {
        "conditions": f"conditionId targetId targetValue\n{conditions}",
        "experiments": f"experimentId time conditionId\n{experiments}",
        "observables": f"observableId observableFormula noiseFormula noiseDistribution\n{observables}",
        "parameters": f"parameterId nominalValue lowerBound upperBound estimate\n{rows}",
        "measurements": f"observableId experimentId time measurement\n{measurements}",
    }
    for name, table in tables.items():
        (folder / f"{name}.tsv").write_text(table.replace(" ", "\t").replace("~", ""))
    write_sbml(folder / "model.xml", **parts)
    path = folder / "problem.yaml"
    files = "".join(f"{name[:-1]}_files: [{name}.tsv]\n" for name in tables)
    path.write_text(f"format_version: 2.0.0\nmodel_files: {{m: {{language: sbml, location: model.xml}}}}\n{files}")
    return path


def conversion(t: Any, k1: float, k2: float, a: float, b: float) -> np.ndarray:
    """A at times t, in closed form."""
    t = np.asarray(t, dtype=float)
    return (k2 * (a + b) + (k1 * a - k2 * b) * np.exp(-(k1 + k2) * t)) / (k1 + k2)
