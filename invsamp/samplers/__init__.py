"""The samplers of the literature as compositions of parts. A preset returns a `Sampler`: print it to see its parts.

The help of each names all its arguments; those that several presets share are described in `invsamp.samplers.options`.
"""

from invsamp.samplers.baselines import deo_sgd, psgld, sgd, svgd
from invsamp.samplers.contour import awsgld, contour_exchange, csgld, icsgld
from invsamp.samplers.gradient_free import differential_evolution, stretch
from invsamp.samplers.replica_exchange import (
    fast_resgld,
    multi_variance_resgld,
    paired_resgld,
    parallel_tempering,
    r2sgld,
    resgld,
    vr_resgld,
)
from invsamp.samplers.single_rung import (
    cyclic_sgld,
    ghmc,
    hmc,
    infinity_hmc,
    infinity_mams,
    mala,
    mams,
    pcn,
    sghmc,
    sgld,
)
from invsamp.samplers.surrogate import surrogate_exchange, two_stage

# fmt: off
__all__ = [
    "awsgld",
    "contour_exchange",
    "csgld",
    "cyclic_sgld",
    "deo_sgd",
    "differential_evolution",
    "fast_resgld",
    "ghmc",
    "hmc",
    "icsgld",
    "infinity_hmc",
    "infinity_mams",
    "mala",
    "mams",
    "multi_variance_resgld",
    "paired_resgld",
    "parallel_tempering",
    "pcn",
    "psgld",
    "r2sgld",
    "resgld",
    "sgd",
    "sghmc",
    "sgld",
    "stretch",
    "surrogate_exchange",
    "svgd",
    "two_stage",
    "vr_resgld",
]
# fmt: on
