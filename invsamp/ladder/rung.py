"""One rung: a target distribution with a fidelity, an estimator, a kernel and a step size; plain, checked data."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from invsamp.arguments import instance, integer, one_of, optional, real, store
from invsamp.estimators.contract import Estimator
from invsamp.estimators.coupled_sums import CoupledSum
from invsamp.estimators.exact_energies import Exact
from invsamp.estimators.injected_noise import Noisy
from invsamp.evaluate.requests import STRUCTURES, Structure
from invsamp.kernels import CrankNicolson, Langevin, LocalLangevin
from invsamp.kernels.contract import Kernel
from invsamp.kernels.prior_sampler import PriorDraws
from invsamp.kernels.schedules import Schedule
from invsamp.posing.expressions.variable_names import check_statistics
from invsamp.stored import stored_dataclass
from invsamp.tempering.checks import as_target
from invsamp.tempering.cooling import Annealed
from invsamp.tempering.linear_targets import Tempered
from invsamp.tempering.target_distribution import LocallyScaledTarget, TargetDistribution
from invsamp.variances.models import Known, VarianceModel, known

#: What is done where the noise of a gradient exceeds the noise that a step injects.
Beyond = Literal["shrink", "effective_temperature", "refuse", "clip"]
BEYOND: tuple[Beyond, ...] = ("shrink", "effective_temperature", "refuse", "clip")
#: Names of fidelities by their place, as levels below the finest; the coarsest is as far below as there are any.
PLACES = {"finest": 0, "coarsest": 1000}
#: What parts are, in messages.
ESTIMATOR = "an estimator, such as exact()"
VARIANCE_MODEL = "a variance model, such as running_average()"


@stored_dataclass
class GradientNoise:
    r"""Subtract the covariance of the gradient's noise from the noise that the kernel injects (f-reSGLD).

    The budget is spent where :math:`\eta^2 S > 2 \tau \eta`, S the covariance (:math:`2 \alpha \tau \eta` with
    friction :math:`\alpha`). The measure is chosen in warm-up, from the states visited in its last part, and
    is the same at all states afterwards. A step shrunk state by state would not do: with step :math:`\eta(\theta)`
    the target becomes :math:`\exp(-U / \tau) / \eta(\theta)`, as a chain rests where its steps are short.

    - ``"shrink"``: the rung's step size, given or found, is held below :math:`2 \tau / s^2`, with :math:`s^2` the
      largest eigenvalue of S exceeded at one state in a thousand. The target stays that of the temperature.
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
    on_noise_overflow : "shrink", "effective_temperature", "refuse" or "clip"
        What is done where the noise exceeds the budget.

    Raises
    ------
    ValueError
        If the structure or ``on_noise_overflow`` is unknown.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.ladder.GradientNoise(iv.variances.running_average(), structure="isotropic")
    GradientNoise(variance=RunningAverage(smoothing=None), structure='isotropic', on_noise_overflow='shrink')
    """

    variance: VarianceModel = field(default_factory=known)
    structure: Structure = "isotropic"
    on_noise_overflow: Beyond = "shrink"

    def __post_init__(self) -> None:
        instance("variance", self.variance, VarianceModel, VARIANCE_MODEL)
        one_of("structure", self.structure, STRUCTURES)
        one_of("on_noise_overflow", self.on_noise_overflow, BEYOND)


@stored_dataclass
class Rung:
    """A target distribution at one level of the ladder, with its chains.

    Parameters
    ----------
    target : TargetDistribution, or float >= 1
        What it samples: `tempered` (a number stands for that temperature), `tempered_likelihood`, or a
        `invsamp.extending.TargetDistribution` of your own.
    fidelity : str or int
        Name of a fidelity, "finest", "coarsest", or the number of levels below the finest (the coarsest if there are
        not that many).
    estimator : Estimator
        How energies and gradients are estimated.
    kernel : Langevin, Momentum, Hamiltonian, Microcanonical, or a `invsamp.extending.Kernel` of your own
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

    Examples
    --------
    >>> import invsamp as iv
    >>> rung = iv.ladder.Rung(iv.tempering.tempered(4.0), fidelity="coarse", step_size=0.1)
    >>> print(rung.target)
    T = 4
    """

    target: TargetDistribution = field(default_factory=Tempered)
    fidelity: str | int = "finest"
    estimator: Estimator = field(default_factory=Exact)
    kernel: Kernel = field(default_factory=Langevin)
    step_size: float | Schedule | None = None
    energy_variance: VarianceModel = field(default_factory=known)
    gradient_noise: GradientNoise | None = None
    probes: int = 10

    def __post_init__(self) -> None:
        store(
            self,
            target=as_target("target", self.target),
            fidelity=as_fidelity("fidelity", self.fidelity),
            step_size=as_step_size("step_size", self.step_size),
            probes=integer("probes", self.probes, least=2),  # fewer would show no variance
        )
        instance("estimator", self.estimator, Estimator, ESTIMATOR)
        instance("kernel", self.kernel, Kernel, "a Kernel, such as Langevin(...)")
        check_statistics(f"the kernel {self.kernel.name!r}", self.kernel.statistics)
        optional(integer, f"ensemble_size of the kernel {self.kernel.name!r}", self.kernel.ensemble_size, least=1)
        instance("energy_variance", self.energy_variance, VarianceModel, VARIANCE_MODEL)
        optional(instance, "gradient_noise", self.gradient_noise, GradientNoise, "a GradientNoise")
        _check_fit(self.kernel, self.target, self.estimator, self.step_size)
        if self.gradient_noise is not None:
            _check_gradient_noise(self, self.gradient_noise)

    @property
    def learns_variance(self) -> bool:
        """Whether warm-up has a variance model to train: never where there is no noise."""
        if isinstance(self.estimator, Exact):
            return False
        # swaps get a coupled sum's energies without noise
        models: list[VarianceModel] = [] if isinstance(self.estimator, CoupledSum) else [self.energy_variance]
        models += [self.gradient_noise.variance] if self.gradient_noise else []
        return any(not isinstance(model, Known) for model in models)


def gives_energies(estimator: Estimator) -> bool:
    """Whether its energies have no noise, whatever its gradients have."""
    return isinstance(estimator, Exact) or (isinstance(estimator, Noisy) and estimator.energy_sd == 0.0)


def as_fidelity(name: str, value: str | int) -> str | int:
    """The name of a fidelity, or how many levels it is below the finest."""
    if isinstance(value, str) and value:
        return PLACES.get(value, value)
    also = ' of levels below the finest, "finest", "coarsest" or the name of a fidelity'
    return integer(name, value, least=0, also=also)


def as_step_size(name: str, value: float | Schedule | None) -> float | Schedule | None:
    """A step size, a schedule, or None."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    return real(name, value, above=0, also=", a schedule or None")


def _check_fit(
    kernel: Kernel, target: TargetDistribution, estimator: Estimator, step_size: float | Schedule | None
) -> None:
    """`ValueError` unless these go together."""
    # draws of the prior are accepted whatever their energies are
    bears_noise = isinstance(kernel, PriorDraws | CrankNicolson)
    if kernel.adjusted and not isinstance(estimator, Exact) and not bears_noise:
        raise ValueError(f"an adjusted kernel (as MALA) needs exact energies, got the estimator {estimator}")
    # a temperature that falls divides what steps without a test follow, and energies are not asked for
    follows = isinstance(target, Annealed) and not kernel.adjusted
    if target.factors is None and not follows and not gives_energies(estimator):
        raise ValueError(f"a target that is not linear in the energies needs exact ones, got {target} and {estimator}")
    if isinstance(kernel, LocalLangevin) and not isinstance(target, LocallyScaledTarget):
        raise ValueError(f"local steps are for a target with a slope that changes, such as contour(), got {target}")
    if isinstance(kernel, PriorDraws) and target.factors != (1.0, 0.0):
        raise ValueError(f"prior_draws() is for the prior, tempered_likelihood(0), got {target}")
    if not (kernel.gradient or kernel.adjusted) and step_size is None:
        raise ValueError(f"step_size of an unadjusted kernel without gradients must be given, got {kernel}")


def _check_gradient_noise(rung: Rung, noise: GradientNoise) -> None:
    """`ValueError` unless the rung's gradients can have their noise taken out of what is injected."""
    if isinstance(rung.estimator, CoupledSum) and noise.variance == known():
        raise ValueError(
            "gradient_noise of a coupled sum must have a variance that is learned or given, got known(): a single draw "
            "does not state its own. Use running_average()"
        )
    if rung.target.factors is None:
        raise ValueError(f"gradient_noise must be None for a target that is not linear in the energies: {rung.target}")
    if noise.on_noise_overflow != "effective_temperature":
        return
    if not isinstance(rung.target, Tempered):
        raise ValueError(
            f"on_noise_overflow must not be {noise.on_noise_overflow!r} where the target has no temperature: "
            f"{rung.target}"
        )
    if callable(rung.step_size):
        raise ValueError(
            f"step_size of a rung that takes its effective temperature must be one number, got {rung.step_size!r}: "
            "the temperature would change with it"
        )
