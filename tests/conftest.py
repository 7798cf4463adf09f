"""Set-up that must come before any test module is imported, and what many tests share."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("MPLBACKEND", "Agg")
# several test processes share few cores: nested threads would only slow each other down
os.environ.setdefault("OMP_NUM_THREADS", "1")

# what takes seconds to import is imported where it is used: the process that gives others their tests needs none of it
import numpy as np
import numpy.typing as npt
import parts
import pytest

if TYPE_CHECKING:
    from invsamp.results.run import Run

#: The fixtures through which a statistical test comes to its verdicts.
VERDICTS = {"agrees", "within"}
#: Folders and files whose tests see the version of numpy: what is promoted, printed, stored. Those that judge draws do
#: not, which are made of the same operations, nor those that kill runs or talk to servers.
SEE_NUMPY = (
    *("posing", "results", "storage", "variances"),
    *("engine/rungs/test_kernel_contract_check.py", "engine/rungs/test_rung_chains.py"),
    *(
        f"engine/driver/test_{name}.py"
        for name in ("draw_buffer", "progress_bar", "sample_stats", "serialization", "stateless_parts")
    ),
)
BLIND = (
    *("posing/forward_models/test_umbridge_client.py", "storage/test_crash_matrix.py", "storage/test_lock.py"),
    *(
        "posing/priors/test_noncentering.py",
        "posing/noise/test_expected_misfit.py",
        "posing/posterior/test_constrained_random_walk.py",
    ),
    *("results/test_partial_results.py", "results/test_report.py", "results/test_evidence.py"),
    *("results/test_expectation.py", "results/test_loo.py", "results/test_weighted_run.py"),
)
#: Tests that solve ordinary differential equations. The compiled march takes five seconds or more on its first use.
MARCH = ("solvers/ode/", "problems/", "slow/test_multiple_shooting.py")
#: Between the seeds of two shifts, so that tests that count seeds up share none.
APART = 1000


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    """Close what a test has drawn, which pyplot would keep where a test module has imported it."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


class Compilations:
    """Names of the functions that numba compiles, or loads from its cache, until `end`."""

    def __init__(self) -> None:
        from numba.core.dispatcher import Dispatcher

        self._names: list[str] = []
        self._dispatcher, self._compile = Dispatcher, Dispatcher.compile

        def noted(dispatcher: Dispatcher, signature: object) -> object:
            self._names.append(f"{dispatcher.__module__}.{dispatcher.__qualname__}")
            return self._compile(dispatcher, signature)

        Dispatcher.compile = noted

    def end(self) -> list[str]:
        """The names; no more are gathered."""
        self._dispatcher.compile = self._compile
        return self._names


COMPILATIONS, COMPILED_AT_IMPORT = pytest.StashKey[Compilations](), pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", type=int, default=5_000, metavar="N", help="calls with wrong arguments that are tried")
    parser.addoption("--reseed", type=int, default=0, metavar="N", help="shift the seeds of all tests, N-th shift")
    parser.addoption("--part", type=parts.read, metavar="K/N", help="of the slow tests only the K-th of N parts")


def pytest_configure(config: pytest.Config) -> None:
    if not _gives_others_their_tests(config):
        _prepare(config)
    if shift := APART * config.getoption("reseed"):
        _shift_seeds(shift)
    # shells let commands in the background ignore the one, nohup the other: tests of these would wait for ever
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def _gives_others_their_tests(config: pytest.Config) -> bool:
    return bool(config.getoption("numprocesses", 0)) and not hasattr(config, "workerinput")


def _prepare(config: pytest.Config) -> None:
    # after dolfinx h5py fails with "Not a datatype": each brings an HDF5 library, and the first one loaded wins
    with contextlib.suppress(ImportError):
        import h5py  # noqa: F401
    import hypothesis

    # the first call of a compiled function takes seconds on a busy machine; the same examples on every run
    hypothesis.settings.register_profile("invsamp", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("invsamp")
    # a quarter of the time of collecting tests would go into looks at a million objects, all of which stay
    gc.disable()
    config.stash[COMPILATIONS] = Compilations()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The second environment imports the files alone whose tests it runs: a third of them, with what these import."""
    if not config.getoption("markexpr").startswith("(dolfinx or mpi") or collection_path.suffix != ".py":
        return None
    if collection_path.relative_to(Path(__file__).parent).as_posix().startswith(SEE_NUMPY):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if "mark.dolfinx" in text or "mark.mpi" in text else True


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COMPILED_AT_IMPORT] = config.stash[COMPILATIONS].end()
    for item in items:
        file = _file(item)
        if VERDICTS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("statistical")
        elif file.startswith(SEE_NUMPY) and not file.startswith(BLIND):
            item.add_marker("numpy")
    if part := config.getoption("part"):
        _leave_out(config, items, part)
    # Each process begins with its part of this order. What compiles the march is with the first, or each would compile
    # it; then come the long ones: at the end a process that is left alone with one would keep the others waiting. Ranks
    # are last: otherwise each of them compiles
    items.sort(
        key=lambda item: (
            not _file(item).startswith(MARCH),
            not item.get_closest_marker("slow"),
            bool(item.get_closest_marker("mpi")),
        )
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()
    # a look at all that tests have left takes longer with each of them: a twelfth of their time, as often as by default
    gc.set_threshold(2_000, 20, 100)


def _leave_out(config: pytest.Config, items: list[pytest.Item], part: tuple[int, int]) -> None:
    slow = [item.nodeid for item in items if item.get_closest_marker("slow")]
    others = set(slow).difference(parts.within(slow, part))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]


def _file(item: pytest.Item) -> str:
    return _below_tests(item.path)


@cache
def _below_tests(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).as_posix()


def _shift_seeds(shift: int) -> None:
    """Add ``shift`` to every whole number that seeds a generator or a run from here on.

    Except where a ready problem makes its data: other data would be another problem.
    """
    default_rng, SeedSequence = np.random.default_rng, np.random.SeedSequence

    def shifted(seed: object) -> object:
        problem = str(sys._getframe(2).f_globals.get("__name__")).startswith("invsamp.problems.")
        return seed + shift if isinstance(seed, int | np.integer) and not problem else seed

    class ShiftedSequence(SeedSequence):
        def __init__(self, entropy: object = None, **settings: object) -> None:
            super().__init__(shifted(entropy), **settings)

        def __reduce__(self) -> tuple[Callable[..., object], tuple[()]]:  # a local class has no name for a file
            return partial(SeedSequence, **self.state), ()

    as_they_are.update(default_rng=default_rng, SeedSequence=SeedSequence)
    np.random.default_rng = lambda seed=None: default_rng(shifted(seed))
    np.random.SeedSequence = ShiftedSequence


#: Of numpy.random, where seeds are shifted, by name.
as_they_are: dict[str, object] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Other processes know of no shift: what is compared with theirs has none."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("mpi"):
            for name, function in as_they_are.items():
                patch.setattr(np.random, name, function)
        return (yield)


@pytest.fixture
def compiled_at_import(pytestconfig: pytest.Config) -> list[str]:
    """What numba compiled, or found in its cache, while the test modules were imported."""
    return pytestconfig.stash[COMPILED_AT_IMPORT]


@dataclass(frozen=True)
class Verdict:
    """True if no |score| is above its bound."""

    scores: npt.NDArray[np.float64]
    bounds: npt.NDArray[np.float64]

    @property
    def ratio(self) -> float:
        """The largest score over its bound."""
        return float(np.max(np.abs(self.scores) / self.bounds))

    def __bool__(self) -> bool:
        return self.ratio <= 1.0


@pytest.fixture
def within(record_property: Callable[[str, object], None]) -> Callable[..., Verdict]:
    """Judge random draws: ``assert within(scores, bounds)`` or, of a wrong distribution, ``assert not``.

    How far the largest score is from its bound stays in the test's report, where ``tests/tools/margins.py`` finds it.
    """

    def check(scores: npt.ArrayLike, bounds: npt.ArrayLike) -> Verdict:
        verdict = Verdict(np.asarray(scores, dtype=float), np.asarray(bounds, dtype=float))
        assert not np.isnan(verdict.ratio)  # a wrong sampler would pass for rejected
        record_property("ratio", verdict.ratio)
        return verdict

    return check


@pytest.fixture
def agrees(within: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """Check that means over independent chains are what they should be.

    ``agrees(values, truth)``: ``values`` (chains,) or (chains, k), one statistic per chain and column, independent
    between chains, so their spread gives the standard error whatever the autocorrelation within a chain. A right
    sampler fails once in 100,000 calls: the bound is Student's quantile with chains - 1 degrees of freedom, divided
    over the k comparisons. ``truth_sd`` is the standard error of the truth, where that was learned too.
    """

    from scipy.stats import t as student

    def check(values: npt.ArrayLike, truth: npt.ArrayLike, truth_sd: npt.ArrayLike = 0.0) -> Verdict:
        values = np.asarray(values, dtype=float)
        values = values.reshape(len(values), -1)
        chains, k = values.shape
        assert chains >= 64
        error = np.sqrt(values.var(axis=0, ddof=1) / chains + np.ravel(truth_sd) ** 2)
        scores = np.abs(values.mean(axis=0) - np.ravel(truth)) / error
        return within(scores, student.isf(1e-5 / (2 * k), chains - 1))

    return check


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """`invsamp.sample` with 256 chains, without its bar and without the warnings that short test runs deserve."""
    from invsamp.results.run import Run
    from invsamp.sampling import sample

    # the diagnostics of many short chains would take longer than the runs
    monkeypatch.setattr(Run, "warnings", lambda self: [])

    def quiet(problem: object, sampler: object, **settings: object) -> Run:
        return sample(problem, sampler, **({"progress": False, "chains": 256, "seed": 1} | settings))

    return quiet
