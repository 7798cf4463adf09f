"""Swaps at work: pairs of rungs that meet, and walkers that travel. See `invsamp.engine.exchange.swap_scheduler`."""
