"""What a rung samples: see `invsamp.tempering.target_distribution`."""

from invsamp.tempering.checks import as_ladder, as_target, check_ladder, check_temperatures, noise_room, temperatures_of
from invsamp.tempering.linear_targets import (
    Linear,
    Tempered,
    TemperedLikelihood,
    combined,
    tempered,
    tempered_likelihood,
)
from invsamp.tempering.target_distribution import (
    LocallyScaledTarget,
    ReportingTarget,
    ScheduledTarget,
    TargetDistribution,
)

__all__ = [
    "Linear",
    "LocallyScaledTarget",
    "ReportingTarget",
    "ScheduledTarget",
    "TargetDistribution",
    "Tempered",
    "TemperedLikelihood",
    "as_ladder",
    "as_target",
    "check_ladder",
    "check_temperatures",
    "combined",
    "noise_room",
    "temperatures_of",
    "tempered",
    "tempered_likelihood",
]
