"""Compiled integrators: explicit Runge-Kutta, Rosenbrock, LSODA; dense output, events.

Imports no other package of `ode`.
"""
