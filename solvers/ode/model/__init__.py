"""ODE models, their settings and what is observed of them.

May import `events`, `codegen`, `sensitivities`, `integrators`.
"""
