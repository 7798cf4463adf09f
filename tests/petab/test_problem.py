"""PEtab problems: published log likelihoods, the cases of PEtab's test suite, gradients, and what is refused."""

from __future__ import annotations

import json
import pickle
import re
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from petab_cases import DATA, conversion, math, parameter, reaction, rule, write_problem, write_problem_2
from scipy import stats

import invsamp as iv
from invsamp.posing.transforms.univariate import Identity, Log, Logit
from invsamp.solvers.ode.codegen import importable_source

pytest.importorskip("petab")

PUBLISHED = json.loads((DATA / "log_likelihoods.json").read_text())
SUITE = sorted(path.name for path in (DATA / "test_suite").iterdir())
SUITE_2 = sorted(path.name for path in (DATA / "test_suite_v2").iterdir())
PARAMETERS = "parameterId parameterScale lowerBound upperBound nominalValue estimate\n"


def nominal(problem: iv.petab.PetabProblem) -> np.ndarray:
    return np.array([[problem.nominal[name] for name in problem.posterior.labels]])


def published(name: str, **settings) -> iv.petab.PetabProblem:
    return iv.petab.load(DATA / name / f"{name}.yaml", **settings)


class TestPublished:
    @pytest.mark.parametrize("name", PUBLISHED)
    def test_log_likelihood_is_the_one_that_others_found(self, name):
        problem = published(name)
        ours = problem.posterior.log_likelihood(nominal(problem)).sum()
        assert abs(ours - PUBLISHED[name]) < max(0.01, 1e-3 * abs(PUBLISHED[name]))

    @pytest.mark.parametrize("name", ["Perelson_Science1996", "Elowitz_Nature2000", "Fiedler_BMCSystBiol2016"])
    def test_noise_is_the_one_that_petab_computes(self, name):
        import petab.v1 as petab

        problem, tables = published(name), petab.Problem.from_yaml(str(DATA / name / f"{name}.yaml"))
        theta = nominal(problem)
        simulated = tables.measurement_df.rename(columns={"measurement": "simulation"})
        simulated["simulation"] = problem.posterior.predict(theta)[0]
        theirs = petab.calculate_llh(tables.measurement_df, simulated, tables.observable_df, tables.parameter_df)
        assert problem.posterior.log_likelihood(theta).sum() == pytest.approx(theirs, abs=1e-9)

    @pytest.mark.parametrize("name", ["Boehm_JProteomeRes2014", "Bruno_JExpBot2016", "Weber_BMC2015"])
    def test_gradient_is_that_of_differences(self, name):
        problem = published(name, rtol=1e-9, atol=1e-10)
        posterior, rng = problem.posterior.with_bounds(), np.random.default_rng(1)  # some nominal values are bounds
        potential = posterior.potential()
        base = np.clip(posterior.to_position(nominal(problem)), *bounds(posterior))
        position = base + 0.1 * rng.standard_normal(base.shape)
        position = np.clip(position, *bounds(posterior))
        gradient = potential.energy_and_gradient(position)[1][0]
        for _ in range(3):
            direction = rng.standard_normal(gradient.shape)
            h = 1e-3 * direction
            # fourth order
            near, far = (np.ptp(potential.energy(position + s * np.stack([h, -h]))) for s in (1.0, 2.0))
            sides = potential.energy(np.concatenate([position + h, position - h, position + 2 * h, position - 2 * h]))
            slope = (8 * (sides[0] - sides[1]) - (sides[2] - sides[3])) / 12e-3
            scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
            assert abs(slope - gradient @ direction) < 2e-5 * scale
            assert near < far  # the energy changes that much at all

    def test_gradients_are_right_by_default(self):
        """Weber's cells rest for 24 hours: without control of sensitivities errors of gradients reached 1e20."""
        default, full = (published("Weber_BMC2015", **settings) for settings in ({}, {"error_control": "full"}))
        rng, theta = np.random.default_rng(0), nominal(default)
        bounded = default.posterior.with_bounds()
        theta = theta * (1 + rng.uniform(0.05, 0.2, (20, theta.shape[1])) * rng.choice([-1, 1], (20, theta.shape[1])))
        inside = bounded.to_theta(np.clip(bounded.to_position(theta), *bounds(bounded, 0.01)))
        positions = default.posterior.to_position(inside)
        ours, tight = (each.posterior.potential().energy_and_gradient(positions)[1] for each in (default, full))
        assert (np.linalg.norm(ours - tight, axis=1) < 1e-3 * np.linalg.norm(tight, axis=1)).all()

    def test_maximum_likelihood_is_the_published_one(self):
        name = "Bruno_JExpBot2016"
        modes = iv.maximize(published(name).posterior, of="likelihood", seed=1)
        assert modes.log_likelihood[0] == pytest.approx(PUBLISHED[name], abs=1e-3)
        assert modes.counts[0] >= 14  # bounds stop half of the descents within them
        assert modes.evaluations["model"] < 600

    def test_goes_to_other_processes(self):
        problem = published("Boehm_JProteomeRes2014")
        text, theta = pickle.dumps(problem.posterior), nominal(problem)
        importable_source.of_source.cache_clear()  # as there
        np.testing.assert_array_equal(pickle.loads(text).log_likelihood(theta), problem.posterior.log_likelihood(theta))

    def test_parameters_are_sampled_on_their_scales(self):
        posterior = published("Boehm_JProteomeRes2014").posterior
        assert posterior.dimension == 9
        assert posterior.prior.fixed.keys() == {"ratio", "specC17"}
        ends = zip(*posterior.prior.support, strict=True)
        assert posterior.coordinates.transforms == tuple(Logit(*each) for each in ends)
        bounded = posterior.with_bounds()
        assert all(transform == Log() for transform in bounded.coordinates.transforms)
        np.testing.assert_allclose(bounds(bounded, 0.0)[0], np.log(1e-5))

    def test_a_start_at_the_nominal_values(self):
        problem = published("Weber_BMC2015")
        posterior = problem.posterior
        with pytest.raises(ValueError, match=r"start must lie within the bounds of supports .*, got a22=0\.0001"):
            iv.sample(posterior, start=problem.nominal)
        assert problem.start["a12"] == pytest.approx(problem.nominal["a12"])
        assert problem.start["a22"] == pytest.approx(1e-4 * 10 ** (0.01 * 6))  # between 1e-4 and 100
        assert np.isfinite(posterior.to_position(posterior.packed("start", problem.start))).all()


def bounds(posterior, inset: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = (posterior.to_position(end) for end in posterior.prior.support)
    return lower + inset, upper - inset


@pytest.mark.parametrize("case", SUITE)
def test_case_of_the_suite(case):
    import petab.v1 as petab

    folder = DATA / "test_suite" / case
    wanted = yaml.safe_load((folder / f"_{case}_solution.yaml").read_text())
    problem = iv.petab.load(folder / f"_{case}.yaml")
    theta = nominal(problem)
    simulation = problem.posterior.predict(theta)[0]
    theirs = pd.read_csv(folder / "_simulations.tsv", sep="\t").simulation
    assert np.abs(simulation - theirs).max() < wanted["tol_simulations"]
    assert abs(problem.posterior.log_likelihood(theta).sum() - wanted["llh"]) < wanted["tol_llh"]
    tables = petab.Problem.from_yaml(str(folder / f"_{case}.yaml"))
    simulated = tables.measurement_df.rename(columns={"measurement": "simulation"}).assign(simulation=simulation)
    found = petab.calculate_chi2(tables.measurement_df, simulated, tables.observable_df, tables.parameter_df)
    assert abs(found - wanted["chi2"]) < wanted["tol_chi2"]


@pytest.mark.parametrize("case", SUITE_2)
def test_case_of_the_suite_of_version_2(case):
    folder = DATA / "test_suite_v2" / case
    wanted = yaml.safe_load((folder / f"_{case}_solution.yaml").read_text())
    problem = iv.petab.load(folder / f"_{case}.yaml")
    theta = nominal(problem)
    theirs = pd.read_csv(folder / "_simulations.tsv", sep="\t").simulation
    assert np.abs(problem.posterior.predict(theta)[0] - theirs).max() < wanted["tol_simulations"]
    assert abs(problem.posterior.log_likelihood(theta).sum() - wanted["llh"]) < wanted["tol_llh"]
    for name, value in wanted.get("log_prior", {}).items():
        density = problem.posterior.prior.distributions[name].log_density([problem.nominal[name]])
        assert density == pytest.approx(value, abs=1e-13)


class TestVersion2:
    """Features beyond the cases, against closed forms and differences."""

    def gradient_agrees(self, problem: iv.petab.PetabProblem) -> None:
        potential = problem.posterior.potential()
        position = problem.posterior.to_position(nominal(problem))
        gradient = potential.energy_and_gradient(position)[1][0]
        steps = 1e-4 * np.eye(len(gradient))
        differences = (potential.energy(position + steps) - potential.energy(position - steps)) / 2e-4
        np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)

    def test_periods_with_formulas_of_states_constants_and_sizes(self, tmp_path):
        path = write_problem_2(
            tmp_path,
            conditions="before k1 k0\nfirst B B+b0\nsecond k1 2*k0\nsecond c 2\nsecond A A/2\n",
            experiments="e -inf before\ne 1 first\ne 3 second\n",
            measurements="obs e 1 0.7\nobs e 3 0.6\nobs e 4 0.5\n",
            parameters="k0 0.3\nb0 2\nk2 0.6\n",
        )
        problem = iv.petab.load(path, rtol=1e-9, atol=1e-12)
        k0, b0, k2 = (problem.nominal[name] for name in ("k0", "b0", "k2"))
        a = k2 / (k0 + k2)  # of A + B = 1, at rest
        b = 1 - a + b0
        later = conversion(2, k0, k2, a, b)
        wanted = [a, later / 2, conversion(1, 2 * k0, k2, later / 2, a + b - later)]
        np.testing.assert_allclose(problem.posterior.predict(nominal(problem))[0], wanted, rtol=1e-6)
        self.gradient_agrees(problem)

    @pytest.mark.parametrize("distribution", ["normal", "laplace", "log-normal", "log-laplace"])
    def test_noise_of_several_states(self, tmp_path, distribution):
        path = write_problem_2(
            tmp_path,
            measurements="obs ~ 1 0.7\nother ~ 2 0.6\nobs ~ 2 0.5\n",
            observables=f"obs A 0.1+s*B*time {distribution}\nother B 0.2 {distribution}\n",
            parameters="k1 0.8\nk2 0.6\ns 0.3\n",
        )
        problem = iv.petab.load(path, rtol=1e-9)
        a = conversion([1, 2, 2], 0.8, 0.6, 1, 0)
        y, scale = np.array([a[0], 1 - a[1], a[2]]), np.array([0.1 + 0.3 * (1 - a[0]), 0.2, 0.1 + 0.6 * (1 - a[2])])
        family = {
            "normal": lambda: stats.norm(y, scale),
            "laplace": lambda: stats.laplace(y, scale),
            "log-normal": lambda: stats.lognorm(scale, scale=y),
            "log-laplace": lambda: stats.loglaplace(1 / scale, scale=y),
        }[distribution]()
        found = problem.posterior.log_likelihood(nominal(problem))[0]
        np.testing.assert_allclose(found, [*family.logpdf([0.7, 0.6, 0.5]), 0.0, 0.0], rtol=1e-6)
        self.gradient_agrees(problem)
        drawn = problem.posterior.sample_data(np.random.default_rng(1), np.repeat(nominal(problem), 20, axis=0))
        assert np.isfinite(drawn[:, :3]).all()


def test_models_of_models_are_flattened(tmp_path):
    from invsamp.solvers.ode import from_sbml

    space = "http://www.sbml.org/sbml/level3/version1"
    kinetics = math("k1 * A")
    species = "".join(
        f'<species id="{name}" compartment="c" initialConcentration="{start}" hasOnlySubstanceUnits="false" '
        'boundaryCondition="false" constant="false"/>'
        for name, start in (("A", 1), ("B", 0))
    )
    sides = "".join(
        f'<listOf{side}><speciesReference species="{name}" stoichiometry="1" constant="true"/></listOf{side}>'
        for side, name in (("Reactants", "A"), ("Products", "B"))
    )
    (tmp_path / "whole.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<sbml xmlns="{space}/core" xmlns:comp="{space}/comp/version1" level="3" version="1" comp:required="true">'
        '<model id="whole"><comp:listOfSubmodels><comp:submodel comp:id="part" comp:modelRef="inner"/>'
        '</comp:listOfSubmodels></model><comp:listOfModelDefinitions><comp:modelDefinition id="inner">'
        '<listOfCompartments><compartment id="c" size="1" spatialDimensions="3" constant="true"/></listOfCompartments>'
        f"<listOfSpecies>{species}</listOfSpecies>"
        '<listOfParameters><parameter id="k1" value="0.8" constant="true"/></listOfParameters>'
        '<listOfReactions><reaction id="r" reversible="false" fast="false">'
        f"{sides}<kineticLaw>{kinetics}</kineticLaw></reaction></listOfReactions>"
        "</comp:modelDefinition></comp:listOfModelDefinitions></sbml>"
    )
    model = from_sbml(tmp_path / "whole.xml", parameters=["part__k1"])
    assert model.states == ("part__A", "part__B")
    found = model.observe([1.0], states=["part__A"])(np.array([[0.5]]))
    np.testing.assert_allclose(found[0], np.exp(-0.5), rtol=1e-5)


class TestFeatures:
    """What the suite's other cases are about, against closed forms."""

    HEAD = "observableId simulationConditionId time measurement"

    def test_replicates(self, tmp_path):
        path = write_problem(tmp_path, f"{self.HEAD}\nobs c0 1 0.7\nobs c0 1 0.6\nobs c0 0 0.9\nobs c0 1 0.8\n")
        problem = iv.petab.load(path)
        a = conversion([1, 1, 0, 1], 0.8, 0.6, 1, 0)
        np.testing.assert_allclose(problem.posterior.predict(nominal(problem))[0], a, rtol=1e-5)
        values = problem.posterior.log_likelihood(nominal(problem))[0]
        np.testing.assert_allclose(values, stats.norm(a, 0.5).logpdf([0.7, 0.6, 0.9, 0.8]), rtol=1e-5)

    def test_logarithms_and_noise_that_depends_on_the_prediction(self, tmp_path):
        observables = (
            "observableId observableFormula noiseFormula observableTransformation\n"
            "obs 2*A 0.1+noiseParameter1_obs*obs log\nother B s*sqrt(2) log10\n"
        )
        head = f"{self.HEAD} noiseParameters\n"
        path = write_problem(
            tmp_path,
            f"{head}obs c0 1 0.7 s\nobs c0 2 0.6 0.3\nother c0 1 0.9 ~\n",
            observables=observables,
            parameters=f"{PARAMETERS}k1 log10 0.01 10 0.8 1\nk2 log 0.01 10 0.6 1\ns lin 0 10 0.2 1\n",
        )
        problem = iv.petab.load(path)
        a = conversion([1, 2, 1], 0.8, 0.6, 1, 0)
        y = np.array([2 * a[0], 2 * a[1], 1 - a[2]])
        scale = np.array([0.1 + 0.2 * y[0], 0.1 + 0.3 * y[1], 0.2 * np.sqrt(2) * np.log(10)])
        wanted = stats.lognorm(scale, scale=y).logpdf([0.7, 0.6, 0.9])
        np.testing.assert_allclose(problem.posterior.log_likelihood(nominal(problem))[0], wanted, rtol=1e-5)
        transforms = problem.posterior.with_bounds().coordinates.transforms
        assert [type(each) for each in transforms] == [Log, Log, Identity]

    def test_sizes_of_compartments_by_condition(self, tmp_path):
        path = write_problem(
            tmp_path,
            f"{self.HEAD}\nobs c0 1 0.7\nobs c1 1 0.7\n",
            conditions="conditionId c\nc0 2\nc1 v\n",
            parameters=f"{PARAMETERS}k1 lin 0 10 0.8 1\nk2 lin 0 10 0.6 0\nv lin 1 10 4 1\n",
            reactions=reaction("fwd", "A", "B", "k1 * A") + reaction("rev", "B", "A", "k2 * B"),
        )
        problem = iv.petab.load(path)
        wanted = [float(conversion(1, 0.8 / v, 0.6 / v, 1, 0)) for v in (2, 4)]
        np.testing.assert_allclose(problem.posterior.predict(nominal(problem))[0], wanted, rtol=1e-5)

    @pytest.mark.parametrize(("then", "b"), [("~", None), ("3", 3.0), ("b0", 2.0)])
    def test_rest_before_and_what_starts_anew(self, tmp_path, then, b):
        head = "observableId preequilibrationConditionId simulationConditionId time measurement\n"
        path = write_problem(
            tmp_path,
            f"{head}obs before c0 1 0.7\nobs before c0 2 0.5\n",
            conditions=f"conditionId k1 B\nbefore k0 0.5\nc0 0.8 {then}\n",
            parameters=f"{PARAMETERS}k0 lin 0 10 0.3 1\nk2 lin 0 10 0.6 1\nb0 lin 0 10 2 1\n",
        )
        problem = iv.petab.load(path, rtol=1e-9)

        def predicted(k0: float, k2: float, b0: float) -> np.ndarray:
            a = 1.5 * k2 / (k0 + k2)
            return conversion([1, 2], 0.8, k2, a, {None: 1.5 - a, 2.0: b0}.get(b, b))

        theta = nominal(problem)
        forward = problem.posterior.forward["model"]
        columns = [problem.posterior.labels.index(name) for name in forward.parameters]
        y, jacobian = forward.jacobian(theta[:, columns])
        np.testing.assert_allclose(y[0], predicted(*theta[0]), rtol=1e-7)
        for name, slope in zip(forward.parameters, jacobian[0].T, strict=True):
            step = 1e-6 * np.array([label == name for label in problem.posterior.labels])
            wanted = (predicted(*(theta[0] + step)) - predicted(*(theta[0] - step))) / 2e-6
            np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-9)

    def test_states_of_rate_rules_start_as_a_condition_says(self, tmp_path):
        path = write_problem(
            tmp_path,
            f"{self.HEAD}\nobs c0 1 0.7\n",
            conditions="conditionId z\nc0 3\n",
            observables="observableId observableFormula noiseFormula\nobs z 0.5\n",
            rules=rule("rate", "z", "-k1 * z"),
        )
        model = path.parent / "model.xml"
        z = parameter("z", 1.0, constant=False)
        model.write_text(model.read_text().replace("</listOfParameters>", f"{z}</listOfParameters>"))
        problem = iv.petab.load(path)
        np.testing.assert_allclose(problem.posterior.predict(nominal(problem))[0], 3 * np.exp(-0.8), rtol=1e-5)

    def test_rest_as_what_is_measured(self, tmp_path):
        path = write_problem(tmp_path, f"{self.HEAD}\nobs c0 inf 0.7\nobs c0 1 0.7\n")
        problem = iv.petab.load(path)
        wanted = [0.6 / 1.4, float(conversion(1, 0.8, 0.6, 1, 0))]
        np.testing.assert_allclose(problem.posterior.predict(nominal(problem))[0], wanted, rtol=1e-5)

    @pytest.mark.parametrize(
        ("scale", "kind", "numbers", "target"),
        [
            ("log10", "parameterScaleNormal", "0;0.5", stats.lognorm(0.5 * np.log(10))),
            ("log", "parameterScaleNormal", "0;0.5", stats.lognorm(0.5)),
            ("lin", "parameterScaleNormal", "1;0.5", stats.norm(1, 0.5)),
            ("log10", "normal", "1;0.5", stats.norm(1, 0.5)),
            ("lin", "logNormal", "0;0.5", stats.lognorm(0.5)),
            ("log10", "parameterScaleUniform", "-1;0.5", stats.loguniform(0.1, 10**0.5)),
            ("log10", "uniform", "0.5;2", stats.uniform(0.5, 1.5)),
            ("lin", "laplace", "1;0.5", stats.laplace(1, 0.5)),
            ("lin", "logLaplace", "0;0.5", stats.loglaplace(2)),
            ("log10", "parameterScaleLaplace", "0;0.5", stats.loglaplace(2 / np.log(10))),
        ],
    )
    def test_priors(self, tmp_path, scale, kind, numbers, target):
        head = f"{PARAMETERS[:-1]} objectivePriorType objectivePriorParameters\n"
        rows = f"k1 {scale} 0.01 10 0.8 1 {kind} {numbers}\nk2 lin 0 10 0.6 1 ~ ~\n"
        path = write_problem(tmp_path, f"{self.HEAD}\nobs c0 1 0.7\n", parameters=head + rows)
        prior = iv.petab.posterior(path).prior
        low, high = max(target.ppf(0), 0.01), min(target.ppf(1), 10)
        points = np.array([0.7, 1.1])
        wanted = target.logpdf(points) - np.log(target.cdf(high) - target.cdf(low))
        np.testing.assert_allclose(prior.distributions["k1"].log_density(points), wanted, rtol=1e-9)


class TestRefusals:
    HEAD = "observableId simulationConditionId time measurement\n"
    ROWS = f"{HEAD}obs c0 1 0.7\n"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"observables": "observableId observableFormula noiseFormula noiseDistribution\nobs A 0.5 cauchy\n"},
             "noiseDistribution 'cauchy' of 'obs'"),
            ({"observables": "observableId observableFormula noiseFormula\nobs A 0.1*D\n"}, r"'D'"),
            ({"observables": "observableId observableFormula noiseFormula\nobs unknown*A 0.1\n"}, "unknown"),
            ({"observables": "observableId observableFormula noiseFormula\nobs A+ 0.1\n"}, "must be a formula"),
            ({"observables": "observableId observableFormula noiseFormula\nobs observableParameter1_obs*A 0.1\n"},
             "observableParameter1_obs"),
            ({"conditions": "conditionId nowhere\nc0 1\n"}, r"conditions that set \['nowhere'\]"),
            ({"conditions": "conditionId k1\nc0 nowhere\n", "parameters": f"{PARAMETERS}k2 lin 0 10 0.6 1\n"},
             "'nowhere'"),
            ({"measurements": f"{HEAD}obs c0 -1 0.7\n"}, "before time 0"),
            ({"measurements": f"{HEAD}obs c1 1 0.7\n"}, "'c1'"),
            ({"measurements": f"{HEAD}other c0 1 0.7\n"}, "'other'"),
            ({"parameters": f"{PARAMETERS}k1 log10 0 10 0.8 1\nk2 lin 0 10 0.6 1\n"}, "bounds of 'k1'"),
            ({"parameters": f"{PARAMETERS}k1 lin 0 10 0.8 0\nk2 lin 0 10 0.6 0\n"}, "at least one that is estimated"),
            ({"parameters": f"{PARAMETERS[:-1]} objectivePriorType objectivePriorParameters\n"
                            "k1 lin 0 10 0.8 1 gamma 1;1\nk2 lin 0 10 0.6 1 ~ ~\n"}, "'gamma' of 'k1'"),
            ({"yaml": "  mapping_files: [map.tsv]\n"}, "mapping files"),
        ],
    )  # fmt: skip
    def test_by_name_before_any_solve(self, tmp_path, changes, message):
        path = write_problem(tmp_path, **{"measurements": self.ROWS, **changes})
        with pytest.raises(ValueError, match=message):
            iv.petab.posterior(path)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("format_version: 3.0.0\nmodel_files: {}\n", r"format_version 3\.0\.0 is not supported.*petab1to2"),
            ("format_version: 2.0.0\nmodel_files: {}\n", "several models"),
            ("format_version: 2.0.0\nmodel_files: {a: {language: pysb, location: a}}\n", "other languages"),
            ("just words", "with a format_version"),
            ("format_version: 1\nproblems: [{}, {}]\n", "several problems"),
            ("format_version: 1\nproblems: [{model_files: {a: b}}]\n", "other languages than SBML"),
        ],
    )
    def test_other_files(self, tmp_path, text, message):
        path = tmp_path / "problem.yaml"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            iv.petab.posterior(path)
        with pytest.raises(ValueError, match=re.escape("which does not exist")):
            iv.petab.posterior(tmp_path / "nowhere.yaml")

    def test_without_the_extra_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "petab.v1", None)
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'invsamp\[petab\]'"):
            iv.petab.posterior(DATA / "test_suite" / "0001" / "_0001.yaml")

    def test_a_file_of_its_name_in_its_place(self, monkeypatch, tmp_path):
        for name in [each for each in sys.modules if each.partition(".")[0] == "petab"]:
            monkeypatch.delitem(sys.modules, name)
        (tmp_path / "petab.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ModuleNotFoundError, match=r"the package petab, in whose place .*petab\.py is found"):
            iv.petab.posterior(DATA / "test_suite" / "0001" / "_0001.yaml")
        monkeypatch.delitem(sys.modules, "petab")


def test_parameter_without_value_is_reported(tmp_path):
    path = write_problem(
        tmp_path,
        "observableId simulationConditionId time measurement\nobs c0 1 0.7\n",
        conditions="conditionId k3\nc0 ~\n",
        reactions=reaction("fwd", "A", "B", "c * (k1 + k3) * A") + reaction("rev", "B", "A", "c * k2 * B"),
    ).parent
    text = (path / "model.xml").read_text().replace("</listOfParameters>", parameter("k3") + "</listOfParameters>")
    (path / "model.xml").write_text(text)
    with pytest.raises(ValueError, match=r"SBML must give values of all names in formulas, got none of \['k3'\]"):
        iv.petab.posterior(path / "problem.yaml")
