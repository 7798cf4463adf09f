"""An HTTP server that is asked for JSON, each time within a time limit and a limit of size.

With the standard library: the usual clients wait for ever for a server that hangs, or that sends a byte now and then,
and take whatever comes until memory is full.
"""

from __future__ import annotations

import http.client
import io
import json
import queue
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from invsamp.errors import ModelError
from invsamp.protocols import Facts, Plain

#: Seconds between attempts to reach a server that refuses the connection.
RETRY = 0.2
#: Seconds for which they are made.
RESTART = 10.0
#: Bytes that are read at a time.
PIECE = 1 << 16
#: Bytes of an answer: beside its numbers, and for each of them, with 17 digits and the indentation of tidy JSON.
LARGEST, LARGEST_NUMBER = 1 << 20, 64
#: Characters of what a server says that went wrong.
LONGEST_MESSAGE = 1000
# what a server says when no theta would do
_MISTAKES = ("ModelNotFound", "UnsupportedFeature")


@dataclass(frozen=True)
class Server:
    """An HTTP server that is asked for JSON.

    Attributes
    ----------
    address : SplitResult
        See `address`.
    time_limit : float
        Seconds for a request and its whole answer.
    """

    address: SplitResult
    time_limit: float

    def ask(self, path: str, body: Facts | None = None, *, numbers: int = 0) -> Plain:
        """The JSON object that it answers with.

        Parameters
        ----------
        path : str
        body : mapping, optional
        numbers : int
            How many the answer has: one that is much longer than these could be is not taken.

        Raises
        ------
        ModelError
            If it cannot be reached for ten seconds, or within the time limit; or says that no theta would do.
        TimeoutError
            If it does not answer within the time limit.
        ConnectionError
            If the connection is lost on the way.
        RuntimeError
            If it answers with an error, not with JSON, or at too great length.
        """
        deadline, largest = time.monotonic() + self.time_limit, LARGEST + LARGEST_NUMBER * numbers
        wire = _Wire(self._connect(deadline), deadline, largest)
        try:
            status, reply = self._answer(wire, f"{self.address.path.rstrip('/')}/{path}", body)
        except _TooLongError:
            raise RuntimeError(f"the answer to {path} is longer than {largest} bytes, and is rejected") from None
        except TimeoutError:
            raise TimeoutError(f"no answer within {self.time_limit:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: HTTP without its numbers
            raise ConnectionError(f"the connection was lost ({type(error).__name__}: {error})") from None
        finally:
            wire.hang_up()
        return _understood(path, status, reply)

    def _answer(self, wire: _Wire, path: str, body: Facts | None) -> tuple[int, bytes]:
        text = None if body is None else json.dumps(body)
        method, headers = ("GET", {}) if text is None else ("POST", {"Content-Type": "application/json"})
        assert self.address.hostname is not None
        connection = http.client.HTTPConnection(self.address.hostname, self._port)
        connection.sock = wire  # type: ignore[assignment]
        connection.request(method, path, text, headers)
        response, pieces = connection.getresponse(), []
        # in pieces: room for what a header promises would be made at once
        while not response.isclosed() and (piece := response.read1(PIECE)):
            pieces.append(piece)
        if response.length:
            raise http.client.IncompleteRead(b"".join(pieces), response.length)
        return response.status, b"".join(pieces)

    @property
    def _port(self) -> int:
        return self.address.port or (443 if self.address.scheme == "https" else 80)

    def _connect(self, deadline: float) -> socket.socket:
        """A new connection: one that was kept might have been closed by the server meanwhile."""
        # a server that is just starting, or is started anew after a crash, is there in a moment
        until = min(deadline, time.monotonic() + RESTART)
        while True:
            try:
                return self._dial(deadline)
            except OSError as error:
                if not isinstance(error, ConnectionRefusedError) or until - time.monotonic() < RETRY:
                    raise ModelError(f"no server answers at {self.address.geturl()} ({error})") from None
            time.sleep(RETRY)

    def _dial(self, deadline: float) -> socket.socket:
        host, failure = self.address.hostname, OSError("it has no address")
        assert host is not None
        for family, kind, protocol, _, where in _addresses(host, self._port, deadline):
            wire = socket.socket(family, kind, protocol)
            try:
                _limit(wire, deadline)
                wire.connect(where)
                if self.address.scheme == "http":
                    return wire
                _limit(wire, deadline)
                return ssl.create_default_context().wrap_socket(wire, server_hostname=host)
            except OSError as error:
                wire.close()
                failure = error
        _KNOWN.pop((host, self._port), None)  # it may have moved
        raise failure


class _TooLongError(Exception):
    """More was sent than any answer takes."""


class _Wire:
    """A connection, as `http.client` wants it, with a deadline and a largest size for one whole exchange.

    With a time limit for each piece, a slow server would never end. It could send a byte now and then (of a header, of
    the size of a chunk, of a trailer), or "100 Continue" again and again.
    """

    def __init__(self, wire: socket.socket, deadline: float, largest: int) -> None:
        self._wire, self._deadline, self._left = wire, deadline, largest

    def makefile(self, mode: str) -> io.BufferedReader:
        """File from which an answer is read."""
        return io.BufferedReader(_Reader(self))

    def sendall(self, data: bytes) -> None:
        """Send, within what is left of the time."""
        if isinstance(self._wire, ssl.SSLSocket):
            _limit(self._wire, self._deadline)
            self._wire.sendall(data)
            return
        left = memoryview(data)
        while left:
            _limit(self._wire, self._deadline)
            # a server that hangs up must not end the process: PETSc, once it is loaded, lets SIGPIPE do that
            left = left[self._wire.send(left, socket.MSG_NOSIGNAL) :]

    def receive(self, buffer: memoryview) -> int:
        """Receive some bytes, within what is left of the time."""
        if self._left <= 0:
            raise _TooLongError
        _limit(self._wire, self._deadline)
        count = self._wire.recv_into(buffer[: self._left])
        self._left -= count
        return count

    def close(self) -> None:
        """Nothing: `http.client` does so before the answer is read."""

    def hang_up(self) -> None:
        """The end of it."""
        self._wire.close()


class _Reader(io.RawIOBase):
    """The receiving end of a wire, as a file."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes."""
        return self._wire.receive(memoryview(buffer))


def address(url: str) -> SplitResult:
    """The parts of ``http://host:port`` or ``https://host:port``, perhaps with a path.

    Raises
    ------
    ValueError
        If it is something else.
    """
    parts = urlsplit(url)
    try:
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        fits = False
    if not fits:
        raise ValueError(f"url must be http://host:port or https://host:port, got {url!r}")
    return parts


#: What `socket.getaddrinfo` gave, by host and port.
_KNOWN: dict[tuple[str, int], list[object]] = {}


def _addresses(host: str, port: int, deadline: float) -> list[Any]:
    """Where a name leads to, looked up once: the system does so as slowly as it likes, hence on a thread of its own."""
    if (host, port) not in _KNOWN:
        answer: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answer.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError) as error:
                answer.put(error)

        threading.Thread(target=look_up, name="invsamp look-up", daemon=True).start()
        try:
            found = answer.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"the address of {host!r} was not found within the time limit") from None
        if isinstance(found, Exception):
            raise OSError(str(found)) if isinstance(found, UnicodeError) else found
        _KNOWN[host, port] = found
    return _KNOWN[host, port]


def _limit(wire: socket.socket, deadline: float) -> None:
    """Let what is sent or received next have the time that is left."""
    left = deadline - time.monotonic()
    if left <= 0.0:
        raise TimeoutError("the time limit is reached")
    wire.settimeout(left)


def _understood(path: str, status: int, reply: bytes) -> Plain:
    try:
        answer = json.loads(reply)
    except (ValueError, RecursionError):
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is not None:
        fault = error if isinstance(error, dict) else {"message": error}
        message = f"{fault.get('type', 'error')}: {fault.get('message', '')}"[:LONGEST_MESSAGE]
        raise (ModelError if fault.get("type") in _MISTAKES else RuntimeError)(message)
    if status >= 400 or not isinstance(answer, dict):
        shown = reply[:200].decode(errors="replace")
        raise RuntimeError(f"HTTP status {status} and {shown!r} in answer to {path}")
    return answer
