"""Factors of sparse symmetric matrices, and solves with them: LDL, multifrontal, PETSc.

Modules here import the matrices and array types of `invsamp.solvers.fem`, and nothing of meshes or fields.
"""
