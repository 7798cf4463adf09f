"""Names that a user of the package needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from invsamp import problems

#: Modules that `invsamp` has as attributes, and modules of these.
NAMESPACES = tuple(
    f"invsamp.{name}"
    for name in (
        *(
            "diagnostics",
            "distributions",
            "domains",
            "estimators",
            "evaluate",
            "fidelities",
            "kernels",
            "kernels.schedules",
            "ladder",
            "noise",
            "simulations",
        ),
        *("parallel", "results", "samplers", "surrogates", "swaps", "tempering", "variances", "extending"),
    )
)
#: Packages whose ``__all__`` is public; of the ready problems it is the modules.
PACKAGES = (
    *("invsamp", *NAMESPACES, "invsamp.calibration", "invsamp.emulation", "invsamp.identifiability", "invsamp.modes"),
    *("invsamp.solvers.gradient_matching", "invsamp.solvers.fields", "invsamp.solvers.heat", "invsamp.solvers.ode"),
)


def public() -> list[str]:
    """Full names, each object by the first of its names; no modules."""
    names: dict[int, str] = {}
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            if not inspect.ismodule(getattr(package, name)):
                names.setdefault(id(getattr(package, name)), f"{package.__name__}.{name}")
    found = list(names.values())
    for module in pkgutil.iter_modules(problems.__path__, "invsamp.problems."):
        members = vars(importlib.import_module(module.name)).items()
        found += [
            f"{module.name}.{k}" for k, v in members if getattr(v, "__module__", "") == module.name and k[0] != "_"
        ]
    return found
