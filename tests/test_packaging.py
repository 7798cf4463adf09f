"""The package as a user receives it, and the tools that hold its style, types and direction of imports.

The wheel is built from a copy of the sources, installed into an empty folder and imported from there, because the
checkout would also import what the wheel forgot.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from public_names import NAMESPACES

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {"invsamp": "invsamp", "problems": "invsamp.problems", "solvers": "invsamp.solvers"}
OPTIONAL = {"basix", "dolfinx", "mpi4py", "petsc4py", "torch", "ufl", "umbridge"}

# Imports the modules named by the arguments from the folder given first; the finder of an installation in place would
# otherwise supply from the checkout what is missing there.
IMPORT_ALL = """
import importlib, sys
folder, optional, *names = sys.argv[1:]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
sys.path.insert(0, folder)
for name in names:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in optional.split(","):
            raise
        continue
    assert module.__file__.startswith(folder), f"{name} comes from {module.__file__}"
"""


def source_modules() -> dict[str, Path]:
    """Every module of the package by its import name, found on disk without following the two links."""
    modules = {}
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "invsamp" and parts[0] in FOLDERS:  # behind a link (Python 3.13 follows links here)
                continue
            name = ".".join((package, *parts)).removesuffix(".__init__")
            modules[name] = path
    return modules


def run(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run([*map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)


def tool(name: str, *arguments: str) -> None:
    """Run a tool of this environment on the whole repository and fail with what it says."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    result = run(Path(sys.executable).with_name(arguments[0]), *arguments[1:])
    assert result.returncode == 0, f"{' '.join(arguments)}\n{result.stdout}{result.stderr}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network by the setuptools of this environment."""
    wanted = PROJECT["build-system"]["requires"][0].removeprefix("setuptools>=")
    pytest.importorskip("setuptools", minversion=wanted)
    sources = tmp_path_factory.mktemp("sources") / "invsamp"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    target = sources.parent / "wheels"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir")
    result = run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", target, sources, cwd=sources)
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = target.glob("*.whl")
    return path


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel).namelist()
    version = PROJECT["project"]["version"]
    # `problems` and `solvers` as import names would overwrite, or be overwritten by, other distributions
    assert {file.split("/")[0] for file in files} == {"invsamp", f"invsamp-{version}.dist-info"}
    assert "invsamp/py.typed" in files
    packed = {file.removesuffix(".py").removesuffix("/__init__") for file in files if file.endswith(".py")}
    missing = "pyproject.toml's list of packages and the folders differ"
    assert {name.replace("/", ".") for name in packed} == set(source_modules()), missing


@pytest.mark.slow
def test_wheel_imports_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    options = ("--no-deps", "--no-index", "--target", folder)
    result = run(sys.executable, "-m", "pip", "install", *options, wheel, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    names = sorted(source_modules())
    # -I: no PYTHON* variable, no user folder, no current folder
    result = run(sys.executable, "-I", "-c", IMPORT_ALL, folder, ",".join(OPTIONAL), *names, cwd=tmp_path)
    assert result.returncode == 0, result.stderr

    # control: a module that only the checkout could have is missed
    shutil.rmtree(folder / "invsamp" / "solvers")
    result = run(sys.executable, "-I", "-c", IMPORT_ALL, folder, "", "invsamp.solvers.ode", cwd=tmp_path)
    assert result.returncode != 0 and "invsamp.solvers" in result.stderr


def test_links_let_the_checkout_import_what_the_wheel_holds() -> None:
    for folder in ("problems", "solvers"):
        link = ROOT / "invsamp" / folder
        assert link.is_symlink() and os.readlink(link) == f"../{folder}"


def test_importing_the_package_imports_no_solver_and_no_problem() -> None:
    code = (
        "import sys, invsamp; print(*(m for m in sys.modules if m.startswith(('invsamp.problems', 'invsamp.solvers'))))"
    )
    result = run(sys.executable, "-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_importing_what_solves_odes_imports_no_slow_part_of_scipy() -> None:
    """A second of a processor, most of it, before a script begins: they are imported where they are used."""
    slow = tuple(f"scipy.{part}" for part in ("integrate", "interpolate", "optimize", "spatial", "stats"))
    code = f"import sys, invsamp.solvers.ode; print(*(m for m in sys.modules if m in {slow}))"
    result = run(sys.executable, "-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_changelog_starts_with_this_version() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## [")]
    released = [heading for heading in headings if "Unreleased" not in heading]
    assert released[0].startswith(f"## [{PROJECT['project']['version']}]")


def test_style() -> None:
    tool("ruff", "ruff", "check", ".")


def test_format() -> None:
    tool("ruff", "ruff", "format", "--check", ".")


def test_direction_of_imports() -> None:
    tool("importlinter", "lint-imports", "--no-cache")


@pytest.mark.slow  # and in `.ci/run` at each commit, by `make lint`
def test_types() -> None:
    tool("mypy", "mypy")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("solvers/extra.py", "import invsamp.protocols"),
        ("solvers/extra.py", "import invsamp as iv"),
        ("invsamp/extra.py", "from invsamp.solvers import ode"),
        ("invsamp/swaps/extra.py", "import invsamp.problems"),
        ("invsamp/extra.py", "import numpy"),
        ("invsamp/kernels/extra.py", "from invsamp.engine.driver.engine import Engine"),
        ("invsamp/domains/box.py", "from invsamp.domains.intersection import Intersection"),
        ("invsamp/domains/box.py", "if TYPE_CHECKING:\n    from invsamp.domains.intersection import Intersection"),
    ],
)
def test_direction_of_imports_is_held(file: str, line: str, tmp_path: Path) -> None:
    """Controls: an import upwards, one that closes a circle, and a module that has no place are found."""
    pytest.importorskip("importlinter")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a") as source:
        source.write(line + "\n")
    result = run(Path(sys.executable).with_name("lint-imports"), "--no-cache", cwd=tmp_path)
    assert result.returncode == 1 and "BROKEN" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("line", ["import problems", "from solvers.heat import HeatEquation"])
def test_bare_names_of_the_subpackages_are_banned(line: str, tmp_path: Path) -> None:
    """Control: ruff's list of banned names is in force."""
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed")
    script = tmp_path / "script.py"
    script.write_text(line + "\n")
    ruff = Path(sys.executable).with_name("ruff")
    result = run(ruff, "check", "--config", ROOT / "pyproject.toml", "--select", "TID251", script)
    assert result.returncode == 1 and "TID251" in result.stdout, result.stdout + result.stderr


def test_no_public_name_hides_a_module() -> None:
    """A function that is named as its module would stand in its place after ``from invsamp import name``."""
    hidden = []
    for package in map(importlib.import_module, ("invsamp", *NAMESPACES)):
        files = (
            {path.stem for path in Path(package.__file__).parent.glob("*.py")} if hasattr(package, "__path__") else ()
        )
        hidden += [name for name in {*files} & {*package.__all__} if not hasattr(getattr(package, name), "__file__")]
    assert not hidden


def test_few_names_and_no_two_alike() -> None:
    """No name of `iv` is another one in other case, or another ending: profile, Profiles; correct, corrected."""
    names = importlib.import_module("invsamp").__all__
    assert len(names) <= 80
    stems: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"(ations?|ions?|ed?|ing)$", "", name.lower().replace("_", ""))
        assert stems.setdefault(stem, name) == name, f"{name} and {stems[stem]}"
