"""Names of array types, and of parts of a mesh."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Given

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.intp]

#: Of a mesh: a name that it knows, or a predicate, points (k, 2) -> mask (k,).
Part = str | Callable[[Array], Given]
