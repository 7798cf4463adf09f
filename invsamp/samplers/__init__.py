"""The samplers of the literature as compositions of parts. A preset returns a `Sampler`: print it to see its parts.

Arguments that all share
------------------------
temperatures : sequence of float or Law
    From 1 upwards, one for each rung; by default 1 and 4, of r2SGLD 1 and 10. Entries may be laws in place of
    temperatures, such as `tempered_likelihood`, the first of them the posterior's.
ladder : "auto", `auto_ladder`, or None
    Warm-up finds how many rungs there are and which laws they have, from the prior to the posterior, in place of
    ``temperatures``. All rungs have one estimator and one step size then, or find their own; ``fidelities`` are those
    of the first rungs, the last of them that of all others. None: as ``temperatures`` say.
step_size : float, Schedule, sequence of them for each rung, or None
    In the coordinates that the sampler moves in. None: found in warm-up, with a preconditioner.
temperature : 1 or Law
    Of a sampler of one rung that may sample something else than the posterior: `cold_posterior` or `annealed`, which
    the run's warnings tell. In a ladder, ``temperatures`` may begin with a `cold_posterior`.
fidelity : str or int
    Of the one rung, as in `invsamp.ladder.Rung`: the finest by default.
fidelities : sequence of str or int, optional
    One for each rung. By default the cold rung takes the finest and each hotter rung one coarser, down to
    the coarsest, where a preset does not say otherwise.
estimator : Estimator, or a sequence with one for each rung
    What a rung is told about its energy: exact by default.
gradient_noise : GradientNoise, optional
    Whether and how the gradient's noise is taken out of the injected noise; not by default.
energy_variance : VarianceModel
    How the variance of the energies is known, for the penalty of a swap.
swap, scheme, swap_fraction
    Rule, who meets whom (even and odd pairs in turn by default), and the probability of an attempt after a step, by
    default several attempts where they cost nothing and a tenth where they cost solves: see `invsamp.ladder.Swap`.
preconditioner : "auto", None, "diagonal", "dense" or Modes
    "auto": None where a step size is given; where warm-up finds them all, "dense" up to 1000 parameters and "diagonal"
    above, so that memory and work are linear in their number. What `invsamp.maximize` found: the Gaussian of its mode
    of most mass, in place before the first step; warm-up finds step sizes alone.
swap_energies : "estimated", "exact" or "paired"
    Whether swaps take the energies of the rungs' estimators, drawn afresh, or whole ones without noise, which is what
    minibatches need to swap at all; or one batch for both chains.
boundary : "reflect", "ignore", "project" or `invsamp.domains.boundary.penalized`
    What moves do that leave the problem's domain. Only "reflect", the default, samples the restricted posterior.
"""

from invsamp.samplers.baselines import deo_sgd, psgld, sgd, svgd
from invsamp.samplers.contour import awsgld, contour_exchange, csgld, icsgld
from invsamp.samplers.replica_exchange import (
    fast_resgld,
    multi_variance_resgld,
    paired_resgld,
    r2sgld,
    relangevin,
    resgld,
    vr_resgld,
)
from invsamp.samplers.single_rung import cyclic_sgld, ghmc, hmc, mala, mams, pcn, sghmc, sgld
from invsamp.samplers.surrogate import surrogate_exchange, two_stage

# fmt: off
__all__ = [
    "awsgld", "contour_exchange", "csgld", "cyclic_sgld", "deo_sgd", "fast_resgld", "ghmc", "hmc", "icsgld", "mala",
    "mams", "multi_variance_resgld", "paired_resgld", "pcn", "psgld", "r2sgld", "relangevin", "resgld", "sgd", "sghmc",
    "sgld", "surrogate_exchange", "svgd", "two_stage", "vr_resgld",
]
# fmt: on
