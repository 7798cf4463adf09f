"""The command ``invsamp``: inspects, plots, reports and resumes runs, and checks the installation."""

from __future__ import annotations

import argparse
import json
import os
import pickletools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from invsamp import doctor, plots
from invsamp.diagnostics.report import Report
from invsamp.protocols import Plain
from invsamp.results.printing import solved
from invsamp.results.run import Run
from invsamp.resuming import resume
from invsamp.simulations.database import SimulationDatabase
from invsamp.simulations.listing import databases, listed
from invsamp.storage import layout
from invsamp.storage.contents import version
from invsamp.storage.directory import PICKLE
from invsamp.storage.files import read_plain
from invsamp.storage.lock import DirectoryInUseError, check_unlocked
from invsamp.storage.state import read_state

#: Figures of ``plot``, by the names of the functions that make them: all that need nothing but the run.
FIGURES: dict[str, Callable[..., Any]] = {
    name.removeprefix("plot_"): getattr(plots, name)
    for name in plots.__all__
    if name not in ("plot_field", "plot_profiles")
}
#: Those that can show some of the parameters.
NAMED = ("trace", "marginals", "pairs", "identifiability")
#: Files that they are written to.
FORMATS = (".png", ".pdf", ".svg")
STATUS = "exit status: 0 success, 1 error (message on standard error), 2 wrong arguments"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.

    Returns
    -------
    int
        The exit status: 0 on success, 1 after a message on standard error. For wrong arguments argparse exits with 2.
    """
    parsed = _parser().parse_args(arguments)
    try:
        parsed.act(parsed)
        sys.stdout.flush()
    except BrokenPipeError:  # `invsamp summary run | head`
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, DirectoryInUseError) as error:
        print(f"invsamp {parsed.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="invsamp",
        description="Inspect, plot, report and resume runs, and check the installation.",
        epilog=f"`invsamp COMMAND --help` has the arguments of a command, and examples.\n\n{STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"invsamp {version('invsamp') or '0+unknown'}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, act: Callable[[argparse.Namespace], None], text: str, *examples: str, run: bool = True
    ) -> argparse.ArgumentParser:
        found = commands.add_parser(
            name,
            help=text,
            description=text[:1].upper() + text[1:] + ".",
            epilog="\n".join(["examples:", *(f"  invsamp {name}{one}" for one in examples), "", STATUS]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        found.set_defaults(act=act)
        if run:
            found.add_argument("run", metavar="RUN", type=Path, help="directory of a run, or file written by Run.save")
        return found

    info = command(
        "info", _info, "print progress, settings, cost and warnings of a run", " decay-run", " run.nc --json"
    )
    info.add_argument("--json", action="store_true", help="print JSON instead of text")
    text = "print mean, sd, quantiles, effective sample size and R-hat of every parameter"
    summary = command("summary", _summary, text, " decay-run", " run.nc --json")
    summary.add_argument("--json", action="store_true", help="print JSON instead of a table")
    plot = command(
        "plot", _plot, "save a figure of a run", " decay-run trace", " run.nc pairs --names a b --out ab.pdf"
    )
    plot.add_argument("kind", metavar="KIND", choices=sorted(FIGURES), help="one of " + ", ".join(sorted(FIGURES)))
    plot.add_argument("--out", type=Path, metavar="FILE", help="file to write, .png, .pdf or .svg (default: KIND.png)")
    plot.add_argument(
        "--names",
        nargs="+",
        metavar="NAME",
        help=f"parameters to show, for {', '.join(NAMED)} (default: the first ones)",
    )
    text = "write an HTML report of a run, with figures and warnings, for a browser"
    report = command("report", _report, text, " decay-run", " run.nc --out decay.html")
    report.add_argument(
        "--out", type=Path, metavar="FILE", default=Path("report.html"), help="file to write (default: report.html)"
    )
    text = "continue a run in a directory, after a list of the code that this executes and a question"
    resumed = command("resume", _resume, text, " decay-run", " decay-run --draws 2000 --yes", run=False)
    resumed.add_argument("run", metavar="RUN", type=Path, help="directory of a run")
    resumed.add_argument(
        "--draws", type=int, metavar="N", help="total number of draws per chain (default: the number requested before)"
    )
    resumed.add_argument("--yes", action="store_true", help="do not ask; for scripts, if you trust the directory")
    simulations = command(
        "simulations",
        _simulations,
        "list the simulations in a folder, or write them to a file",
        " decay-runs",
        " decay-runs --label 2 --csv runs.csv",
        " decay-runs --forget-failures",
        run=False,
    )
    simulations.add_argument("folder", metavar="FOLDER", type=Path, help="folder of a database of simulations")
    simulations.add_argument("--label", metavar="VERSION", help="only those of this version of the simulator")
    simulations.add_argument("--csv", type=Path, metavar="FILE", help="write them to a CSV file")
    simulations.add_argument("--netcdf", type=Path, metavar="FILE", help="write them to a netCDF file")
    simulations.add_argument(
        "--forget-failures", action="store_true", help="remove failed simulations, so that they are run again"
    )
    text = "list installed packages, compilers, threads and MPI, and say what is missing"
    health = command("doctor", _doctor, text, "", " --json", run=False)
    health.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser


def _info(parsed: argparse.Namespace) -> None:
    state = _state(parsed.run)
    if state.get("draws") == 0:
        why = [state["stopped"]] if state["stopped"] else []
        print(layout.to_json(state) if parsed.json else "\n".join([*_first(state), *why, "no draws yet"]))
        return
    run = Run.load(parsed.run)
    facts = state | {"parameters": run.shapes} | run.report | {"judgment": run.warnings()}
    if parsed.json:
        print(layout.to_json(facts))
        return
    print("\n".join([*_first(state), *_settings(run.report, run.shapes)]))
    print(run.verdict)


def _first(state: Plain) -> list[str]:
    """The first lines about a run in a directory."""
    return [f"{name}: {state[name]}" for name in ("state", "posterior") if state.get(name)]


def _state(path: Path) -> Plain:
    """Progress of a run in a directory; empty for a file, which is complete."""
    if not path.is_dir():
        return {}
    header, _ = read_state(path)
    plan, report, own = header.about["plan"], header.report, _of_a_script(path)
    state = f"{header.draws} of {plan['draws']} draws per chain"
    # warm-up may have been shorter than planned, and longer where a trial failed
    if not header.draws and (report.get("warming") or header.step < report.get("warmup", plan["warmup"])):
        most = "at most " if plan.get("stops_early") else ""
        state = f"in warm-up, at step {header.step} of {most}{plan['warmup']}"
    try:
        check_unlocked(path)
        at_work = False
    except DirectoryInUseError as error:
        at_work, state = True, f"{state}; {error}"
    finished = header.draws == plan["draws"]
    if not (finished or at_work):
        here = any(file.name == PICKLE for file in header.files) and not own
        how = f"`invsamp resume {path}`" if here else f"iv.resume({str(path)!r}, posterior)"
        state += f"; stopped, continue with {how}"
    posterior = header.about["posterior"]
    if own:
        posterior += f", but needs definitions of the script that made it ({', '.join(own)})"
    facts = {"state": state, "draws": header.draws, "finished": finished, "at_work": at_work, "posterior": posterior}
    return facts | {"stopped": report.get("stopped")}


def _settings(report: Report, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """Settings and cost in a report, line by line."""
    for key in (
        "sampler",
        "seed",
        "chains",
        "draws",
        "warmup",
        "thin",
        "targets",
        "fidelities",
        "kernels",
        "step_sizes",
    ):
        value: object = report.get(key)
        if value is not None:
            yield f"{key.replace('_', ' ')}: {', '.join(map(_short, value)) if isinstance(value, list) else value}"
    yield "parameters: " + ", ".join(f"{name}{list(shape) if shape else ''}" for name, shape in shapes.items())
    for name, count in (report.get("evaluations") or {}).items():
        yield f"solves of {name}: {', '.join([f'{count:,}', *solved(report, name)])}"
    if report.get("seconds") is not None:
        yield f"wall time: {report['seconds']:.3g} s"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _summary(parsed: argparse.Namespace) -> None:
    run = Run.load(parsed.run)
    table = run.summary()
    if parsed.json:
        print(table.to_json(orient="index", double_precision=15))
        return
    print(table.to_string(float_format="{:#.4g}".format))
    print(run.verdict)


def _plot(parsed: argparse.Namespace) -> None:
    if parsed.names and parsed.kind not in NAMED:
        raise ValueError(f"--names must be left out for {parsed.kind}, got {' '.join(parsed.names)}")
    out = Path(f"{parsed.kind}.png") if parsed.out is None else parsed.out
    if out.suffix.lower() not in FORMATS:
        raise ValueError(f"--out must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {str(out)!r}")
    figure = FIGURES[parsed.kind](Run.load(parsed.run), **({"names": parsed.names} if parsed.names else {}))
    figure.savefig(out)
    print(out)


def _report(parsed: argparse.Namespace) -> None:
    Run.load(parsed.run).report_html(parsed.out, title=f"Report of {parsed.run.name or parsed.run.resolve().name}")
    print(parsed.out)


def _resume(parsed: argparse.Namespace) -> None:
    header, _ = read_state(parsed.run)
    if all(file.name != PICKLE for file in header.files):
        raise ValueError(
            f"{parsed.run} cannot be resumed from the command line, as its posterior {header.about['posterior']}. "
            f"Call iv.resume({str(parsed.run)!r}, posterior) in the script that makes the posterior"
        )
    if own := _of_a_script(parsed.run):
        raise ValueError(
            f"{parsed.run} needs definitions of the script that made its posterior ({', '.join(own)}). Call "
            f"iv.resume({str(parsed.run)!r}, posterior) there, or move them to a module that both import"
        )
    if not parsed.yes:
        names = sorted(set(_imported(read_plain(parsed.run / PICKLE))))
        print(f"{parsed.run / PICKLE} is a pickle file. Reading it executes code, which imports")
        print("\n".join(f"  {name}" for name in names))
        if not sys.stdin.isatty():
            raise ValueError("no terminal to confirm this: give --yes if you trust the author of the file")
        if input("Continue? Only if you trust the author of the file [y/N] ").strip().lower() not in ("y", "yes"):
            raise ValueError("not resumed; nothing was executed")
    sys.path.insert(0, "")  # modules beside the script, as in a session of Python
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = resume(parsed.run, draws=parsed.draws, progress=sys.stderr is not None and sys.stderr.isatty())
    known = run.warnings()
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        if message not in known:  # which the run prints itself
            print(f"invsamp resume: {message}", file=sys.stderr)
    print(run)


def _of_a_script(path: Path) -> list[str]:
    """Names that the stored posterior needs from the script or session that made it; no other process has them."""
    names: list[str] = []
    with suppress(OSError, ValueError):  # damaged: reading it raises
        names = sorted(set(_imported(read_plain(path / PICKLE))))
    return [name.removeprefix("__main__.") for name in names if name.startswith("__main__.")]


def _imported(pickled: bytes) -> Iterator[str]:
    """Names that a pickle would import, found without executing it: ``module.name``, "?" for parts not spelled out."""
    pushed: list[str] = []  # the latest values of the stack, "?" for all but texts
    memo: dict[int, str] = {}
    for code, value, _ in pickletools.genops(pickled):
        if code.name in ("GLOBAL", "INST"):
            yield str(value).replace(" ", ".")
        elif code.name == "STACK_GLOBAL":
            yield ".".join(["?", "?", *pushed][-2:])
        if code.name == "MEMOIZE":
            memo[len(memo)] = pushed[-1] if pushed else "?"
        elif code.name in ("PUT", "BINPUT", "LONG_BINPUT") and value is not None:
            memo[int(value)] = pushed[-1] if pushed else "?"
        elif code.name in ("GET", "BINGET", "LONG_BINGET") and value is not None:
            pushed.append(memo.get(int(value), "?"))
        else:
            pushed.append(value if isinstance(value, str) and code.name != "GLOBAL" else "?")


def _simulations(parsed: argparse.Namespace) -> None:
    found = databases(parsed.folder)
    if not (parsed.csv or parsed.netcdf or parsed.forget_failures):
        for one in found:
            print("\n".join(listed(one, parsed.label)))
        return
    if len(found) > 1:
        raise ValueError(f"FOLDER must be one database, got several in {parsed.folder}: {', '.join(map(str, found))}")
    labels = sorted(SimulationDatabase.open(found[0]).versions())
    label = parsed.label if parsed.label is not None or len(labels) != 1 else labels[0]
    if label is None:
        raise ValueError(f"--label must be one of the versions {labels} in {found[0]}, got none")
    database = SimulationDatabase.open(found[0], version=label)
    if parsed.forget_failures:
        database.forget_failures()
    table = database.table()
    if parsed.csv:
        table.to_dataframe().to_csv(parsed.csv, index=False)
        print(parsed.csv)
    if parsed.netcdf:
        table.to_xarray().to_netcdf(parsed.netcdf, engine="h5netcdf")
        print(parsed.netcdf)


def _doctor(parsed: argparse.Namespace) -> None:
    found = doctor.examine()
    if parsed.json:
        print(json.dumps({finding.name: {"state": finding.state, "good": finding.good} for finding in found}))
        return
    width = max(len(finding.name) for finding in found)
    for finding in found:
        print(f"{'ok' if finding.good else '--'}  {finding.name:<{width}}  {finding.state}")
