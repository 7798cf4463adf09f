"""A posterior as a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from invsamp import html
from invsamp.domains.contract import Domain
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Array

#: Characters of a text that is shown, and rows of the table.
_LONG, _SHOWN = 120, 30


class Posed(Protocol):
    """Attributes of a posterior that are shown."""

    prior: Prior
    data: Array
    domain: Domain
    series: tuple[str, ...] | None

    @property
    def predicts(self) -> bool:
        """Whether there are forward models and data."""

    @property
    def noise(self) -> object:
        """Of the data."""

    @property
    def forward(self) -> Mapping[str, object]:
        """Models by name."""


def as_html(posterior: Posed) -> str:
    """Unknowns with their priors, then data, noise, models and domain."""
    dimension, shapes = posterior.prior.dimension, posterior.prior.shapes
    distributions: Mapping[str, object] = posterior.prior.distributions
    rows = [
        [name, "x".join(map(str, shape)), _short(distributions.get(name, "")).replace(f", shape={shape}", "")]
        for name, shape in shapes.items()
    ]
    more = [f"... and {len(rows) - _SHOWN} more"] * (len(rows) > _SHOWN)
    caption = f"Posterior of {dimension} unknown{'s' * (dimension != 1)}"
    table = html.table(caption, ["unknown", "shape", "prior"], rows[:_SHOWN])
    return table + html.sentences(more) + html.facts("Data and model", _rest(posterior))


def _rest(posterior: Posed) -> list[tuple[str, str]]:
    found = [(f"fixed {name}", _short(value)) for name, value in posterior.prior.fixed.items()]
    if posterior.predicts:
        data = np.asarray(posterior.data)
        missing = int(np.isnan(data).sum())
        found.append(("data", f"{data.size} numbers, shape {data.shape}" + (f", {missing} missing" if missing else "")))
        if posterior.series is not None:
            found.append(("columns", ", ".join(posterior.series)))
        found.append(("noise", _short(posterior.noise)))
    found += [
        ("model" if name == "model" else f"model {name}", _short(model)) for name, model in posterior.forward.items()
    ]
    return [*found, ("domain", _short(posterior.domain))]


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
