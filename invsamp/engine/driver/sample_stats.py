"""What draws keep beside their positions: named numbers of each chain, declared by the parts that tell them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from invsamp.engine.rungs.kernel_contract_check import check_statistics
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.kernels.contract import Info
from invsamp.protocols import AnyArray, Array, Plain

#: Types of what is told, by name.
Types = Mapping[str, type]


def declared(rung: RungChains, scheduled: bool) -> dict[str, type]:
    """Names and types of what a rung tells of each draw; its chains are placed.

    ``scheduled``: whether the step size of some rung changes from step to step.
    """
    found: dict[str, type] = {"energy": float}
    if rung.estimate.prior is not None:
        found["prior"] = float
    if scheduled:
        found["step_size"] = float
    if rung.target.log_weight(rung.estimate, rung.target_memory) is not None:
        found["log_weight"] = float
    if rung.settings.kernel.adjusted:
        found["acceptance_rate"] = float
    return found | dict(rung.settings.kernel.statistics)


def joined(rungs: list[dict[str, type]]) -> dict[str, type]:
    """Names and types of all rungs; what not all of them tell is NaN for the others, and so a float."""
    names = dict.fromkeys(name for one in rungs for name in one)
    return {
        name: kinds.pop() if len(kinds := {one.get(name, float) for one in rungs}) == 1 else float for name in names
    }


def recorded(rung: RungChains, names: Types) -> Plain:
    """What a rung tells of the present draw, by name: (chains,), or one number for all chains.

    In the place of the acceptance rate stands its log, or the log of the Metropolis ratio (`invsamp.extending.Info`).

    Raises
    ------
    PartError
        If the kernel does not tell what it declares.
    """
    estimate, info = rung.estimate, rung.info
    found: Plain = {"energy": estimate.energy}
    if "prior" in names:
        found["prior"] = np.nan if estimate.prior is None else estimate.prior
    if "step_size" in names:
        found["step_size"] = rung.step_size
    if "log_weight" in names:
        found["log_weight"] = rung.target.log_weight(estimate, rung.target_memory)
    if "acceptance_rate" in names:
        found["acceptance_rate"] = _log_acceptance(info)
    kernel = rung.settings.kernel
    if kernel.statistics or info.statistics:
        check_statistics(kernel, info, len(estimate.energy))
        found.update(info.statistics)
    return found


def _log_acceptance(info: Info) -> Array | float:
    """Logs of acceptance rates (chains,), where these are below 0; NaN of a step that has none."""
    if info.log_ratio is not None:
        return info.log_ratio
    if info.acceptance is None:
        return np.nan
    with np.errstate(divide="ignore"):
        return np.log(info.acceptance)


def derived(kept: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """What was kept with what follows from it, by name."""
    found: dict[str, AnyArray] = {}
    for name, values in kept.items():
        if name == "acceptance_rate":
            values = np.exp(np.minimum(values, 0.0))
        found[name] = values
        if name == "prior":
            found["misfit"] = kept["energy"] - values
    return found
