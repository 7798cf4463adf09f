"""Simulations of one emulation: who runs them, what they were for, and what was asked for before a kill."""
