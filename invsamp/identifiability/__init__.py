"""Identifiability of parameters: profile likelihoods, and the Fisher information."""

from invsamp.identifiability.fisher import Information, information
from invsamp.identifiability.profiles import Profiles, profile

__all__ = ["Information", "Profiles", "information", "profile"]
