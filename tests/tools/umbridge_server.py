"""A server that speaks protocol 1.0 of UM-Bridge, with the standard library, and misbehaves on demand."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import flaky_models
import numpy as np

#: What can be asked for; two input vectors of one entry each, output vectors of two and one.
MODELS = {"full": ["Evaluate", "Gradient"], "plain": ["Evaluate"], "empty": []}
SIZES = {"InputSizes": ("inputSizes", [1, 1]), "OutputSizes": ("outputSizes", [2, 1])}


class Handler(BaseHTTPRequestHandler):
    """The server's settings: ``trouble`` (what happens where theta's first entry is beyond 10), ``protocol``, and
    ``together`` (a barrier at which evaluations wait for each other), ``instead`` (answers to other operations).
    """

    def do_GET(self):
        assert self.path == "/prefix/Info"
        info = {"protocolVersion": self.server.protocol, "models": list(MODELS)}
        self.reply(self.server.instead.get("Info", info))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.path.removeprefix("/prefix/")
        self.server.asked.append((operation, body))
        if operation in self.server.instead:
            return self.reply(self.server.instead[operation])
        if operation == "ModelInfo":
            supported = MODELS[body["name"]]
            kinds = ("Evaluate", "Gradient", "ApplyJacobian", "ApplyHessian")
            return self.reply({"support": {kind: kind in supported for kind in kinds}})
        if operation in SIZES:
            if body["config"].get("level", 0) > 2:
                return self.error("InvalidInput", "no such level")
            key, sizes = SIZES[operation]
            return self.reply({key: sizes})
        theta = np.concatenate(body["input"])[None]
        if theta[0, 0] > 10.0 and (self.server.trouble_in in (None, operation)) and self.misbehave():
            return None
        scale = 1.0 + body["config"].get("level", 0)
        if operation == "Evaluate":
            if self.server.together is not None:
                try:
                    self.server.together.wait()
                except threading.BrokenBarrierError:
                    return self.error("InvalidOutput", "the others have not come", 500)
            y = scale * flaky_models.observations(theta)[0]
            return self.reply({"output": [y[:2].tolist(), y[2:].tolist()]})
        matrix = scale * flaky_models.derivatives(theta)[0]
        block = (matrix[:2], matrix[2:])[body["outWrt"]][:, [body["inWrt"]]]
        return self.reply({"output": (np.array(body["sens"]) @ block).tolist()})

    def misbehave(self):
        trouble = self.server.trouble
        if callable(trouble):  # pieces of a whole answer, sent as they are
            self.close_connection = True
            with contextlib.suppress(OSError):  # until the client goes
                for piece in trouble():
                    self.wfile.write(piece)
        elif trouble == "error":
            self.error("InvalidOutput", "the solver diverged", 500)
        elif trouble == "mistake":
            self.error("UnsupportedFeature", "Evaluate is switched off")
        elif trouble == "hang":
            # at once, or after a header and some bytes of an answer that never ends
            if self.server.drips.acquire(blocking=False):
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):  # until the client goes
                    while not self.server.released.wait(0.05):
                        self.wfile.write(b" ")
            self.server.released.wait(300.0)
        elif trouble == "nan":
            self.reply({"output": [[float("nan"), 1.0], [1.0]]})
        elif trouble == "no json":
            self.answer(200, b'{"output": [[nan, 1.0], [1.0]] }')
        elif trouble == "gateway":
            self.answer(502, b"<html>bad gateway</html>")
        elif trouble == "shape":
            self.reply({"output": [[1.0], [1.0]]})
        elif trouble == "lost":
            self.close_connection = True
        return trouble is not None

    def error(self, kind, message, status=400):
        self.answer(status, json.dumps({"error": {"type": kind, "message": message}}).encode())

    def reply(self, value):
        self.answer(200, value if isinstance(value, bytes) else json.dumps(value).encode())

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        return


@contextlib.contextmanager
def serving(port=0):
    """A server in a thread of its own; its address is ``url``, and ``stop()`` ends it."""
    # clients hang up on it, and PETSc, once another test has loaded it, lets that end the process
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads, server.block_on_close = True, False
    server.protocol, server.trouble, server.trouble_in, server.together = 1.0, None, None, None
    server.released, server.drips, server.asked = threading.Event(), threading.Semaphore(1), []
    server.instead = {}
    server.url = f"http://127.0.0.1:{server.server_address[1]}/prefix"

    def stop():
        server.released.set()
        server.shutdown()
        server.server_close()

    server.stop = stop
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        stop()
