"""The energy of a posterior for compiled loops over steps, where all that it is made of has compiled functions."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from invsamp.posing.compiled.energy_pointer import Compiled, EnergyPointer
from invsamp.posing.compiled.posterior_energy import PosteriorParts, posterior_energy
from invsamp.protocols import CompilableModel

#: By potential: addresses are those of one process, and must not be stored with it.
_MADE: WeakKeyDictionary[object, EnergyPointer] = WeakKeyDictionary()


class PosteriorSource(NamedTuple):
    """The energy of a posterior, not compiled yet."""

    potential: object
    model: CompilableModel
    parts: PosteriorParts

    def compiled(self) -> Compiled:
        """As a compiled function; again the same for the same potential."""
        if (found := _MADE.get(self.potential)) is None:
            found = _MADE[self.potential] = EnergyPointer(*posterior_energy(self.parts, self.model.compiled_rows()))
        return found


def model_obstacle(model: object) -> str | None:
    """Why a forward model has no compiled functions; None if it has."""
    if isinstance(model, CompilableModel):
        return model.compilation_obstacle
    return f"the forward model is no compiled function, but a {type(model).__name__}"
