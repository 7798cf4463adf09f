"""Numerics: arrays in, arrays out, no inference. Import the module that you need, for example `invsamp.solvers.ode`."""
