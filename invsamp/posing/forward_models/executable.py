"""A program as a forward model: `executable`, and the checks of what it is given."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import function, integer, mapping, optional, path, real, sequence, text, wrong
from invsamp.posing.forward_models.input_templates import Template, sizes_of, split_command
from invsamp.posing.forward_models.program_runs import Executable
from invsamp.protocols import Plain


def executable(
    command: str | Sequence[str],
    outputs: Callable[[Path], npt.ArrayLike],
    *,
    parameters: Sequence[str] | Mapping[str, int] | None = None,
    templates: Mapping[str, str | Path] | None = None,
    files: Sequence[str | os.PathLike[str]] = (),
    workers: int = 1,
    time_limit: float | None = None,
    directory: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    version: str | None = None,
) -> Executable:
    """Forward model that runs a program for each theta, in a directory of its own; without derivatives.

    The program finds its parameters in the file ``parameters.json``, or in files that are made from templates, or in
    its command. What it prints is in ``stdout.txt`` and ``stderr.txt``. A run fails if its exit status is not 0, it
    takes too long, or its outputs cannot be read.

    Parameters
    ----------
    command : str or sequence of str and Path
        Program and arguments; a string is split as a shell does it, but no shell runs it. ``{{rate}}`` in it stands for
        a parameter. A program with a slash in its name is looked for in the present directory.
    outputs : callable
        Directory of a run (`pathlib.Path`) -> outputs (m,).
    parameters : sequence of names, or mapping from name to number of entries, optional
        Parameters of the prior that make up theta's columns. Default: those that templates and command name. They are
        the keys of ``parameters.json``.
    templates : mapping from file name to text or Path, optional
        Input files with ``{{rate}}``, ``{{k[0]}}`` or, with a format, ``{{rate:.6e}}`` in place of the parameters. A
        string is the text itself, a `pathlib.Path` a file that holds it. A format with few digits rounds the parameter.
    files : sequence of paths
        What else the program reads: each gets a link of its name in the directory of every run.
    workers : int, >= 1
        How many programs run at the same time.
    time_limit : float, > 0, optional
        Seconds for one run. Then the program is killed, with all that it has started.
    directory : path, optional
        Where the directories of runs are kept. Default: a temporary one, which is removed after each run.
    environment : mapping of str, optional
        Variables in addition to those of this process.
    version : str, optional
        Label of the program's version, for a database of its runs (`invsamp.simulations`).

    Returns
    -------
    Executable
        A forward model (batch, p) -> (batch, m); NaN in the rows that failed.

    Raises
    ------
    ValueError
        If the program is not found, a template has a place that names no parameter or a file is missing. If a parameter
        has no place in templates and command though others have; or if there are neither places nor ``parameters``.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> square = iv.executable(
    ...     ["awk", "{print $1 * $1}", "input.txt"],
    ...     outputs=lambda run: np.loadtxt(run / "stdout.txt", ndmin=1),
    ...     templates={"input.txt": "{{a}}"},
    ...     workers=2,
    ... )
    >>> square(np.array([[3.0], [4.0]]))
    array([[ 9.],
           [16.]])
    """
    program = _command(command)
    made = tuple(_template(name, one) for name, one in (optional(mapping, "templates", templates) or {}).items())
    sizes = _sizes(parameters, program, made)
    return Executable(
        program,
        function("outputs", outputs, "of a run's directory"),
        sizes,
        templates=made,
        files=tuple(_existing(one) for one in sequence("files", files, "a sequence of paths", least=0)),
        workers=integer("workers", workers, least=1),
        time_limit=optional(real, "time_limit", time_limit, above=0),
        directory=None if directory is None else path("directory", directory).absolute(),
        environment=_environment(environment),
        version=optional(text, "version", version),
    )


def _command(command: object) -> tuple[Template, ...]:
    right = "a command, as a string or a sequence of strings"
    if isinstance(command, str):
        try:
            parts: Sequence[Any] = split_command(command)
        except ValueError as error:
            raise ValueError(f"command must be {right}, got {command!r}: {error}") from None
    else:
        parts = sequence("command", command, right)
    if not parts or not all(isinstance(part, str | Path) for part in parts) or not parts[0]:
        raise wrong("command", right, command)
    program = str(parts[0])
    if os.sep in program:
        found = str(Path(program).absolute()) if os.access(program, os.X_OK) and Path(program).is_file() else None
    else:
        found = shutil.which(program)
    if found is None:
        raise ValueError(f"command must name a program that is there and can be run, got {program!r}")
    return tuple(Template("command", str(part)) for part in (found, *parts[1:]))


def _template(name: object, given: object) -> Template:
    file = path("templates", name)
    if file.is_absolute() or ".." in file.parts:
        raise ValueError(f"templates must have names of files within the directory of a run, got {str(file)!r}")
    if isinstance(given, Path):
        return Template(str(file), _existing(given, f"templates[{str(file)!r}]").read_text())
    if not isinstance(given, str):
        raise wrong(f"templates[{str(file)!r}]", "a text or a pathlib.Path", given)
    return Template(str(file), given)


def _sizes(parameters: object, command: tuple[Template, ...], templates: tuple[Template, ...]) -> dict[str, int]:
    """Name -> number of entries, 0 for a number by itself, of the parameters."""
    placed = [label for one in (*templates, *command) for label in one.labels()]
    found = sizes_of(placed)
    if parameters is None:
        if not found:
            raise ValueError(
                "parameters must be given, got None: the names that parameters.json has. Or {{name}} stands in "
                "templates or in the command"
            )
        return found
    if isinstance(parameters, Mapping):
        given = {
            text("every name in parameters", name): integer(f"parameters[{name!r}]", size, least=1)
            for name, size in parameters.items()
        }
        if not given:
            raise wrong("parameters", "a mapping from name to number of entries", parameters)
    else:
        named = [parameters] if isinstance(parameters, str) else parameters
        given = {name: found.get(name, 0) for name in arguments.names("parameters", named)}
    if unknown := [label for label in placed if label.partition("[")[0] not in given]:
        raise ValueError(f"templates must name parameters of {list(given)}, got {{{{{unknown[0]}}}}}")
    if found and (ignored := [name for name in given if name not in found]):
        raise ValueError(
            "parameters must all have a place in templates or command, or none of them, got none for "
            f"{ignored[0]!r}, which the program would ignore"
        )
    for name, size in given.items():
        if name in found and max(1, found[name]) != max(1, size):
            raise ValueError(f"parameters[{name!r}] must be the number of its places, {found[name] or 1}, got {size}")
    return given


def _existing(given: object, argument: str = "files") -> Path:
    file = path(argument, given).absolute()
    if not file.exists():
        raise ValueError(f"{argument} must be there, got {file}")
    return file


def _environment(given: object) -> Plain:
    found = optional(mapping, "environment", given) or {}
    if not all(isinstance(part, str) for pair in found.items() for part in pair):
        raise wrong("environment", "a mapping from text to text", given)
    return found
