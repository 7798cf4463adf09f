"""What kernels of the literature's baselines share: unadjusted, with a step size that is given, in no domain."""

from __future__ import annotations

import math

from invsamp.kernels.defaults import KernelDefaults


class Baseline(KernelDefaults):
    """Approximate by construction, and for comparisons alone; a domain is refused, which none of them keeps right."""

    stability_limit: float = math.inf
