"""What the documents show runs, what they name exists, and their links lead somewhere; so do examples in docstrings."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from launch import wait_for
from public_names import NAMESPACES, public
from scipy import optimize, stats

import invsamp as iv
from invsamp.problems import lotka_volterra

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
    assert isinstance(names["run"], iv.Run)


def test_dynamics_identifies_its_system() -> None:
    code, *others = blocks("how-to/dynamics.md")
    few = {"draws=2000": "draws=500, warmup=500, progress=False"}
    found = run(code, "how-to/dynamics.md", {}, **few)["run"].summary()
    truth = dict(zip(("alpha", "beta", "gamma", "delta"), (1.0, 0.1, 1.5, 0.075), strict=True))
    # one data set: five posterior standard deviations are exceeded once in 400,000
    for name, value in truth.items():
        assert abs(found["mean"][name] - value) < 5 * found["sd"][name] < 0.2 * value
    for other in others:
        run(other, "how-to/dynamics.md", {})


def test_a_heat_equation_with_unknowns_of_every_kind() -> None:
    names = run(blocks("how-to/pde.md")[0], "how-to/pde.md", {})
    assert names["model"].parameters == ("x", "y", "height", "z")
    theta = np.array([[0.4, 0.5, 10.0, *np.zeros(16)]])
    y, vjp = names["model"].linearize(theta)
    assert y.shape == (1, 4) and vjp(np.ones((1, 4))).shape == theta.shape


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantities_of_interest(capsys: pytest.CaptureFixture) -> None:
    (code,) = [block for block in blocks("how-to/draws.md") if "record=" in block]
    names: dict = {}
    run(code, "how-to/draws.md", names, **{"draws=500": "draws=200, progress=False"})
    assert "half_life" in capsys.readouterr().out
    assert names["washout"].check_gradient().passed and names["band"].shape == (2, 50)
    (after,) = [block for block in blocks("how-to/draws.md") if ".derive(" in block]
    run(after, "how-to/draws.md", names, **{"draws=500": "draws=200, progress=False"})
    theta, fallen = names["kept"].theta, names["kept"].draws("fallen_by")
    np.testing.assert_allclose(fallen, 1 - np.exp(-3 * theta[..., 1]))


@pytest.mark.slow
def test_networks(draw: Callable[..., iv.Run], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(iv, "sample", partial(_shorter, draw))
    names: dict = {}
    for block in blocks("how-to/networks.md"):
        run(block, "how-to/networks.md", names)


def _shorter(draw: Callable[..., iv.Run], problem: object, sampler: object, **settings: object) -> iv.Run:
    """A run of at most 40 draws."""
    most = {"draws": min(40, settings.get("draws", 40)), "warmup": min(100, settings.get("warmup", 100)), "thin": 1}
    return draw(problem, sampler, **({"chains": 4} | settings | most))


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_the_problem_that_others_pose_too() -> None:
    first, *pairs = blocks("how-to/coming-from.md")
    toolkits = re.findall(r"\n## (\w+)\n\n::::", PAGES["how-to/coming-from.md"].read_text())
    assert toolkits == ["CUQIpy", "PyMC", "PINTS", "pyPESTO", "tinyDA", "hIPPYlib"]
    names, runs = run(first, "how-to/coming-from.md", {}), []

    def quick(posterior: iv.Posterior, sampler: object = None, **_: object) -> iv.Run:
        runs.append(iv.sample(posterior, sampler or iv.mala(), draws=200, warmup=300, chains=4, seed=1, progress=False))
        return runs[-1]

    for code in pairs:
        run(code.replace("iv.sample(", "quick("), "how-to/coming-from.md", names | {"quick": quick})
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
    told, shown = re.findall(r"```text\n(.*?)```", PAGES["tutorials/ufl.md"].read_text(), re.DOTALL)
    assert str(names["posterior"].check_gradient().passed) == told.strip() == "True"
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


class TestBringYourModel:
    """Each block of the page poses the problem of the first, and gives its energy."""

    PAGE = "how-to/bring-your-model.md"

    def block(self, text: str, names: dict | None = None, **changes: str) -> dict:
        (code,) = (one for one in blocks(self.PAGE) if text in one)
        return run(code, self.PAGE, {} if names is None else names, **changes)

    @pytest.fixture
    def names(self) -> dict:
        return self.block("slopes(theta):", self.block("TIMES ="))

    @pytest.mark.parametrize(
        ("text", "library"),
        [("iv.from_torch", "torch"), ("iv.from_jax", "jax"), ("iv.from_pymc", "pymc"), ("equation.observe", "scipy")],
    )
    @pytest.mark.filterwarnings("ignore:PyTensor could not link:UserWarning")
    def test_one_problem_in_many_forms(self, names: dict, text: str, library: str) -> None:
        pytest.importorskip(library, reason=f"{library} is not installed")
        first = names["posterior"]
        other = self.block(text, names)["posterior"]
        theta = np.array([[2.0, 0.5, 0.1], [1.0, 0.7, 0.2]])
        found = [np.diff(one.potential().energy(one.to_position(theta))) for one in (first, other)]
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)  # an ODE is solved to its tolerance
        assert other.check_gradient().passed

    def test_differences_are_those_of_the_function(self, names: dict) -> None:
        assert names["by_differences"].check_gradient().passed

    @pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk")
    def test_a_program(self, names: dict) -> None:
        posterior = self.block("iv.executable(", names)["posterior"]
        theta = np.array([[2.0, 0.5, 0.1], [1.0, 0.7, 0.2]])
        np.testing.assert_allclose(posterior.predict(theta), names["decay"](theta[:, :2]), rtol=1e-12)

    @pytest.mark.slow  # a server starts
    def test_a_server(self, names: dict, tmp_path: Path) -> None:
        (code,) = (one for one in blocks(self.PAGE) if "server.py" in one)
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = str(free.getsockname()[1])
        (tmp_path / "server.py").write_text(code.replace("4242", port))
        server = subprocess.Popen([sys.executable, str(tmp_path / "server.py")], stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: answers(port))
            posterior = self.block("iv.from_umbridge(", names, **{"4242": port})["posterior"]
            theta = np.array([[2.0, 0.5]])
            np.testing.assert_allclose(posterior.forward["model"](theta), names["decay"](theta))
        finally:
            server.terminate()
            server.wait()

    def test_sbml_and_petab(self) -> None:
        assert self.block("from_sbml", {"iv": iv})["posterior"].dimension == 9

    @pytest.mark.dolfinx
    def test_ufl(self) -> None:
        (code,) = (one for one in blocks(self.PAGE) if "import ufl" in one)
        assert in_dolfinx(code, self.PAGE)["posterior"].check_gradient().passed

    def test_other_software(self, names: dict, capsys: pytest.CaptureFixture) -> None:
        names = self.block("optimize.minimize", names)
        best = names["posterior"].to_theta(names["best"].x)
        assert np.all(np.abs(best - [2.1, 0.5, 0.05]) < 0.1) and "[" in capsys.readouterr().out
        if find_spec("blackjax"):
            state = self.block("import blackjax", names)["state"]
            assert np.isfinite(state.logdensity) and state.position.shape == (3,)
        if find_spec("nutpie"):
            draws = np.asarray(self.block("import nutpie", names)["trace"].posterior["theta"])
            assert draws.shape == (2, 200, 3) and np.all(np.abs(np.median(draws, axis=(0, 1)) - best) < 0.2)


def answers(port: str) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("localhost", int(port))) == 0


@pytest.mark.dolfinx
def test_a_residual_in_ufl() -> None:
    names = in_dolfinx(blocks("how-to/pde.md")[1], "how-to/pde.md")
    y = names["model"](np.array([[0.0], [1.0]]))
    assert y[0, 0] == 0.0 < y[1, 0] < 0.5


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_a_run_in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    posterior = lotka_volterra.gradient_matching(lotka_volterra.data(lotka_volterra.TIMES[::100]))
    names = {"iv": iv, "posterior": posterior, "sampler": iv.mala()}
    first, later, printed, outside = blocks("how-to/runs.md")
    run(first, "how-to/runs.md", names, **{"100_000": "100"})
    assert (tmp_path / "plate" / "manifest.json").exists()
    run(later, "how-to/runs.md", names, **{"200_000": "150"})
    assert names["run"].theta.shape[:2] == (4, 150)
    run(printed, "how-to/runs.md", names)
    assert "4 chains, 150 draws" in capsys.readouterr().out
    # the second line is about a server, which tests/posing/forward_models/test_umbridge_client.py has
    names["model"] = posterior.forward["model"]
    run(outside.splitlines()[0], "how-to/runs.md", names)
    with names["model"] as model:
        theta = np.array([list(lotka_volterra.TRUTH.values())])
        np.testing.assert_array_equal(model(theta), posterior.forward["model"](theta))


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_eight_schools(capsys: pytest.CaptureFixture) -> None:
    few = {"draws=2000, seed=1": "draws=500, seed=1, progress=False"}
    names = run(blocks("how-to/posing.md")[1], "how-to/posing.md", {}, **few)
    assert "theta[8] ~ Normal(mu, tau)  (centering chosen by the run)" in capsys.readouterr().out
    assert names["schools"].check_gradient().passed
    run(blocks("how-to/posing.md")[2], "how-to/posing.md", names)
    # reference posterior of a public posterior database: mean 4.4, sd 3.3; effects from 6.2 to 3.6
    found = names["run"].summary()["mean"]
    assert abs(found["mu"] - 4.4) < 1.0 and found["theta[0]"] > found["theta[4]"]


def test_a_population_of_three() -> None:
    names = run(blocks("how-to/posing.md")[3], "how-to/posing.md", {"iv": iv})
    assert names["patients"].check_gradient().relative_error < 1e-3
    assert names["patients"].predict(names["prior"].sample(np.random.default_rng(0), 2)).shape == (2, 3, 5)


def test_priors_of_your_own() -> None:
    names = run(blocks("how-to/posing.md")[0], "how-to/posing.md", {})
    assert names["prior"].labels == ("rate", "order", "offset")
    assert names["posterior"].check_gradient().passed


def test_densities_of_all_sorts(capsys: pytest.CaptureFixture) -> None:
    likelihood, target = blocks("how-to/posing.md")[4:]
    names = run(likelihood, "how-to/posing.md", {})
    assert "passed" in capsys.readouterr().out
    theta = np.array([[1.2, 0.9]])
    np.testing.assert_allclose(
        names["waiting"].log_likelihood(theta)[0], stats.weibull_min(1.2, scale=0.9).logpdf(names["EARTHQUAKES"])
    )
    assert run(target, "how-to/posing.md", names)["target"].check_gradient([0.3, 0.2]).passed


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_few_fine_solves(capsys: pytest.CaptureFixture) -> None:
    (code,) = [block for block in blocks("how-to/sampling.md") if "iv.correct" in block]
    coarse = iv.with_jacobian(lambda t: 0.7 * t, lambda t: np.full((len(t), 1, 1), 0.7))
    lines = {"coarse": coarse, "fine": iv.with_jacobian(lambda t: t, lambda t: np.ones((len(t), 1, 1)))}
    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), lines, [1.0], iv.GaussianNoise(0.5))
    few = {
        "(posterior)": "(posterior, draws=50, progress=False)",
        "thin=20,": "thin=20, draws=20, progress=False, seed=1,",
    }
    found = run(code, "how-to/sampling.md", {"iv": iv, "posterior": posterior}, **few)
    assert "'coarse': affine by 100 pairs" in capsys.readouterr().out
    assert found["run"].report["swap_accepts"][0] > 0.95 * found["run"].report["swap_attempts"][0]


def test_a_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = [block for block in blocks("how-to/sampling.md") if "iv.calibrate" in block]
    line = iv.with_jacobian(lambda t: t, lambda t: np.ones((len(t), 1, 1)))
    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), line, [0.0], iv.GaussianNoise(1.0))
    few = {"replicates=200": "replicates=2, ranks=7, draws=30, warmup=100, progress=False"}
    assert run(code, "how-to/sampling.md", {"iv": iv, "posterior": posterior}, **few)["found"].ranks.shape == (2, 3)
    assert (tmp_path / "calibration.png").exists()


def test_simulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("how-to/simulators.md"):
        run(block, "how-to/simulators.md", names)
    assert len(names["database"]) == 12 and (tmp_path / "decay.nc").exists() and names["model"].failures["raised"] == 0


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


def with_examples() -> list[str]:
    """Public callables of `invsamp` and its namespaces; contracts for extensions are no calls."""
    spaces = {"invsamp", *NAMESPACES} - {"invsamp.extending"}
    return [name for name in public() if name.rpartition(".")[0] in spaces and callable(pkgutil.resolve_name(name))]


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
        told = text and not text.startswith(f"{name.rpartition('.')[2]}(")
        raises = inspect.isfunction(thing) and "raise ValueError" in inspect.getsource(thing)
        if not told or (raises and not re.search(r"Raises|ValueError", text)):
            silent.append(name)
    assert not silent
