"""The sampler that rungs make up: plain data, printed, compared and checked, never run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from invsamp.arguments import instance, integer, one_of, optional, real, sequence, store
from invsamp.domains.boundary import Boundary, Reflect, as_boundary
from invsamp.estimators.exact_energies import Exact
from invsamp.kernels.gaussian_reference import about_reference
from invsamp.ladder.approximations import approximations
from invsamp.ladder.preconditioner import Given, LearnedMap, Preconditioner, given
from invsamp.ladder.rung import Rung
from invsamp.ladder.spacing import AutoLadder
from invsamp.modes import Modes
from invsamp.stored import stored_dataclass
from invsamp.swaps.rules import SwapRule
from invsamp.swaps.schemes import SwapScheme, deo
from invsamp.tempering.checks import check_ladder
from invsamp.tempering.contours import Contour
from invsamp.tempering.cooling import Annealed
from invsamp.tempering.linear_targets import Tempered, TemperedLikelihood

#: Where the energies of a swap come from.
SwapEnergies = Literal["estimated", "exact", "paired"]
SWAP_ENERGIES: tuple[SwapEnergies, ...] = ("estimated", "exact", "paired")
PRECONDITIONERS = ("auto", None, "diagonal", "dense")
#: Parameters up to which "auto" is dense. At a thousand, a dense preconditioner takes 4,000 gradients from each chain
#: in warm-up, and milliseconds from each step; where parameters are correlated, draws count for thirty times as much.
MOST_DENSE = 1000
#: What parts are, in messages.
SWAP_RULE, SWAP_SCHEME = (
    "a swap rule, such as state_dependent_penalty()",
    "a swap scheme, such as deo(), or a subclass of SwapScheme",
)


@stored_dataclass
class Swap:
    """When and how neighboring rungs exchange positions.

    Parameters
    ----------
    rule : SwapRule, optional
        Log acceptance. By default `delayed_acceptance` where the fidelities of a pair differ (exact for any coarse
        model). Its first stage is improved by the difference that warm-up estimates (`invsamp.swaps.discrepancy`).
        Where the fidelities are the same, `state_dependent_penalty` (exact for noise-free energies too).
    scheme : SwapScheme
        Which rungs attempt a swap with each other.
    fraction : float in (0, 1], optional
        Probability of an attempt after a step. The default is 1 for pairs of one fidelity whose energies are exact and
        known, so that a swap is free. They make three rounds of attempts, of even and odd pairs in turn, after each
        step. The default is a tenth for pairs whose swaps cost solves.
    every : int, optional
        In place of that tenth: pairs whose swaps cost solves attempt one after every so many steps. Those whose swaps
        are free follow the default.
    energies : "estimated", "exact" or "paired"
        Energies that decide: those of each rung's estimator, drawn afresh, or those of its whole potential, without
        noise. With the noise of a minibatch's energy nearly all swaps are rejected; at a tenth of the steps the whole
        energy is affordable. "paired" uses one batch for both chains, between rungs of one fidelity with equal
        estimators (`minibatch`, `fixed_control`). Its noise is that of the differences of the terms, by the batch's own
        sample variance, and the penalty is the same for the reverse swap.

    Raises
    ------
    ValueError
        If the fraction is out of range, or ``energies`` is unknown.

    Examples
    --------
    >>> import invsamp as iv
    >>> swap = iv.ladder.Swap(iv.swaps.metropolis(), scheme=iv.swaps.deo(), fraction=0.5)
    >>> print(swap.rule)
    metropolis
    """

    rule: SwapRule | None = None
    scheme: SwapScheme = field(default_factory=deo)
    fraction: float | None = None
    energies: SwapEnergies = "estimated"
    every: int | None = None

    def __post_init__(self) -> None:
        optional(instance, "rule", self.rule, SwapRule, SWAP_RULE)
        instance("scheme", self.scheme, SwapScheme, SWAP_SCHEME)
        optional(integer, "reach of the scheme", self.scheme.reach, least=1)
        integer("window of the scheme", self.scheme.window, least=1)
        one_of("energies", self.energies, SWAP_ENERGIES)
        store(self, fraction=optional(real, "fraction", self.fraction, above=0, most=1))
        store(self, every=optional(integer, "every", self.every, least=1))
        if self.every is not None and self.fraction is not None:
            raise ValueError(f"every must be None where fraction says how often, got {self.every}")


@stored_dataclass
class Sampler:
    """A composition of rungs from cold to hot, with their swaps; the presets make these.

    Parameters
    ----------
    rungs : sequence of Rung
        The target of the first is the posterior. Temperatures increase; tempered likelihoods decrease.
    swap : Swap
        Ignored with a single rung.
    preconditioner : None, "auto", "diagonal", "dense", Modes or LearnedMap
        Found in warm-up for each rung and frozen after. "auto": None if a step size is given, or kernels keep
        a Gaussian reference, else by the number of parameters, dense up to `MOST_DENSE` and diagonal above. What
        `invsamp.maximize` found: the Gaussian of the mode of most mass from the first step on, of low rank where it is;
        it is kept as a `Given`.
    boundary : "reflect", "ignore", "project" or Boundary
        What moves do that leave the problem's domain: reflect (the only one that samples the restricted posterior),
        or one of the baselines (`invsamp.domains.boundary`; `penalized` for the one with a strength).
    ladder : AutoLadder, optional
        Warm-up finds how many rungs there are and their targets. The rungs given are then those of its first round; the
        first stays the first, the second one's parts are those of all others, and fidelities follow each other
        as they do here.

    Raises
    ------
    ValueError
        If the first target is not the posterior or the next are not flatter, the preconditioner or the boundary is
        unknown, or the cold rung is to take an effective temperature. If the ladder is to be found, and there is one
        rung alone, or the step size follows a schedule.

    Examples
    --------
    >>> import invsamp as iv
    >>> rungs = [iv.ladder.Rung(step_size=0.1), iv.ladder.Rung(4.0, fidelity="coarse", step_size=0.3)]
    >>> sampler = iv.ladder.Sampler(rungs, swap=iv.ladder.Swap(iv.swaps.metropolis(), fraction=0.1))
    >>> len(sampler.rungs)
    2
    """

    rungs: Sequence[Rung]
    swap: Swap = field(default_factory=Swap)
    preconditioner: str | Modes | Given | LearnedMap | None = None
    boundary: Boundary | str = field(default_factory=lambda: Reflect())
    ladder: AutoLadder | None = None

    def __post_init__(self) -> None:
        store(self, rungs=sequence("rungs", self.rungs, "a sequence of Rung"), boundary=as_boundary(self.boundary))
        for k, rung in enumerate(self.rungs):
            instance(f"rungs[{k}]", rung, Rung, "a Rung")
        instance("swap", self.swap, Swap, "a Swap")
        if isinstance(self.preconditioner, Modes):
            store(self, preconditioner=given(self.preconditioner))
        elif not isinstance(self.preconditioner, Given | LearnedMap):
            one_of("preconditioner", self.preconditioner, PRECONDITIONERS)
        kernels = [rung.kernel for rung in self.rungs if rung.kernel.gradient]
        rotating = next((kernel for kernel in kernels if about_reference(kernel)), None)
        if rotating is not None and self.preconditioner == "auto" and all(map(about_reference, kernels)):
            store(self, preconditioner=None)
        if rotating is not None and self.preconditioner is not None:
            raise ValueError(
                f"preconditioner must be None for {rotating}, whose reference is one, got {self.preconditioner!r}"
            )
        if self.preconditioner == "auto" and any(rung.step_size is not None for rung in self.rungs):
            store(self, preconditioner=None)  # steps are given in the coordinates that there are
        # the same target of another fidelity: its swaps use both models
        changes = [a.target != b.target or a.fidelity == b.fidelity for a, b in itertools.pairwise(self.rungs)]
        check_ladder([rung.target for rung, other in zip(self.rungs, [True, *changes], strict=True) if other])
        for rung in self.rungs:
            if isinstance(rung.target, Contour) and not rung.target.together:
                self._check_apart(rung)
            if isinstance(rung.target, Annealed) and (len(self.rungs) > 1 or rung.gradient_noise is not None):
                raise ValueError(
                    "a temperature that falls is for one rung, whose gradients' noise is not taken out, got "
                    f"{rung.target} in a sampler of {len(self.rungs)} rungs"
                )
        noise = self.rungs[0].gradient_noise
        if noise is not None and noise.on_noise_overflow == "effective_temperature":
            raise ValueError(
                "on_noise_overflow must not be 'effective_temperature' on the cold rung: it samples the posterior"
            )
        if optional(instance, "ladder", self.ladder, AutoLadder, "an AutoLadder, as auto_ladder() returns it") is None:
            return
        if len(self.rungs) < 2:
            raise ValueError(f"ladder needs two rungs to begin with, got {len(self.rungs)}")
        if any(callable(rung.step_size) for rung in self.rungs):
            raise ValueError("step_size must be a number or None where warm-up finds the ladder, got a schedule")

    def _check_apart(self, rung: Rung) -> None:
        if len(self.rungs) > 1 or self.preconditioner is not None or rung.step_size is None:
            raise ValueError(
                "a target that each chain learns for itself is for one rung with a given step size and no "
                f"preconditioner, got {rung.target} in a sampler of {len(self.rungs)} rungs. Let the chains learn one "
                "target together"
            )

    def preconditioner_at(self, dimension: int) -> Preconditioner:
        """The preconditioner of that many parameters, with "auto" resolved.

        Raises
        ------
        ValueError
            If one that is given is of other unknowns, or there are too many for a transport map.
        """
        assert not isinstance(self.preconditioner, Modes)  # it is kept as a `Given`
        if isinstance(self.preconditioner, Given) and self.preconditioner.dimension != dimension:
            raise ValueError(
                f"preconditioner must be modes of the problem's {dimension} unknowns, got some of "
                f"{self.preconditioner.dimension}"
            )
        if isinstance(self.preconditioner, LearnedMap):
            self.preconditioner.check(dimension)
        if self.preconditioner != "auto":
            return self.preconditioner
        return "dense" if dimension <= MOST_DENSE else "diagonal"

    @property
    def approximations(self) -> tuple[str, ...]:
        """Why draws are not exactly the posterior's, in words; none where they are, or if a baseline says so itself."""
        swap = self.swap
        return approximations(self.rungs, swap.rule, swap.scheme, swap.energies, self.boundary)

    def __str__(self) -> str:
        return self.described(f"auto (dense up to {MOST_DENSE} parameters)")

    def described(self, auto: str) -> str:
        """Its parts in words, with the description of a preconditioner "auto"."""
        kernels = " and ".join(dict.fromkeys(str(rung.kernel) for rung in self.rungs))
        parts = [f"{kernels}, preconditioner {auto if self.preconditioner == 'auto' else self.preconditioner}"]
        targets = dict.fromkeys(
            str(r.target) for r in self.rungs if not isinstance(r.target, Tempered | TemperedLikelihood)
        )
        parts += [f"target {target}" for target in targets]
        estimators = dict.fromkeys(r.estimator for r in self.rungs if not isinstance(r.estimator, Exact))
        parts += [str(estimator) for estimator in estimators]
        if len(self.rungs) > 1:
            rule = "the default rule" if self.swap.rule is None else str(self.swap.rule)
            words = {"estimated": "", "exact": " with exact energies", "paired": " with one batch for both"}
            energies = words[self.swap.energies]
            often = "" if self.swap.fraction is None else f" at {self.swap.fraction:g} of the steps"
            rungs = f"{len(self.rungs)} rungs" if self.ladder is None else str(self.ladder)
            parts.append(f"{rungs}, swaps by {rule}{energies}{often}")
        if self.boundary != Reflect():
            parts.append(f"boundary {self.boundary}")
        if self.approximations:
            parts.append(f"approximate: {', '.join(self.approximations)}")
        return "; ".join(parts)


def geometric(max_temperature: float, rungs: int) -> tuple[float, ...]:
    """Temperatures from 1 to ``max_temperature`` in equal ratios.

    Raises
    ------
    ValueError
        Unless ``max_temperature`` > 1 and ``rungs`` >= 2.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.ladder.geometric(max_temperature=8.0, rungs=4)
    (1.0, 2.0, 3.9999999999999996, 8.0)
    """
    max_temperature, rungs = real("max_temperature", max_temperature, above=1), integer("rungs", rungs, least=2)
    return tuple(float(max_temperature ** (k / (rungs - 1))) for k in range(rungs))
