"""What a user of the package meets."""

from __future__ import annotations

import importlib
import pkgutil

from invsamp import problems

#: Packages whose ``__all__`` is what a user meets; of the ready problems it is the modules.
PACKAGES = (
    *("invsamp", "invsamp.parallel", "invsamp.solvers.gradient_matching", "invsamp.solvers.heat"),
    "invsamp.solvers.ode",
)


def public() -> list[str]:
    """Full names."""
    found = [f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__]
    for module in pkgutil.iter_modules(problems.__path__, "invsamp.problems."):
        members = vars(importlib.import_module(module.name)).items()
        found += [
            f"{module.name}.{k}" for k, v in members if getattr(v, "__module__", "") == module.name and k[0] != "_"
        ]
    return found
