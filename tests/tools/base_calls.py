"""One valid, cheap call of everything public, from which the wrong calls of `fuzzing` are made."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import meshio
import numpy as np
from fuzzing import Call

import invsamp as iv
from invsamp import diagnostics, parallel, plots, problems
from invsamp.domains import bound_domain, from_dict, named_columns
from invsamp.problems import (
    conductivity,
    constrained_mixtures,
    fitzhugh_nagumo,
    heat_modes,
    heat_source,
    lorenz,
    lotka_volterra,
    mixtures,
    poisson64,
    robertson,
    trajectory,
)
from invsamp.solvers import gradient_matching, heat, ode, poisson
from invsamp.solvers.fem import fields, random_fields
from invsamp.solvers.fem.mesh import Mesh, read_mesh, unit_square
from invsamp.solvers.gradient_matching.library import Entry, Term

#: Packages whose ``__all__`` is public; of the ready problems it is the functions and classes of every module.
PACKAGES = (
    *("invsamp", "invsamp.diagnostics", "invsamp.domains", "invsamp.parallel", "invsamp.plots"),
    *("invsamp.solvers.fem.fields", "invsamp.solvers.fem.random_fields", "invsamp.solvers.gradient_matching"),
    *("invsamp.solvers.heat", "invsamp.solvers.ode", "invsamp.solvers.poisson"),
)
#: Classes that a user gets and never makes.
GIVEN = {
    *("ModelError", "Run", "Terms", "Constraint", "DomainLike", "Intersection", "Reflection", "SavedLevelSet"),
    *("Linear", "KarhunenLoeve", "Compressed", "Gaussian", "GradientMatching", "LinearModel", "Solution", "Status"),
    *("HeatObservation", "OdeObservation", "SensitiveSolution", "ShootingFit", "PoissonObservation", "Unknown"),
    *("Trajectory", "Quadrature", "Mode", "Reference", "StripModel", "Array", "rhs"),  # right-hand sides are compiled
}
#: Methods that the engine calls in every step, or on what it made itself.
INNER = {
    *(
        "apply",
        "at",
        "bind",
        "columns",
        "data",
        "derivatives",
        "energy",
        "energy_and_gradient",
        "equations",
        "evaluate",
    ),
    *("blocks", "bounding_box", "check_data", "check_dimension", "check_names", "check_theta", "constrains", "fitted"),
    *("flat", "from_arrays", "from_dict", "init", "jacobian", "linearize", "log_data", "members", "predict", "reflect"),
    *("outline", "profile", "rows", "source", "state_indices", "step_numbers", "terms", "to_half_spaces", "update"),
    *("value", "walls", "pullback", "contains", "fitted", "scipy", "parameter_names", "scale", "log_likelihood"),
}
ARRAY = {"real", "integer", "numbers", "signed"}
SHAPELESS = {*ARRAY, "any shape"}
LEVELS = {"integer", "text"}


def found() -> set[str]:
    """Names of all public functions and classes, and of the methods of these that a user calls."""
    names = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        names |= {_path(module, name) for name in module.__all__ if _counts(getattr(module, name))}
    for info in pkgutil.iter_modules(problems.__path__):
        module = importlib.import_module(f"invsamp.problems.{info.name}")
        mine = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
        names |= {_path(module, name) for name in mine if name[0] != "_" and _counts(getattr(module, name))}
    return names - {name for name in names if name.split(".")[-1] in GIVEN}


def methods(value: Any) -> set[str]:
    """Names of the methods of a class that a user calls with arguments."""
    names = {name for name in dir(value) if name[0] != "_" and name not in INNER}
    return {name for name in names if callable(getattr(value, name)) and _takes(getattr(value, name))}


@cache
def base_calls() -> dict[str, Call]:
    """Name -> a valid call."""
    return _posing() | _samplers() | _runs() | _domains() | _diagnostics() | _fields() | _equations() | _problems()


def _posing() -> dict[str, Call]:
    prior, posterior, model = _prior(), _posterior(), _line
    jacobian = {"function": model, "jacobian": lambda t: np.ones((len(t), 3, 2))}
    theta, rng = np.zeros((2, 2)), np.random.default_rng(0)
    noise = {"scale": {*SHAPELESS, "text"} - {"signed"}}
    families = {
        "Uniform": {"lower": 0.0, "upper": 1.0},
        "Normal": {"mean": 0.0, "sd": 1.0},
        "LogNormal": {"log_mean": 0.0, "log_sd": 1.0},
        "HalfNormal": {"sd": 1.0},
        "Gamma": {"concentration": 1.0, "rate": 1.0},
        "Beta": {"a": 1.0, "b": 1.0},
        "Cauchy": {"location": 0.0, "scale": 1.0},
    }
    calls = {}
    for name, arguments in families.items():
        kinds = {"shape": {"integer", "empty"}}
        for argument in arguments:
            signed = argument in ("lower", "upper", "mean", "log_mean", "location")
            kinds[argument] = SHAPELESS if signed else SHAPELESS - {"signed"}
        calls[name] = Call(getattr(iv, name), arguments, kinds)
    normal = iv.Normal(0.0, 1.0)
    potential = iv.FunctionPotential(_bowl, 2)
    return calls | {
        "MultivariateNormal": Call(iv.MultivariateNormal, {"mean": [0.0, 0.0], "covariance": np.eye(2)}),
        "truncated": Call(iv.truncated, {"distribution": normal, "lower": 0.0}, {"distribution": {"distribution"}}),
        "Normal.log_density": Call(normal.log_density, {"x": [0.0]}),
        "Normal.gradient": Call(normal.gradient, {"x": [0.0]}),
        "Normal.sample": Call(normal.sample, {"rng": rng, "n": 2}),
        "GaussianNoise": Call(iv.GaussianNoise, {"scale": 0.1}, noise),
        "LogNormalNoise": Call(iv.LogNormalNoise, {"scale": 0.1}, noise),
        "StudentTNoise": Call(iv.StudentTNoise, {"degrees_of_freedom": 3.0, "scale": 0.1}, noise),
        "Prior": Call(lambda a: iv.Prior(a=a), {"a": normal}, {"a": {"distribution"}}),
        "Prior.log_density": Call(prior.log_density, {"theta": theta}),
        "Prior.gradient": Call(prior.gradient, {"theta": theta}),
        "Prior.sample": Call(prior.sample, {"rng": rng, "n": 2}),
        "Prior.pack": Call(prior.pack, {"values": {"a": 0.0, "b": 1.0}}, {"values": {"none such"}}),
        "Prior.unpack": Call(prior.unpack, {"theta": theta}),
        "with_jacobian": Call(iv.with_jacobian, jacobian),
        "approximate_derivatives": Call(
            iv.approximate_derivatives, {"model": iv.with_jacobian(**jacobian), "error": 0.1}
        ),
        "finite_differences": Call(iv.finite_differences, {"function": model}, {"scale": {"real", "integer"}}),
        "scalar_function": Call(iv.scalar_function, {"function": lambda t: np.zeros(3)}),
        "FunctionPotential": Call(iv.FunctionPotential, {"function": _bowl, "dimension": 2}),
        "SumPotential": Call(
            iv.SumPotential,
            {"data": np.zeros(3), "term": _bowl, "dimension": 2},
            {"data": SHAPELESS},
        ),
        "Target": Call(
            iv.Target,
            {"potentials": potential, "names": ["a", "b"]},
            {"start": {"function", "numbers", "none"}, "domain": {"none", "domain"}},
        ),
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
            {"transforms": {"none", "empty mapping", "empty"}, "domain": {"none"}, "forward": {"part"}},
        ),
        "Posterior.check_gradient": Call(posterior.check_gradient, {"theta": [0.0, 0.0]}),
        "Posterior.failure_message": Call(posterior.failure_message),
        "Posterior.log_prior": Call(posterior.log_prior, {"theta": theta}),
        "Posterior.potential": Call(posterior.potential),
        "Posterior.predict": Call(posterior.predict, {"theta": theta}),
        "Posterior.log_likelihood": Call(posterior.log_likelihood, {"theta": theta}),
        "Posterior.sample_noise": Call(
            posterior.sample_noise, {"rng": rng, "y": np.zeros((2, 3)), "theta": theta}, {"y": {"signed"}}
        ),
        "Posterior.sample_start": Call(posterior.sample_start, {"rng": rng, "n": 2}),
        "Posterior.to_position": Call(posterior.to_position, {"theta": theta}),
        "Posterior.to_theta": Call(posterior.to_theta, {"position": theta}),
        "isolated": Call(iv.isolated, {"model": iv.with_jacobian(_line, _slopes)}, {"model": {"function"}}),
        "parallel.map": Call(parallel.map, {"model": model, "thetas": theta, "workers": 1}, {"model": {"function"}}),
        "parallel.distributed": Call(parallel.distributed, {"build": _line}),
        "measure_levels": Call(
            iv.measure_levels, {"problem": posterior, "theta": np.random.default_rng(0).normal(size=(8, 2))}
        ),
        "from_umbridge": Call(
            _without(iv.from_umbridge), {"url": "http://localhost:1", "name": "none", "time_limit": 0.01}
        ),
        "from_torch": Call(_without(iv.from_torch), {"function": model}),
    }


def _samplers() -> dict[str, Call]:
    rungs = [iv.Rung(step_size=0.1), iv.Rung(2.0, step_size=0.1)]
    fidelities = {"fidelity": LEVELS, "fidelities": {"entries", "repeated", "none"}, "begin": {"integer"}}
    preconditioner = {"preconditioner": {"none"}, "boundary": {"part"}, "energies": {"part"}, "structure": {"part"}}
    preset = fidelities | preconditioner | {"beyond": {"part"}, "swap_energies": {"part"}, "scheme": {"part"}}
    parts = {
        **{name: {} for name in ("adjacent", "deo", "seo", "exact", "product_target", "projected", "naive", "fast")},
        **{name: {} for name in ("corrected", "multi_variance", "delayed_acceptance", "noisy", "running_average")},
        **{
            name: {} for name in ("Langevin", "Momentum", "GradientNoise", "Swap", "Rung", "Discrepancy", "coupled_sum")
        },
        **{name: {} for name in ("mala", "ghmc", "sgld", "sghmc", "relangevin", "resgld", "r2sgld", "kernel_ridge")},
        **{name: {} for name in ("multi_variance_resgld", "fast_resgld")},
        "Unbounded": {},
        "constant": {"step_size": 0.1},
        "polynomial": {"step_size": 0.1},
        "exponential": {"step_size": 0.1, "rate": 0.9},
        "cyclic_cosine": {"step_size": 0.1, "cycle": 10},
        "cyclic_sgld": {"step_size": 0.1},
        "geometric": {"hottest": 4.0, "rungs": 3},
        "minibatch": {"size": 2},
        "known": {},
        "penalised": {"strength": 1.0},
        "Sampler": {"rungs": rungs},
    }
    special = {
        "known": {"value": {*SHAPELESS, "function", "none"} - {"signed"}},
        "minibatch": {"size": {"integer"}, "groups": {"none", "any shape"}},
    }
    return {name: Call(getattr(iv, name), given, preset | special.get(name, {})) for name, given in parts.items()}


def _runs() -> dict[str, Call]:
    run, posterior = _run(), _posterior()
    plotted = {"x_label": {"text", "none"}}
    path = Path(tempfile.mkdtemp()) / "run"
    _quiet(iv.sample, posterior, iv.mala(0.1), draws=5, warmup=5, seed=1, progress=False, directory=path)
    stored = run_file(run)
    calls = {
        "sample": Call(
            iv.sample,
            {"problem": posterior, "sampler": iv.mala(0.1), "draws": 5, "warmup": 5, "seed": 1, "progress": False},
            {"directory": {"text", "none"}, "start": {"none"}},
        ),
        "resume": Call(iv.resume, {"directory": path, "posterior": posterior, "progress": False}),
        "load": Call(iv.load, {"path": stored}),
        "compare_fidelities": Call(
            iv.compare_fidelities,
            {"posterior": posterior, "thetas": 12},
            {"thetas": {"integer", "numbers"}, "fidelities": {"entries", "none"}},
        ),
        "Run.draws": Call(run.draws, {"name": "a"}, {"name": {"part"}}),
        "Run.load": Call(iv.Run.load, {"path": stored}),
        "Run.log_likelihood": Call(run.log_likelihood, {"posterior": posterior}),
        "Run.posterior_predictive": Call(run.posterior_predictive, {"posterior": posterior, "draws": 3}),
        "Run.rung_theta": Call(run.rung_theta, {"rung": 0}),
        "Run.save": Call(run.save, {"path": stored.with_name("saved.nc")}),
    }
    for name in ("plot_ladder", "plot_marginals", "plot_pairs", "plot_predictive", "plot_swaps", "plot_trace"):
        given = {"posterior": posterior} if name == "plot_predictive" else {}
        kinds = plotted | {"names": {"none"}, "name": {"none"}, "series": {"none"}, "truth": {"none", "empty mapping"}}
        kinds |= {"truth_label": {"text"}}
        if name != "plot_swaps":
            calls[f"Run.{name}"] = Call(getattr(run, name), given, kinds)
        calls[f"plots.{name}"] = Call(getattr(plots, name), {"run": run, **given}, kinds)
    comparison = _quiet(iv.compare_fidelities, posterior, 12)
    return calls | {"plots.plot_comparison": Call(plots.plot_comparison, {"comparison": comparison})}


def _domains() -> dict[str, Call]:
    ball = iv.Ball([0.0, 0.0], 1.0)
    numbers = {"signed", "numbers"}
    return {
        "Ball": Call(iv.Ball, {"centre": [0.0, 0.0], "radius": 1.0}),
        "Box": Call(iv.Box, {"lower": [0.0, 0.0], "upper": [1.0, 1.0]}),
        "Ellipsoid": Call(iv.Ellipsoid, {"centre": [0.0, 0.0], "axes": [1.0, 2.0]}, {"matrix": {"none", *numbers}}),
        "HalfSpaces": Call(iv.HalfSpaces, {"normals": [[1.0, 0.0]], "offsets": [1.0]}),
        "LevelSet": Call(
            iv.LevelSet,
            {"level": lambda x: (x**2).sum(axis=1) - 1.0, "gradient": lambda x: 2.0 * x, "dimension": 2},
            {"resolution": {"real", "integer", "none"}, "bounds": {"none"}},
        ),
        "Polygon": Call(
            iv.Polygon, {"vertices": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]}, {"holes": {"empty", "empty mapping"}}
        ),
        "Polygon.from_curve": Call(
            iv.Polygon.from_curve, {"function": lambda t: np.column_stack([np.cos(t), np.sin(t)]), "points": 20}
        ),
        "Product": Call(iv.Product, {"blocks": {(0, 1): ball}}),
        "Ball.sample_uniform": Call(ball.sample_uniform, {"rng": np.random.default_rng(0), "n": 2}),
        "constraint": Call(iv.constraint, {"text": "a < b"}, {"text": {"part"}}),
        "domains.from_dict": Call(from_dict, {"description": ball.to_dict()}, {"description": {"part"}}),
        "domains.bound_domain": Call(
            bound_domain,
            {"domain": ball, "columns": {"a": (0,), "b": (1,)}, "dimension": 2},
            {"domain": {"none"}, "columns": {"mapping", "empty mapping"}},
        ),
        "domains.named_columns": Call(named_columns, {"shapes": {"a": ()}}, {"shapes": {"empty mapping", "empty"}}),
    }


def _diagnostics() -> dict[str, Call]:
    draws, d = np.random.default_rng(0).normal(size=(2, 20)), diagnostics
    cells = {"probabilities": [0.5, 0.5], "pseudo_count": 0.5}
    generator = {"rng": {"none", "integer"}}
    return {
        "diagnostics.ess": Call(d.ess, {"draws": draws}),
        "diagnostics.rhat": Call(d.rhat, {"draws": draws}),
        "diagnostics.mcse": Call(d.mcse, {"draws": draws}),
        "diagnostics.statistics": Call(d.statistics, {"values": draws}),
        "diagnostics.load_arviz": Call(d.load_arviz),
        "diagnostics.divergence_on_grid": Call(
            d.divergence_on_grid, {"draws": draws[0], "edges": np.array([-9.0, 0.0, 9.0]), **cells}
        ),
        "diagnostics.iid_floor": Call(d.iid_floor, {"n": 5, "repeats": 2, "rng": 0, **cells}, generator),
        "diagnostics.quantile_function": Call(d.quantile_function, {"grid": [0.0, 1.0], "cdf": [0.0, 1.0]}),
        "diagnostics.wasserstein": Call(d.wasserstein, {"draws": draws[0], "reference": draws[1]}),
        "diagnostics.sliced_wasserstein": Call(
            d.sliced_wasserstein, {"draws": draws.T, "reference": draws.T, "directions": 3}, generator
        ),
        "diagnostics.round_trips": Call(d.round_trips, {"path": [0, 1, 0], "rungs": 2}, {"path": {"any shape"}}),
        "diagnostics.replica_paths": Call(
            d.replica_paths, {"replica": np.zeros((1, 2, 3), int)}, {"replica": {"part"}}
        ),
        "diagnostics.swap_rates": Call(
            d.swap_rates,
            {"report": {"swap_attempts": [2], "swap_accepts": [1]}},
            {"report": {"mapping", "empty mapping"}},
        ),
    }


def _fields() -> dict[str, Call]:
    points, weights = random_fields.square_rule(3)
    matern, modes = random_fields.Matern(1.5, 0.3), lambda x: np.ones((len(x), 2))
    field = {"signed", "numbers", "real", "integer", "text", "function", "any shape"}
    lengths = {"length": {"real", "integer", "numbers"}, "logarithm": field - {"any shape"}, "value": field}
    return {
        "fields.Constant": Call(fields.Constant, {"value": 1.0}),
        "fields.Fixed": Call(fields.Fixed, {"given": [1.0, 2.0]}, {"given": {"signed", "numbers", "function"}}),
        "fields.LogField": Call(fields.LogField, {"logarithm": "k"}, lengths),
        "fields.Modes": Call(
            fields.Modes,
            {"parameter": "z", "modes": modes, "count": 2},
            {"mean": field - {"text"}, "modes": {"function"}},
        ),
        "fields.PerBlock": Call(fields.PerBlock, {"parameter": "k", "shape": (2, 2)}),
        "fields.PerRegion": Call(
            fields.PerRegion, {"values": {"left": 1.0}, "elsewhere": 2.0}, {"values": {"mapping"}}
        ),
        "fields.Sum": Call(lambda fields_: fields.Sum(fields_, 1.0), {"fields_": "a"}, {"fields_": {"everything"}}),
        "fields.as_field": Call(fields.as_field, {"name": "source", "value": 1.0}, {"name": {"text"}, "value": field}),
        "fields.union": Call(fields.union, {"fields": [fields.Constant("a")]}, {"fields": {"empty"}}),
        "random_fields.Matern": Call(random_fields.Matern, {"smoothness": 1.5, "length": 0.3}, lengths),
        "random_fields.SquaredExponential": Call(random_fields.SquaredExponential, {"length": 0.3}, lengths),
        "random_fields.karhunen_loeve": Call(
            random_fields.karhunen_loeve,
            {"covariance": matern, "points": points, "weights": weights, "count": 2},
            {"covariance": {"function"}},
        ),
        "random_fields.square_rule": Call(random_fields.square_rule, {"order": 2}),
        "heat.GaussianBump": Call(heat.GaussianBump),
        "heat.Disc": Call(heat.Disc, {"center": (0.5, 0.5), "radius": 0.1}),
        "heat.dirichlet": Call(heat.dirichlet),
        "heat.neumann": Call(heat.neumann),
        "heat.DecayingGaussian": Call(heat.DecayingGaussian),
        "heat.point_sensors": Call(heat.point_sensors, {"points": [[0.5, 0.5]]}),
        "heat.region_averages": Call(heat.region_averages, {"regions": [lambda x: x[:, 0] < 0.5]}),
        "mesh.unit_square": Call(unit_square, {"cells": 2}),
        "mesh.read_mesh": Call(read_mesh, {"path": _mesh_file()}, {"path": {"part"}}),
        "mesh.Mesh": Call(
            Mesh,
            {"points": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "triangles": [[0, 1, 2]]},
            {"regions": {"empty mapping"}, "edges": {"empty mapping"}},
        ),
    }


def _equations() -> dict[str, Call]:
    field = {"text", "real", "integer", "signed", "numbers", "function"}
    unknowns = {"initial": field, "source": {*field, "none"}, "conductivity": field - {"signed"}, "boundary": {"part"}}
    warm = heat.HeatEquation(4, 2, 0.1)
    still = poisson.PoissonEquation(4, conductivity="k")
    model = _model()
    times, states = np.linspace(0.0, 1.0, 41), np.ones((41, 2)) + 0.1 * np.linspace(0.0, 1.0, 41)[:, None] ** 2
    solved = {"parameters": [[1.0, 0.1, 1.5, 0.075]], "initial": [10.0, 5.0], "times": [0.0, 0.1, 0.2, 0.3]}
    observation = model.observe([0.1, 0.2], [10.0, 5.0])
    shooting = ode.MultipleShooting(model, np.linspace(0.0, 1.0, 11), 2)
    observed = np.ones((11, 2))
    fit = shooting.fit(observed, solved["parameters"][0], 0.1)
    library = gradient_matching.polynomials(["x", "y"], 1)
    wavy = np.stack([np.sin(5.0 * times), np.exp(-times)], axis=1)
    matched = gradient_matching.match(library, times, wavy)
    g = gradient_matching
    named = {
        "equations": {"none"},
        "states": {"entries"},
        "parameters": {"entries"},
        "known": {"none", "empty mapping"},
    }
    sensors = {"sensors": {"numbers"}}
    return {
        "heat.HeatEquation": Call(
            heat.HeatEquation, {"cells": 4, "steps": 2, "end_time": 0.1}, unknowns | {"_": field}
        ),
        "heat.HeatEquation.observe": Call(warm.observe, {"sensors": [[0.5, 0.5]]}, sensors),
        "heat.HeatEquation.solve": Call(warm.solve, {"theta": [[0.5, 0.5]]}),
        "poisson.PoissonEquation": Call(poisson.PoissonEquation, {"cells": 4}, unknowns),
        "poisson.PoissonEquation.observe": Call(still.observe, {"sensors": [[0.5, 0.5]]}, sensors),
        "ode.OdeModel": Call(
            ode.OdeModel,
            {"rhs": lotka_volterra.rhs, "states": ("x", "y"), "parameters": ("a", "b", "c", "d")},
            {"breakpoints": {"empty"}, "doses": {"empty", "empty mapping"}, "method": {"part"}},
        ),
        "ode.OdeModel.observe": Call(
            model.observe,
            {"times": [0.1, 0.2], "initial": [10.0, 5.0]},
            {"mask": {"none"}, "of": {"function", "none"}},
        ),
        "ode.OdeModel.solve": Call(model.solve, solved),
        "ode.OdeModel.solve_with_sensitivities": Call(model.solve_with_sensitivities, solved),
        "ode.OdeObservation.coarsen": Call(observation.coarsen),
        "ode.MultipleShooting": Call(
            ode.MultipleShooting,
            {"model": model, "times": [0.0, 0.1, 0.2, 0.3], "segments": 2},
            {"segments": {"integer"}},
        ),
        "ode.MultipleShooting.coarsen": Call(shooting.coarsen),
        "ode.MultipleShooting.fit": Call(
            shooting.fit, {"observed": observed, "parameters": solved["parameters"][0], "noise_sd": 0.1}
        ),
        "ode.MultipleShooting.initial_guess": Call(shooting.initial_guess, {"observed": observed}),
        "ode.MultipleShooting.simulate": Call(shooting.simulate, {"theta": shooting_theta(shooting)}),
        "ode.MultipleShooting.trajectory": Call(shooting.trajectory, {"theta": shooting_theta(shooting)}),
        "ode.ShootingFit.start": Call(fit.start, {"rng": np.random.default_rng(0), "chains": 2}),
        "gradient_matching.finite_differences": Call(g.finite_differences),
        "gradient_matching.savitzky_golay": Call(g.savitzky_golay),
        "gradient_matching.weak": Call(g.weak),
        "gradient_matching.polynomials": Call(g.polynomials, {"states": ["x", "y"], "degree": 1}, named),
        "gradient_matching.candidates": Call(
            g.candidates, {"states": ["x"], "terms": ["x"]}, named | {"terms": {"entries", "mapping"}}
        ),
        "gradient_matching.coefficients": Call(g.coefficients, {"states": ["x"], "terms": {"a": {"x": "x"}}}, named),
        "gradient_matching.linear_in_parameters": Call(
            g.linear_in_parameters, {"rhs": lotka_volterra.rhs, "states": ["x", "y"], "parameters": list("abcd")}, named
        ),
        "gradient_matching.Library": Call(
            g.Library,
            {"states": ("x",), "parameters": ("a",), "entries": (Entry(0, 0, Term("x", lambda t, x: x[0])),)},
        ),
        "gradient_matching.match": Call(
            g.match, {"library": library, "times": times, "states": states}, {"derivatives": {"numbers"}}
        ),
        "gradient_matching.GradientMatching.compressed": Call(matched.compressed, {"sd": 0.1}),
        "gradient_matching.GradientMatching.gaussian": Call(
            matched.gaussian, {"sd": 0.1}, {"prior": {"none"}, "sd": {"real", "integer", "numbers"}}
        ),
    }


def _problems() -> dict[str, Call]:
    seen = lotka_volterra.data(np.linspace(0.0, 1.0, 21), noise=0.01)
    lorenz_seen = lorenz.data(np.linspace(0.0, 0.2, 21), noise=0.01)
    data = {"times": np.linspace(0.0, 0.2, 5)}
    posterior = {"observed": {"none"}, "derivatives": {"none", "numbers"}, "method": {"part"}, "backend": {"part"}}
    mixture = {"weights": [0.5, 0.5], "means": [-1.0, 1.0], "sds": [1.0, 1.0]}
    two = mixtures.GaussianMixture(**mixture)
    theta = np.zeros((2, 2))
    name = {"name": {"part"}}
    source = heat_source.two_modes()
    library = gradient_matching.polynomials(["x", "y"], 1)
    position = {"position": theta[:, :1], "energy": np.zeros(2)}
    states = _model().parameters
    return {
        "conductivity.modes": Call(conductivity.modes),
        "conductivity.equation": Call(conductivity.equation, {"cells": 4}),
        "conductivity.posterior": Call(conductivity.posterior, {"meshes": {"a": 4}}),
        "conductivity.reference": Call(
            conductivity.reference, {"problem": conductivity.posterior({"a": 4}), "draws": 2, "chains": 2, "seed": 0}
        ),
        "conductivity.true_coefficients": Call(conductivity.true_coefficients),
        "conductivity.readings": Call(conductivity.readings),
        "conductivity.log_conductivity": Call(
            conductivity.log_conductivity,
            {"z": conductivity.true_coefficients(), "points": [[0.5, 0.5]]},
            {"z": {"signed"}},
        ),
        "constrained_mixtures.TwentyFiveModes": Call(constrained_mixtures.TwentyFiveModes),
        "constrained_mixtures.domain": Call(constrained_mixtures.domain, {"name": "flower"}, name),
        "constrained_mixtures.target": Call(constrained_mixtures.target, {"name": "flower"}, name),
        "constrained_mixtures.noise": Call(constrained_mixtures.noise),
        "constrained_mixtures.vertices": Call(constrained_mixtures.vertices, {"name": "flower"}, name),
        "constrained_mixtures.cell_probabilities": Call(
            constrained_mixtures.cell_probabilities, {"region": constrained_mixtures.domain("flower"), "bins": 4}
        ),
        "heat_modes.posterior": Call(heat_modes.posterior, {"levels": [8]}, {"levels": {"part"}}),
        "heat_modes.relative_cost": Call(heat_modes.relative_cost, {"cells": 8}),
        "heat_modes.on_the_right": Call(heat_modes.on_the_right, {"theta": theta}),
        "heat_modes.quadrature": Call(heat_modes.quadrature, {"problem": heat_modes.posterior([8]), "points": 4}),
        "heat_source.ring": Call(heat_source.ring),
        "heat_source.two_modes": Call(heat_source.two_modes),
        "heat_source.is_upper": Call(heat_source.is_upper, {"theta": theta}),
        "heat_source.moments": Call(heat_source.moments, {"grid": np.linspace(0, 1, 3), "density": np.ones((3, 3))}),
        "heat_source.quadrature": Call(heat_source.quadrature, {"posterior": source, "points": 4}),
        "fitzhugh_nagumo.data": Call(fitzhugh_nagumo.data, data),
        "fitzhugh_nagumo.nerve": Call(fitzhugh_nagumo.nerve, {}, posterior),
        "lorenz.data": Call(lorenz.data, data),
        "lorenz.gradient_matching": Call(lorenz.gradient_matching, {"observed": lorenz_seen}, posterior),
        "lorenz.multiple_shooting": Call(lorenz.multiple_shooting, {"observed": lorenz_seen}, posterior),
        "lotka_volterra.data": Call(lotka_volterra.data, data),
        "lotka_volterra.hare_lynx": Call(lotka_volterra.hare_lynx, {}, posterior),
        "lotka_volterra.gradient_matching": Call(lotka_volterra.gradient_matching, {"observed": seen}, posterior),
        "lotka_volterra.multiple_shooting": Call(lotka_volterra.multiple_shooting, {"observed": seen}, posterior),
        "robertson.data": Call(robertson.data, {"times": np.array([0.1, 1.0])}),
        "robertson.reactions": Call(robertson.reactions, {}, posterior),
        "trajectory.simulate": Call(
            trajectory.simulate,
            {
                "model": _model(),
                "parameters": dict(zip(states, (1.0, 0.1, 1.5, 0.075), strict=True)),
                "initial": [10.0, 5.0],
                "times": [0.0, 0.1],
            },
            {"parameters": {"none such"}},
        ),
        "trajectory.segment_begins": Call(trajectory.segment_begins, {"times": np.linspace(0, 1, 5), "segment": 0.5}),
        "trajectory.matched": Call(
            trajectory.matched,
            {"library": library, "observed": seen, "derivatives": None, "noise_sd": None},
            {"derivatives": {"none"}},
        ),
        "mixtures.GaussianMixture": Call(mixtures.GaussianMixture, mixture, {"means": {"numbers", "signed"}}),
        "mixtures.GaussianMixture.cdf": Call(two.cdf, {"x": [0.0]}),
        "mixtures.GaussianMixture.density": Call(two.density, {"position": np.zeros((1, 1))}),
        "mixtures.GaussianMixture.sample": Call(two.sample, {"rng": np.random.default_rng(0), "n": 2}),
        "mixtures.two_modes": Call(mixtures.two_modes),
        "mixtures.close_modes": Call(mixtures.close_modes),
        "mixtures.far_modes": Call(mixtures.far_modes),
        "mixtures.gaussian_grid": Call(mixtures.gaussian_grid),
        "mixtures.sigmoid_noise_energy": Call(mixtures.sigmoid_noise_energy, position),
        "mixtures.sigmoid_noise_gradient": Call(mixtures.sigmoid_noise_gradient, position),
        "poisson64.posterior": Call(poisson64.posterior, {"levels": [8]}, posterior | {"levels": {"part"}}),
        "poisson64.truth": Call(poisson64.truth),
        "poisson64.data": Call(poisson64.data),
        "poisson64.triangles": Call(poisson64.triangles, {"cells": 8}),
        "poisson64.log_prior_of_stiffness": Call(poisson64.log_prior_of_stiffness, {"a": np.ones((1, 64))}),
    }


def _mesh_file() -> Path:
    path = Path(tempfile.mkdtemp()) / "square.vtk"
    meshio.write_points_cells(path, np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), [("triangle", [[0, 1, 2]])])
    return path


def run_file(run: Any) -> Path:
    """A run in a file of its own."""
    path = Path(tempfile.mkdtemp()) / "run.nc"
    run.save(path)
    return path


def shooting_theta(shooting: Any) -> np.ndarray:
    """A theta for a shooting of two states and segments."""
    return np.array([[1.0, 0.1, 1.5, 0.075] + [1.0] * 4])


@cache
def _prior() -> Any:
    return iv.Prior(a=iv.Normal(0.0, 1.0), b=iv.Normal(0.0, 1.0))


@cache
def _posterior() -> Any:
    coarse, fine = iv.with_jacobian(_line, _slopes), iv.with_jacobian(_line, _slopes)
    return iv.Posterior(_prior(), {"coarse": coarse, "fine": fine}, np.zeros(3), iv.GaussianNoise(0.5))


@cache
def _model() -> ode.OdeModel:
    return ode.OdeModel(lotka_volterra.rhs, ("x", "y"), ("a", "b", "c", "d"))


@cache
def _run() -> Any:
    sampler = iv.relangevin((1.0, 2.0), (0.1, 0.1))
    return _quiet(iv.sample, _posterior(), sampler, draws=20, warmup=5, chains=2, seed=1, progress=False)


def _line(theta: np.ndarray) -> np.ndarray:
    return theta[:, :1] + theta[:, 1:] * np.arange(3.0)


def _slopes(theta: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.stack([np.ones(3), np.arange(3.0)], axis=1), (len(theta), 3, 2))


def _bowl(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 0.5 * (position**2).sum(axis=1), position


def _quiet(function: Any, *arguments: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **settings)


def _without(function: Any) -> Any:
    """The function where what it needs (a package, a server, a file) is missing, which is no argument's fault."""

    @functools.wraps(function)
    def called(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except (ImportError, OSError, iv.ModelError):
            return None

    return called


def _path(module: Any, name: str) -> str:
    return name if module is iv else f"{module.__name__.split('.')[-1]}.{name}"


def _counts(value: Any) -> bool:
    return callable(value) and not getattr(value, "_is_protocol", False) and _takes(value)


def _takes(method: Any) -> bool:
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        return False
    return any(p.name not in ("self", "cls") for p in parameters)
