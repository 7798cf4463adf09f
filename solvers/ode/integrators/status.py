"""How the integration of a trajectory ended."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How the integration of one trajectory ended."""

    OK = 0
    TOO_MANY_STEPS = 1
    NON_FINITE = 2
    STEP_TOO_SMALL = 3
    STOPPED = 4  # by the model's `stop`: what comes before is good
    NO_SENSITIVITIES = 5  # the states are good, their derivatives cannot be had
    STIFF = 6  # an explicit method does not get there because of stiffness: Rodas5P and LSODA are for that
    TOO_MANY_EVENTS = 7  # they accelerate, or trigger each other endlessly
