"""How fidelities compare: cost, bias, noise and correlation of every level, and what swaps between them would be."""

from invsamp.fidelities.comparison import FidelityComparison, compare
from invsamp.fidelities.hierarchy import Levels, measure_levels

__all__ = ["FidelityComparison", "Levels", "compare", "measure_levels"]
