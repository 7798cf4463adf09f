"""Points optimized, the minima that they find, and the modes that these are, each with its Gaussian."""

from invsamp.modes.modes import Modes

__all__ = ["Modes"]
