"""Whether the parts of a sampler fit together, and the problem; the potentials that they solve."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.coupled_sums import CoupledSum
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.counted import CountedPotential
from invsamp.kernels import DelayedAcceptance, Langevin, Momentum
from invsamp.kernels.contract import Kernel
from invsamp.kernels.defaults import Baseline
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.kernels.paths import Paths
from invsamp.kernels.prior_sampler import PriorDraws
from invsamp.ladder import Sampler
from invsamp.ladder.preconditioner import LearnedMap
from invsamp.tempering.cooling import Annealed


def check_targets(sampler: Sampler, potentials: Mapping[str, CountedPotential]) -> None:
    """`ValueError` where a target cannot be had of a fidelity, or not with the energies that its swaps get."""
    unsplit = [name for name, potential in potentials.items() if not potential.split]
    apart = next((rung.target for rung in sampler.rungs if rung.target.needs_prior), None)
    if apart is not None and unsplit:
        raise ValueError(
            f"the target {apart} needs potentials that give prior energy and misfit separately (`parts`, see "
            f"invsamp.protocols.SplitPotential), got one that does not for the fidelity {unsplit[0]!r}. A Posterior's "
            "do; a temperature needs none"
        )
    for colder, hotter in itertools.pairwise(sampler.rungs):
        curved = next((rung.target for rung in (colder, hotter) if rung.target.factors is None), None)
        noisy = next((r.estimator for r in (colder, hotter) if not isinstance(r.estimator, Exact | CoupledSum)), None)
        if curved is not None and noisy is not None and sampler.swap.energies != "exact":
            raise ValueError(
                f"swaps with a rung of target {curved}, which is not linear in the energies, need exact ones: "
                f"no penalty corrects for the noise of {noisy}. Use swap_energies='exact'"
            )
        if (
            colder.target.factors is None
            and sampler.swap.rule is not None
            and sampler.swap.rule.discrepancy is not None
        ):
            raise ValueError(
                f"the swap rule must learn no discrepancy where the colder rung's target is not linear, got "
                f"{sampler.swap.rule} with {colder.target}"
            )


def _check_mapped(sampler: Sampler, domain: Domain) -> None:
    """`ValueError` where steps cannot be made in the coordinates of a transport map."""
    if not isinstance(domain, Unbounded):
        raise ValueError(
            f"preconditioner must not be transport_map() where moves are reflected at bounds, got {domain}: the map "
            "would bend the bounds, too. Let parameters be sampled without bounds, or use preconditioner='dense'"
        )
    for rung in sampler.rungs:
        kernel = rung.kernel.kernel if isinstance(rung.kernel, ModeJumps) else rung.kernel
        moves = isinstance(kernel, Paths | Langevin | Momentum) and kernel.adjusted
        if not (moves or isinstance(kernel, PriorDraws)):
            raise ValueError(
                f"preconditioner must not be transport_map() for the kernel {rung.kernel}: it is for mams, hmc, mala "
                "and ghmc, whose acceptance step makes draws exact whatever the map is. Use preconditioner='auto'"
            )
        if not isinstance(rung.estimator, Exact):
            raise ValueError(
                f"preconditioner must not be transport_map() for noisy energies, got {rung.estimator}: use 'auto'"
            )


def check_kernels(sampler: Sampler, domain: Domain, chains: int) -> None:
    """`ValueError` where a kernel does not fit the domain, the number of rungs or the number of chains."""
    ensemble_size([rung.kernel for rung in sampler.rungs], chains)
    if isinstance(sampler.preconditioner, LearnedMap):
        _check_mapped(sampler, domain)
    for rung in sampler.rungs:
        if isinstance(rung.kernel, Baseline) and not isinstance(domain, Unbounded):
            raise ValueError(
                f"the kernel {rung.kernel} needs a problem without a domain, got {domain}: its steps cross "
                "bounds. Use sgld() or mala(), which are reflected, or parameters that are sampled without "
                "bounds"
            )
        if isinstance(rung.kernel, DelayedAcceptance) and len(sampler.rungs) > 1:
            raise ValueError(
                f"{rung.kernel} must be alone, got {len(sampler.rungs)} rungs: use surrogate_exchange() above a ladder"
            )


def ensemble_size(kernels: Sequence[Kernel], chains: int) -> int:
    """Chains that depend on each other through the kernels of some rungs, in consecutive blocks; 1: none do.

    Swaps keep chains apart, so the blocks are the shortest that no rung's ensembles cross.
    """
    sizes = [chains if kernel.ensemble_size is None else kernel.ensemble_size for kernel in kernels]
    joint = math.lcm(*sizes)
    if chains % joint:
        named = ", ".join(sorted({f"{kernel.name} {size}" for kernel, size in zip(kernels, sizes, strict=True)}))
        raise ValueError(f"chains must be a multiple of {joint}, for ensembles of whole size ({named}), got {chains}")
    return joint


def check_weights(cold: RungChains) -> None:
    """`ValueError` if draws of another distribution than the posterior would have no weights; the chains are placed."""
    labeled = isinstance(cold.target, Annealed)
    if (
        cold.target.factors is None
        and not labeled
        and cold.target.log_weight(cold.estimate, cold.target_memory) is None
    ):
        raise ValueError(
            f"the first target must be the posterior, or give its draws weights (log_weight), got {cold.target!r}: the "
            "draws are those of the first rung"
        )


def check_swaps(sampler: Sampler, fidelities: Sequence[str]) -> None:
    """`ValueError` where a rule would take a fixed difference of energies for noise."""
    rule = sampler.swap.rule
    for colder, hotter in itertools.pairwise(fidelities):
        if rule is not None and colder != hotter and rule.needs_common_energy:
            raise ValueError(
                f"the swap rule {rule} needs rungs whose energies have the same mean, got the fidelities "
                f"{colder!r} and {hotter!r}: a fixed difference between them would bias the posterior. Use "
                "delayed_acceptance() or product_target(), or assume_unbiased=True if they differ by noise "
                "alone"
            )
