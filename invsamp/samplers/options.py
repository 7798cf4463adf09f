"""Arguments that presets share: each with its type, its default and its description once.

A preset takes those of a group by ``**options: Unpack[...]`` (PEP 692), which type checkers and editors read. `preset`
gives the function its full signature and docstring, fills in defaults, and refuses other names.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

import numpy.typing as npt

from invsamp.domains.boundary import Boundary
from invsamp.estimators.contract import Estimator
from invsamp.kernels.schedules import Schedule
from invsamp.ladder import GradientNoise
from invsamp.ladder.preconditioner import LearnedMap
from invsamp.ladder.sampler import SwapEnergies
from invsamp.ladder.spacing import AutoLadder
from invsamp.modes import Modes
from invsamp.swaps.schemes import SwapScheme
from invsamp.tempering.contour_learning import Gain
from invsamp.tempering.contours import Weighting
from invsamp.tempering.target_distribution import TargetDistribution
from invsamp.variances.models import VarianceModel

StepSizes = float | Schedule | None | Sequence[float | Schedule | None]
Ladder = AutoLadder | Literal["auto"] | None
Preset = TypeVar("Preset", bound=Callable[..., object])


class MoveOptions(TypedDict, total=False):
    """How chains move, and what they do at the boundary of a domain."""

    preconditioner: str | Modes | LearnedMap | None
    boundary: Boundary | str


class RungOptions(MoveOptions, total=False):
    """A sampler of one rung with exact energies."""

    fidelity: str | int


class NoisyRungOptions(RungOptions, total=False):
    """A sampler of one rung, possibly with noisy energies and gradients."""

    estimator: Estimator | None
    gradient_noise: GradientNoise | None
    temperature: float | TargetDistribution


class BaselineOptions(TypedDict, total=False):
    """A baseline of one rung, without a domain and without a preconditioner."""

    estimator: Estimator | None
    fidelity: str | int


class ContourOptions(BaselineOptions, total=False):
    """A published contour sampler."""

    zeta: float
    temperature: float
    gain: Gain | None
    boundary: Boundary | str


class LearnedContourOptions(ContourOptions, total=False):
    """A published contour sampler whose masses of bins may be given."""

    log_psi: npt.ArrayLike | None
    initial_log_psi: npt.ArrayLike | None
    friction: float
    weights: Weighting


class SwapOptions(TypedDict, total=False):
    """Which rungs attempt a swap, how often, and how chains move."""

    swap_fraction: float | None
    scheme: SwapScheme | None
    preconditioner: str | Modes | LearnedMap | None


class FixedLadderOptions(SwapOptions, MoveOptions, total=False):
    """Replica exchange on a given ladder."""


class LadderOptions(SwapOptions, total=False):
    """Replica exchange on a ladder that may be found in warm-up."""

    ladder: Ladder


class ExchangeOptions(LadderOptions, MoveOptions, total=False):
    """Replica exchange with a choice of what moves do at the boundary of a domain."""


class NoisyLadderOptions(LadderOptions, total=False):
    """Replica exchange with noisy energies, reflected at the boundary of a domain."""

    estimator: Estimator | Sequence[Estimator] | None
    energy_variance: VarianceModel | None
    fidelities: Sequence[str | int] | None
    swap_energies: SwapEnergies


class NoisyExchangeOptions(NoisyLadderOptions, MoveOptions, total=False):
    """Replica exchange with noisy energies."""


#: Defaults of all options; a preset with another one says so to `preset`.
DEFAULTS: Mapping[str, object] = {
    "boundary": "reflect",
    "energy_variance": None,
    "estimator": None,
    "fidelities": None,
    "fidelity": "finest",
    "friction": 1.0,
    "gain": None,
    "gradient_noise": None,
    "initial_log_psi": None,
    "ladder": None,
    "log_psi": None,
    "preconditioner": "auto",
    "scheme": None,
    "swap_energies": "estimated",
    "swap_fraction": None,
    "temperature": 1.0,
    "weights": "exact",
    "zeta": 0.75,
}
#: Type in words, and description, of arguments that several presets have.
DESCRIPTIONS: Mapping[str, tuple[str, str]] = {
    "temperatures": (
        "sequence of float or TargetDistribution, optional",
        "Temperatures from 1 upwards, one for each rung; by default 1 and 4. Entries may be target distributions\n"
        "instead, such as `tempered_likelihood`. The first is the posterior, or a `cold_posterior`.",
    ),
    "step_size": (
        "float, Schedule, sequence of them for each rung, or None",
        "In the coordinates that the sampler moves in. None: found in warm-up, with a preconditioner.",
    ),
    "ladder": (
        '"auto", AutoLadder or None',
        "Warm-up finds the number of rungs and their targets, from the prior to the posterior, instead of\n"
        "``temperatures`` (`auto_ladder` has settings). All rungs then have one estimator and one step size, or find\n"
        "their own; ``fidelities`` are those of the first rungs, the last of them that of all others.",
    ),
    "temperature": (
        "1 or TargetDistribution",
        "`cold_posterior` or `annealed` sample another distribution than the posterior, and the run warns of it.",
    ),
    "fidelity": ("str or int", "Fidelity of the rung, as in `invsamp.ladder.Rung`."),
    "fidelities": (
        "sequence of str or int, optional",
        "One for each rung. Default: the finest on the cold rung, and one coarser on each hotter rung, down to the\n"
        "coarsest.",
    ),
    "estimator": (
        "Estimator, optional",
        "Estimator of energies and gradients; of several rungs, one for all or a sequence. Default: exact.",
    ),
    "gain": ("Gain, optional", "Made by `invsamp.tempering.gain`. Default: the published :math:`1 / (k^{.6} + 100)`."),
    "gradient_noise": (
        "GradientNoise, optional",
        "Subtracts the gradient's noise from the injected noise. Default: it is not subtracted.",
    ),
    "energy_variance": ("VarianceModel, optional", "Model of the variance of the energies, for the penalty of a swap."),
    "friction": ("float in (0, 1]", "Less than 1: with momentum, as in `sghmc`."),
    "swap": ("SwapRule, optional", "Log acceptance of a swap, see `invsamp.swaps`."),
    "swap_fraction": (
        "float in (0, 1], optional",
        "Probability of a swap attempt after a step. Default: several attempts after each step where they cost no\n"
        "solves, a tenth where they do. See `invsamp.ladder.Swap`.",
    ),
    "scheme": ("SwapScheme, optional", "Which rungs attempt a swap. Default: even and odd pairs in turn (`deo`)."),
    "log_psi": ("array_like of float (m,), optional", "Known log masses of the bins; then nothing is learned."),
    "initial_log_psi": (
        "array_like of float (m,), optional",
        "Log masses with which learning begins. Default: all bins alike.",
    ),
    "weights": ('"exact" or "published"', "Which weights draws have."),
    "zeta": ("float, > 0", ":math:`\\zeta`, the power of the masses in the target."),
    "swap_energies": (
        '"estimated", "exact" or "paired"',
        "Energies of swaps: estimates, drawn afresh; exact ones, which minibatches need to swap at all; or estimates\n"
        "from one minibatch for both chains.",
    ),
    "preconditioner": (
        '"auto", None, "diagonal", "dense", Modes or transport_map()',
        '"auto": None where a step size is given; otherwise "dense" up to 1000 parameters and "diagonal" above, whose\n'
        "memory and work are linear in their number. A result of `invsamp.maximize`: the Gaussian of its mode of most\n"
        "mass, from the first step on; warm-up then finds step sizes only. `invsamp.transport_map` lets warm-up learn\n"
        "a nonlinear map for bent targets, funnels and heavy tails.",
    ),
    "boundary": (
        '"reflect", "ignore", "project" or a penalty',
        'What moves do that leave the domain. Only "reflect" samples the restricted posterior. See\n'
        "`invsamp.domains.penalized`.",
    ),
}
_SECTION = re.compile(r"^ *(Returns|Raises|Notes|References|Examples)\n *-{5,}$", re.MULTILINE)


def preset(**other_defaults: object) -> Callable[[Preset], Preset]:
    """Decorator of a preset; ``other_defaults`` differ from `DEFAULTS`.

    A function with ``**options: Unpack[...]`` gets all of them, those that are not given at their defaults. Its
    signature names each, and the docstring describes those that several presets have.
    """

    def decorated(function: Preset) -> Preset:
        signature = _full_signature(function, {**DEFAULTS, **other_defaults})
        named = inspect.signature(function).parameters
        defaults = {name: option.default for name, option in signature.parameters.items() if name not in named}

        @functools.wraps(function)
        def complete(*arguments: Any, **given: Any) -> object:
            try:
                signature.bind(*arguments, **given)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*arguments, **{**defaults, **given})

        complete.__signature__ = signature  # type: ignore[attr-defined]
        complete.__doc__ = _full_docstring(inspect.getdoc(function) or "", signature)
        return complete  # type: ignore[return-value]

    return decorated


def _full_signature(function: Callable[..., object], defaults: Mapping[str, object]) -> inspect.Signature:
    """The signature with one keyword-only argument for each option in place of ``**options``."""
    own = inspect.signature(function)
    if "options" not in own.parameters:
        return own
    (options,) = get_args(get_type_hints(function)["options"])
    named = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults[name],
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in options.__annotations__.items()
    ]
    return own.replace(parameters=[*named, *shared])


def _full_docstring(text: str, signature: inspect.Signature) -> str:
    """The docstring with a section for those arguments that it does not describe."""
    missing = [
        name
        for name in signature.parameters
        if name in DESCRIPTIONS and not re.search(rf"^(\w+, )*{name}(, \w+)*( :|$)", text, re.MULTILINE)
    ]
    if not missing:
        return text
    entries = []
    for name in missing:
        kind, description = DESCRIPTIONS[name]
        entries += [f"{name} : {kind}", *(f"    {line}" for line in description.split("\n"))]
    title = "Other Parameters" if re.search(r"^Parameters\n-", text, re.MULTILINE) else "Parameters"
    section = "\n".join([title, "-" * len(title), *entries])
    found = _SECTION.search(text)
    if found is None:
        return f"{text}\n\n{section}\n"
    return f"{text[: found.start()]}{section}\n\n{text[found.start() :]}"
