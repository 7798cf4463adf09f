"""Valid, cheap calls of what poses, samples and judges."""

from __future__ import annotations

import importlib
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from call_subjects import ARRAY, SHAPELESS, a_posterior, a_prior, a_run, bowl, line, quiet, slopes, without
from fuzzing import Call
from public_names import NAMESPACES
from scipy import stats

import invsamp as iv
from invsamp import diagnostics, parallel, plots
from invsamp.domains.saved import from_dict
from invsamp.identifiability import choose_sensors
from invsamp.solvers.fem.fields import Constant
from invsamp.solvers.fem.mesh import unit_square

#: Kinds of a fidelity.
LEVELS = {"integer", "text"}


def a_pymc_model() -> Any:
    import pymc

    with pymc.Model() as model:
        pymc.Normal("x")
    return model


def many_draws() -> iv.Run:
    theta = np.random.default_rng(0).normal(size=(1, 4, 200, 1))
    return iv.Run.from_arrays(None, {"x": ()}, theta, {"energy": np.zeros((4, 200))}, {})


class StanModel:
    """As of BridgeStan, with one parameter."""

    param_names = param_unc_names = staticmethod(lambda: ["x"])
    param_unc_num = staticmethod(lambda: 1)
    log_density = staticmethod(lambda x, propto, jacobian: -0.5 * x[0] ** 2)
    log_density_gradient = staticmethod(lambda x, propto, jacobian: (-0.5 * x[0] ** 2, -x))
    param_constrain = param_unconstrain = staticmethod(lambda x: x)


def posing_calls() -> dict[str, Call]:
    prior, posterior, model = a_prior(), a_posterior(), line
    jacobian = {"function": model, "jacobian": lambda t: np.ones((len(t), 3, 2))}
    theta, rng = np.zeros((2, 2)), np.random.default_rng(0)
    several = {"parameters": {"none", "entries", "text"}}
    noise = {"scale": {*SHAPELESS, "text", "repeated"} - {"signed"}}
    limits = {"lower": SHAPELESS, "upper": SHAPELESS}
    families = {
        "Uniform": {"lower": 0.0, "upper": 1.0},
        "Normal": {"mean": 0.0, "sd": 1.0},
        "LogNormal": {"log_mean": 0.0, "log_sd": 1.0},
        "HalfNormal": {"sd": 1.0},
        "Gamma": {"concentration": 1.0, "rate": 1.0},
        "Beta": {"a": 1.0, "b": 1.0},
        "Cauchy": {"location": 0.0, "scale": 1.0},
        "StudentT": {"degrees_of_freedom": 4.0, "location": 0.0, "scale": 1.0},
        "HalfStudentT": {"degrees_of_freedom": 4.0, "scale": 1.0},
        "HalfCauchy": {"scale": 1.0},
        "Exponential": {"rate": 1.0},
        "InverseGamma": {"concentration": 1.0, "rate": 1.0},
        "LogUniform": {"lower": 0.1, "upper": 1.0},
        "Weibull": {"exponent": 1.0, "scale": 1.0},
        "Laplace": {"location": 0.0, "scale": 1.0},
        "LogLaplace": {"log_location": 0.0, "log_scale": 1.0},
        "Triangular": {"lower": 0.0, "mode": 0.5, "upper": 1.0},
    }
    calls = {}
    for name, arguments in families.items():
        kinds = {"shape": {"integer", "empty"}}
        for argument in arguments:
            signed = (
                argument in ("lower", "upper", "mean", "log_mean", "location", "log_location", "mode")
                and name != "LogUniform"
            )
            kinds[argument] = {*SHAPELESS, "text"} - (set() if signed else {"signed"})
        calls[name if hasattr(iv, name) else f"distributions.{name}"] = Call(
            getattr(iv.distributions, name), arguments, kinds
        )
    normal = iv.Normal(0.0, 1.0)
    potential = iv.extending.FunctionPotential(bowl, 2)
    calls |= {
        "MultivariateNormal": Call(iv.MultivariateNormal, {"mean": [0.0, 0.0], "covariance": np.eye(2)}),
        "distributions.Ordered": Call(iv.distributions.Ordered, {"distribution": iv.Normal(0, 1, shape=2)}),
        "distributions.Dirichlet": Call(iv.distributions.Dirichlet, {"concentration": [1.0, 2.0]}),
        "distributions.Dirichlet.whole": Call(
            iv.distributions.Dirichlet([1.0, 2.0]).whole, {"x": [0.5]}, {"x": {"numbers", "signed", "any shape"}}
        ),
        "distributions.LKJ": Call(iv.distributions.LKJ, {"size": 3, "concentration": 1.0}),
        "distributions.LKJ.matrix": Call(
            iv.distributions.LKJ(2).matrix, {"x": [0.5]}, {"x": {"numbers", "signed", "any shape"}}
        ),
        "Flat": Call(iv.Flat, {"domain": iv.domains.Ball([0.0, 0.0], 1.0)}),
        "from_scipy": Call(iv.from_scipy, {"distribution": stats.skewnorm(4)}, {"shape": {"integer", "empty"}}),
        "distributions.GaussianMixture": Call(
            iv.distributions.GaussianMixture,
            {"weights": [1.0, 2.0], "means": [0.0, 1.0], "covariances": [1.0, 1.0]},
            {"means": {"signed"}, "weights": set(), "covariances": set()},
        ),
        "distributions.Custom": Call(
            iv.distributions.Custom,
            {"function": lambda x: -0.5 * x**2, "sampler": lambda rng, n: rng.normal(size=n)},
            {
                "gradient": {"none", "flag", "function"},
                "shape": {"integer", "empty"},
                "lower": SHAPELESS,
                "upper": SHAPELESS,
            },
        ),
        "truncated": Call(iv.truncated, {"distribution": normal, "lower": 0.0}, {"distribution": {"distribution"}}),
        "Normal.log_density": Call(normal.log_density, {"x": [0.0]}, {"x": {"numbers", "signed", "empty"}}),
        "Normal.gradient": Call(normal.gradient, {"x": [0.0]}, {"x": {"numbers", "signed", "empty"}}),
        "Normal.sample": Call(normal.sample, {"rng": rng, "n": 2}),
        "GaussianNoise": Call(iv.GaussianNoise, {"scale": 0.1}, noise),
        "LogNormalNoise": Call(iv.LogNormalNoise, {"scale": 0.1}, noise),
        "noise.LaplaceNoise": Call(iv.noise.LaplaceNoise, {"scale": 0.1}, noise),
        "noise.LogLaplaceNoise": Call(iv.noise.LogLaplaceNoise, {"scale": 0.1}, noise),
        "noise.PredictedScale": Call(
            iv.noise.PredictedScale, {"noise": iv.GaussianNoise(1.0), "outputs": [1, 1]}, {"outputs": SHAPELESS}
        ),
        "StudentTNoise": Call(iv.StudentTNoise, {"degrees_of_freedom": 3.0, "scale": 0.1}, noise),
        "NegativeBinomialNoise": Call(
            iv.NegativeBinomialNoise, {"dispersion": 0.1}, {"dispersion": {*SHAPELESS, "text", "repeated"} - {"signed"}}
        ),
        "BinomialNoise": Call(iv.BinomialNoise, {"trials": 5}, {"trials": {"integer", "any shape", "empty"}}),
        "noise.AutoRegressive": Call(
            iv.noise.AutoRegressive,
            {"correlation": 0.5},
            {"correlation": {*SHAPELESS, "text", "repeated"} - {"integer"}},
        ),
        "noise.ExponentialCorrelation": Call(
            iv.noise.ExponentialCorrelation,
            {"time": 1.0, "times": [0.0, 1.0]},
            {"time": {*SHAPELESS, "text", "repeated"} - {"signed"}},
        ),
        "noise.Precision": Call(iv.noise.Precision, {"matrix": np.eye(2)}),
        "CensoredNoise": Call(iv.CensoredNoise, {"noise": iv.GaussianNoise(1.0), "lower": 0.0, "upper": 1.0}, limits),
        "TruncatedNoise": Call(iv.TruncatedNoise, {"noise": iv.GaussianNoise(1.0), "lower": 0.0, "upper": 1.0}, limits),
        "MixtureNoise": Call(
            iv.MixtureNoise,
            {"noise": iv.GaussianNoise(1.0), "outliers": iv.GaussianNoise(9.0), "fraction": 0.1},
            {"fraction": {*SHAPELESS, "text", "repeated"} - {"signed", "integer"}},
        ),
        "noise.MarginalNoise": Call(
            iv.noise.MarginalNoise, {"noise": iv.GaussianNoise(1.0), "concentration": 1.0, "rate": 1.0}
        ),
        "PoissonNoise": Call(iv.PoissonNoise),
        "noise.CategoricalNoise": Call(iv.noise.CategoricalNoise),
        "Outputs": Call(lambda a: iv.Outputs(a=a), {"a": iv.PoissonNoise()}),
        "Outputs.labeled": Call(
            iv.Outputs.labeled, {"labels": ["a", "b"], "noises": {"a": iv.PoissonNoise(), "b": iv.GaussianNoise(1.0)}}
        ),
        "Prior": Call(lambda a: iv.Prior(a=a, b=normal), {"a": normal}, {"a": {"distribution", "text", *SHAPELESS}}),
        "Prior.from_table": Call(iv.Prior.from_table, {"table": {"a": {"lower": 0.0, "upper": 1.0}}}),
        "Prior.log_density": Call(prior.log_density, {"theta": theta}),
        "Prior.gradient": Call(prior.gradient, {"theta": theta}),
        "Prior.sample": Call(prior.sample, {"rng": rng, "n": 2}),
        "Prior.pack": Call(prior.pack, {"values": {"a": 0.0, "b": 1.0}}, {"values": {"none such"}}),
        "Prior.unpack": Call(prior.unpack, {"theta": theta}),
        "with_jacobian": Call(iv.with_jacobian, jacobian, several),
        "finite_differences": Call(
            iv.finite_differences, {"function": model}, several | {"scale": {"real", "integer"}}
        ),
        "approximate_derivatives": Call(
            iv.approximate_derivatives, {"model": iv.with_jacobian(**jacobian), "error": 0.1}
        ),
        "scalar_function": Call(iv.scalar_function, {"function": lambda t: np.zeros(3)}, several),
        "executable": Call(
            iv.executable,
            {
                "command": ["echo", "{{a}}"],
                "outputs": lambda run: np.loadtxt(run / "stdout.txt", ndmin=1),
                "templates": {"input": "{{a}}"},
                "files": [],
                "environment": {},
                "directory": "runs",
            },
            {
                "command": set(),
                "parameters": {"none"},
                "templates": {"none", "empty mapping"},
                "files": {"empty"},
                "directory": {"text", "none"},
                "environment": {"none", "empty mapping"},
            },
        ),
        "LogDensity": Call(
            iv.LogDensity,
            {"function": model, "gradient": slopes, "data": 3, "dimension": 2, "parameters": ["a", "b"]},
            several
            | {
                "function": {"function"},
                "gradient": {"none", "flag", "function"},
                "data": {"integer", "none", "shape"},
            },
        ),
        "Population": Call(
            iv.Population,
            {"model": iv.with_jacobian(**jacobian, parameters=["a", "b"]), "members": 2, "individual": ["a"]},
        ),
        "extending.FunctionPotential": Call(iv.extending.FunctionPotential, {"function": bowl, "dimension": 2}),
        "extending.SumPotential": Call(
            iv.extending.SumPotential, {"data": np.zeros(3), "term": bowl, "dimension": 2}, {"data": SHAPELESS}
        ),
        "Target": Call(
            iv.Target,
            {"potentials": potential, "names": ["a", "b"]},
            {
                "start": {"function", "numbers", "none"},
                "domain": {"none", "empty"},
                "transforms": {"none", "empty mapping"},
            },
        ),
        "Target.check_gradient": Call(iv.Target(potential).check_gradient, {"theta": [0.0, 0.0]}),
        "Target.potential": Call(iv.Target(potential).potential),
        "Target.sample_start": Call(iv.Target(potential).sample_start, {"rng": rng, "n": 2}),
        "Posterior": Call(
            iv.Posterior,
            {
                "prior": prior,
                "forward": iv.with_jacobian(**jacobian),
                "data": np.zeros(3),
                "noise": iv.GaussianNoise(1.0),
            },
            {"transforms": {"none", "empty mapping", "empty"}, "domain": {"none", "empty"}}
            | {"forward": {"part", "function"}, "data": {*SHAPELESS, "missing"}},
        ),
        "Posterior.for_prediction": Call(
            posterior.for_prediction,
            {"forward": iv.with_jacobian(**jacobian), "shape": 3},
            {"forward": {"part", "function"}, "shape": {"integer", "none"}},
        ),
        "Posterior.check_gradient": Call(posterior.check_gradient, {"theta": [0.0, 0.0]}),
        "Posterior.with_centering": Call(
            posterior.with_centering, {"centered": {}}, {"centered": {"empty mapping", "mapping"}}
        ),
        "Posterior.failure_message": Call(posterior.failure_message),
        "Posterior.model_mistake": Call(posterior.model_mistake),
        "Posterior.log_density": Call(posterior.log_density, {"theta": theta}),
        "Posterior.log_density_at": Call(posterior.log_density_at, {"position": theta}),
        "Posterior.log_prior": Call(posterior.log_prior, {"theta": theta}),
        "Posterior.potential": Call(posterior.potential),
        "Posterior.predict": Call(posterior.predict, {"theta": theta}),
        "Posterior.log_likelihood": Call(posterior.log_likelihood, {"theta": theta}),
        "Posterior.sample_noise": Call(
            posterior.sample_noise, {"rng": rng, "y": np.zeros((2, 3)), "theta": theta}, {"y": {"signed"}}
        ),
        "Posterior.sample_data": Call(posterior.sample_data, {"rng": rng, "theta": theta}),
        "Posterior.misfit": Call(posterior.misfit, {"theta": theta, "y": np.zeros((len(theta), 3))}),
        "Posterior.among_data": Call(posterior.among_data, {"y": np.zeros((len(theta), 3))}, {"fidelity": {"none"}}),
        "Posterior.alone": Call(posterior.alone, {"fidelity": "fine"}, {"fidelity": {"none"}}),
        "Posterior.columns": Call(posterior.columns, {"fidelity": "fine"}, {"fidelity": {"none"}}),
        "Posterior.unknown_names": Call(posterior.unknown_names, {"fidelity": "fine"}, {"fidelity": {"none"}}),
        "Posterior.input_shapes": Call(posterior.input_shapes, {"fidelity": "fine"}, {"fidelity": {"none"}}),
        "Posterior.given": Call(posterior.given, {"theta": theta, "fidelity": "fine"}, {"fidelity": {"none"}}),
        "Posterior.unknowns": Call(posterior.unknowns, {"fidelity": "fine"}, {"fidelity": {"none"}}),
        "Posterior.with_forward": Call(posterior.with_forward, {"forward": dict(posterior.forward)}),
        "Posterior.with_data": Call(posterior.with_data, {"data": np.ones(3)}),
        "Posterior.sample_start": Call(posterior.sample_start, {"rng": rng, "n": 2}),
        "Posterior.to_position": Call(posterior.to_position, {"theta": theta}),
        "Posterior.to_theta": Call(posterior.to_theta, {"position": theta}),
        "parallel.isolated": Call(
            iv.parallel.isolated, {"model": iv.with_jacobian(line, slopes)}, {"model": {"function"}}
        ),
        "parallel.map": Call(parallel.map, {"model": model, "thetas": theta, "workers": 1}, {"model": {"function"}}),
        "parallel.distributed": Call(parallel.distributed, {"build": line}),
        **simulations_calls(),
        "maximize": Call(
            iv.maximize,
            {"problem": posterior, "starts": 2, "of": "posterior", "seed": 1, "max_evaluations": 100, "rank": 2},
            {"of": {"text"}},
        ),
        "modes.Modes.draws": Call(iv.maximize(posterior, starts=2, seed=1).draws, {"n": 2, "seed": 1}),
        "profile": Call(
            iv.profile,
            {"problem": posterior, "of": "likelihood", "level": 0.5, "max_evaluations": 50, "seed": 1},
            {"of": {"text"}},
        ),
        "identifiability.choose_sensors": Call(
            choose_sensors, {"posterior": posterior, "count": 2, "at": None, "seed": 1}, {"parameters": {"none"}}
        ),
        "information": Call(iv.information, {"posterior": posterior, "at": None, "datasets": 10, "seed": 1}),
        "identifiability.Information.standard_deviations": Call(
            iv.information(posterior, datasets=10, seed=1).standard_deviations, {}
        ),
        "identifiability.Information.plot": Call(iv.information(posterior, datasets=10, seed=1).plot, {}),
        "identifiability.Profiles.intervals": Call(iv.profile(posterior, seed=1).intervals, {"level": 0.5}),
        "identifiability.Profiles.plot": Call(
            iv.profile(posterior, seed=1).plot, {"names": None}, {"names": {"text", "none", "entries"}}
        ),
        "fidelities.measure_levels": Call(
            iv.fidelities.measure_levels, {"problem": posterior, "theta": np.random.default_rng(0).normal(size=(8, 2))}
        ),
        "from_umbridge": Call(
            without(iv.from_umbridge),
            {"url": "http://localhost:1", "name": "none", "time_limit": 0.01},
            several | {"config": {"none", "mapping", "empty mapping", "empty"}},
        ),
        "from_torch": Call(without(iv.from_torch), {"function": model}, several),
        "from_jax": Call(iv.from_jax, {"function": model}, several),
        "from_bridgestan": Call(iv.from_bridgestan, {"model": StanModel()}),
    }
    if find_spec("pymc"):
        calls["from_pymc"] = Call(iv.from_pymc, {"model": a_pymc_model()})
    return calls


def simulations_calls() -> dict[str, Call]:
    folder = Path(tempfile.mkdtemp()) / "runs"
    database = iv.simulations.SimulationDatabase.open(folder, ["a", "b"])
    frame = pd.DataFrame({"a": [0.0], "b": [1.0], "y": [2.0]})
    single = {"outputs": [1.0], "theta": [0.0, 1.0], "seconds": 1.0}
    return {
        "simulations.stored": Call(
            iv.simulations.stored,
            {"model": line, "folder": folder, "names": ["a", "b"], "version": "1"},
            {"folder": {"text"}, "executor": {"none"}},
        ),
        **{  # the one way to make one
            name: Call(
                # without the version, for which an empty string is right
                lambda folder, names=None: iv.simulations.SimulationDatabase.open(folder, names),
                {"folder": folder, "names": ["a", "b"]},
                {"folder": {"text"}, "names": {"entries"}},
            )
            for name in ("simulations.SimulationDatabase", "simulations.SimulationDatabase.open")
        },
        "simulations.SimulationDatabase.lookup": Call(database.lookup, {"theta": [[0.0, 1.0]]}, {"theta": {"empty"}}),
        "simulations.SimulationDatabase.record": Call(
            database.record, single, {"outputs": {*ARRAY, "with nan"}, "failure": {"none"}}
        ),
        "simulations.SimulationDatabase.import_dataframe": Call(
            database.import_dataframe, {"frame": frame, "outputs": ["y"]}, {"seconds": {"none"}}
        ),
        "simulations.SimulationDatabase.table": Call(database.table),
        "simulations.SimulationDatabase.versions": Call(database.versions),
        "simulations.SimulationDatabase.refresh": Call(database.refresh),
        "simulations.SimulationDatabase.forget_failures": Call(database.forget_failures),
    }


def samplers_calls() -> dict[str, Call]:
    rungs = [iv.ladder.Rung(step_size=0.1), iv.ladder.Rung(2.0, step_size=0.1)]
    fidelities = {"fidelity": LEVELS, "fidelities": {"entries", "repeated", "none"}, "begin": {"integer"}}
    preconditioner = {"preconditioner": {"none"}, "boundary": {"part"}, "energies": {"part"}, "structure": {"part"}}
    preconditioner["target"] = {"integer", "real"}  # a temperature
    preset = (
        fidelities | preconditioner | {"on_noise_overflow": {"part"}, "swap_energies": {"part"}, "scheme": {"part"}}
    )
    parts = {
        **{
            name: {}
            for name in (
                "adjacent",
                "all_pairs",
                "sweep",
                "deo",
                "seo",
                "exact",
                "product_target",
                "projected",
                "metropolis",
                "state_dependent_penalty",
            )
        },
        **{name: {} for name in ("noise_penalty", "multi_variance", "delayed_acceptance", "noisy", "running_average")},
        **{name: {} for name in ("Langevin", "Momentum", "GradientNoise", "Swap", "Discrepancy", "coupled_sum")},
        "Rung": {},
        **{
            name: {}
            for name in (
                "mala",
                "transport_map",
                "hmc",
                "Hamiltonian",
                "mams",
                "pcn",
                "stretch",
                "differential_evolution",
                "Stretch",
                "DifferentialEvolution",
                "prior_draws",
                "CrankNicolson",
                "InfinityHamiltonian",
                "InfinityMicrocanonical",
                "infinity_hmc",
                "infinity_mams",
                "DelayedAcceptance",
                "Microcanonical",
                "ghmc",
                "sgld",
                "sghmc",
                "parallel_tempering",
                "resgld",
                "r2sgld",
                "kernel_ridge",
            )
        },
        **{name: {} for name in ("multi_variance_resgld", "fast_resgld")},
        "Unbounded": {},
        "constant": {"step_size": 0.1},
        "polynomial": {"step_size": 0.1},
        "exponential": {"step_size": 0.1, "rate": 0.9},
        "cyclic_cosine": {"step_size": 0.1, "cycle": 10},
        "cyclic_sgld": {"step_size": 0.1},
        "geometric": {"max_temperature": 4.0, "rungs": 3},
        "auto_ladder": {},
        "tempered": {"temperature": 2.0},
        "cold_posterior": {"temperature": 0.5},
        "annealed": {"temperature": iv.kernels.schedules.exponential(10.0, 0.9)},
        "tempered_likelihood": {"beta": 0.5},
        "contour": {"energy_bins": [1.0, 2.0, 5.0]},
        "gain": {"scale": 1.0},
        "contour_exchange": {},
        "surrogate_exchange": {},
        "two_stage": {},
        "polynomial_model": {},
        "gaussian_process_model": {},
        "csgld": {"step_size": 0.1, "ends": [1.0, 2.0, 5.0]},
        "icsgld": {"step_size": 0.1, "ends": [1.0, 2.0, 5.0]},
        "awsgld": {"step_size": 0.1, "ends": [1.0, 2.0, 5.0]},
        "LocalLangevin": {},
        **{name: {} for name in ("DeoSgd", "GradientDescent", "RmsLangevin", "Stein")},
        "minibatch": {"size": 2},
        "control_variate": {"size": 2, "refresh": 5},
        "fixed_control": {"size": 2, "references": [[0.0, 1.0]]},
        "saga": {"size": 2},
        "vr_resgld": {},
        "deo_sgd": {},
        "psgld": {"step_size": 0.1},
        "svgd": {"step_size": 0.1},
        "sgd": {"step_size": 0.1},
        "swag": {"iterates": np.arange(8.0).reshape(4, 2), "rank": 3},
        "paired_resgld": {"references": [[0.0, 1.0]]},
        "known": {},
        "penalized": {"strength": 1.0},
        "Sampler": {"rungs": rungs},
    }
    energies = {
        "energy_bins": {"integer", "numbers"},
        "ends": {"numbers"},
        "log_psi": {"none", "numbers"},
        "gain": {"none"},
    }
    batches = {name: {"integer"} for name in ("size", "refresh")} | {"groups": {"none", "any shape"}, "order": {"part"}}
    batches["references"] = {"signed", "numbers"}
    special = {
        "deo_sgd": {"buffer": {"real", "signed"}},
        "swag": {"iterates": {"signed", "numbers"}},
        **{name: energies for name in ("contour", "contour_exchange", "csgld", "icsgld", "awsgld")},
        "known": {"value": {*SHAPELESS, "function", "none"} - {"signed"}},
        "minibatch": {"size": {"integer"}, "groups": {"none", "any shape"}},
        "control_variate": {
            "size": {"integer"},
            "refresh": {"integer"},
            "groups": {"none", "any shape"},
            "order": {"part"},
        },
        "saga": {"size": {"integer"}, "groups": {"none", "any shape"}},
        **{
            name: {"parameters": {"text", "entries", "none"}} for name in ("polynomial_model", "gaussian_process_model")
        },
        **{name: batches for name in ("fixed_control", "paired_resgld", "vr_resgld")},
    }
    calls, spaces = {}, [importlib.import_module(name) for name in NAMESPACES]
    for name, given in parts.items():
        module = next(module for module in (iv, *spaces) if name in module.__all__)
        place = name if module is iv else f"{module.__name__.split('.')[-1]}.{name}"
        calls[place] = Call(getattr(module, name), given, preset | special.get(name, {}))
    return calls


def runs_calls() -> dict[str, Call]:
    run, posterior = a_run(), a_posterior()
    plotted = {"x_label": {"text", "none"}, "label": {"text", "none"}}
    mapped = {"field": Constant("a"), "mesh": unit_square(2)}
    path = Path(tempfile.mkdtemp()) / "run"
    quiet(iv.sample, posterior, iv.mala(0.1), draws=5, warmup=5, seed=1, progress=False, directory=path)
    stored = run_file(run)
    plan = {"replicates": 2, "ranks": 3, "draws": 5, "warmup": 5, "seed": 1, "progress": False}
    longer = quiet(iv.sample, posterior, iv.mala(0.1), draws=20, warmup=0, seed=1, progress=False)
    calibration = quiet(iv.calibrate, posterior, iv.mala(0.1), **plan)
    emulation = {"batch": 4, "descents": 2, "draws": 20, "chains": 2, "seed": 1, "progress": False}
    emulated = quiet(iv.emulate, posterior, 24, **emulation)
    profiles = quiet(iv.profile, posterior, ["a"], seed=1)
    twice = iv.finite_differences(lambda theta: np.tile(theta, 2))
    plane = iv.Posterior(a_prior(), twice, np.zeros((2, 2)), iv.GaussianNoise(0.5))
    planes = quiet(iv.sample, plane, iv.mala(0.1), draws=5, warmup=5, seed=1, progress=False)
    calls = {
        "sample": Call(
            iv.sample,
            {"problem": posterior, "sampler": iv.mala(0.1), "draws": 5, "warmup": 5, "seed": 1, "progress": False},
            {"directory": {"text", "none"}, "start": {"none"}, "record": {"empty mapping"}},
        ),
        "resume": Call(
            iv.resume, {"directory": path, "posterior": posterior, "progress": False}, {"record": {"empty mapping"}}
        ),
        "results.predicted_classes": Call(
            iv.results.predicted_classes, {"draws": np.zeros((2, 3, 4))}, {"draws": {"numbers", "signed", "any shape"}}
        ),
        "results.auroc": Call(
            iv.results.auroc,
            {"inside": [0.1, 0.2], "outside": [0.3]},
            {name: {"signed", "infinite", "any shape"} for name in ("inside", "outside")},
        ),
        "load": Call(iv.load, {"path": stored}),
        "correct": Call(
            iv.correct,
            {"posterior": posterior, "states": np.linspace(0.1, 1.0, 24).reshape(12, 2), "progress": False},
            {"states": {"none"}, "sampler": {"none"}},
        ),
        "fidelities.approximation_error": Call(
            iv.fidelities.approximation_error, {"posterior": posterior, "draws": 10, "seed": 1}
        ),
        "fidelities.compare": Call(
            iv.fidelities.compare,
            {"posterior": posterior, "thetas": 12},
            {
                "thetas": {"integer", "numbers"},
                "fidelities": {"entries", "none"},
                "estimator": {"empty mapping", "none"},
            },
        ),
        "fidelities.FidelityComparison.to_dataframe": Call(
            iv.fidelities.compare(posterior, 20).to_dataframe, {"part": "levels"}
        ),
        "emulate": Call(
            iv.emulate,
            {"posterior": posterior, "simulations": 24} | emulation,
            {"directory": {"text", "none"}, "executor": {"none"}},
        ),
        "emulation.EmulatedRun.certify": Call(emulated.certify, {"simulations": 8}),
        "emulation.EmulatedRun.sample_exactly": Call(
            emulated.sample_exactly, {"draws": 2, "chains": 2, "exchange_interval": 5, "seed": 1}
        ),
        "emulation.EmulatedRun.error_sd": Call(emulated.error_sd),
        "emulation.EmulatedRun.plot_emulation": Call(emulated.plot_emulation),
        "emulation.EmulatedRun.plot_error_sd": Call(emulated.plot_error_sd),
        "calibrate": Call(
            iv.calibrate,
            {
                "posterior": posterior,
                "sampler": iv.mala(0.1),
                "replicates": 2,
                "ranks": 3,
                "draws": 5,
                "warmup": 5,
                "chains": 2,
                "false_alarm": 0.1,
                "seed": 1,
                "progress": False,
            },
            {"directory": {"text", "none"}},
        ),
        "calibration.Calibration.bands": Call(calibration.bands),
        "calibration.Calibration.plot": Call(calibration.plot, {"names": ["energy"]}, {"names": {"none", "entries"}}),
        "Run.expectation": Call(longer.expectation, {"quantity": np.square}),
        "Run.derive": Call(
            longer.derive,
            {"name": "derived", "function": np.square, "posterior": posterior},
            {"name": {"text"}, "posterior": {"none"}, "fidelity": {"none"}},
        ),
        "Run.draws": Call(run.draws, {"name": "a"}, {"name": {"part"}}),
        "Run.moments": Call(run.moments, {"name": "a"}, {"name": {"part"}}),
        "Run.thinned": Call(run.thinned, {"name": "a"}, {"name": {"part"}}),
        "Run.field": Call(run.field, mapped, {"draws": {"none", "integer"}, "truth": {"none"}}),
        "Run.from_arrays": Call(
            partial(iv.Run.from_arrays, posterior),
            {
                "names_shapes": {"x": ()},
                "theta": np.zeros((1, 2, 5, 1)),
                "sample_stats": {"energy": np.zeros((2, 5))},
                "report": {"chains": 2},
                "log_weight": np.zeros((2, 5)),
                "recorded": {"y": np.zeros((2, 5, 3))},
            },
            {
                "report": {"mapping", "empty mapping"},
                "sample_stats": {"empty mapping"},
                "recorded": {"empty mapping", "none"},
            },
        ),
        "Run.load": Call(iv.Run.load, {"path": stored}),
        "Run.loo": Call(a_run(200).loo, {"posterior": posterior}, {"posterior": {"none"}}),
        "Run.log_likelihood": Call(run.log_likelihood, {"posterior": posterior}),
        "Run.predict": Call(run.predict, {"posterior": posterior, "draws": 3}),
        "Run.as_prior": Call(many_draws().as_prior, {"names": ["x"]}, {"names": {"none", "text", "entries"}}),
        "Run.posterior_predictive": Call(run.posterior_predictive, {"posterior": posterior, "draws": 3}),
        "Run.report_html": Call(
            run.report_html, {"path": stored.with_name("report.html"), "posterior": posterior}, {"title": {"text"}}
        ),
        "Run.rung_theta": Call(run.rung_theta, {"rung": 0}),
        "Run.rung_weights": Call(run.rung_weights, {"rung": 0}),
        "Run.save": Call(run.save, {"path": stored.with_name("saved.nc")}),
    }
    for name in plots.__all__:
        given = {"posterior": posterior} if name in ("plot_predictive", "plot_residuals") else {}
        given |= {"profiles": profiles} if name == "plot_profiles" else {}
        given |= {"posterior": plane} if name == "plot_phase" else {}
        drawn = {
            "plot_phase": planes,
            "plot_identifiability": longer,
            "plot_informed_directions": about_a_mode(),
        }.get(name, run)
        given |= mapped if name == "plot_field" else {}
        kinds = plotted | {
            "names": {"none", "entries"},
            "name": {"none"},
            "series": {"none", "entries"} if name == "plot_phase" else {"none"},
            "truth": {"none", "empty mapping"},
        }
        kinds |= {"truth_label": {"text"}}
        if name != "plot_swaps":
            calls[f"Run.{name}"] = Call(getattr(drawn, name), given, kinds)
        calls[f"plots.{name}"] = Call(getattr(plots, name), {"run": drawn, **given}, kinds)
    return calls


def about_a_mode() -> iv.Run:
    """A run whose kernel moved about the Gaussian of a mode, as its report has it."""
    report = {"chains": 2, "reference_eigenvalues": [[9.0, 0.5]]}
    return iv.Run.from_arrays(None, {"x": (2,)}, np.zeros((1, 2, 5, 2)), {"energy": np.zeros((2, 5))}, report)


def domains_calls() -> dict[str, Call]:
    ball = iv.domains.Ball([0.0, 0.0], 1.0)
    numbers = {"signed", "numbers"}
    return {
        "domains.Ball": Call(iv.domains.Ball, {"center": [0.0, 0.0], "radius": 1.0}),
        "Box": Call(iv.Box, {"lower": [0.0, 0.0], "upper": [1.0, 1.0]}),
        "domains.Ellipsoid": Call(
            iv.domains.Ellipsoid, {"center": [0.0, 0.0], "axes": [1.0, 2.0]}, {"matrix": {"none", *numbers}}
        ),
        "domains.HalfSpaces": Call(iv.domains.HalfSpaces, {"normals": [[1.0, 0.0]], "offsets": [1.0]}),
        "domains.LevelSet": Call(
            iv.domains.LevelSet,
            {"level": lambda x: (x**2).sum(axis=1) - 1.0, "gradient": lambda x: 2.0 * x, "dimension": 2},
            {"resolution": {"real", "integer", "none"}, "bounds": {"none"}},
        ),
        "domains.Polygon": Call(
            iv.domains.Polygon,
            {"vertices": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]},
            {"holes": {"empty", "empty mapping"}},
        ),
        "domains.Polygon.from_curve": Call(
            iv.domains.Polygon.from_curve, {"function": lambda t: np.column_stack([np.cos(t), np.sin(t)]), "points": 20}
        ),
        "domains.Product": Call(iv.domains.Product, {"blocks": {(0, 1): ball}}),
        "domains.Ball.sample_uniform": Call(ball.sample_uniform, {"rng": np.random.default_rng(0), "n": 2}),
        "constraint": Call(iv.constraint, {"text": "a < b"}, {"text": {"part"}}),
        "domains.from_dict": Call(from_dict, {"description": ball.to_dict()}, {"description": {"part"}}),
    }


def diagnostics_calls() -> dict[str, Call]:
    draws, d = np.random.default_rng(0).normal(size=(2, 20)), diagnostics
    cells = {"probabilities": [0.5, 0.5], "pseudo_count": 0.5}
    generator, chains = {"rng": {"none", "integer"}}, {"draws": {*ARRAY, "any shape", "empty"}}
    weighted = {"draws": draws, "log_weight": np.zeros((2, 20))}
    return {
        "diagnostics.explain": Call(d.explain, {"code": "IV-RHAT"}),
        "diagnostics.ess": Call(d.ess, weighted, chains),
        "diagnostics.rhat": Call(d.rhat, weighted, chains),
        "diagnostics.mcse": Call(d.mcse, weighted, chains),
        "diagnostics.statistics": Call(d.statistics, {"values": draws}, {"values": SHAPELESS}),
        "diagnostics.divergence_on_grid": Call(
            d.divergence_on_grid,
            {"draws": draws[0], "edges": np.array([-9.0, 0.0, 9.0]), "log_weight": np.zeros(20), **cells},
            {"draws": SHAPELESS},
        ),
        "diagnostics.iid_floor": Call(d.iid_floor, {"n": 5, "repeats": 2, "rng": 0, **cells}, generator),
        "diagnostics.passage_times": Call(
            d.passage_times, {"path": [0, 1, 0], "rungs": 2}, {"path": {"any shape", "empty"}}
        ),
        "diagnostics.round_trips": Call(
            d.round_trips, {"path": [0, 1, 0], "rungs": 2}, {"path": {"any shape", "empty"}, "origin": {"part"}}
        ),
        "diagnostics.replica_paths": Call(
            d.replica_paths, {"replica": np.zeros((1, 2, 3), int)}, {"replica": {"part"}}
        ),
        "diagnostics.swap_rates": Call(
            d.swap_rates,
            {"report": {"swap_attempts": [2], "swap_accepts": [1]}},
            {"report": {"mapping", "empty mapping"}},
        ),
    }


def run_file(run: Any) -> Path:
    """A run in a file of its own."""
    path = Path(tempfile.mkdtemp()) / "run.nc"
    run.save(path)
    return path
