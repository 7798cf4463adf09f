"""Mistakes of a user's model or sampler part that end a run."""

from __future__ import annotations


class ModelError(ValueError):
    """An error in the model or around it that occurs at any theta. It ends a run; a failed solve does not.

    Examples
    --------
    >>> import invsamp as iv
    >>> def model(theta):
    ...     raise iv.ModelError("the mesh file is missing")  # ends the run; another exception fails one solve
    ...
    """


class WrongShapeError(ModelError):
    """A model returned an array of the wrong shape: a mistake in the model, not a failed solve."""
