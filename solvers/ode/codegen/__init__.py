"""From Python functions to compiled right-hand sides and their derivatives.

May import `sensitivities`, `integrators`.
"""
