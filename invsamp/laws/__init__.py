"""What a rung samples: see `invsamp.laws.contract`."""

from invsamp.laws.checks import as_ladder, as_law, check_ladder, check_temperatures, noise_room, temperatures_of
from invsamp.laws.contract import ChangingLaw, Law, LocalLaw, ToldLaw
from invsamp.laws.tempering import Linear, Tempered, TemperedLikelihood, combined, tempered, tempered_likelihood

__all__ = [
    "ChangingLaw",
    "Law",
    "Linear",
    "LocalLaw",
    "Tempered",
    "TemperedLikelihood",
    "ToldLaw",
    "as_ladder",
    "as_law",
    "check_ladder",
    "check_temperatures",
    "combined",
    "noise_room",
    "temperatures_of",
    "tempered",
    "tempered_likelihood",
]
