"""The problem as a run takes it, and the chains of one rung: positions, random streams, counts, checks.

Imports no other package of the engine.
"""
