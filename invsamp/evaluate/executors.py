"""Evaluation by the workers of any `concurrent.futures.Executor`: process pools, mpi4py.futures, Dask, Ray."""

from __future__ import annotations

import hashlib
import itertools
import math
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future

import numpy as np

from invsamp.arguments import boolean, instance, integer, optional, real
from invsamp.evaluate.requests import Estimate, Request, joined, kind_of, rows_of
from invsamp.evaluate.solving import separable, solve
from invsamp.evaluate.speculation import FutureRequests, Speculation
from invsamp.protocols import Plain, Potential

#: Seconds of a request below which it is not sent to a worker: the messages take as long.
WORTH = 5e-4
#: Seconds of a row from which on workers that would wait evaluate ahead: following a run ahead takes about as long.
WORTH_SPECULATION = 5e-3
#: What ends a worker.
BROKEN = (
    "A worker ends like this where memory runs out, compiled code crashes or a model calls os._exit. With "
    "invsamp.parallel.isolated only the row that caused it fails"
)


class _Held(threading.local):
    """In a worker: potentials by their key, which are sent once, as a model may be large.

    Each thread has its own: models hold what they solve with. It has to be the state of a module that workers import;
    that of a function which is sent by value, as from a script, is made anew for each task.
    """

    def __init__(self) -> None:
        self.potentials: dict[str, Mapping[str, Potential]] = {}


_HELD = _Held()


def executed(
    executor: Executor, workers: int | None = None, time_limit: float | None = None, speculate: bool = True
) -> Executed:
    """An executor with settings, as ``executor=`` of `invsamp.sample`, which takes the executor by itself too.

    Parameters
    ----------
    executor : concurrent.futures.Executor
        It is not shut down. Its workers must be able to import invsamp and what the models need.
    workers : int, optional
        How many it has. Default: as it says itself, or else as many as there are rows.
    time_limit : float, > 0, optional
        Limit, in seconds, for the answers to the requests of one step. If they take longer, as with a solve that
        never ends, the run ends with an `EvaluatorError`, and returns the draws that were made. A single solve is
        ended after a time, and counted as failed, by `invsamp.parallel.isolated`. A worker is not killed: shutting a
        pool down may still wait for it. Default: no limit.
    speculate : bool
        Whether workers that would wait evaluate positions that the run will probably ask for
        (`run.report["processes"]["speculation"]` says how many it did ask for). It takes effect in draws, with more
        workers than rows, and where a row takes 5 ms or more. The draws are the same.

    Raises
    ------
    ValueError
        If an argument is none of these.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import invsamp as iv
    >>> with ThreadPoolExecutor(2) as pool:
    ...     evaluator = iv.evaluate.executed(pool, workers=2)  # iv.sample(..., executor=evaluator)
    ...
    """
    instance("executor", executor, Executor, "a concurrent.futures.Executor")
    return Executed(
        executor,
        optional(integer, "workers", workers, least=1),
        optional(real, "time_limit", time_limit, above=0),
        boolean("speculate", speculate),
    )


class Executed:
    """Lets an executor's workers evaluate. Requests are split by rows where a row has bits of its own.

    What takes less time than a message is solved here, while the workers are at the rest: a cheap coarse model, say.

    Made by `executed`.

    Raises
    ------
    ValueError
        If the potentials cannot be pickled, at the start of a run.
    """

    def __init__(
        self,
        executor: Executor,
        workers: int | None = None,
        time_limit: float | None = None,
        speculate: bool = True,
    ) -> None:
        self._executor, self._time_limit, self._speculate = executor, time_limit, speculate
        stated = getattr(executor, "_max_workers", None)
        self._workers = workers or (stated if isinstance(stated, int) else None)
        self._splits: dict[tuple[object, ...], bool] = {}  # by kind of request
        self._seconds: dict[tuple[object, ...], float] = {}  # by kind: of a row
        self._speculation: Speculation | None = None
        self._future: FutureRequests | None = None

    def __repr__(self) -> str:
        return f"the executor {self._executor!r}"

    def open(self, potentials: Mapping[str, Potential]) -> None:
        """Before the first request."""
        self._potentials = potentials
        try:
            self._pickled = pickle.dumps(dict(potentials), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise ValueError(
                "executor needs a posterior that can be pickled and sent to its workers, such as functions "
                f"at the top of a module ({type(error).__name__}: {error})"
            ) from error
        self._key = hashlib.sha256(self._pickled).hexdigest()
        if self._speculation is not None:
            self._speculation.forget()
        self._future = None

    def follow(self, capture: Callable[[], FutureRequests]) -> None:
        """A step of draws begins; ``capture`` gives the requests of this step and of those after it."""
        self._future = None
        if not self._speculate or self._workers is None:
            return
        if max(self._seconds.values(), default=0.0) < WORTH_SPECULATION:
            return
        if self._speculation is None:
            self._speculation = Speculation(
                lambda part: self._executor.submit(evaluated, self._key, None, part),
                lambda part: self._executor.submit(evaluated, self._key, self._pickled, part),
                self._solved,
                lambda request: self._cost(request) <= WORTH,
                self._workers,
            )
        self._speculation.begin()
        self._future = capture()

    def evaluate(self, requests: Sequence[Request]) -> list[Estimate]:
        """Estimates by all workers at the same time."""
        if self._speculates(requests):
            return self._ahead(requests)
        # where a message costs less than it saves
        parts = [self._parts(request) if self._cost(request) > WORTH else [] for request in requests]
        deadline = None if self._time_limit is None else time.monotonic() + self._time_limit
        sent: list[list[Future[Estimate | None]]] = []
        try:
            for blocks in parts:
                sent.append([self._executor.submit(evaluated, self._key, None, part) for part in blocks])
            here = [None if blocks else self._solved(part) for part, blocks in zip(requests, parts, strict=True)]
            return [
                joined([self._result(*pair, deadline) for pair in zip(blocks, futures, strict=True)])
                if estimate is None
                else estimate
                for blocks, futures, estimate in zip(parts, sent, here, strict=True)
            ]
        except BrokenExecutor as error:
            raise type(error)(f"{error} {BROKEN}") from error
        except BaseException:
            for future in itertools.chain.from_iterable(sent):
                future.cancel()  # what waits for a worker that is gone, or stuck
            raise

    def _speculates(self, requests: Sequence[Request]) -> bool:
        """Whether these can be evaluated row by row, and workers are left."""
        if self._speculation is None or self._future is None or self._workers is None:
            return False
        sent = [request for request in requests if self._cost(request) > WORTH]
        if not sent:
            return False
        return all(self._splits.get(kind_of(r)) and r.batch is None and not r.observations for r in sent)

    def _ahead(self, requests: Sequence[Request]) -> list[Estimate]:
        assert self._speculation is not None and self._future is not None  # `_speculates` has seen to it
        try:
            return self._speculation.evaluate(requests, self._future, self._time_limit)
        except BrokenExecutor as error:
            raise type(error)(f"{error} {BROKEN}") from error

    def report(self) -> Plain:
        """Counts of rows that were evaluated ahead."""
        return {} if self._speculation is None else {"speculation": self._speculation.report()}

    def close(self) -> None:
        """The executor is its maker's."""
        if self._speculation is not None:
            self._speculation.forget()

    def _parts(self, request: Request) -> list[Request]:
        rows, kind = len(request.position), kind_of(request)
        if kind not in self._splits and np.ptp(request.position, axis=0).any():  # equal rows show nothing
            self._splits[kind] = separable(request, lambda pieces: tuple([self._solved(piece) for piece in pieces]))
        if not self._splits.get(kind):
            return [request]
        ends = np.linspace(0, rows, min(rows, self._workers or rows) + 1).astype(int).tolist()
        return [rows_of(request, slice(*ends[k : k + 2])) for k in range(len(ends) - 1)]

    def _cost(self, request: Request) -> float:
        return self._seconds.get(kind_of(request), math.inf) * len(request.position)

    def _solved(self, request: Request) -> Estimate:
        """Requests that are solved in this process, and timed."""
        kind, began = kind_of(request), time.perf_counter()
        found = solve(self._potentials[request.fidelity], request)
        seconds = (time.perf_counter() - began) / max(1, len(request.position))
        self._seconds[kind] = min(seconds, self._seconds.get(kind, math.inf))
        return found

    def _result(self, request: Request, future: Future[Estimate | None], deadline: float | None) -> Estimate:
        found = self._waited_for(future, deadline)
        if found is None:  # a worker that does not know these potentials
            again = self._executor.submit(evaluated, self._key, self._pickled, request)
            found = self._waited_for(again, deadline)
        assert found is not None  # they were sent along
        return found

    def _waited_for(self, future: Future[Estimate | None], deadline: float | None) -> Estimate | None:
        if deadline is None:
            return future.result()
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            if future.done():  # the solve's own
                raise
            future.cancel()
            raise TimeoutError(f"no answer within time_limit, {self._time_limit:g} s") from None


def evaluated(key: str, pickled: bytes | None, request: Request) -> Estimate | None:
    """In a worker: the estimate, or None if the potentials have to be sent."""
    if key not in _HELD.potentials:
        if pickled is None:
            return None
        _HELD.potentials = {key: pickle.loads(pickled)}  # those of a run that is over are of no use
    return solve(_HELD.potentials[key][request.fidelity], request)
