"""Doses, events and quantities given as functions of parameters. May import `codegen` and below."""
