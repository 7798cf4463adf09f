"""What the documents show runs, what they name exists, and their links lead somewhere; so do examples in docstrings."""

from __future__ import annotations

import ast
import doctest
import inspect
import pkgutil
import re
import shutil
import socket
from collections.abc import Callable
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from public_names import NAMESPACES, public
from scipy import optimize, stats

import invsamp as iv

ROOT = Path(__file__).parents[1]
#: By name, those in folders of the site by folder and name.
PAGES = {page.name: page for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md")} | {
    page.relative_to(ROOT / "docs").as_posix(): page
    for page in (ROOT / "docs").rglob("*.md")
    if "_build" not in page.parts
}


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGES[page].read_text(), re.DOTALL)


def run(code: str, page: str, names: dict, **changes: str) -> dict:
    for old, new in changes.items():
        assert old in code, f"{page} says no longer {old}"
        code = code.replace(old, new)
    exec(compile(code, page, "exec"), names)
    return names


def cells(page: str) -> list[str]:
    """Code of a page that runs when the site is built, without what says how it is shown, and what is for a shell."""
    found = re.findall(r"```{code-cell}\n(.*?)```", PAGES[page].read_text(), re.DOTALL)
    found = [re.sub(r"\A(---\n.*?\n---\n|(:.*\n)+)", "", code, flags=re.DOTALL) for code in found]
    return [code for code in found if not code.startswith("!")]


#: What tutorials say, and what is quicker and needs the same names.
SHORTER = {
    "1000": "200",
    "1500": "320",
    "plate(64)": "plate(16)",
    "draws=250": "iv.mala(), draws=100, warmup=100",
    "draws=300": "iv.mala(), draws=30, warmup=100",
    'print("\\n".join(run.report["decisions"]))': "",
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page == "tutorials/languages.md" else ())  # servers, processes
        for page, path in PAGES.items()
        if "```{code-cell}" in path.read_text()
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_tutorials_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fifth of their draws; tests/test_site.py runs them as they are, and looks at what they show."""
    names: dict = {}
    monkeypatch.chdir(tmp_path)  # some write files
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    try:
        for code in cells(page):
            for long, short in (SHORTER | {"4297": port}).items():
                code = code.replace(long, short)
            exec(compile(code, page, "exec"), names)
    finally:
        if "process" in names:
            names["process"].kill()
            names["process"].wait()
    assert any(isinstance(value, iv.Run | Figure) for value in names.values())


def test_dynamics_identifies_its_system() -> None:
    (code,) = blocks("how-to/models/ode.md")
    few = {"draws=2000": "draws=500, warmup=500, progress=False"}
    found = run(code, "how-to/models/ode.md", {}, **few)["run"].summary()
    truth = dict(zip(("alpha", "beta", "gamma", "delta"), (1.0, 0.1, 1.5, 0.075), strict=True))
    # one data set: five posterior standard deviations are exceeded once in 400,000
    for name, value in truth.items():
        assert abs(found["mean"][name] - value) < 5 * found["sd"][name] < 0.2 * value


def test_a_heat_equation_with_unknowns_of_every_kind() -> None:
    names = run(blocks("how-to/models/pde.md")[0], "how-to/models/pde.md", {})
    assert names["model"].parameters == ("x", "y", "height", "z")
    theta = np.array([[0.4, 0.5, 10.0, *np.zeros(16)]])
    y, vjp = names["model"].linearize(theta)
    assert y.shape == (1, 4) and vjp(np.ones((1, 4))).shape == theta.shape


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_the_problem_that_others_pose_too() -> None:
    first, *pairs = blocks("how-to/results/coming-from.md")
    toolkits = re.findall(r"\n## (\w+)\n\n::::", PAGES["how-to/results/coming-from.md"].read_text())
    assert toolkits == ["CUQIpy", "PyMC", "PINTS", "pyPESTO", "tinyDA", "hIPPYlib"]
    names, runs = run(first, "how-to/results/coming-from.md", {}), []

    def quick(posterior: iv.Posterior, sampler: object = None, **_: object) -> iv.Run:
        runs.append(iv.sample(posterior, sampler or iv.mala(), draws=200, warmup=300, chains=4, seed=1, progress=False))
        return runs[-1]

    for code in pairs:
        run(code.replace("iv.sample(", "quick("), "how-to/results/coming-from.md", names | {"quick": quick})
    assert len(pairs) == len(toolkits) and len(runs) == 5
    # one data set, noise of sd .05: the truth lies within five posterior sds
    for one in runs[1:3]:
        summary = one.summary()
        for name, value in {"height": 2.0, "start": 2.5, "rate": 0.7, "offset": 0.5}.items():
            assert name not in summary.index or abs(summary["mean"][name] - value) < 5 * summary["sd"][name] < 1.0


def in_dolfinx(code: str, page: str) -> dict:
    """Names that a block in UFL leaves, in the words of the version of dolfinx that is there."""
    fem = pytest.importorskip("dolfinx.fem")
    old = {} if hasattr(fem, "functionspace") else {"fem.functionspace(": "fem.FunctionSpace("}
    return run(code, page, {}, **old)


@pytest.mark.dolfinx
@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_a_conductor_in_ufl() -> None:
    """What the page shows of its run is the posterior, by quadrature; docs/shown.py wrote it there."""
    pytest.importorskip("dolfinx")
    *posing, sampling, drawing = blocks("tutorials/ufl.md")
    names = in_dolfinx("".join(posing), "tutorials/ufl.md")
    printed, shown = re.findall(r"```text\n(.*?)```", PAGES["tutorials/ufl.md"].read_text(), re.DOTALL)
    assert str(names["posterior"].check_gradient().passed) == printed.strip() == "True"
    mean, sd = moments(names["posterior"])
    rows = dict(re.findall(r"^(strength|fall) +(.+)$", shown, re.MULTILINE))
    for at, name in enumerate(("strength", "fall")):
        said = [float(entry) for entry in rows[name].split()]
        error = sd[at] / np.sqrt(said[5])  # by its effective draws
        # four comparisons: once in 400,000
        assert abs(said[0] - mean[at]) < 5 * error and abs(said[1] - sd[at]) < 5 * error
        assert abs(said[1] - np.sqrt(2) * sd[at]) > 5 * error  # of twice the noise
    few = {"draws=400, seed=1": "iv.mala(0.1), draws=20, warmup=0, chains=2, seed=1"}
    run(sampling, "tutorials/ufl.md", names, **few)
    assert run(drawing, "tutorials/ufl.md", names)["run"].theta.shape == (2, 20, 2)


def moments(posterior: iv.Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of two positive unknowns, on a grid of 15 x 15 over 4.5 sds about the mode."""
    potential = posterior.potential()

    def energy(position: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = potential.energy_and_gradient(position[None])
        return float(value[0]), gradient[0]

    mode = optimize.minimize(energy, np.log([9.0, 0.9]), jac=True, options={"gtol": 1e-3}).x
    step = 1e-4 * np.eye(2)
    curvature = np.array([(energy(mode + h)[1] - energy(mode - h)[1]) / 2e-4 for h in step])
    axes = np.linalg.cholesky(np.linalg.inv((curvature + curvature.T) / 2))
    ticks = np.linspace(-4.5, 4.5, 15)
    points = mode + np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2) @ axes.T
    energies = potential.energy(points)
    weights, theta = np.exp(energies.min() - energies), np.exp(points)
    mean = weights @ theta / weights.sum()
    return mean, np.sqrt(weights @ (theta - mean) ** 2 / weights.sum())


#: `coming-from` has a test of its own.
HOW_TO = [page for page in PAGES if page.startswith("how-to/") and blocks(page) and "coming-from" not in page]
#: Pages whose libraries may be missing, and pages that take longer than a second or two.
LIBRARIES = {"torch": "torch", "jax": "jax", "pymc": "pymc", "networks": "torch", "ufl-mpi": "dolfinx"}
LONGER = {"emulate", "networks", "ode", "calibration", "doses-and-events", "gradient-matching"}
#: What a page says, and what is quicker.
FEWER = {
    "replicates=200": "replicates=2, ranks=7, draws=30, warmup=100, progress=False",
    "draws=300, seed=1, directory=folder": "draws=60, warmup=100, seed=1, directory=folder",
    "draws=400, progress": "draws=80, progress",
    "compare(posterior, 200)": "compare(posterior, 40)",
    "sampler, draws=1000, seed=1) for": "sampler, draws=40, warmup=300, seed=1) for",
    "correct(posterior)": "correct(posterior, draws=50, progress=False)",
    "simulations=120": "simulations=60, draws=100, progress=False",
}


class Quick:
    """In place of `iv`: runs of at most 40 draws, by MALA where a page chooses nothing."""

    def sample(self, problem: object, sampler: iv.ladder.Sampler | None = None, **settings: object) -> iv.Run:
        most = {"draws": min(40, settings.get("draws", 40)), "thin": 1, "progress": False}
        return iv.sample(problem, sampler or iv.mala(), **({"warmup": 100} | settings | most))

    def __getattr__(self, name: str) -> object:
        return getattr(iv, name)


def marks(page: str) -> list[pytest.MarkDecorator]:
    name = Path(page).stem
    return [pytest.mark.dolfinx] * (name == "ufl-mpi") + [pytest.mark.slow] * (name in LONGER)


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page)) for page in HOW_TO])
def test_how_to_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself, as a reader copies it, with few draws."""
    name = Path(page).stem
    pytest.importorskip(LIBRARIES.get(name, "numpy"), reason=f"{name} needs what is not installed")
    if name == "black-box-executable" and shutil.which("awk") is None:
        pytest.skip("there is no awk")
    if name == "petab":
        monkeypatch.chdir(ROOT)
    else:
        monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in blocks(page):
        libraries = re.findall(r"^import (blackjax|nutpie)", code, re.MULTILINE)
        if all(find_spec(library) for library in libraries):
            names = copied(code, page, names)
    if name in CHECKS:
        assert CHECKS[name](names)


def copied(code: str, page: str, names: dict) -> dict:
    for long, short in FEWER.items():
        code = code.replace(long, short)
    if "dolfinx" in code and not hasattr(pytest.importorskip("dolfinx.fem"), "functionspace"):
        code = code.replace("fem.functionspace(", "fem.FunctionSpace(")
    names["QUICK"] = Quick()
    exec(compile(code.replace("import invsamp as iv", "iv = QUICK"), page, "exec"), names)
    return names


def energies(names: dict) -> np.ndarray:
    """Differences of the energy of the problem that several pages pose, in the coordinates of its posterior."""
    posterior, theta = names["posterior"], np.array([[2.0, 0.5, 0.1], [1.0, 0.7, 0.2]])
    return np.diff(posterior.potential().energy(posterior.to_position(theta)))


def same_problem(names: dict) -> bool:
    """As the page of a Python function poses it, with right derivatives."""
    (code,) = blocks("how-to/models/python-function.md")
    np.testing.assert_allclose(energies(names), energies(copied(code, "python-function", {})), rtol=1e-5)
    return names["posterior"].check_gradient().passed


def weibull(names: dict) -> bool:
    found = names["waiting"].log_likelihood(np.array([[1.2, 0.9]]))[0]
    np.testing.assert_allclose(found, stats.weibull_min(1.2, scale=0.9).logpdf(names["EARTHQUAKES"]))
    return names["waiting"].check_gradient().passed and names["target"].check_gradient([0.3, 0.2]).passed


def derived(names: dict) -> bool:
    kept = names["run"]
    np.testing.assert_allclose(kept.draws("fallen_by"), 1 - np.exp(-3 * kept.theta[..., 1]), rtol=1e-6)
    return names["washout"].check_gradient().passed and names["band"].shape == (2, 50)


def program(names: dict) -> bool:
    theta = np.array([[2.0, 0.7], [1.5, 0.5]])
    expected = theta[:, :1] * np.exp(-theta[:, 1:] * np.arange(1, 9) / 2)
    np.testing.assert_allclose(names["posterior"].predict(theta), expected, rtol=1e-12)
    return True


def population(names: dict) -> bool:
    predicted = names["posterior"].predict(names["prior"].sample(np.random.default_rng(0), 2))
    return names["posterior"].check_gradient().relative_error < 1e-3 and predicted.shape == (2, 3, 5)


def others_sample(names: dict) -> bool:
    best = names["posterior"].to_theta(names["best"].x)
    if "state" in names:
        assert np.isfinite(names["state"].logdensity) and names["state"].position.shape == (3,)
    if "trace" in names:
        draws = np.asarray(names["trace"].posterior["theta"])
        assert draws.shape == (2, 200, 3) and np.all(np.abs(np.median(draws, axis=(0, 1)) - best) < 0.2)
    return bool(np.all(np.abs(best - [2.1, 0.5, 0.05]) < 0.1))


def residual(names: dict) -> bool:
    y = names["model"](np.array([[0.0], [1.0]]))
    return y[0, 0] == 0.0 < y[1, 0] < 0.5 and names["posterior"].check_gradient().passed


#: By page, what its code has to leave.
CHECKS: dict[str, Callable[[dict], bool]] = {
    "python-function": lambda names: same_problem(names) and names["by_differences"].check_gradient().passed,
    "torch": same_problem,
    "jax": same_problem,
    "pymc": same_problem,
    "log-density": weibull,
    "quantities-of-interest": derived,
    "black-box-executable": program,
    "population": population,
    "other-samplers": others_sample,
    "ufl-mpi": residual,
    "custom-prior": lambda names: (
        names["prior"].labels == ("rate", "order", "offset", "drift") and names["posterior"].check_gradient().passed
    ),
    "constraint": lambda names: bool((names["run"].draws("fast") > names["run"].draws("slow") + 0.2).all()),
    "petab": lambda names: names["posterior"].dimension == 9,
    "simulation-database": lambda names: len(names["database"]) == 4 and Path("decay.nc").exists(),
    "simulators-on-a-cluster": lambda names: names["outputs"].shape == (8, 8),
    "resume-after-a-kill": lambda names: names["longer"].theta.shape[:2] == (4, 80),
    "several-fidelities": lambda names: names["run"].report["swap_accepts"][0] > 0,
    "calibration": lambda names: names["found"].ranks.shape == (2, 4) and Path("calibration.png").exists(),
    "weighted-draws": lambda names: abs(names["run"].summary()["sd"]["x"] - 1) < 0.2,
    "export": lambda names: all(Path(f).exists() for f in ("draws.csv", "run.nc", "source.vtu", "report.html")),
    "gradient-matching": lambda names: "v' = -" in str(names["found"]),
    "long-records": lambda names: bool(np.allclose(names["fit"].values, [10.0, 28.0, 8 / 3], rtol=0.2)),
    "doses-and-events": lambda names: names["both"].linearize(np.ones((1, 4)))[0].shape == (1, 12),
    "ode": lambda names: names["posterior"].check_gradient().passed,
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_eight_schools(capsys: pytest.CaptureFixture) -> None:
    (code,) = blocks("how-to/pose/hierarchical-model.md")
    names = run(code, "hierarchical-model", {}, **{"draws=2000, seed=1": "draws=500, seed=1, progress=False"})
    assert "theta[8] ~ Normal(mu, tau)  (centering chosen by the run)" in capsys.readouterr().out
    assert names["schools"].check_gradient().passed
    # reference posterior of a public posterior database: mean 4.4, sd 3.3; effects from 6.2 to 3.6
    found = names["run"].summary()["mean"]
    assert abs(found["mu"] - 4.4) < 1.0 and found["theta[0]"] > found["theta[4]"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_the_front_page_shows_its_posterior() -> None:
    (code,), (shown,) = blocks("index.md"), re.findall(r"```text\n(.*?)```", PAGES["index.md"].read_text(), re.DOTALL)
    found = copied(code.replace("seed=1)", "draws=40, seed=1)"), "index.md", {})["run"].summary()
    for name, mean, sd in re.findall(r"^(\w+) +([\d.]+) +([\d.]+)", shown, re.MULTILINE):
        # means of 160 draws with a tenth as large an ESS: a quarter of an sd, of which four are allowed
        assert abs(found["mean"][name] - float(mean)) < float(sd)


def test_the_gallery_has_every_example() -> None:
    index = PAGES["gallery/index.md"].read_text()
    for script in (ROOT / "examples").glob("[a-z]*.py"):
        page = PAGES.get(f"gallery/{script.stem}.md")
        if page is None:
            assert f"`examples/{script.name}`" in index
        else:
            assert f"\n{script.stem}\n" in index and "![" in page.read_text() and "| run time |" in page.read_text()
            assert f"literalinclude}} ../../examples/{script.name}" in page.read_text()


def test_how_to_pages_are_short() -> None:
    """At most 400 words beside code and tables, and one block of code; the page on other samplers has one for each."""
    for page in HOW_TO:
        prose = re.sub(r"```.*?```", "", PAGES[page].read_text(), flags=re.DOTALL)
        prose = re.sub(r"^\|.*$", "", prose, flags=re.MULTILINE)
        assert len(prose.split()) <= 400, (page, len(prose.split()))
        assert len(blocks(page)) == 1 or page == "how-to/results/other-samplers.md", page


@pytest.mark.parametrize("page", PAGES)
def test_names_exist(page: str) -> None:
    text = PAGES[page].read_text()
    for name in set(re.findall(r"(?<![\w.])iv\.([A-Za-z_][\w.]*\w)", text)):
        attrgetter(name)(iv)
    # with x for any name
    for name in set(re.findall(r"`(invsamp\.[\w.]*\w)`", text)) - {"invsamp.problems.x", "invsamp.solvers.x"}:
        if not name.startswith("invsamp.torch") or find_spec("torch"):
            assert pkgutil.resolve_name(name) is not None
    for path in set(re.findall(r"`([\w./-]+\.py)`", text)) - {"imp.py", "script.py"}:
        assert any((ROOT / folder / path).exists() for folder in (".", "invsamp")), path


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    prose = re.sub(r"```.*?```", "", PAGES[page].read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", prose):
        path, _, anchor = link.partition("#")
        target = (PAGES[page].parent / path) if path else PAGES[page]
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings], link


SOURCES = [path for folder in ("invsamp", "solvers", "problems", "examples") for path in (ROOT / folder).rglob("*.py")]


def test_pages_that_sources_name_exist() -> None:
    named = {page for path in SOURCES for page in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text())}
    assert named and not [page for page in named if not (ROOT / page).exists()]


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    """Not with a relative clause: "What a run holds" is "Contents of a run"."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    clauses = [
        (path.relative_to(ROOT).as_posix(), text.split("\n")[0])
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, documented) and re.match(r"(What|Who)\b", text := ast.get_docstring(node) or "")
    ]
    assert not clauses


#: Classes of the solvers that functions return, and a function that needs a file.
RETURNED = {
    f"invsamp.solvers.{name}"
    for space, names in {
        "fields": ("BesovField", "MaternField"),
        "gradient_matching": ("Compressed", "Gaussian", "GradientMatching", "Library", "LinearModel", "Selection"),
        "heat": ("DecayingGaussian", "HeatObservation"),
        "ode": ("OdeObservation", "SbmlModel", "SensitiveSolution", "ShootingFit", "Solution", "Status", "from_sbml"),
    }.items()
    for name in (f"{space}.{each}" for each in names)
}


def with_examples() -> list[str]:
    """Public callables of `invsamp`, its namespaces and solvers; contracts for extensions and results are no calls."""
    spaces = {"invsamp", *NAMESPACES} - {"invsamp.extending"}
    return [
        name
        for name in public()
        if (name.rpartition(".")[0] in spaces or (name.startswith("invsamp.solvers.") and name not in RETURNED))
        and callable(pkgutil.resolve_name(name))
    ]


@pytest.mark.parametrize("space", sorted({name.rpartition(".")[0] for name in with_examples()}))
def test_every_public_callable_has_an_example_that_runs(space: str) -> None:
    runner, finder = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF), doctest.DocTestFinder()
    lacking = []
    for name in with_examples():
        if name.rpartition(".")[0] == space:
            found = finder.find(pkgutil.resolve_name(name), name, globs={})
            if not any(one.examples and "SKIP" not in one.docstring for one in found if one.name == name):
                lacking.append(name)
            for one in found:
                runner.run(one)
    assert not lacking and not runner.failures and runner.tries


def test_public_names_say_what_they_are_and_what_they_raise() -> None:
    silent = []
    for name in public():
        thing = pkgutil.resolve_name(name)
        text = inspect.getdoc(thing) or ""
        # a dataclass without a docstring gets its signature for one
        documented = text and not text.startswith(f"{name.rpartition('.')[2]}(")
        raises = inspect.isfunction(thing) and "raise ValueError" in inspect.getsource(thing)
        if not documented or (raises and not re.search(r"Raises|ValueError", text)):
            silent.append(name)
    assert not silent
