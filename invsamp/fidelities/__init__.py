"""How fidelities compare: cost, bias, noise and correlation of every level, and what swaps between them would be."""

from invsamp.fidelities.comparison import FidelityComparison, compare
from invsamp.fidelities.hierarchy import Levels, measure_levels
from invsamp.fidelities.model_error import ApproximationError, approximation_error

__all__ = ["ApproximationError", "FidelityComparison", "Levels", "approximation_error", "compare", "measure_levels"]
