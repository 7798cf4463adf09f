"""The chains of one rung: positions, random streams, counts, checks. Imports no other package of the engine."""
