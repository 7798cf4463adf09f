"""Mistakes of a user's model or sampler part that end a run."""

from __future__ import annotations


class ModelError(ValueError):
    """A mistake in the model or around it, which no other theta would mend: it ends a run; a failed solve does not."""


class WrongShapeError(ModelError):
    """A model returned an array of the wrong shape: a mistake in the model, not a failed solve."""
