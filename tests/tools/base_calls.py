"""One valid, cheap call of everything public, from which the wrong calls of `fuzzing` are made."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from importlib.util import find_spec
from typing import Any

from core_calls import diagnostics_calls, domains_calls, posing_calls, runs_calls, samplers_calls
from fuzzing import Call
from public_names import NAMESPACES
from solver_calls import equations_calls, fields_calls, problems_calls

import invsamp as iv
from invsamp import problems


def _words(text: str) -> set[str]:
    return set(text.split())


#: Packages whose ``__all__`` is public; of the ready problems it is the functions and classes of every module.
PACKAGES = (
    *("invsamp", *NAMESPACES, "invsamp.calibration", "invsamp.identifiability", "invsamp.modes", "invsamp.plots"),
    *("invsamp.solvers.fem.fields", "invsamp.solvers.fem.random_fields", "invsamp.solvers.gradient_matching"),
    *("invsamp.solvers.heat", "invsamp.solvers.ode", "invsamp.solvers.poisson", "invsamp.solvers.fields"),
)
#: Classes that a user gets and never makes.
GIVEN = _words(
    "ModelError InvsampWarning Run Terms FinishedRun Constraint DomainLike Intersection Reflection SavedLevelSet "
    "Linear KarhunenLoeve Compressed Gaussian GradientMatching LinearModel Selection Solution Status HeatObservation "
    "OdeObservation SensitiveSolution ShootingFit PoissonObservation Unknown Trajectory Quadrature Mode Modes "
    "Reference StripModel Array Calibration Information Known Profiles Batch Estimate Request Info Point Stage "
    "Weights FidelityComparison Levels Setting MaternField BesovField SensorDesign ApproximationError"
)
#: Functions that the engine calls in every step, and what one module offers to another.
SHARED = _words(
    "rhs sigmoid_noise_energy sigmoid_noise_gradient bound_domain point_inside named_columns as_field union centers "
    "as_trajectory check_tolerances decided executed solve"
)
#: Methods that the engine calls in every step, or on what it made itself.
INNER = _words(
    "apply log_prior_at arrived cumulant fresh kick sample_inside sample_prior "
    "dynamics steps count refreshed remembered "
    "at step compiled_steps bind columns data derivatives energy energy_and_gradient equations evaluate packed blocks "
    "accepts auxiliary locate log_cdf places quantile standardize cumulant intersection preconditioner_at described "
    "bounding_box check_dimension check_names check_theta constrains fitted flat from_arrays from_dict "
    "init jacobian linearize log_data saturated members predict reflect outline profile rows source state_indices "
    "step_numbers terms update value vector_domain pullback contains scipy parameter_names scale "
    "log_likelihood replicate parts intersection cumulant take replaced centering_at"
)


def found() -> set[str]:
    """Names of all public functions and classes, each once; what users never make or call is left out."""
    names: dict[int, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            if _counts(name, getattr(module, name)):
                names.setdefault(id(getattr(module, name)), _path(module, name))
    for info in pkgutil.iter_modules(problems.__path__):
        module = importlib.import_module(f"invsamp.problems.{info.name}")
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__ and _counts(name, value):
                names.setdefault(id(value), _path(module, name))
    # what takes an object of a library can be called where that is installed
    return set(names.values()) - (set() if find_spec("pymc") else {"from_pymc"})


def methods(value: Any) -> set[str]:
    """Names of the methods of a class that a user calls with arguments."""
    names = {name for name in dir(value) if name[0] != "_" and name not in INNER}
    names = {name for name in names if not hasattr(tuple, name) and not hasattr(BaseException, name)}
    return {name for name in names if callable(getattr(value, name)) and _takes(getattr(value, name))}


@cache
def base_calls() -> dict[str, Call]:
    """Name -> a valid call."""
    return (
        posing_calls()
        | samplers_calls()
        | runs_calls()
        | domains_calls()
        | diagnostics_calls()
        | fields_calls()
        | equations_calls()
        | problems_calls()
    )


def _path(module: Any, name: str) -> str:
    return name if module is iv else f"{module.__name__.split('.')[-1]}.{name}"


def _counts(name: str, value: Any) -> bool:
    if name[0] == "_" or name in GIVEN | SHARED or not callable(value):
        return False
    return not getattr(value, "_is_protocol", False) and _takes(value)


def _takes(method: Any) -> bool:
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        return False
    return any(p.name not in ("self", "cls") for p in parameters)
