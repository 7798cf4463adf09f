"""Settings of the papers' experiments as they are printed: constants with their source, which examples import.

What a paper does not print is not here: examples choose it, and say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

PAPERS = MappingProxyType(
    {
        "reLD": "Chen et al. (2019), Accelerating nonconvex learning via replica exchange Langevin diffusion",
        "VR": "Deng et al. (2021), Accelerating convergence of replica exchange SGMCMC via variance reduction",
        "thesis": "Deng (2021), Non-convex Bayesian learning via stochastic gradient Markov chain Monte Carlo",
        "f-reSGLD": "Li, Lin, Zhang and Zhou (2023), Fast replica exchange stochastic gradient Langevin dynamics",
        "r2SGLD": "Zheng et al. (2024), Constrained exploration via reflected replica exchange SGLD",
    }
)


@dataclass(frozen=True)
class Setting(Mapping[str, Any]):
    """Printed constants of one experiment, by name.

    Parameters
    ----------
    paper : str
        Of `PAPERS`.
    place : str
        Section, figure or table.
    constants : mapping
        Numbers, or tuples of numbers for rungs from cold to hot.

    Examples
    --------
    >>> from invsamp.problems.published import HEAT_RING
    >>> HEAT_RING["temperatures"]
    (0.08, 0.5)
    >>> print(HEAT_RING)
    f-reSGLD 5.2: temperatures (0.08, 0.5); energy_sd_small 0.1; energy_sd_large 0.8; gradient_sd_small 0.1; \
gradient_sd_large 2
    """

    paper: str
    place: str
    constants: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.constants[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.constants)

    def __len__(self) -> int:
        return len(self.constants)

    def __str__(self) -> str:
        return f"{self.paper} {self.place}: " + "; ".join(f"{name} {_text(value)}" for name, value in self.items())


def _text(value: Any) -> str:
    return f"({', '.join(map(_text, value))})" if isinstance(value, tuple) else f"{value:g}"


#: Sds of the noise of cold and hot energies, and gradients; the pilot of kernel ridge regression has 100 states.
MIXTURE = Setting(
    "f-reSGLD",
    "5.1",
    {
        "weights": (0.4, 0.6),
        "means": (-4.0, 3.0),
        "sds": (0.7, 0.5),
        "temperatures": (1.0, 10.0),
        "energy_sd": (1.0, 3.0),
        "gradient_sd": (2.0, 5.0),
        "step_size": 0.03,
        "draws": 1000,
        "pilot_states": 100,
    },
)
#: "s" is replica exchange with small noise, "f" and "l" the fast and the plain one with large noise. The print gives
#: the gradients' noise of f and l twice, as .1 and as 2: that of s is meant by the first.
HEAT_RING = Setting(
    "f-reSGLD",
    "5.2",
    {
        "temperatures": (0.08, 0.5),
        "energy_sd_small": 0.1,
        "energy_sd_large": 0.8,
        "gradient_sd_small": 0.1,
        "gradient_sd_large": 2.0,
    },
)
#: Learning rates at first; those of single chains and rungs decay by the factor at each iteration after `decay_from`.
LORENZ = Setting(
    "r2SGLD",
    "A.1",
    {
        "iterations": 60_000,
        "burn_in": 20_000,
        "single_rate": 5e-6,
        "cyclic_rate": 2e-5,
        "cycles": 10,
        "rates": (2e-6, 2e-5),
        "decay": 0.9999,
        "decay_from": 10_000,
    },
)
LOTKA_VOLTERRA = Setting(
    "r2SGLD",
    "A.2",
    {
        "iterations": 60_000,
        "burn_in": 20_000,
        "batch": 4096,
        "single_rate": 5e-6,
        "cyclic_rate": 1e-5,
        "cycles": 10,
        "rates": (2e-6, 1e-5),
        "decay": 0.9999,
        "decay_from": 10_000,
    },
)
DOMAINS = Setting(
    "r2SGLD",
    "A.3",
    {
        "single_rate": 5e-4,
        "cyclic_rate": 1e-3,
        "cycles": 5,
        "rates": (5e-4, 1.5e-3),
        "draws": 50_000,
        "burn_in": 10_000,
        "runs": 10,
    },
)
DIAMETERS = Setting(
    "r2SGLD", "A.3, figure 11", {"rates": (2e-5, 2e-4), "diameters": (1.5, 3.0), "draws": 10_000, "runs": 10}
)
#: Common to the three examples: the correction is estimated every 100 steps from 10 energies, and is 100 at first.
_SWAPS = {"temperatures": (1.0, 10.0), "step_size": 0.03, "draws": 100_000, "probes": 10, "every": 100}
GAUSSIAN_SWAPS = Setting(
    "thesis",
    "2.5.1, example 1",
    _SWAPS | {"weights": (0.4, 0.6), "means": (-3.0, 2.0), "sds": (0.7, 0.5), "noise_scale": 2.0, "factors": (1.0,)},
)
#: Noise of energies is Student's t with these degrees of freedom, times the scale.
STUDENT_SWAPS = Setting(
    "thesis",
    "2.5.1, example 2",
    _SWAPS
    | {
        "weights": (0.4, 0.6),
        "means": (-4.0, 3.0),
        "sds": (0.7, 0.5),
        "noise_scale": 1.0,
        "noise_freedom": 5.0,
        "factors": (1.0,),
    },
)
#: The last factor is infinite: no correction. At F = 1 no swap was made.
WIDE_STUDENT_SWAPS = Setting(
    "thesis",
    "2.5.1, example 3",
    _SWAPS
    | {
        "weights": (0.4, 0.6),
        "means": (-6.0, 4.0),
        "sds": (0.7, 0.5),
        "noise_scale": 7.0,
        "noise_freedom": 10.0,
        "factors": (1.0, 2.0, 4.0, float("inf")),
        "swap_rates": (0.0, 0.004, 0.071, 0.46),
    },
)
#: The gain is .02 / (k^.6 + 100).
ENERGY_DISTRIBUTION = Setting(
    "thesis",
    "7.2.1",
    {
        "weights": (0.4, 0.6),
        "means": (-2.0, 1.0),
        "temperature": 1.0,
        "bins": 1000,
        "width": 0.01,
        "gradient_sd": 0.1,
        "gain_scale": 0.02,
        "gain_exponent": 0.6,
        "gain_offset": 100.0,
        "iterations": 10_000_000,
        "runs": 10,
    },
)
#: The second set of runs, by the variance, is printed with a step of its own. The energy is minus the density.
GRID = Setting(
    "reLD",
    "appendix E",
    {
        "pairs": ((0.01, 0.5), (0.01, 1.0), (0.1, 1.0)),
        "variance": 0.1,
        "step_size": 0.01,
        "variances": (0.05, 0.1, 0.2, 0.3),
        "temperatures": (0.01, 1.0),
        "second_step_size": 1.0,
        "intensity": 1.0,
        "iterations": 10_000,
    },
)
#: Trips per 1,000 iterations at windows of 1 and 8. The text names the target rates .2, .3, .4 and .6 of five.
TEMPERING = Setting(
    "thesis",
    "4.5.1",
    {
        "processes": 16,
        "iterations": 20_000,
        "rates": (0.003, 0.6),
        "energy_sd": 2.0,
        "gradient_sd": 2.0,
        "targets": (0.2, 0.3, 0.4, 0.5, 0.6),
        "window": 8,
        "cycles": 100,
        "trips": (18.0, 45.0),
    },
)
#: The gain is 1 / (k^.6 + 100), by the print's 1 / k^(.6 + 100) read as it is written elsewhere.
FAR_MODES = Setting(
    "thesis",
    "5.4.1",
    {
        "weights": (0.4, 0.6),
        "means": (-6.0, 4.0),
        "sds": (1.0, 1.0),
        "temperature": 1.0,
        "step_size": 0.1,
        "bins": 50,
        "width": 1.0,
        "zeta": 0.75,
        "gradient_sd": 0.1,
        "iterations": 10_000_000,
        "runs": 10,
    },
)
#: Energies are sums over the data; the second factor is that of reSGLD, whose swaps fail at the first.
SNAPSHOTS = Setting(
    "VR",
    "5.1",
    {
        "phi": 20.0,
        "sigma": 5.0,
        "beta": -5.0,
        "data": 100_000,
        "interval": 40,
        "temperatures": (10.0, 1000.0),
        "step_size": 1e-7,
        "factors": (1.0, 100.0),
    },
)
#: ICSGLD's settings, which CSGLD shares; reSGLD's rungs; the rate of a cycle at first.
RUGGED = Setting(
    "thesis",
    "E.4.2",
    {
        "step_size": 3e-3,
        "temperature": 1.0,
        "zeta": 0.75,
        "chains": 5,
        "iterations": 80_000,
        "bins": 100,
        "width": 0.125,
        "gain_most": 3e-3,
        "gain_exponent": 0.6,
        "gain_offset": 100.0,
        "rates": (0.001, 0.002, 0.003, 0.004, 0.005),
        "temperatures": (1.0, 2.0, 3.0, 4.0, 5.0),
        "cyclic_rate": 1e-2,
        "cycles": 10,
        "particles": 100,
    },
)
SETTINGS = (
    SNAPSHOTS,
    RUGGED,
    GRID,
    TEMPERING,
    FAR_MODES,
    ENERGY_DISTRIBUTION,
    GAUSSIAN_SWAPS,
    STUDENT_SWAPS,
    WIDE_STUDENT_SWAPS,
    MIXTURE,
    HEAT_RING,
    LORENZ,
    LOTKA_VOLTERRA,
    DOMAINS,
    DIAMETERS,
)
