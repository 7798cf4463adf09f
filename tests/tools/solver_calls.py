"""Valid, cheap calls of the solvers and of the ready problems."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import meshio
import numpy as np
from call_subjects import ARRAY, an_ode, without
from fuzzing import Call

from invsamp.problems import (
    conductivity,
    constrained_mixtures,
    fitzhugh_nagumo,
    heat_modes,
    heat_source,
    influenza,
    lorenz,
    lotka_volterra,
    mixtures,
    pharmacokinetics,
    plumes,
    poisson64,
    reactions,
    robertson,
    trajectory,
)
from invsamp.solvers import fields as fields_on_meshes
from invsamp.solvers import gradient_matching, heat, ode, poisson
from invsamp.solvers.fem import fields, random_fields
from invsamp.solvers.fem.mesh import Mesh, read_mesh, unit_square
from invsamp.solvers.gradient_matching.library import Entry, Term

SBML = str(Path(__file__).parents[1] / "data" / "petab" / "test_suite" / "0001" / "_model.xml")
_Sum = fields.Sum  # a call has an argument with the name of the module


def fields_calls() -> dict[str, Call]:
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
        "fields.Sum": Call(lambda fields: _Sum(fields, 1.0), {"fields": "a"}, {"fields": field}),
        "random_fields.Matern": Call(random_fields.Matern, {"smoothness": 1.5, "length": 0.3}, lengths),
        "random_fields.SquaredExponential": Call(random_fields.SquaredExponential, {"length": 0.3}, lengths),
        "random_fields.karhunen_loeve": Call(
            random_fields.karhunen_loeve,
            {"covariance": matern, "points": points, "weights": weights, "count": 2},
            {"covariance": {"function"}},
        ),
        "random_fields.square_rule": Call(random_fields.square_rule, {"order": 2}),
        "fields.GaussianBump": Call(heat.GaussianBump),
        "fields.LogitField": Call(fields_on_meshes.LogitField, {"inner": "k"}, {"inner": field}),
        "fields.SoftplusField": Call(fields_on_meshes.SoftplusField, {"inner": "k"}, {"inner": field}),
        "fields.besov": Call(fields_on_meshes.besov, {"shape": (2, 2)}, {"shape": {"integer", "entries"}}),
        "fields.extended": Call(fields_on_meshes.extended, {"mesh": unit_square(2), "margin": 0.5}),
        "fields.Nodal": Call(fields_on_meshes.Nodal, {"parameter": "u", "mesh": unit_square(2)}),
        "fields.matern": Call(
            fields_on_meshes.matern,
            {"mesh": unit_square(2), "range": 1.0},
            {
                "range": {"real", "integer", "text"},
                "sd": {"real", "integer", "text", "numbers"},
                "mean": field - {"text"},
                "anisotropy": {"none", "function"},
            },
        ),
        "heat.Disc": Call(heat.Disc, {"center": (0.5, 0.5), "radius": 0.1}),
        "heat.dirichlet": Call(heat.dirichlet),
        "heat.neumann": Call(heat.neumann),
        "heat.DecayingGaussian": Call(heat.DecayingGaussian, {}, {"center": {"entries", "repeated"}}),
        "heat.point_sensors": Call(heat.point_sensors, {"points": [[0.5, 0.5]]}),
        "heat.region_averages": Call(
            heat.region_averages, {"regions": [lambda x: x[:, 0] < 0.5]}, {"regions": {"entries", "repeated"}}
        ),
        "mesh.unit_square": Call(unit_square, {"cells": 2}),
        "mesh.read_mesh": Call(read_mesh, {"path": _mesh_file()}, {"path": {"part"}}),
        "mesh.Mesh": Call(
            Mesh,
            {"points": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "cells": [[0, 1, 2]]},
            {"regions": {"empty mapping"}, "edges": {"empty mapping"}},
        ),
    }


def equations_calls() -> dict[str, Call]:
    field = {"text", "real", "integer", "signed", "numbers", "function"}
    unknowns = {
        "initial": {*field, "none"},
        "source": {*field, "none"},
        "conductivity": field - {"signed"},
        "boundary": {"empty mapping", "empty"},
    }
    warm = heat.HeatEquation(4, 2, 0.1)
    still = poisson.PoissonEquation(4, conductivity="k")
    model = an_ode()
    times, states = np.linspace(0.0, 1.0, 41), np.ones((41, 2)) + 0.1 * np.linspace(0.0, 1.0, 41)[:, None] ** 2
    solved = {"parameters": [[1.0, 0.1, 1.5, 0.075]], "initial": [10.0, 5.0], "times": [0.0, 0.1, 0.2, 0.3]}
    observation = model.observe([0.1, 0.2], [10.0, 5.0])
    shooting = ode.MultipleShooting(model, np.linspace(0.0, 1.0, 11), 2)
    observed = 2.0 + np.sin(np.linspace(0.0, [4.0, 7.0], 11))
    fit = shooting.fit(observed, solved["parameters"][0], 0.1)
    library = gradient_matching.linear_in_parameters(lotka_volterra.rhs, ["x", "y"], list("abcd"))
    wavy = np.stack([np.sin(5.0 * times), np.exp(-times)], axis=1)
    matched = gradient_matching.match(library, times, wavy)
    g = gradient_matching
    several = {"entries", "text"}
    named = {"states": several, "parameters": several}
    sensors = {"sensors": {"numbers"}}
    return {
        "heat.HeatEquation": Call(
            heat.HeatEquation, {"cells": 4, "steps": 2, "end_time": 0.1}, unknowns | {"_": field}
        ),
        "heat.HeatEquation.observe": Call(warm.observe, {"sensors": [[0.5, 0.5]]}, sensors),
        "heat.HeatEquation.solve": Call(warm.solve, {"theta": [[0.5, 0.5]]}),
        "poisson.PoissonEquation": Call(poisson.PoissonEquation, {"cells": 4}, unknowns),
        "poisson.PoissonEquation.observe": Call(still.observe, {"sensors": [[0.5, 0.5]]}, sensors),
        "ode.Event": Call(
            ode.Event,
            {"when": lambda t, x, p: x[0]},
            {"when": {"function", "none"}, "at": {"number", "none"}, "change": {"function", "none"}},
        ),
        "ode.Experiments": Call(ode.Experiments, {"observations": {"all": observation}}),
        "ode.Experiments.coarsen": Call(ode.Experiments({"all": observation}).coarsen),
        "ode.SbmlModel": Call(lambda path: ode.from_sbml(path), {"path": SBML}),
        "ode.from_sbml": Call(
            lambda path, parameters: ode.from_sbml(path, parameters=parameters),
            {"path": SBML, "parameters": ["k1"]},
            {"parameters": {"empty", "none"}},
        ),
        "ode.Table": Call(ode.Table, {"times": [0.0, 1.0, 2.0], "values": [1.0, 2.0, 0.5]}),
        "ode.SteadyState": Call(
            ode.SteadyState,
            {"initial": (1.0, 2.0)},
            {
                "initial": {"function", "entries", "repeated"},
                "given": {"empty mapping", "mapping"},
                "then": {"empty mapping", "mapping"},  # the model knows the states, and says so
            },
        ),
        "ode.OdeModel": Call(
            ode.OdeModel,
            {"rhs": lotka_volterra.rhs, "states": ("x", "y"), "parameters": ("a", "b", "c", "d")},
            {
                "breakpoints": {"text", "entries", "empty", "repeated"},
                "doses": {"empty", "empty mapping"},
                "events": {"entries", "empty"},
                "method": {"part"},
            },
        ),
        "ode.OdeModel.observe": Call(
            model.observe,
            {"times": [0.1, 0.2], "initial": [10.0, 5.0]},
            {
                "initial": {"entries", "repeated"},
                "mask": {"none"},
                "of": {"function", "none"},
                "given": {"empty mapping"},
            },
        ),
        "ode.OdeModel.solve": Call(model.solve, solved),
        "ode.OdeModel.solve_with_sensitivities": Call(
            model.solve_with_sensitivities, solved, {"initial_states": {"none", "entries", "empty"}}
        ),
        "ode.OdeObservation.coarsen": Call(observation.coarsen, {}, {"until": {"integer", "real", "unbounded"}}),
        "ode.MultipleShooting": Call(
            ode.MultipleShooting,
            {"model": model, "times": [0.0, 0.1, 0.2, 0.3], "segments": 2},
            {"segments": {"integer"}},
        ),
        "ode.MultipleShooting.coarsen": Call(shooting.coarsen),
        "ode.MultipleShooting.fit": Call(
            shooting.fit, {"observed": observed, "parameters": solved["parameters"][0], "noise_sd": 0.1}
        ),
        "ode.MultipleShooting.initial_guess": Call(
            shooting.initial_guess, {"observed": observed}, {"unobserved": {"none", "empty mapping", "empty"}}
        ),
        "ode.MultipleShooting.simulate": Call(shooting.simulate, {"theta": shooting_theta(shooting)}),
        "ode.MultipleShooting.trajectory": Call(shooting.trajectory, {"theta": shooting_theta(shooting)}),
        "ode.ShootingFit.start": Call(fit.start, {"rng": np.random.default_rng(0), "chains": 2}),
        "gradient_matching.finite_differences": Call(g.finite_differences),
        "gradient_matching.savitzky_golay": Call(g.savitzky_golay),
        "gradient_matching.weak": Call(g.weak),
        "gradient_matching.select": Call(g.select, {"library": library, "times": times, "states": wavy, "pairs": 1}),
        "gradient_matching.linear_in_parameters": Call(
            g.linear_in_parameters, {"rhs": lotka_volterra.rhs, "states": ["x", "y"], "parameters": list("abcd")}, named
        ),
        "gradient_matching.Library": Call(
            g.Library, {"states": ("x",), "parameters": ("a",), "entries": (Entry(0, 0, Term("x", lambda t, x: x[0])),)}
        ),
        "gradient_matching.match": Call(
            g.match, {"library": library, "times": times, "states": states}, {"derivatives": {"numbers"}}
        ),
        "gradient_matching.GradientMatching.compressed": Call(matched.compressed, {"sd": 0.1}),
        "gradient_matching.GradientMatching.gaussian": Call(
            matched.gaussian, {"sd": 0.1}, {"prior": {"none"}, "sd": {"real", "integer", "numbers"}}
        ),
    }


def problems_calls() -> dict[str, Call]:
    seen = lotka_volterra.data(np.linspace(0.0, 1.0, 21), noise=0.01)
    lorenz_seen = lorenz.data(np.linspace(0.0, 0.2, 21), noise=0.01)
    data = {"times": np.linspace(0.0, 0.2, 5)}
    posterior = {"observed": {"none"}, "derivatives": {"none", "numbers"}, "method": {"part"}, "backend": {"part"}}
    mixture = {"weights": [0.5, 0.5], "means": [-1.0, 1.0], "sds": [1.0, 1.0]}
    two = mixtures.GaussianMixture(**mixture)
    theta = np.zeros((2, 2))
    name = {"name": {"part"}}
    source = heat_source.two_modes()
    library = gradient_matching.linear_in_parameters(lotka_volterra.rhs, ["x", "y"], list("abcd"))
    states = an_ode().parameters
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
            constrained_mixtures.cell_probabilities,
            {"region": constrained_mixtures.domain("flower"), "bins": 4},
            {"temperature": {"integer", "real", "unbounded"}},
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
        "influenza.outbreak": Call(influenza.outbreak),
        "plumes.readings": Call(plumes.readings),
        "plumes.source": Call(plumes.source),
        "reactions.readings": Call(reactions.readings),
        "reactions.slow_or_fast": Call(reactions.slow_or_fast),
        "reactions.by_quadrature": Call(reactions.by_quadrature, {"points": 5}),
        "pharmacokinetics.patients": Call(pharmacokinetics.patients),
        "pharmacokinetics.population": Call(pharmacokinetics.population),
        "pharmacokinetics.injection": Call(pharmacokinetics.injection),
        "pharmacokinetics.two_compartments": Call(pharmacokinetics.two_compartments),
        "trajectory.simulate": Call(
            trajectory.simulate,
            {
                "model": an_ode(),
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
        "mixtures.GaussianMixture.cdf": Call(two.cdf, {"x": [0.0]}, {"x": {*ARRAY, "any shape", "empty", "unbounded"}}),
        "mixtures.GaussianMixture.density": Call(two.density, {"position": np.zeros((1, 1))}),
        "mixtures.GaussianMixture.sample": Call(two.sample, {"rng": np.random.default_rng(0), "n": 2}),
        "mixtures.two_modes": Call(mixtures.two_modes),
        "mixtures.close_modes": Call(mixtures.close_modes),
        "mixtures.far_modes": Call(mixtures.far_modes),
        "mixtures.gaussian_grid": Call(mixtures.gaussian_grid),
        "poisson64.posterior": Call(poisson64.posterior, {"levels": [8]}, posterior | {"levels": {"part"}}),
        "poisson64.truth": Call(poisson64.truth),
        "poisson64.data": Call(poisson64.data),
        "poisson64.squares": Call(poisson64.squares, {"cells": 8}, posterior),
        "poisson64.measured": Call(without(poisson64.measured), {"cells": 8, "degree": 1}),
        "poisson64.in_ufl": Call(without(poisson64.in_ufl), {"cells": 8}, {"comm": {"everything"}}),
        "poisson64.log_prior_of_stiffness": Call(poisson64.log_prior_of_stiffness, {"a": np.ones((1, 64))}),
    }


def _mesh_file() -> Path:
    path = Path(tempfile.mkdtemp()) / "square.vtk"
    meshio.write_points_cells(path, np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), [("triangle", [[0, 1, 2]])])
    return path


def shooting_theta(shooting: Any) -> np.ndarray:
    """A theta for a shooting of two states and segments."""
    return np.array([[1.0, 0.1, 1.5, 0.075] + [1.0] * 4])
