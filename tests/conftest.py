"""Set-up that must come before any test module is imported."""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("MPLBACKEND", "Agg")
# several test processes share few cores: nested threads would only slow each other down
os.environ.setdefault("OMP_NUM_THREADS", "1")

# h5py after dolfinx fails with "Not a datatype": the two bring different HDF5 libraries and the first one loaded wins
with contextlib.suppress(ImportError):
    import h5py  # noqa: F401
