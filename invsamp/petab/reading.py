"""The files of a PEtab problem of version 1 or 2."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from invsamp.arguments import instance
from invsamp.petab.tables import Tables
from invsamp.petab.version_1 import tables_of_version_1
from invsamp.petab.version_2 import tables_of_version_2
from invsamp.solvers.ode.symbolic.symbols import Unsupported, needed

#: What reads each version, and the module of the package petab that does it.
_READERS: dict[str, tuple[str, Callable[[Any, Any, Path], Tables]]] = {
    "1": ("petab.v1", tables_of_version_1),
    "2": ("petab.v2", tables_of_version_2),
}


def read_tables(path: str | Path) -> Tables:
    """The tables of the problem whose YAML file this is.

    Raises
    ------
    ModuleNotFoundError
        Without the extra ``petab``.
    Unsupported
        A ValueError, for features that are not supported.
    ValueError
        For a file that is not there or is no problem, and tables that do not fit together.
    """
    yaml = needed("yaml")
    instance("path", path, (str, Path), "the path of a PEtab problem")
    if not Path(path).is_file():
        raise ValueError(f"path must be the YAML file of a PEtab problem, got {str(path)!r}, which does not exist")
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "format_version" not in content:
        raise ValueError(f"path must be the YAML file of a PEtab problem with a format_version, got {str(path)!r}")
    version = str(content["format_version"])
    if version.partition(".")[0] not in _READERS:
        raise Unsupported(
            f"PEtab of format_version {version} is not supported, got {str(path)!r}: versions 1 and 2 are. "
            "petab.v2.petab1to2 converts version 1 to 2"
        )
    module, tables = _READERS[version.partition(".")[0]]
    library = needed(module)

    def problem() -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of how it calls pandas
                return library.Problem.from_yaml(str(path))
        except Exception as error:  # of all kinds, from what reads tables
            raise ValueError(
                f"path must be the YAML file of a PEtab problem, got {str(path)!r} of version {version}: {error}"
            ) from error

    return tables(content, problem, Path(path))
