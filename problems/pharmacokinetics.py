"""Pharmacokinetics: a population of patients, and one patient whose dose and its time no one wrote down.

Data are made up with known parameters. Amounts are in mg, volumes in l, times in h.

- `population`: twenty patients swallow known doses, from which the drug goes into the blood and out of it (one
  compartment with absorption of first order; Gibaldi and Perrier, "Pharmacokinetics", 2nd edition 1982, chapter 1).
  Clearance and volume of each are their own, from a log-normal population; the rate of absorption is the same for all.
- `two_compartments`: an injection of unknown amount at an unknown time; blood exchanges the drug with tissue (chapter
  2). Any time between the last measurement before it and the first after it explains the data, with an amount to match.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, integer, optional
from invsamp.posing.distributions.univariate import HalfNormal, LogNormal, Normal, Uniform
from invsamp.posing.forward_models.population import Population
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode import OdeModel, OdeObservation

Array = npt.NDArray[np.float64]

PATIENTS = 20
#: What the population is: medians of clearance (l/h) and volume (l), sds of their logarithms, the rate of absorption
#: (1/h), and the sd of the logarithm of a measurement.
POPULATION = MappingProxyType(
    {"clearance": 3.0, "volume": 35.0, "spread_clearance": 0.35, "spread_volume": 0.2, "absorption": 1.2, "sd": 0.12}
)
#: Of `two_compartments`: rates per hour, the time and the amount of the injection.
INJECTION = MappingProxyType({"out": 0.25, "to_tissue": 0.5, "back": 0.3, "lag": 1.3, "dose": 80.0, "sd": 1.0})
#: The middle of the prior of `population`.
MIDDLE = MappingProxyType(
    {
        **{"clearance": (4.0,) * PATIENTS, "volume": (40.0,) * PATIENTS},
        **{"log_clearance": math.log(4.0), "log_volume": math.log(40.0)},
        **{"spread_clearance": 0.3, "spread_volume": 0.3, "absorption": 1.0, "sd": 0.3},
    }
)
TIMES = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])
INJECTION_TIMES = np.linspace(0.5, 16.0, 32)
#: 100 to 195 mg.
DOSES = 100.0 + 5.0 * np.arange(PATIENTS)
for _array in (TIMES, INJECTION_TIMES, DOSES):
    _array.setflags(write=False)


def _swallowed(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term]:
    """Amount g in the gut, concentration b in the blood: g' = -absorption g, volume b' = absorption g - clearance b."""
    gut, blood = x
    absorption, clearance, volume = p
    return -absorption * gut, (absorption * gut - clearance * blood) / volume


def _injected(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term]:
    """Amounts in blood b and tissue s: b' = -(out + to_tissue) b + back s, s' = to_tissue b - back s."""
    blood, tissue = x
    out, to_tissue, back = p[0], p[1], p[2]
    return -(out + to_tissue) * blood + back * tissue, to_tissue * blood - back * tissue


def patients(seed: int = 0) -> tuple[dict[str, Array], Array]:
    """Clearance and volume of every patient, and what is measured of them, (20, 7), in mg/l."""
    rng = np.random.default_rng(integer("seed", seed, least=0))
    own = {
        name: POPULATION[name] * np.exp(POPULATION[f"spread_{name}"] * rng.standard_normal(PATIENTS))
        for name in ("clearance", "volume")
    }
    clean = _blood()(_rows({"absorption": np.full(PATIENTS, POPULATION["absorption"]), "dose": DOSES} | own))
    return own, clean * np.exp(POPULATION["sd"] * rng.standard_normal(clean.shape))


def population(seed: int = 0, *, centered: bool | None = None) -> Posterior:
    """Posterior of twenty patients and the population that they come from, 46 unknowns.

    Nearly the same curves come about, with volumes of two liters, if the drug is absorbed more slowly than it is
    cleared ("flip-flop"). That mode has hardly any mass, but a chain that starts in it stays: start at `MIDDLE`.

    Parameters
    ----------
    seed : int
        Of the data.
    centered : bool, optional
        Whether the patients' parameters are sampled as themselves. Default: as a run finds better. The posterior is the
        same.
    """
    optional(boolean, "centered", centered)
    prior = Prior(
        clearance=LogNormal("log_clearance", "spread_clearance", shape=PATIENTS, centered=centered),
        volume=LogNormal("log_volume", "spread_volume", shape=PATIENTS, centered=centered),
        log_clearance=Normal(math.log(4.0), 0.5),
        log_volume=Normal(math.log(40.0), 0.3),
        spread_clearance=HalfNormal(0.5),
        spread_volume=HalfNormal(0.5),
        absorption=LogNormal(0.0, 0.5),
        sd=HalfNormal(0.5),
        dose=DOSES,
    )
    forward = Population(_blood(), PATIENTS, individual=("clearance", "volume", "dose"))
    return Posterior(prior, forward, patients(seed)[1], LogNormalNoise("sd"))


def injection(seed: int = 0) -> Array:
    """The measurements in the blood of one patient, (32, 1), in mg; noise is Gaussian."""
    rng = np.random.default_rng(integer("seed", seed, least=0))
    clean = _observed_injection()(np.array([[INJECTION[name] for name in ("out", "to_tissue", "back", "lag", "dose")]]))
    return (clean[0] + INJECTION["sd"] * rng.standard_normal(clean.shape[1]))[:, None]


def two_compartments(seed: int = 0) -> Posterior:
    """Posterior of three rates, the time and the amount of the injection, and the noise.

    Derivatives go through the time of the injection. Where a measurement lies on it, the likelihood jumps: every
    interval between two measurements has a mode, of which one explains the data. Chains that start in another one stay
    there, or need a ladder of temperatures.

    Parameters
    ----------
    seed : int
        Of the data.
    """
    prior = Prior(
        out=LogNormal(-1.0, 1.0),
        to_tissue=LogNormal(-1.0, 1.0),
        back=LogNormal(-1.0, 1.0),
        lag=Uniform(0.0, 6.0),
        dose=LogNormal(4.0, 1.0),
        sd=HalfNormal(5.0),
    )
    return Posterior(prior, _observed_injection(), injection(seed), GaussianNoise("sd"))


def _blood() -> OdeObservation:
    """Concentration in the blood of one patient."""
    model = OdeModel(_swallowed, ("gut", "blood"), ("absorption", "clearance", "volume"), rtol=1e-5)
    return model.observe(TIMES, initial=("dose", 0.0), t0=0.0, states=("blood",))


def _observed_injection() -> OdeObservation:
    parameters = ("out", "to_tissue", "back", "lag", "dose")
    model = OdeModel(_injected, ("blood", "tissue"), parameters, doses=(("lag", {"blood": "dose"}),))
    return model.observe(INJECTION_TIMES, initial=(0.0, 0.0), t0=0.0, states=("blood",))


def _rows(values: dict[str, Array]) -> Array:
    """Theta of each patient, in the order of the model's parameters."""
    return np.stack([values[name] for name in _blood().parameters], axis=1)
