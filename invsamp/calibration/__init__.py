"""Simulation-based calibration: does a sampler draw from the posterior, on data that its own model makes?"""

from invsamp.calibration.calibrate import calibrate
from invsamp.calibration.outcome import Calibration

__all__ = ["Calibration", "calibrate"]
