"""Evaluations ahead of a run, on workers that would wait: of positions that it will ask for, or probably will."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from invsamp.evaluate.energy_regression import EnergyRegression
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, joined, kind_of, rows_of
from invsamp.protocols import Array

#: Makes a generator of all requests that a run makes from the present step on.
FutureRequests = Callable[[], EvaluationRequests[None]]
#: One row of a request: its kind and the bits of its position.
Key = tuple[object, ...]
#: Positions that are less probable than this are not evaluated ahead.
LEAST = 0.02
#: Steps that the run is followed ahead for each worker that a row has; and at least.
AHEAD, SHORTEST = 2, 8
#: Seconds to wait for others that end together with one: following the run ahead for each of them would take longer.
SOON = 1e-3
#: Energies of guesses that are accepted lie so far below all others.
LOW = 1e6
#: What each guess leaves of the weight of earlier ones in a rate.
FORGETTING = 0.95


class _Sent(NamedTuple):
    request: Request  # of one row
    future: Future[Estimate | None]


class _Place(NamedTuple):
    """A row that the run may request."""

    probability: float
    step: int  # of those to come
    key: Key
    request: Request  # of one row
    first: _Guess | None  # the guess that it depends on, if it is a single one


class _Guess(Enum):
    """A decision on a proposal, taken for granted."""

    PREDICTED = auto()  # by energies that a regression predicts
    ACCEPTED = auto()
    REJECTED = auto()


class _Guesses(NamedTuple):
    """The first guess of each chain, and all after it."""

    first: _Guess
    then: _Guess


class _Rate:
    """How often guesses came true of late."""

    def __init__(self) -> None:
        self._right, self._wrong = 1.0, 1.0

    def count(self, right: bool) -> None:
        """One more."""
        self._right, self._wrong = FORGETTING * self._right + right, FORGETTING * self._wrong + (not right)

    @property
    def share(self) -> float:
        """Of the right ones."""
        return self._right / (self._right + self._wrong)


class Speculation:
    """Workers that would wait evaluate what a run is going to ask for.

    The run is followed ahead by a copy of its state: exactly as far as its estimates are known, and beyond by guesses
    whether proposals are accepted. An accepted proposal can be guessed only where its gradient is not needed. Where
    a regression on energies seen so far is accurate, it predicts the decisions. Each worker takes the most probable
    position that is not evaluated yet. The run gets estimates of the positions that it asks for and no others, so that
    its draws are unchanged. Chains do not wait for each other: estimates of one are made while others catch up. For
    Metropolis sampling this is prefetching (Brockwell 2006, "Parallel Markov chain Monte Carlo simulation by
    pre-fetching", Journal of Computational and Graphical Statistics 15(1), section 3).

    Parameters
    ----------
    send : callable
        Lets a worker evaluate a request of one row.
    again : callable
        The same for a worker that did not know the model.
    solved : callable
        Evaluates a cheap request here.
    cheap : callable
        Whether a request is.
    workers : int
    """

    def __init__(
        self,
        send: Callable[[Request], Future[Estimate | None]],
        again: Callable[[Request], Future[Estimate | None]],
        solved: Callable[[Request], Estimate],
        cheap: Callable[[Request], bool],
        workers: int,
    ) -> None:
        self._send, self._again, self._solved, self._cheap, self._workers = send, again, solved, cheap, workers
        self._known: dict[Key, Estimate] = {}
        self._like: dict[object, Estimate] = {}  # some estimate, by kind of request
        self._failed: dict[Key, BaseException] = {}
        self._pending: dict[Key, _Sent] = {}
        self._first: dict[Key, _Guess] = {}  # of what was sent by a single guess and is not used yet
        self._used: set[Key] = set()  # in the present step
        self._acceptance, self._prediction = _Rate(), _Rate()  # of single guesses
        self._regressions: dict[object, EnergyRegression] = {}  # by kind of request
        self._predicted: dict[Key, Array] = {}  # so that a decision is predicted once
        self._asked, self._sent = 0, 0

    def begin(self) -> None:
        """A step begins: what the one before used is forgotten."""
        for key in self._used:
            self._known.pop(key, None)
        self._used.clear()

    def evaluate(self, requests: Sequence[Request], future: FutureRequests, time_limit: float | None) -> list[Estimate]:
        """Estimates, in the order of the requests.

        Raises
        ------
        TimeoutError
            If they are not there within the time limit.
        """
        deadline = None if time_limit is None else time.monotonic() + time_limit
        wanted = [(request, _keys(request)) for request in requests]
        for request, keys in wanted:
            self._use(request, keys)
        missing = {key for _, keys in wanted for key in keys if key not in self._known}
        while missing:
            self._look_ahead(future)
            self._collect(deadline)
            for key in missing & self._failed.keys():
                raise self._failed[key]
            missing -= self._known.keys()
        return [joined([self._known[key] for key in keys]) for _, keys in wanted]

    def forget(self) -> None:
        """Leave all that was sent."""
        for sent in self._pending.values():
            sent.future.cancel()
        for held in (self._known, self._failed, self._pending, self._first, self._predicted):
            held.clear()
        self._used.clear()

    def report(self) -> dict[str, int]:
        """How many evaluations the run asked for, and how many were made."""
        return {"used": self._asked, "made": self._sent}

    def _use(self, request: Request, keys: Sequence[Key]) -> None:
        if self._cheap(request):
            self._solve_here(request, keys)
        else:
            self._asked += len(keys)
        for row, key in enumerate(keys):
            self._used.add(key)
            self._learn(key, True)
            if key not in self._known and key not in self._pending and key not in self._failed:
                self._put(key, rows_of(request, slice(row, row + 1)), None)

    def _put(self, key: Key, request: Request, first: _Guess | None) -> None:
        self._pending[key] = _Sent(request, self._send(request))
        self._sent += 1
        if first is not None:
            self._first[key] = first

    def _learn(self, key: Key, right: bool) -> None:
        """Count what became of a single guess."""
        first = self._first.pop(key, None)
        if first is _Guess.PREDICTED:
            self._prediction.count(right)
        elif first is not None:
            self._acceptance.count(right == (first is _Guess.ACCEPTED))

    @property
    def _likelier(self) -> _Guess:
        return _Guess.ACCEPTED if self._acceptance.share > 0.5 else _Guess.REJECTED

    @property
    def _predicts(self) -> float:
        """Share of right predictions; at least a half, or else none would be tried."""
        return max(0.5, self._prediction.share)

    def _solve_here(self, request: Request, keys: Sequence[Key]) -> None:
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            found = self._solved(request._replace(position=np.ascontiguousarray(request.position[new])))
            for k, row in enumerate(new):
                one = found.take(np.array([k]))
                self._known[keys[row]] = one._replace(failed=bool(np.isinf(one.energy[0])))

    def _collect(self, deadline: float | None) -> None:
        """Wait for an estimate, and take all that are there."""
        by_future = {sent.future: key for key, sent in self._pending.items()}
        limit = None if deadline is None else max(0.0, deadline - time.monotonic())
        done, others = wait(by_future, limit, FIRST_COMPLETED)
        if not done:
            raise TimeoutError("no estimate within time_limit")
        if others:
            done |= wait(others, SOON).done
        for future in done:
            key = by_future[future]
            sent = self._pending.pop(key)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                raise error
            if error is not None:  # the run may never ask for it
                self._failed[key] = error
            elif (found := future.result()) is None:
                self._pending[key] = sent._replace(future=self._again(sent.request))
            else:
                self._known[key] = self._like[key[0]] = found
                request = sent.request
                if not (request.gradient or request.batch or request.observations):
                    self._regressions.setdefault(key[0], EnergyRegression()).add(request.position, found)

    def _look_ahead(self, future: FutureRequests) -> None:
        """Give each worker that waits the most probable position that is left."""
        free = self._workers - len(self._pending)
        if free <= 0:
            return
        share = max(self._acceptance.share, 1.0 - self._acceptance.share)
        for regression in self._regressions.values():
            regression.fit()
        predicts = any(regression.useful for regression in self._regressions.values())
        usual = _Guess.PREDICTED if predicts else self._likelier
        if predicts:
            share = self._predicts
        others = [guess for guess in (_Guess.ACCEPTED, _Guess.REJECTED) if guess is not usual]
        with np.errstate(all="ignore"):
            found, seen = self._followed(future, _Guesses(usual, usual))
            found.sort(key=_order)
            if len(found) < free or found[free - 1].probability < 1.0 - share:
                for first in others:
                    more, also = self._followed(future, _Guesses(first, usual))
                    known = {place.key for place in found}
                    found, seen = found + [place for place in more if place.key not in known], seen | also
                found.sort(key=_order)
        self._drop(seen | self._used)
        for place in found:
            if len(self._pending) >= self._workers:
                break
            if place.key not in self._pending:
                self._put(place.key, place.request, place.first)

    def _drop(self, alive: set[Key]) -> None:
        """Rows that the run will not request any more."""
        for key in [key for key, sent in self._pending.items() if key not in alive and sent.future.cancel()]:
            del self._pending[key]
        for key in self._known.keys() - alive:
            del self._known[key]
        for key in self._failed.keys() - alive:
            del self._failed[key]
        for key in self._first.keys() - alive:
            self._learn(key, False)
        for key in self._predicted.keys() - alive:
            del self._predicted[key]

    def _followed(self, future: FutureRequests, guesses: _Guesses) -> tuple[list[_Place], set[Key]]:
        """Rows that are not evaluated yet, and all rows, by guesses: the first one of each chain, and all after it."""
        found: list[_Place] = []
        seen: set[Key] = set()
        chains: dict[int, list[_Chain]] = {}
        run = future()
        requests = next(run, ())
        rows = sum(len(request.position) for request in requests)
        for step in range(max(SHORTEST, AHEAD * self._workers // max(1, rows))):
            estimates = []
            for place, request in enumerate(requests):
                if request.batch is not None or request.observations:
                    return found, seen
                keys = _keys(request)
                seen.update(keys)
                if self._cheap(request):
                    self._solve_here(request, keys)
                here = chains.setdefault(place, [])
                if len(here) != len(keys):  # of some chains alone: which is not known
                    least = min(here, default=_Chain(), key=lambda chain: chain.probability)
                    here[:] = [least] * len(keys)
                estimate = self._by_guesses(request, keys, here, found, step, guesses)
                if estimate is None:
                    return found, seen
                estimates.append(estimate)
            if not requests or all(chain.probability < LEAST for here in chains.values() for chain in here):
                break
            try:
                requests = run.send(tuple(estimates))
            except Exception:  # or `StopIteration`, at the end of the run
                break
        return found, seen

    def _by_guesses(
        self,
        request: Request,
        keys: Sequence[Key],
        chains: list[_Chain],
        places: list[_Place],
        step: int,
        guesses: _Guesses,
    ) -> Estimate | None:
        """An estimate of a request, by guesses in rows that are not known; these are added to the places.

        None where a row cannot be guessed. What is known of the chains changes with each guess.
        """
        parts = []
        for row, key in enumerate(keys):
            chain = chains[row]
            if key in self._known:
                parts.append(_lower(self._known[key], chain.lower))
                continue
            one = rows_of(request, slice(row, row + 1))
            if key not in self._pending and key not in self._failed and chain.probability >= LEAST:
                places.append(_Place(chain.probability, step, key, one, chain.guess if chain.guesses == 1 else None))
            found = self._guess(one, key, guesses, chain)
            if found is None:
                return None
            estimate, chains[row] = found
            parts.append(estimate)
        return joined(parts)

    def _guess(self, request: Request, key: Key, guesses: _Guesses, chain: _Chain) -> tuple[Estimate, _Chain] | None:
        """An estimate that leads to a decision, and the chain after it; None where no estimate like it is known yet.

        A solve that fails is rejected, and the lower energy accepted.
        """
        if (like := self._like.get(kind_of(request))) is None:
            return None
        values = self._prediction_of(request, key)
        usual = guesses.then if values is not None else self._likelier
        guess = usual if chain.guesses or guesses.first is guesses.then else guesses.first
        acceptance = self._acceptance.share
        sure = acceptance if guess is _Guess.ACCEPTED else 1.0 - acceptance
        if usual is _Guess.PREDICTED:
            sure = self._predicts if guess is usual else 1.0 - self._predicts
        elif guess is _Guess.ACCEPTED and request.gradient:
            sure = 0.0  # the next position depends on it
        lower = LOW * (1.0 + chain.guesses) if guess is _Guess.ACCEPTED else chain.lower
        energy = np.inf if guess is _Guess.REJECTED else (0.0 if values is None else values[0]) - lower
        rest = [None if part is None else np.zeros_like(part) for part in like.arrays[1:]]
        if values is not None and like.prior is not None:
            rest[3] = values[1:]
        estimate = Estimate(np.array([energy]), *rest)._replace(failed=guess is _Guess.REJECTED)  # type: ignore[arg-type]
        return estimate, _Chain(chain.probability * sure, chain.guesses + 1, guess, lower)

    def _prediction_of(self, request: Request, key: Key) -> Array | None:
        """Predicted energy and prior of one row; the same until it is known."""
        if request.gradient or (regression := self._regressions.get(key[0])) is None or not regression.useful:
            return None
        if key not in self._predicted:
            self._predicted[key] = regression.predict(request.position)
        return self._predicted[key]


class _Chain(NamedTuple):
    """A chain on the way ahead."""

    probability: float = 1.0
    guesses: int = 0
    guess: _Guess | None = None  # the last one
    lower: float = 0.0  # by how much energies are lowered since one was accepted unseen


def _lower(found: Estimate, by: float) -> Estimate:
    return found._replace(energy=found.energy - by) if by else found


def _order(place: _Place) -> tuple[float, int]:
    return -place.probability, place.step


def _keys(request: Request) -> list[Key]:
    kind = kind_of(request)
    return [(kind, row.tobytes()) for row in np.ascontiguousarray(request.position)]
