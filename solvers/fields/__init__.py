"""Random fields on meshes: priors of thousands of unknowns, sampled through white noise by sparse factors."""

from invsamp.solvers.fem.fields import LogField
from invsamp.solvers.fem.foreign_mesh import extended
from invsamp.solvers.fem.links import LogitField, SoftplusField
from invsamp.solvers.fem.nodal import Nodal
from invsamp.solvers.fields.besov_prior import BesovField, besov
from invsamp.solvers.fields.whittle_matern import MaternField, matern

__all__ = [
    "BesovField",
    "LogField",
    "LogitField",
    "MaternField",
    "Nodal",
    "SoftplusField",
    "besov",
    "extended",
    "matern",
]
