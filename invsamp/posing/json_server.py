"""An HTTP server that is asked for JSON, each time within a time limit.

With the standard library: the usual clients wait for ever for a server that hangs, or that sends a byte now and then.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from invsamp.posing.forward import ModelError

#: Seconds between attempts to reach a server that refuses the connection.
RETRY = 0.2
#: Bytes that are read at a time.
PIECE = 1 << 20
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

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that it answers with.

        Raises
        ------
        ModelError
            If it cannot be reached within the time limit, or says that no theta would do.
        TimeoutError
            If it does not answer within the time limit.
        ConnectionError
            If the connection is lost on the way.
        RuntimeError
            If it answers with an error, or not with JSON.
        """
        deadline = time.monotonic() + self.time_limit
        connection = self._connect(deadline)
        try:
            status, reply = self._answer(connection, f"{self.address.path.rstrip('/')}/{path}", body, deadline)
        except TimeoutError:
            raise TimeoutError(f"no answer within {self.time_limit:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"the connection was lost ({type(error).__name__}: {error})") from None
        finally:
            connection.close()
        return _understood(path, status, reply)

    def _answer(
        self, connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any] | None, deadline: float
    ) -> tuple[int, bytes]:
        text = None if body is None else json.dumps(body)
        method, headers = ("GET", {}) if text is None else ("POST", {"Content-Type": "application/json"})
        wire = connection.sock  # which a connection gives up before all is read
        assert wire is not None
        _limit(wire, deadline)
        connection.request(method, path, text, headers)
        _limit(wire, deadline)
        response, pieces = connection.getresponse(), []
        while not response.isclosed():
            _limit(wire, deadline)  # which the wire takes for one of each piece
            if not (piece := response.read1(PIECE)):
                break
            pieces.append(piece)
        if response.length:
            raise http.client.IncompleteRead(b"".join(pieces), response.length)
        return response.status, b"".join(pieces)

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        """A new connection: one that was kept might have been closed by the server meanwhile."""
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        assert self.address.hostname is not None
        while True:
            left = deadline - time.monotonic()
            connection = kind(self.address.hostname, self.address.port, timeout=max(1e-3, left))
            try:
                connection.connect()
                return connection
            except OSError as error:
                connection.close()
                # a server that is started anew after a crash is back in a moment
                if not isinstance(error, ConnectionRefusedError) or left < RETRY:
                    raise ModelError(f"no server answers at {self.address.geturl()} ({error})") from None
            time.sleep(RETRY)


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


def _limit(wire: socket.socket, deadline: float) -> None:
    """Let what is sent or received next have the time that is left."""
    left = deadline - time.monotonic()
    if left <= 0.0:
        raise TimeoutError
    wire.settimeout(left)


def _understood(path: str, status: int, reply: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(reply)
    except ValueError:
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is not None:
        told = error if isinstance(error, dict) else {"message": error}
        words = f"{told.get('type', 'error')}: {told.get('message', '')}"
        raise (ModelError if told.get("type") in _MISTAKES else RuntimeError)(words)
    if status >= 400 or not isinstance(answer, dict):
        shown = reply[:200].decode(errors="replace")
        raise RuntimeError(f"HTTP status {status} and {shown!r} in answer to {path}")
    return answer
