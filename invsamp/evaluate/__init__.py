"""Evaluating: what samplers ask for, and who answers."""
