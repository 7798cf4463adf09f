"""Every ready posterior by name."""

from __future__ import annotations

from invsamp.problems import (
    fitzhugh_nagumo,
    heat_modes,
    heat_source,
    influenza,
    lorenz,
    lotka_volterra,
    pharmacokinetics,
    plumes,
    reactions,
    robertson,
)

PROBLEMS = {
    "heat_source.two_modes": heat_source.two_modes,
    "heat_source.ring": heat_source.ring,
    "heat_modes.posterior": heat_modes.posterior,
    "lotka_volterra.hare_lynx": lotka_volterra.hare_lynx,
    "lotka_volterra.gradient_matching": lotka_volterra.gradient_matching,
    "lotka_volterra.multiple_shooting": lotka_volterra.multiple_shooting,
    "lorenz.gradient_matching": lorenz.gradient_matching,
    "lorenz.multiple_shooting": lorenz.multiple_shooting,
    "fitzhugh_nagumo.nerve": fitzhugh_nagumo.nerve,
    "robertson.reactions": robertson.reactions,
    "influenza.outbreak": influenza.outbreak,
    "plumes.source": plumes.source,
    "reactions.slow_or_fast": reactions.slow_or_fast,
    "pharmacokinetics.population": pharmacokinetics.population,
    "pharmacokinetics.two_compartments": pharmacokinetics.two_compartments,
}
