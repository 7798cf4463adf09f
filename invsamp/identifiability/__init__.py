"""Identifiability of parameters: profile likelihoods, the Fisher information, and which sensors to choose."""

from invsamp.identifiability.design import SensorDesign, choose_sensors
from invsamp.identifiability.fisher import Information, information
from invsamp.identifiability.profiles import Profiles, profile

__all__ = ["Information", "Profiles", "SensorDesign", "choose_sensors", "information", "profile"]
