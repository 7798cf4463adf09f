"""Simulations of one emulation: how they are run, their purposes, and the requests before a kill."""
