"""Single simulations: by what they are known again, and whether their outputs will do."""

from __future__ import annotations

import hashlib

import numpy as np

from invsamp.protocols import Array

#: In the words about outputs that are not finite.
FINITE = "outputs are not finite"


def number_of(theta: Array, version: str) -> int:
    """A number (63 bits) by which a simulation is claimed."""
    digest = hashlib.blake2b(key_of(theta), key=version.encode()[:64], digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def not_finite(outputs: Array) -> str | None:
    """Which outputs (m,) are not finite, in words; None if all are."""
    wrong_ones = np.flatnonzero(~np.isfinite(outputs))
    if not len(wrong_ones):
        return None
    shown = ", ".join(f"output {k} is {outputs[k]}" for k in wrong_ones[:4])
    more = f" and {len(wrong_ones) - 4} others" if len(wrong_ones) > 4 else ""
    return f"{len(wrong_ones)} of {len(outputs)} {FINITE}: {shown}{more}"


def key_of(theta: Array) -> bytes:
    """By which a theta is known again, to the bit."""
    return (theta + 0.0).tobytes()  # minus zero is zero
