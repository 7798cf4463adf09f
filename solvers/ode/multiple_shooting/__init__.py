"""Multiple shooting. May import every other package of `ode`."""
