"""Gaussian random fields on meshes: priors of thousands of unknowns, sampled through white noise by sparse factors."""

from invsamp.solvers.fem.fields import LogField
from invsamp.solvers.fem.nodal import Nodal
from invsamp.solvers.fields.matern import MaternField, matern

__all__ = ["LogField", "MaternField", "Nodal", "matern"]
