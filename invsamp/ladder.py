"""Rungs, and the sampler that they make up: plain data, printed, compared and checked, never run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from invsamp.arguments import instance, integer, one_of, optional, real, sequence, store
from invsamp.boundary import Boundary, Reflect, as_boundary
from invsamp.contours import Contour
from invsamp.cooling import Annealed
from invsamp.coupled_sums import CoupledSum
from invsamp.estimators import Estimator, Exact, Noisy
from invsamp.evaluate.requests import STRUCTURES, Structure
from invsamp.kernels import Kernel, Langevin, LocalLangevin, PriorDraws
from invsamp.laws import Law, LocalLaw, Tempered, as_law, check_ladder
from invsamp.names import check_statistics
from invsamp.schedules import Schedule
from invsamp.spacing import AutoLadder
from invsamp.swap.rules import SwapRule
from invsamp.swap.schemes import SwapScheme, deo
from invsamp.variances.models import Known, VarianceModel, known

#: What is done where the noise of a gradient exceeds the noise that a step injects.
Beyond = Literal["shrink", "effective_temperature", "refuse", "clip"]
BEYOND: tuple[Beyond, ...] = ("shrink", "effective_temperature", "refuse", "clip")
#: Where the energies of a swap come from.
SwapEnergies = Literal["estimated", "exact", "paired"]
SWAP_ENERGIES: tuple[SwapEnergies, ...] = ("estimated", "exact", "paired")
PRECONDITIONERS = ("auto", None, "diagonal", "dense")
#: Parameters up to which "auto" is dense. At a thousand, a dense preconditioner takes 4,000 gradients from each chain
#: in warm-up, and milliseconds from each step; where parameters are correlated, draws are worth thirty times as much.
MOST_DENSE = 1000
#: More levels below the finest than there are: the coarsest fidelity.
COARSEST = 1000
#: What parts are, in messages.
ESTIMATOR = "an estimator, such as exact()"
VARIANCE_MODEL = "a variance model, such as running_average()"
SWAP_RULE, SWAP_SCHEME = "a swap rule, such as fast()", "a swap scheme, such as deo()"


@dataclass(frozen=True)
class GradientNoise:
    r"""Subtract the covariance of the gradient's noise from the noise that the kernel injects (f-reSGLD).

    The budget is spent where :math:`\eta^2 S > 2 \tau \eta`, S the covariance (:math:`2 \alpha \tau \eta` with
    friction :math:`\alpha`). What is then done is settled in warm-up, from the states visited in its last part, and
    is the same at all states afterwards. A step shrunk state by state would not do: with step :math:`\eta(\theta)`
    the law becomes :math:`\exp(-U / \tau) / \eta(\theta)`, as a chain rests where its steps are short.

    - ``"shrink"``: the rung's step size, given or found, is held below :math:`2 \tau / s^2`, with :math:`s^2` the
      largest eigenvalue of S exceeded at one state in a thousand. The law stays that of the temperature.
    - ``"effective_temperature"``, for hot rungs only: the step size stays and the rung takes the temperature at which
      its budget holds the noise, :math:`\eta s^2 / 2`, in its swaps too. (Nothing taken out at all would make
      it :math:`\tau + \eta s^2 / 2`, and another one at each state.)
    - ``"refuse"``: `RuntimeError` at the end of warm-up if more than 1% of the steps exceed the budget.
    - ``"clip"``: nothing is injected in the directions that exceed it, which makes the draws too wide there.
      `RuntimeError` at the end of warm-up above 10% of the steps.

    Whatever is exceeded in the draws all the same is clipped and counted; above 1% of the steps the run warns.

    Parameters
    ----------
    variance : VarianceModel
        How the covariance is known: `known`, `running_average` or `kernel_ridge`.
    structure : "isotropic", "diagonal" or "full"
        Its form.
    beyond : "shrink", "effective_temperature", "refuse" or "clip"
        What is done where the noise exceeds the budget.

    Raises
    ------
    ValueError
        If the structure or ``beyond`` is unknown.
    """

    variance: VarianceModel = field(default_factory=known)
    structure: Structure = "isotropic"
    beyond: Beyond = "shrink"

    def __post_init__(self) -> None:
        instance("variance", self.variance, VarianceModel, VARIANCE_MODEL)
        one_of("structure", self.structure, STRUCTURES)
        one_of("beyond", self.beyond, BEYOND)


@dataclass(frozen=True)
class Rung:
    """One law with its chains.

    Parameters
    ----------
    law : Law, or float >= 1
        What it samples: `tempered` (a number stands for that temperature), `tempered_likelihood`, or a
        `invsamp.laws.Law` of your own.
    fidelity : str or int
        Name of a fidelity, or the number of levels below the finest (0 the finest; the coarsest if there
        are not that many).
    estimator : Estimator
        What it is told about the energy.
    kernel : Langevin, Momentum, Hamiltonian, Microcanonical, or a `invsamp.kernels.Kernel` of your own
        How it moves.
    step_size : float, Schedule or None
        None: found by warm-up.
    energy_variance : VarianceModel
        How the variance of its energies is known, for the penalty of a swap.
    gradient_noise : GradientNoise, optional
        Whether and how the gradient's noise is taken out of the injected noise.
    probes : int
        Repeated estimates per state from which a variance model learns.

    Raises
    ------
    ValueError
        If a number is out of range, or parts do not go together: an adjusted kernel and noisy energies, a coupled sum
        and noise that it does not state, an effective temperature and a schedule.
    """

    law: Law = field(default_factory=Tempered)
    fidelity: str | int = 0
    estimator: Estimator = field(default_factory=Exact)
    kernel: Kernel = field(default_factory=Langevin)
    step_size: float | Schedule | None = None
    energy_variance: VarianceModel = field(default_factory=known)
    gradient_noise: GradientNoise | None = None
    probes: int = 10

    def __post_init__(self) -> None:
        store(
            self,
            law=as_law("law", self.law),
            fidelity=as_fidelity("fidelity", self.fidelity),
            step_size=as_step_size("step_size", self.step_size),
            probes=integer("probes", self.probes, least=2),  # fewer would show no variance
        )
        instance("estimator", self.estimator, Estimator, ESTIMATOR)
        instance("kernel", self.kernel, Kernel, "a Kernel, such as Langevin(...)")
        check_statistics(f"the kernel {self.kernel.name!r}", self.kernel.statistics)
        instance("energy_variance", self.energy_variance, VarianceModel, VARIANCE_MODEL)
        optional(instance, "gradient_noise", self.gradient_noise, GradientNoise, "a GradientNoise")
        # draws of the prior are accepted whatever their energies are
        if self.kernel.adjusted and not isinstance(self.estimator, Exact) and not isinstance(self.kernel, PriorDraws):
            raise ValueError(f"an adjusted kernel (as MALA) needs exact energies, got the estimator {self.estimator}")
        if isinstance(self.estimator, CoupledSum) and self.gradient_noise and self.gradient_noise.variance == known():
            raise ValueError(
                "gradient_noise of a coupled sum must have a variance that is learnt or given, got known(): a single "
                "draw does not state its own. Use running_average()"
            )
        if self.law.factors is None and not _tells_energies(self.estimator):
            raise ValueError(
                f"a law that is not linear in the energies needs exact ones, got {self.law} and {self.estimator}"
            )
        if self.law.factors is None and self.gradient_noise is not None:
            raise ValueError(f"gradient_noise must be None under a law that is not linear in the energies: {self.law}")
        if isinstance(self.kernel, LocalLangevin) and not isinstance(self.law, LocalLaw):
            raise ValueError(f"local steps are for a law with a slope that changes, such as contour(), got {self.law}")
        if isinstance(self.kernel, PriorDraws) and self.law.factors != (1.0, 0.0):
            raise ValueError(f"prior_draws() is for the law of the prior, tempered_likelihood(0), got {self.law}")
        if not (self.kernel.gradient or self.kernel.adjusted) and self.step_size is None:
            raise ValueError(f"step_size of an unadjusted kernel without gradients must be given, got {self.kernel}")
        noise = self.gradient_noise
        if noise is not None and noise.beyond == "effective_temperature" and not isinstance(self.law, Tempered):
            raise ValueError(f"beyond must not be 'effective_temperature' where the law has no temperature: {self.law}")
        if noise is not None and noise.beyond == "effective_temperature" and callable(self.step_size):
            raise ValueError(
                f"step_size of a rung that takes its effective temperature must be one number, got {self.step_size!r}: "
                "the temperature would change with it"
            )

    @property
    def learns_variance(self) -> bool:
        """Whether warm-up has a variance model to train: never where there is no noise."""
        if isinstance(self.estimator, Exact):
            return False
        # swaps get a coupled sum's energies without noise
        models: list[VarianceModel] = [] if isinstance(self.estimator, CoupledSum) else [self.energy_variance]
        models += [self.gradient_noise.variance] if self.gradient_noise else []
        return any(not isinstance(model, Known) for model in models)


@dataclass(frozen=True)
class Swap:
    """When and how neighbouring rungs exchange positions.

    Parameters
    ----------
    rule : SwapRule, optional
        Log acceptance. Default, by pair: `delayed_acceptance` where the fidelities differ (exact whatever the
        coarse model is), its first stage sharpened by what warm-up learns of their difference
        (`invsamp.swap.discrepancy`); `fast` where they are the same (exact for noise-free energies too).
    scheme : SwapScheme
        Who meets whom.
    fraction : float in (0, 1], optional
        Probability of an attempt after a step. Default: 1 for pairs whose energies are exact, of one fidelity and
        known, so that a swap costs nothing, with three meetings of even and odd pairs in turn after each step (five
        where fewer than 35% are rejected, one of two rungs); a tenth for pairs whose swaps cost solves.
    every : int, optional
        In place of that tenth: pairs whose swaps cost solves meet after every so many steps. Those whose swaps are
        free meet as by default.
    energies : "estimated", "exact" or "paired"
        Whose energies decide: those of each rung's estimator, drawn afresh, or those of its whole potential, without
        noise. The noise of a minibatch's energy mostly leaves no swap to accept; at a tenth of the steps the
        whole energy is affordable. "paired": one batch for both chains, between rungs of one fidelity with equal
        estimators (`minibatch`, `fixed_control`): noise is that of the differences of the terms, by the batch's own
        sample variance, and the penalty is the same for the reverse swap.

    Raises
    ------
    ValueError
        If the fraction is out of range, or ``energies`` is unknown.
    """

    rule: SwapRule | None = None
    scheme: SwapScheme = field(default_factory=deo)
    fraction: float | None = None
    energies: SwapEnergies = "estimated"
    every: int | None = None

    def __post_init__(self) -> None:
        optional(instance, "rule", self.rule, SwapRule, SWAP_RULE)
        instance("scheme", self.scheme, SwapScheme, SWAP_SCHEME)
        one_of("energies", self.energies, SWAP_ENERGIES)
        store(self, fraction=optional(real, "fraction", self.fraction, above=0, most=1))
        store(self, every=optional(integer, "every", self.every, least=1))
        if self.every is not None and self.fraction is not None:
            raise ValueError(f"every must be None where fraction says how often, got {self.every}")


@dataclass(frozen=True)
class Sampler:
    """A composition of rungs from cold to hot, with their swaps; the presets make these.

    Parameters
    ----------
    rungs : sequence of Rung
        The law of the first is the posterior. Temperatures increase; tempered likelihoods decrease.
    swap : Swap
        Ignored with a single rung.
    preconditioner : None, "auto", "diagonal" or "dense"
        Found in warm-up for each rung and frozen after. "auto": None if a step size is given, else by the number of
        parameters, dense up to `MOST_DENSE` and diagonal above.
    boundary : "reflect", "ignore", "project" or Boundary
        What moves do that leave the problem's domain: reflect (the only one that samples the restricted posterior),
        or one of the baselines (`invsamp.boundary`; `penalised` for the one with a strength).
    ladder : AutoLadder, optional
        Warm-up finds how many rungs there are and their laws. The rungs given are then those of its first round; the
        first stays the first, the second one's parts are those of all others, and fidelities follow each other
        as they do here.

    Raises
    ------
    ValueError
        If the first law is not the posterior or the next are not flatter, the preconditioner or the boundary is
        unknown, or the cold rung is to take an effective temperature. If the ladder is to be found, and there is one
        rung alone, or the step size follows a schedule.
    """

    rungs: Sequence[Rung]
    swap: Swap = field(default_factory=Swap)
    preconditioner: str | None = None
    boundary: Boundary | str = field(default_factory=lambda: Reflect())
    ladder: AutoLadder | None = None

    def __post_init__(self) -> None:
        store(self, rungs=sequence("rungs", self.rungs, "a sequence of Rung"), boundary=as_boundary(self.boundary))
        for k, rung in enumerate(self.rungs):
            instance(f"rungs[{k}]", rung, Rung, "a Rung")
        instance("swap", self.swap, Swap, "a Swap")
        one_of("preconditioner", self.preconditioner, PRECONDITIONERS)
        if self.preconditioner == "auto" and any(rung.step_size is not None for rung in self.rungs):
            store(self, preconditioner=None)  # steps are given in the coordinates that there are
        # the same law of another fidelity: what meets there decides by both models
        changes = [a.law != b.law or a.fidelity == b.fidelity for a, b in itertools.pairwise(self.rungs)]
        check_ladder([rung.law for rung, other in zip(self.rungs, [True, *changes], strict=True) if other])
        for rung in self.rungs:
            if isinstance(rung.law, Contour) and not rung.law.together:
                self._check_apart(rung)
            if isinstance(rung.law, Annealed) and (len(self.rungs) > 1 or rung.gradient_noise is not None):
                raise ValueError(
                    "a temperature that falls is for one rung, whose gradients' noise is not taken out, got "
                    f"{rung.law} in a sampler of {len(self.rungs)} rungs"
                )
        noise = self.rungs[0].gradient_noise
        if noise is not None and noise.beyond == "effective_temperature":
            raise ValueError("beyond must not be 'effective_temperature' on the cold rung: it samples the posterior")
        if optional(instance, "ladder", self.ladder, AutoLadder, "an AutoLadder, as auto_ladder() returns it") is None:
            return
        if len(self.rungs) < 2:
            raise ValueError(f"ladder needs two rungs to begin with, got {len(self.rungs)}")
        if any(callable(rung.step_size) for rung in self.rungs):
            raise ValueError("step_size must be a number or None where warm-up finds the ladder, got a schedule")

    def _check_apart(self, rung: Rung) -> None:
        if len(self.rungs) > 1 or self.preconditioner is not None or rung.step_size is None:
            raise ValueError(
                "a law that each chain learns for itself is for one rung with a given step size and no preconditioner, "
                f"got {rung.law} in a sampler of {len(self.rungs)} rungs. Let the chains learn one law together"
            )

    def preconditioner_at(self, dimension: int) -> str | None:
        """The preconditioner of that many parameters: what "auto" comes to."""
        if self.preconditioner != "auto":
            return self.preconditioner
        return "dense" if dimension <= MOST_DENSE else "diagonal"

    def __str__(self) -> str:
        return self.told(f"auto (dense up to {MOST_DENSE} parameters)")

    def told(self, auto: str) -> str:
        """Its parts in words, with what is said of a preconditioner "auto"."""
        kernels = " and ".join(dict.fromkeys(str(rung.kernel) for rung in self.rungs))
        parts = [f"{kernels}, preconditioner {auto if self.preconditioner == 'auto' else self.preconditioner}"]
        estimators = dict.fromkeys(r.estimator for r in self.rungs if not isinstance(r.estimator, Exact))
        parts += [str(estimator) for estimator in estimators]
        if len(self.rungs) > 1:
            rule = "the default rule" if self.swap.rule is None else str(self.swap.rule)
            told = {"estimated": "", "exact": " with exact energies", "paired": " with one batch for both"}
            energies = told[self.swap.energies]
            often = "" if self.swap.fraction is None else f" at {self.swap.fraction:g} of the steps"
            rungs = f"{len(self.rungs)} rungs" if self.ladder is None else str(self.ladder)
            parts.append(f"{rungs}, swaps by {rule}{energies}{often}")
        if self.boundary != Reflect():
            parts.append(f"boundary {self.boundary}")
        return "; ".join(parts)


def _tells_energies(estimator: Estimator) -> bool:
    """Whether its energies have no noise, whatever its gradients have."""
    return isinstance(estimator, Exact) or (isinstance(estimator, Noisy) and estimator.energy_sd == 0.0)


def as_fidelity(name: str, value: str | int) -> str | int:
    """The name of a fidelity, or how many levels it is below the finest."""
    if isinstance(value, str) and value:
        return value
    return integer(name, value, least=0, also=" of levels below the finest, or the name of a fidelity")


def as_step_size(name: str, value: float | Schedule | None) -> float | Schedule | None:
    """A step size, a schedule, or None."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    return real(name, value, above=0, also=", a schedule or None")


def geometric(hottest: float, rungs: int) -> tuple[float, ...]:
    """Temperatures from 1 to ``hottest`` in equal ratios.

    Raises
    ------
    ValueError
        Unless ``hottest`` > 1 and ``rungs`` >= 2.
    """
    hottest, rungs = real("hottest", hottest, above=1), integer("rungs", rungs, least=2)
    return tuple(float(hottest ** (k / (rungs - 1))) for k in range(rungs))
