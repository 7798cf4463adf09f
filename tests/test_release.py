"""What a release is made of says one thing: versions, dependencies, packages, and files that an index takes."""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
import tomllib
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: What conda-forge calls otherwise.
ELSEWHERE = {"matplotlib": "matplotlib-base", "torch": "pytorch"}


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["version"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {version}\n" in citation
    (heading,) = re.findall(
        rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    assert f"\ndate-released: {heading}\n" in citation
    assert f'\n  version: "{version}"\n' in (ROOT / "recipe" / "recipe.yaml").read_text()


def asked_for(requirement: str) -> str:
    """A requirement as conda has it: ``numpy >=1.26``."""
    name, bounds = re.fullmatch(r"([\w.-]+)(.*)", requirement.replace(" ", "")).groups()
    return f"{ELSEWHERE.get(name, name)} {bounds}"


def test_the_recipe_requires_what_the_project_requires() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    python = f"python {PROJECT['requires-python']}"
    assert recipe["requirements"]["run"] == [python, *map(asked_for, PROJECT["dependencies"])]
    extras = PROJECT["optional-dependencies"]
    assert set(recipe["requirements"]["run_constraints"]) == {asked_for(one) for one in extras["torch"] + extras["mpi"]}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert recipe["requirements"]["host"] == [python, "pip", *map(asked_for, build)]
    assert recipe["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert asked_for("numpy>=2") != asked_for("numpy>=1.26")  # it would notice


def test_the_image_is_made_of_what_is_tested_in_that_debian() -> None:
    image, script = (ROOT / "Dockerfile").read_text(), (ROOT / ".ci" / "in-debian").read_text()
    (installed,) = re.findall(r"--no-install-recommends (.+?) \\", image)
    (packages,) = re.findall(r'^packages="(.+)"$', script, re.M)
    assert installed == packages
    assert (
        "FROM debian:trixie-slim\n" in image and "test-dolfinx-0.9: SUITE = trixie\n" in (ROOT / "Makefile").read_text()
    )
    (extras,) = re.findall(r"/src\[([\w,]+)\]", image)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sources and wheel, built without network as ``python -m build`` does it, the wheel from the sources."""
    for tool in ("build", "setuptools"):
        pytest.importorskip(tool)
    sources, target = tmp_path_factory.mktemp("sources") / "invsamp", tmp_path_factory.mktemp("dist")
    for name in ("invsamp", "problems", "solvers"):
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    done = run(
        [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(target), str(sources)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return sorted(target.iterdir())


@pytest.mark.slow
def test_an_index_would_take_them(distributions: list[Path]) -> None:
    wheel, sources = sorted(distributions, key=lambda path: path.suffix != ".whl")
    assert wheel.name == f"invsamp-{PROJECT['version']}-py3-none-any.whl"
    assert sources.name == f"invsamp-{PROJECT['version']}.tar.gz"
    if find_spec("twine") is None:
        pytest.skip("twine is not installed")
    checked = run(
        [sys.executable, "-P", "-m", "twine", "check", "--strict", *map(str, distributions)],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("PASSED") == 2


@pytest.mark.slow
def test_the_sources_hold_what_the_wheel_is_made_of(distributions: list[Path]) -> None:
    with tarfile.open(next(path for path in distributions if path.suffix == ".gz")) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    for wanted in (
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "invsamp/sampling.py",
        "solvers/ode/integrators/adaptive_step.py",
        "problems/poisson64.csv",
    ):
        assert wanted in names, f"the sources lack {wanted}"
