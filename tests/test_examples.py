"""The examples run, short, and get the numbers that they are about; so does the README's."""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from outbreak import by_quadrature
from scipy.stats import f as fisher

from invsamp import Prior, diagnostics
from invsamp.problems import heat_source, lotka_volterra
from invsamp.problems.pharmacokinetics import patients
from invsamp.simulations import SimulationDatabase

ROOT = Path(__file__).parents[1]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run an example's `main` with the given number of draws; its result and the folder that it wrote.

    ``constants`` stand in for those of the example: as many draws in fewer steps of more chains take less time.
    """

    def run(name: str, draws: int, *arguments: str, **constants: object):
        monkeypatch.syspath_prepend(ROOT / "examples")
        given = [name, "--draws", str(draws), "--seed", "1", "--out", str(tmp_path), *arguments]
        monkeypatch.setattr(sys, "argv", given)
        main = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"]
        assert constants.keys() <= main.__globals__.keys()
        main.__globals__.update(constants)
        return main(), tmp_path

    return run


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_what_it_names_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, and keywords of what it calls; so much is seen of every example, though they run in turns."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    try:
        names = runpy.run_path(str(path))
    except ModuleNotFoundError as missing:
        assert missing.name in ("torch", "matplotlib")
        pytest.skip(f"{missing.name} is not installed")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and callable(called := meant(node.func, names)):
            accepted = inspect.signature(called).parameters.values()
            given = {keyword.arg for keyword in node.keywords} - {None}
            if not any(p.kind is p.VAR_KEYWORD for p in accepted):
                assert given <= {p.name for p in accepted}, ast.unparse(node)
        elif isinstance(node, ast.Attribute):
            meant(node, names)


def meant(node: ast.expr, names: dict) -> object:
    """What a name, or an attribute of the package's modules, stands for; None for all else."""
    if isinstance(node, ast.Name):
        found = names.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(module := meant(node.value, names), ModuleType):
        found = getattr(module, node.attr)
    else:
        return None
    own = getattr(found, "__module__", None) or getattr(found, "__name__", "")
    return found if str(own).startswith("invsamp") else None


def against_the_published_posterior(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the means in sds and of the sds, of draws (chains, draws, 8), and bounds: 4.5 and 5 standard errors.

    Sixteen comparisons at about 1e-5 each. The references are printed to two figures: 0.02 of a mean's sd and
    0.02 of an sd are theirs.
    """
    references = list(lotka_volterra.REFERENCE.values())
    mean, sd = np.array([r.mean for r in references]), np.array([r.sd for r in references])
    ess = diagnostics.ess(theta, method="bulk")
    mean_error = np.abs(theta.mean(axis=(0, 1)) - mean) / sd
    # the effective size of a square is taken as half of the value's, the tails being heavier than a Gaussian's
    sd_error = np.abs(theta.std(axis=(0, 1)) / sd - 1.0)
    return np.array([mean_error, sd_error]), np.array([4.5, 5.0])[:, None] / np.sqrt(ess) + 0.02


@pytest.mark.slow
def test_hare_lynx(example, within) -> None:
    run, out = example("hare_lynx", 1200)
    assert within(*against_the_published_posterior(run.theta))
    # the wrong sampler: the first hot rung, at temperature 1.7
    assert not within(*against_the_published_posterior(run.rung_theta(1)))
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["parameters"]) == set(lotka_volterra.REFERENCE)
    # 42 data of which 90% are expected inside: fewer than 32 has a probability of 1e-3
    assert summary["data_inside_90_percent_band"] >= 32 / 42
    assert {path.stem for path in out.glob("*.png")} == {
        *("populations", "marginals", "pairs", "trace", "ladder", "swaps")
    }


def killed(script: Path, out: Path, simulations: int) -> None:
    """Start an example, and kill it as soon as its database has so many simulations."""
    command = [sys.executable, "-W", "ignore", str(script), "--out", str(out), "--seed", "1", "--draws", "1500"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while sum(file.read_bytes().count(b"\n") for file in out.glob("simulations/*.jsonl")) < simulations:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()


def fin_moments(fin: Callable, prior: Prior, data: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Means of conductivity, heat transfer and noise, and of their squares, by the exact solution on a grid of logs."""
    axes = [np.log(130.0) + 0.4 * np.linspace(0, 1, 81), np.log(27.0) + 0.2 * np.linspace(0, 1, 81)]
    axes.append(np.linspace(np.log(0.08), np.log(3.0), 81))
    points = np.exp(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3))
    away = (fin(points) - data) / points[:, 2:]
    log_density = prior.log_density(points) - (0.5 * away**2 + np.log(points[:, 2:])).sum(axis=1)
    weight = np.exp((log_density - log_density.max()) / temperature) * points.prod(axis=1)
    return np.concatenate([weight @ points**k / weight.sum() for k in (1, 2)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # draws are few
def test_simulator(example, within, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    for simulations in (10, 40):  # killed, resumed, killed, resumed
        killed(ROOT / "examples" / "simulator.py", tmp_path, simulations)
    summary, out = example("simulator", 1000)
    theta = SimulationDatabase.open(out / "simulations", version="1").table().theta
    assert len(theta) == len(np.unique(theta, axis=0)) == summary["simulations"] <= 132
    assert summary["by_this_process"] <= summary["simulations"] - 40
    assert summary["certificate"]["passed"]
    draws = np.load(out / "theta.npy")
    script = runpy.run_path(str(ROOT / "examples" / "simulator.py"))
    # once more: it finds all its simulations in the database, and has the same draws to the bit
    posterior = script["posed"](out)
    whole = script["emulated"](posterior, 1000, 1, out)
    assert posterior.forward["model"].simulated == 0
    np.testing.assert_array_equal(whole.theta, draws)
    values = np.concatenate([draws, draws**2], axis=2)
    error, sd = diagnostics.mcse(values), values.std(axis=(0, 1))
    for temperature, right in ((1.0, True), (3.0, False)):
        truth = fin_moments(script["fin"], script["PRIOR"], script["data"](), temperature)
        # six comparisons at about 1e-5, and what the rule by which the emulation stops allows for
        off = np.abs(values.mean(axis=(0, 1)) - truth)
        assert bool(within(off / np.hypot(error, 0.02 * sd), 5.0)) is right
    assert len(list(out.glob("*.png"))) == 4


@pytest.mark.slow
def test_heat_source(example, within) -> None:
    _, out = example("heat_source", 4000, SEEDS=1, CHAINS=128)
    summary = json.loads((out / "summary.json").read_text())
    z = {rule: np.linalg.norm([row["z"] for row in table.values()]) for rule, table in summary["rules"].items()}
    # five scores with standard errors from 128 chains, by Hotelling: once in 100,000 times
    bound = np.sqrt(5 * 127 / 123 * fisher.isf(1e-5, 5, 123))
    assert within(z["delayed acceptance"], bound)
    # the wrong sampler: the swap rule of noisy energies on two meshes that differ by a fixed error
    assert not within(z["eq. (18), biased here"], bound)
    per_attempt = summary["solves"]["delayed acceptance"]["per_attempt"]
    assert per_attempt["coarse"] == 1.0 and 0.05 < per_attempt["fine"] < 0.3
    ring = summary["ring"]
    # radial quantities mix within tens of steps: thousands of effective draws, so 2% is over 3 standard errors
    assert within(ring["radius"] - ring["radius_truth"], 0.1 * ring["radial_sd_truth"])
    assert within(ring["radial_sd"] / ring["radial_sd_truth"] - 1.0, 0.03)
    assert len(list(out.glob("*.png"))) == 5


@pytest.mark.slow
def test_constrained_mixtures(example, within) -> None:
    summary, out = example("constrained_mixtures", 200)
    assert json.loads((out / "summary.json").read_text()) == summary
    # 2,000 iterations: the order that the published length shows too, whatever the domain
    for domain in summary["domains"].values():
        samplers = domain["samplers"]
        # what independent draws of this number leave is large here: r2SGLD adds little to it, a single chain much
        excess = {name: row["divergence_inside"] - domain["floor"] for name, row in samplers.items()}
        assert within(excess["r2SGLD"], 0.7 * min(excess["R-SGLD"], excess["reSGLD"]))
        assert min(excess, key=excess.get) == "r2SGLD"
        # bounds hold, and there are none unless requested
        assert {name for name, row in samplers.items() if row["inside"] == 1.0} == {"R-cycSGLD", "R-SGLD", "r2SGLD"}
        # the same number of evaluations for all, up to the randomness of the swaps
        assert np.ptp([row["evaluations"] for row in samplers.values()]) < 2000
    assert {path.stem for path in out.glob("*.png")} == {
        *("densities", "convergence", "divergences", "diameter", "walls")
    }


def against_the_exact_posterior(row: dict, boundary_layer: float = 0.04) -> tuple[np.ndarray, np.ndarray]:
    """Errors of means and sds, and bounds: 4.5 and 5 standard errors, and a reflecting step's layer at the bounds.

    Three or four comparisons of each at about 1e-5. A step of 0.02 of a variance is 0.2 sd long; reflected, it moves
    means by a few hundredths of an sd and widens sds by about one.
    """
    error = np.array(list(row["bias_standard_error"].values()))
    bias = np.abs(list(row["bias_in_sd"].values()))
    width = np.abs(np.array(list(row["sd_ratio"].values())) - 1.0)
    # the standard error of a mean in sds is one over the root of the effective size
    return np.array([bias, width]), np.array([4.5, 5.0])[:, None] * error + boundary_layer


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lorenz", "lotka_volterra"])
def test_identification(example, within, name: str) -> None:
    summary, out = example(name, 200)
    cut = summary["cut"]["samplers"]
    # 64 chains of 1,000 steps that relax in 50: the bounds are about 0.2 sd; independent draws are the truth
    assert within(*against_the_exact_posterior(cut["r2SGLD"]))
    assert within(*against_the_exact_posterior(cut["R-SGLD"]))
    # the wrong samplers: without bounds
    assert not within(*against_the_exact_posterior(cut["SGLD"]))
    assert not within(*against_the_exact_posterior(cut["reSGLD"]))
    assert cut["r2SGLD"]["infeasible"] == cut["R-SGLD"]["infeasible"] == cut["R-cycSGLD"]["infeasible"] == 0.0
    # what the constraints cut off, known from the exact draws; a share has at most the sd of a coin, and of the
    # parameters' effective size of 600 and more
    for label in ("SGLD", "reSGLD"):
        assert within(cut[label]["infeasible"] - summary["cut"]["cut_off_by_the_constraints"], 4.5 * 0.5 / np.sqrt(600))
    # from the prior only the larger rates reach Lorenz's posterior in the published number of iterations
    if name == "lorenz":
        published = summary["published"]["samplers"]
        first = next(iter(summary["published"]["exact"]))
        distance = {label: row["wasserstein_in_sd"][first] for label, row in published.items()}
        assert within(distance["r2SGLD"], 0.5 * distance["R-SGLD"])
        assert within(distance["R-cycSGLD"], 0.5 * distance["R-SGLD"])
    shooting = summary["shooting"]
    assert shooting["fit_converged"]
    # three or four z-scores of one data set: beyond 4.5 once in 100,000
    assert within([row["z"] for row in shooting["parameters"].values()], 4.5)
    assert len(list(out.glob("*.png"))) == 6


@pytest.mark.slow
def test_field(example) -> None:
    summary, out = example("field", 300)
    assert summary["unknowns"] == 1089 and summary["r_hat"] < 1.1
    # 0.95 on average over truths; some ten independent patches of the range leave an sd of 0.07
    assert summary["share_of_nodes_within_two_sds"] > 0.7
    assert 0.1 < summary["share_of_variance_left"] < 0.7
    # greedy choices reach 63% of the best information at least, and random ones cannot be above the best
    random = summary["information_of_random_sensors"]
    assert summary["information_of_chosen_sensors"] > random["most"] > random["mean"] > 0.0
    assert (out / "maps.png").exists() and (out / "sensors.png").exists()


@pytest.mark.slow
def test_swap_noise(example, within) -> None:
    summary, out = example("swap_noise", 2000)
    gaussian, student, wide = (summary[f"2.5.1, example {k}"] for k in (1, 2, 3))
    # 32 chains of 20,000 steps know a weight to about .02
    for rows in (gaussian, student):
        assert within(rows["reSGLD, F 1"]["right_weight"] - 0.6, 0.08)
        assert not within(rows["reSGLD, F inf"]["divergence"], 4.0 * rows["reSGLD, F 1"]["divergence"])
    # the swap rates of the print are .004, .071 and .46
    rates = [wide[f"reSGLD, F {factor}"]["swap_rate"] for factor in ("1", "2", "4", "inf")]
    assert rates[0] < 0.001 < rates[1] < 0.02 < rates[2] < 0.2 and abs(rates[3] - 0.46) < 0.02
    assert [path.stem for path in out.glob("*.png")] == ["densities"]


@pytest.mark.slow
def test_exchange_gap(example) -> None:
    """Nothing here is random: exact where noise is Gaussian, biased where it is not, and faster with swaps."""
    summary, out = example("exchange_gap", 0)
    weight = {name: row["right_weight"] for name, row in summary["heavy_tails"].items()}
    assert abs(weight["sd 1, freedom inf, energies 1"] - 0.6) < 1e-6
    assert weight["sd 1, freedom 3, energies 1"] - 0.6 > 4.0 * (weight["sd 1, freedom 3, energies 4"] - 0.6) > 0.01
    gaps = summary["noise"]
    assert gaps["variance 0"] > gaps["variance 16"] > 100.0 * gaps["variance 64"] > 1e4 * gaps["no swaps"]
    for row in summary["bounded"].values():
        assert row["cold alone"] < row["bound"] and row["T = 100"] > 100.0 * row["cold alone"] / 2.0
        assert row["T = 3"] < row["T = 10"] < row["T = 30"] < row["T = 100"]
    assert [path.stem for path in out.glob("*.png")] == ["gap"]


@pytest.mark.slow
def test_epidemic(example, within) -> None:
    runs, out = example("epidemic", 500)
    mean, _ = by_quadrature()
    found = runs["negative binomial"].summary()
    # three scores at 1e-5 each; the errors of the errors are those of some 400 effective draws
    assert within((found["mean"] - mean) / found["mcse_mean"], 5.0)
    # the other distribution of counts has other rates
    other = runs["poisson"].summary()
    assert not within((other["mean"] - mean[:2]) / other["mcse_mean"], 5.0)
    summary = json.loads((out / "summary.json").read_text())
    better = summary["negative binomial"]["elpd_loo"] - summary["poisson"]["elpd_loo"]
    assert 12 < better < 26 and summary["poisson"]["days_inside_90_percent_band"] <= 10
    assert summary["negative binomial"]["days_inside_90_percent_band"] >= 12
    assert len(list(out.glob("*.png"))) == 4


@pytest.mark.slow
def test_population(example, within) -> None:
    _, out = example("population", 150)
    summary = json.loads((out / "summary.json").read_text())
    # 46 and six scores of one data set: one beyond 5 once in 30,000
    for name in ("population", "injection"):
        assert within(np.concatenate([np.ravel(row["z"]) for row in summary[name].values()]), 5.0)
    own = summary["population"]["clearance"]
    # the truth of another patient
    assert not within((np.array(own["mean"]) - np.roll(patients()[0]["clearance"], 1)) / np.array(own["sd"]), 5.0)
    assert {path.stem for path in out.glob("*.png")} == {"patients", "clearances", "injection", "injection_pairs"}


@pytest.mark.slow
def test_petab(example) -> None:
    _, out = example("petab", 60)
    summary = json.loads((out / "summary.json").read_text())
    # of AMICI's tests; see tests/data/petab
    assert summary["log_likelihood_at_nominal"] == pytest.approx(-138.222, abs=0.01)
    # the data bound it from below alone: it reaches four decades up to its bound, where others have a tenth of one
    assert "k_imp_homo" in summary["not_told"] and "k_phos" not in summary["not_told"]
    assert max(summary["sloppiest"], key=lambda name: abs(summary["sloppiest"][name])) == "k_imp_homo"
    assert summary["decades"]["k_phos"]["mean"] == pytest.approx(np.log10(15766.5), abs=0.15)
    assert (out / "data.png").exists()


def test_the_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 20
    assert "draws=20_000" in code
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(code.replace("draws=20_000", "draws=300, warmup=300, progress=False"), "README.md", "exec"), names)
    assert (tmp_path / "pairs.png").exists()
    run, posterior = names["run"], names["posterior"]
    # both modes are found, and the draws stand where the two sensors' values are explained
    assert {True, False} == set(heat_source.is_upper(run.theta).ravel().tolist())
    residual = posterior.predict(run.theta.reshape(-1, 2)[::50]) - posterior.data
    assert np.abs(residual).max() < 6 * 0.1


def test_summaries_of_several_seeds(monkeypatch, tmp_path) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", ["any", "--seed", "3", "--seeds", "2", "--out", str(tmp_path)])
    chosen = runpy.run_path(str(ROOT / "examples" / "_common.py"))["options"]("any", "", draws=1, seeds=True)
    found = chosen.over_seeds(lambda seed: ({"a": {"b": [seed, 1.0]}, "name": "x", "right": True}, {}))
    assert found["mean"] == {"a": {"b": [3.5, 1.0]}, "name": "x", "right": True}
    np.testing.assert_allclose(found["sd"]["a"]["b"], [np.sqrt(0.5), 0.0])
    assert found["seed 4"]["a"]["b"] == [4, 1.0]
    assert json.loads((tmp_path / "summary.json").read_text()) == found


def test_best_so_far(example) -> None:
    summary, out = example("best_so_far", 300, PAIRS=((0.01, 1.0),))
    (row,) = summary.values()
    assert (out / "best_so_far.png").exists()
    gap = {name: cells["after"]["100"] for name, cells in row.items()}
    # .72 and .40 by 64 runs, with errors of .08 and .05
    assert gap["both"][0] < gap["T = 0.01"][0] and row["T = 0.01"]["never"] > 40
    # the printed energy is flat away from the modes, so that the hot chain alone is slower
    printed, _ = example("best_so_far", 300, "--vary", "kappa", "--energy", "printed", KAPPAS=(0.3,))
    assert printed["kappa 0.3"]["both, a = 100"]["never"] < printed["kappa 0.3"]["T = 0.01"]["never"]


@pytest.mark.slow
def test_tempering(example) -> None:
    summary, out = example("tempering", 400)
    rows = summary["samplers"]
    trips = {name: row["round_trips_per_1000"][0] for name, row in rows.items()}
    # a window makes more trips, and fewer rungs of temperatures make more than either: by 2,000 steps of 6 chains
    assert trips["DEO*-SGD, window 8"] > 1.1 * trips["DEO*-SGD, window 1"] > 3.0
    assert trips["parallel tempering, 6 rungs"] > 2.0 * trips["DEO*-SGD, window 8"]
    # and what they are not: .052 of the draws should lie in the corners
    assert rows["DEO*-SGD, window 1"]["corners"][0] < 0.02
    assert (out / "index_paths.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["targets", "single"])
def test_tempering_by_target_and_by_single_chains(example, part) -> None:
    summary, _ = example("tempering", 400, "--only", part)
    variation = {name: row["total_variation"][0] for name, row in summary.items()}
    if part == "single":
        assert set(variation) == {"SGLD x P16", "cycSGLD x T16"}
        return
    # .53 and .09 at the published length
    assert variation["0.2"] > 1.5 * variation["0.5"]
    rates = {name: row["swap_rate"][0] for name, row in summary.items()}
    assert all(abs(rate - float(name)) < 0.03 for name, rate in rates.items())


@pytest.mark.slow
def test_contours(example) -> None:
    summary, out = example("contours", 150)
    rows = summary["mixture"]
    # within a mode, which short runs resolve: the weights of the target are closer than the published ones
    assert rows["CSGLD"]["divergence"] < rows["CSGLD, published weights"]["divergence"]
    assert set(summary["ten_dimensions"]) == {
        *("three contour rungs", "one contour rung", "one by long paths", "ladder 1, 2, 4, 8", "ladder 1, 6")
    }
    assert set(summary["heat_source"]) == {
        *("ladder that warm-up finds", "three contour rungs, T = 10", "three contour rungs, T = 30", "ladder 1, 8")
    }
    assert (out / "weights.png").exists()


@pytest.mark.slow
def test_contour_modes(example) -> None:
    summary, out = example("contour_modes", 150, BURN=600, RUNS=3)
    few, many = summary["nine_modes"], summary["twenty_five_modes"]
    # a chain that stays where it began beside two that swap
    assert few["reSGLD, T = 6"]["divergence"][0] < few["SGLD"]["divergence"][0]
    assert set(many) == {
        *("independent draws", "true_share_of_corners", "SGLD, five chains", "CSGLD, five chains"),
        *("CSGLD, one long chain", "reSGLD, five rungs", "ICSGLD, five chains", "cyclic SGLD, one long chain"),
        *("SVGD, five sets of particles", "as many independent draws as particles"),
    }
    assert {path.stem for path in out.glob("*.png")} == {"nine", "twenty_five"}


@pytest.mark.slow
def test_contour_optima(example, monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    tasks = runpy.run_path(str(ROOT / "examples" / "contour_optima.py"))["TASKS"]
    rng, h = np.random.default_rng(1), 1e-5
    for task in tasks.values():  # gradients are those of the functions
        x, along = rng.uniform(*task.box, (2, 3, task.dimension))
        slope = (task.function(x + h * along)[0] - task.function(x - h * along)[0]) / (2.0 * h)
        np.testing.assert_allclose(slope, (task.function(x)[1] * along).sum(axis=1), rtol=1e-5)
    summary, out = example("contour_optima", 1800, TASKS={"Griewank": tasks["Griewank"]})
    row = summary["Griewank"]
    # the gain is that of a longer step: plain SGLD at the published one is not there in as many iterations
    assert row["SGLD"]["never"] == 10 and tasks["Griewank"].best[0][0] > 1.0
    assert row["SGLD, tuned"]["iterations"][0] < row["SGLD"]["iterations"][0]
    assert (out / "times.png").exists()


@pytest.mark.slow
def test_variance_reduction(example, within) -> None:
    summary, out = example("variance_reduction", 150, READING_NOISE=(0.02, 0.01))
    energy = {name: rows["energy"][0] for name, rows in summary["noise"].items()}
    assert energy["snapshot"] < 0.1 * energy["plain"] and energy["linear"] < 0.2 * energy["snapshot"]
    assert energy["quadratic"] < 0.2 * energy["Gauss-Newton"] < 0.2 * energy["linear"]
    plumes = {name: rows["energy"][0] for name, rows in summary["plumes"].items()}
    assert 40 < plumes["plain"] < 60 and plumes["linear"] < 0.15 and plumes["Gauss-Newton"] < 0.008
    wide, narrow = summary["bending"]["0.02"], summary["bending"]["0.01"]
    for name in ("bending", "Gauss-Newton"):  # of the first order in the noise of readings
        assert 1.9 < wide[name] / narrow[name] < 2.4
    for name in ("quadratic", "Gauss-Newton"):
        run = summary["runs"][name]
        assert run["gain"] > 2.5  # eight times cheaper steps, somewhat shorter ones
        assert within(run["z"], 4.5)
        # some hundred effective draws at each side
        assert within(np.array(run["sd_over_exact"]) - 1.0, 0.25)
    assert (out / "noise_and_cost.png").exists()


@pytest.mark.slow
def test_variance_reduced_swaps(example) -> None:
    summary, out = example("variance_reduced_swaps", 10)
    noise, rows = summary["energy_sd"], summary["samplers"]
    # in proportion to the distance from the snapshot, to its square with the linear term
    assert 70 < noise["snapshot"][3] / noise["snapshot"][0] < 140
    assert 1500 < noise["linear term"][2] / noise["linear term"][0] < 4000
    assert rows["reSGLD, F = 1"]["swap_rate"] < 0.01 < rows["linear term, m 500"]["swap_rate"]
    assert rows["exact form: fixed references"]["swap_rate"] == pytest.approx(
        rows["exact energies"]["swap_rate"], abs=0.02
    )
    assert (out / "noise_and_law.png").exists()
