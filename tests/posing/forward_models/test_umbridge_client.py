"""UM-Bridge models against a server of known numbers, and what becomes of its faults."""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import flaky_models as flaky
import launch
import numpy as np
import pytest
import umbridge_server

import invsamp as iv
from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.forward_models import http_json
from invsamp.posing.forward_models.adapters import finite_differences
from invsamp.posing.forward_models.guarded_model import GuardedModel
from invsamp.posing.forward_models.umbridge_client import UmbridgeModel, from_umbridge
from invsamp.protocols import ForwardModel

THETA = np.random.default_rng(0).normal(size=(5, 2))
COTANGENT = np.random.default_rng(1).normal(size=(5, 3))
GRADIENT = np.einsum("bm,bmp->bp", COTANGENT, flaky.derivatives(THETA))
BAD = np.array([False, True, False, False, True])
TROUBLED = np.where(BAD[:, None], [11.0, 1.0], THETA)


@pytest.fixture
def server():
    with umbridge_server.serving() as server:
        yield server


class TestNumbers:
    @pytest.mark.parametrize("connections", [1, 3])
    def test_are_those_of_the_server_to_the_bit(self, server, connections):
        model = from_umbridge(server.url, "full", parameters=("x", "y"), connections=connections)
        assert isinstance(model, ForwardModel)
        rows = np.concatenate([flaky.observations(row[None]) for row in THETA])
        np.testing.assert_array_equal(model(THETA), rows)
        y, vjp = model.linearize(THETA)
        np.testing.assert_array_equal(y, rows)
        for _ in range(2):
            np.testing.assert_allclose(vjp(COTANGENT), GRADIENT, rtol=1e-14)
        assert (model.parameters, model.n_observations) == (("x", "y"), 3)
        assert not any(model.failures.values())
        assert model.message is None

    def test_depend_on_the_configuration(self, server):
        model = from_umbridge(server.url, "full", config={"level": 1})
        np.testing.assert_allclose(model(THETA), 2.0 * flaky.observations(THETA), rtol=1e-14)
        np.testing.assert_allclose(model.linearize(THETA)[1](COTANGENT), 2.0 * GRADIENT, rtol=1e-14)
        assert all(body["config"] == {"level": 1} for name, body in server.asked if name != "ModelInfo")

    def test_of_a_model_without_gradients_are_for_finite_differences(self, server):
        function = from_umbridge(server.url, "plain")
        assert not isinstance(function, ForwardModel)
        model = finite_differences(function)
        np.testing.assert_allclose(model.linearize(THETA)[1](COTANGENT), GRADIENT, atol=1e-8)

    def test_rows_of_a_batch_are_asked_for_at_the_same_time(self, server):
        server.together = threading.Barrier(5)
        began = time.perf_counter()
        model = from_umbridge(server.url, "full", connections=5)
        np.testing.assert_allclose(model(THETA), flaky.observations(THETA), rtol=1e-14)
        assert 0.0 < model.cost <= (time.perf_counter() - began) / 5
        # four never become five
        server.together = threading.Barrier(5, timeout=0.2)
        assert np.isnan(from_umbridge(server.url, "full", connections=4)(THETA)).all()

    def test_survive_pickling(self, server):
        model = from_umbridge(server.url, "full", config={"level": 2})
        copy = pickle.loads(pickle.dumps(model))
        assert copy == model
        np.testing.assert_array_equal(copy(THETA), model(THETA))
        assert repr(copy) == repr(model)
        assert f"UmbridgeModel('{server.url}', 'full', config={{\"level\": 2}}, inputs=(1, 1)" in repr(model)


FAULTS = {
    "error": ("raised", "InvalidOutput: the solver diverged"),
    "gateway": ("raised", "502"),
    "no json": ("raised", "nan, 1.0"),
    "nan": ("not_finite", "not finite"),
    "hang": ("timed_out", "no answer within 3 s"),
    "lost": ("died", "the connection was lost"),
}


class TestFaults:
    @pytest.mark.parametrize("trouble", FAULTS)
    def test_cost_their_rows_alone(self, server, trouble):
        kind, words = FAULTS[trouble]
        server.trouble = trouble
        model = from_umbridge(server.url, "full", time_limit=3.0 if trouble == "hang" else 60.0, connections=2)
        y = model(TROUBLED)
        np.testing.assert_array_equal(np.isnan(y).any(axis=1), BAD)
        np.testing.assert_allclose(y[~BAD], flaky.observations(THETA[~BAD]), rtol=1e-14)
        assert model.failures == dict.fromkeys(model.failures, 0) | {kind: 2}
        assert words in model.message
        assert "[11." in model.message

    def test_in_a_gradient_cost_its_row_alone(self, server):
        server.trouble, server.trouble_in = "error", "Gradient"
        y, vjp = from_umbridge(server.url, "full").linearize(TROUBLED)
        assert np.isfinite(y).all()
        gradient = vjp(COTANGENT)
        np.testing.assert_array_equal(np.isnan(gradient).all(axis=1), BAD)
        np.testing.assert_allclose(gradient[~BAD], GRADIENT[~BAD], rtol=1e-14)

    def test_no_gradient_is_asked_for_where_the_evaluation_failed(self, server):
        server.trouble, server.trouble_in = "error", "Evaluate"
        model = from_umbridge(server.url, "full")
        gradient = model.linearize(TROUBLED)[1](COTANGENT)
        np.testing.assert_array_equal(np.isnan(gradient).all(axis=1), BAD)
        assert model.failures["raised"] == 2
        assert sum(name == "Gradient" for name, _ in server.asked) == 4 * (~BAD).sum()

    @pytest.mark.parametrize(
        ("trouble", "error", "words"),
        [("shape", WrongShapeError, "vector of 2 numbers"), ("mistake", ModelError, "switched off")],
    )
    def test_that_no_other_theta_would_mend_are_raised(self, server, trouble, error, words):
        server.trouble = trouble
        with pytest.raises(error, match=words):
            GuardedModel(from_umbridge(server.url, "full"), 3, "fine")(TROUBLED)

    def test_a_server_that_is_gone_ends_the_run(self, server):
        model = from_umbridge(server.url, "full")
        server.stop()
        model = replace(model, server=replace(model.server, time_limit=0.5))
        with pytest.raises(ModelError, match="no server answers at http://127"):
            GuardedModel(model, 3, "fine")(THETA)

    def test_a_server_that_comes_back_is_waited_for(self, server, monkeypatch):
        model = from_umbridge(server.url, "full")
        server.stop()
        again = contextlib.ExitStack()

        def sleep(seconds):
            again.enter_context(umbridge_server.serving(server.server_address[1]))

        monkeypatch.setattr(http_json, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
        with again:
            np.testing.assert_allclose(model(THETA), flaky.observations(THETA), rtol=1e-14)
        assert not any(model.failures.values())


HEADER = b"HTTP/1.1 200 OK\r\n"
GOOD = b'{"output": [[1.0, 2.0], [3.0]]}'
#: Beginnings of answers, and what comes again and again after them.
ENDLESS = {
    "of a status": (b"HTTP/1.1 200 ", b"O"),
    "of a header": (HEADER + b"X-Long: ", b"a"),
    "to go on": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "of a size of a chunk": (HEADER + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "of an extension of a chunk": (HEADER + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "of chunks": (HEADER + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "of trailers": (
        HEADER + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(GOOD), GOOD),
        b"X-More: a\r\n",
    ),
    "of a body": (HEADER + b"Content-Length: 100000\r\n\r\n", b" "),
    "of a body without a length": (HEADER + b"\r\n", b" "),
}
ROW = np.array([[11.0, 1.0]])


class Clock:
    """A clock that advances by a second per reading, and by the time slept."""

    def __init__(self):
        self.now = self.slept = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.slept += seconds


class TestEndlessAnswers:
    """The time limit was one of each byte that came; there was none of size."""

    @pytest.mark.parametrize("kind", ENDLESS)
    def test_have_a_time_limit_as_a_whole(self, server, monkeypatch, kind):
        begin, again = ENDLESS[kind]

        def trouble():
            yield begin
            for _ in range(20_000):
                yield again

        server.trouble = trouble
        model = from_umbridge(server.url, "full", time_limit=15.0)
        monkeypatch.setattr(http_json, "time", Clock())
        # few bytes at a time: on a busy machine all of them may arrive before the first look
        receive = http_json._Wire.receive
        monkeypatch.setattr(http_json._Wire, "receive", lambda wire, buffer: receive(wire, buffer[:64]))
        assert np.isnan(model(ROW)).all()
        assert "no answer within 15 s" in model.message
        assert model.failures["timed_out"] == 1

    def test_the_honest_one_passes(self, server):
        server.trouble = lambda: [
            HEADER + b"Transfer-Encoding: chunked\r\n\r\n",
            b"%x\r\n" % len(GOOD),
            GOOD,
            b"\r\n0\r\n\r\n",
        ]
        np.testing.assert_array_equal(from_umbridge(server.url, "full")(ROW), [[1.0, 2.0, 3.0]])

    @pytest.mark.parametrize("kind", ["chunked", "with its length", "without a length", "with a false length"])
    def test_have_a_limit_of_size(self, server, kind):
        spaces, pieces = b" " * (1 << 20), 5

        def trouble():
            if kind == "chunked":
                yield HEADER + b"Transfer-Encoding: chunked\r\n\r\n"
                for _ in range(pieces):
                    yield b"100000\r\n" + spaces + b"\r\n"
                yield b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)
                return
            length = {"with its length": pieces * len(spaces) + len(GOOD), "with a false length": 10**15}.get(kind)
            yield HEADER + (b"\r\n" if length is None else b"Content-Length: %d\r\n\r\n" % length)
            for _ in range(pieces):
                yield spaces
            yield GOOD

        server.trouble = trouble
        model = from_umbridge(server.url, "full")
        assert np.isnan(model(ROW)).all()
        assert model.failures["raised"] == 1
        assert "the answer to Evaluate is longer than 1048768 bytes, and is rejected" in model.message

    def test_of_many_numbers_are_taken_however_they_are_printed(self, server):
        y = np.random.default_rng(0).standard_normal(50_000) * 1e-300
        server.instead["OutputSizes"] = {"outputSizes": [len(y)]}
        server.instead["Evaluate"] = json.dumps({"output": [y.tolist()]}, indent=8).encode()
        assert len(server.instead["Evaluate"]) > 2 * http_json.LARGEST
        np.testing.assert_array_equal(from_umbridge(server.url, "full")(ROW), [y])


class TestAnswersThatAreNoNumbers:
    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            (10**400, "within the range of doubles"),
            ("1.5", "must hold numbers, got '1.5'"),
            (True, "must hold numbers, got True"),
            (None, "must hold numbers, got None"),
            ([1.0], "must hold numbers, got [1.0]"),
            ({}, "must hold numbers, got {}"),
        ],
        ids=["huge", "text", "truth", "null", "list", "object"],
    )
    def test_fail_their_row(self, server, entry, words):
        """An integer of 400 digits ended the run; text and truth values were numbers."""
        server.instead["Evaluate"] = {"output": [[entry, 1.0], [1.0]]}
        model = from_umbridge(server.url, "full")
        assert np.isnan(model(ROW)).all()
        assert model.failures["raised"] == 1 and words in model.message
        server.instead = {"Gradient": {"output": [entry]}}
        y, vjp = model.linearize(THETA[:1])
        assert np.isfinite(y).all() and np.isnan(vjp(COTANGENT[:1])).all()

    @pytest.mark.parametrize("text", [b"[" * 100_000, b"9" * 5000, b'{"output": [[' + b"9" * 5000 + b", 1.0], [1.0]]}"])
    def test_nor_json(self, server, text):
        server.instead["Evaluate"] = text
        model = from_umbridge(server.url, "full")
        assert np.isnan(model(ROW)).all()
        assert model.failures["raised"] == 1

    def test_whole_numbers_are_numbers(self, server):
        server.instead["Evaluate"] = {"output": [[1, -2], [3]]}
        np.testing.assert_array_equal(from_umbridge(server.url, "full")(ROW), [[1.0, -2.0, 3.0]])

    def test_a_long_message_is_cut(self, server):
        server.instead["Evaluate"] = {"error": {"type": "Error", "message": "x" * 500_000}}
        model = from_umbridge(server.url, "full")
        assert np.isnan(model(ROW)).all()
        assert len(model.message) < 1200


class TestConstruction:
    @pytest.mark.parametrize(
        ("name", "settings", "words"),
        [
            ("other", {}, r"one of the models \['full', 'plain', 'empty'\].*'other'"),
            ("empty", {}, "can evaluate"),
            ("full", {"config": {"level": 3}}, "InvalidInput: no such level"),
            ("full", {"time_limit": 0.0}, "time_limit must be a positive finite number"),
            ("full", {"connections": 0}, "connections must be an integer >= 1"),
        ],
    )
    def test_bad_settings(self, server, name, settings, words):
        with pytest.raises(ValueError, match=words):
            from_umbridge(server.url, name, **settings)

    @pytest.mark.parametrize(
        ("operation", "answer", "words"),
        [
            ("Info", {"protocolVersion": 1.0, "models": None}, "one of the models None"),
            ("ModelInfo", {"support": None}, "can evaluate"),
            ("InputSizes", {"inputSizes": [True]}, "inputSizes as a list of positive integers"),
            ("OutputSizes", {}, "outputSizes as a list of positive integers, got None"),
        ],
    )
    def test_a_server_that_says_nothing_of_use(self, server, operation, answer, words):
        server.instead[operation] = answer
        with pytest.raises(ModelError, match=words):
            from_umbridge(server.url, "full")

    def test_a_configuration_that_cannot_be_sent(self, server):
        with pytest.raises(ValueError, match=r"config must be a mapping that JSON can hold.*int64"):
            from_umbridge(server.url, "full", config={"level": np.int64(1)})

    @pytest.mark.parametrize("url", ["localhost:4242", "ftp://localhost", "http://:80", "http://localhost:port"])
    def test_bad_addresses(self, url):
        with pytest.raises(ValueError, match="url must be http://host:port"):
            from_umbridge(url, "full")

    def test_another_protocol(self, server):
        server.protocol = 0.9
        with pytest.raises(ValueError, match=r"must speak protocol 1\.0, got 0\.9"):
            from_umbridge(server.url, "full")

    def test_a_missing_server_is_reported_after_a_while_whatever_the_time_limit(self, server, monkeypatch):
        server.stop()
        monkeypatch.setattr(http_json, "time", clock := Clock())
        with pytest.raises(ValueError, match="no server answers"):
            from_umbridge(server.url, "full", time_limit=3600.0)
        assert 0.0 < clock.slept <= http_json.RESTART

    def test_a_look_up_that_hangs_has_the_time_limit(self, server, monkeypatch):
        """The system looks names up for as long as it likes, and holds no lock meanwhile."""
        answer = threading.Event()
        monkeypatch.setattr(http_json.socket, "getaddrinfo", lambda *about, **more: answer.wait())
        with pytest.raises(ValueError, match=r"no server answers at .*the address of 'far.invalid' was not found"):
            from_umbridge("http://far.invalid:80", "full", time_limit=0.1)
        answer.set()

    @pytest.mark.parametrize("error", [OSError("unknown"), UnicodeError("label too long")])
    def test_a_name_that_leads_nowhere(self, monkeypatch, error):
        def refuse(*about, **more):
            raise error

        monkeypatch.setattr(http_json.socket, "getaddrinfo", refuse)
        with pytest.raises(ValueError, match=f"no server answers at http://nowhere.invalid:80.*{error}"):
            from_umbridge("http://nowhere.invalid:80", "full", time_limit=5.0)

    def test_a_name_is_looked_up_once_and_again_after_a_failure(self, server, monkeypatch):
        asked, real = [], socket.getaddrinfo
        monkeypatch.setattr(
            http_json.socket, "getaddrinfo", lambda *about, **more: asked.append(about) or real(*about, **more)
        )
        model = from_umbridge(server.url, "full")
        model(THETA)
        assert len(asked) <= 1  # none where another server had that port before
        server.stop()
        server = replace(model.server, time_limit=0.1)
        with pytest.raises(ModelError):
            replace(model, server=server)(THETA)
        before = len(asked)
        with pytest.raises(ModelError):
            replace(model, server=server)(THETA)
        assert len(asked) > before

    def test_wrong_number_of_columns(self, server):
        with pytest.raises(ModelError, match=r"\(batch, 2\)"):
            from_umbridge(server.url, "full")(np.zeros((4, 3)))


def test_a_run_counts_the_failures_and_says_what_they_were(server, draw):
    server.trouble = "error"
    prior = iv.Prior(x=iv.Normal(9.0, 1.0), y=iv.Normal(0.0, 1.0))
    model = from_umbridge(server.url, "full")
    posterior = iv.Posterior(prior, model, np.zeros(3), iv.GaussianNoise(1e3))
    run = draw(posterior, iv.mala(step_size=0.5), draws=40, warmup=0, chains=4)
    assert run.report["failed_solves"]["model"] == model.failures["raised"] > 0
    assert "the solver diverged" in run.report["failure_message"]


def test_a_server_of_the_reference_implementation():
    """What the real package serves is understood, too."""
    reference = pytest.importorskip("umbridge")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    process = launch.start([launch.sys.executable, "-c", REFERENCE, str(port)])
    try:
        url = f"http://localhost:{port}"
        launch.wait_for(lambda: answers(port))  # importing it takes a while
        model = from_umbridge(url, "forward", time_limit=300.0)
        assert isinstance(model, UmbridgeModel)
        assert reference.HTTPModel(url, "forward")([[1.0, 2.0]]) == [[2.0, 3.0]]
        np.testing.assert_array_equal(model(np.array([[1.0, 2.0], [4.0, 5.0]])), [[2.0, 3.0], [20.0, 9.0]])
        _, vjp = model.linearize(np.array([[4.0, 5.0]]))
        np.testing.assert_array_equal(vjp(np.array([[1.0, 10.0]])), [[15.0, 14.0]])
    finally:
        launch.stop(process)


class TestDensities:
    def test_of_one_output_are_log_densities(self, server):
        server.instead = {
            "OutputSizes": {"outputSizes": [1]},
            "Evaluate": {"output": [[-2.5]]},
            "Gradient": {"output": [-0.5]},
        }
        density = from_umbridge(server.url, "full", density=True)
        assert isinstance(density, iv.LogDensity) and density.dimension == 2 and density.no_derivatives is None
        energy, gradient = density.energy_and_gradient(THETA)
        np.testing.assert_array_equal(energy, 2.5)
        np.testing.assert_array_equal(gradient, 0.5)
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=2)), log_likelihood=density)
        found = posterior.potential().parts(np.zeros((1, 2)), True)
        assert found.energy[0] - found.prior[0] == 2.5
        np.testing.assert_array_equal(found.gradient, 0.5)
        plain = from_umbridge(server.url, "plain", density=True)
        assert plain.no_derivatives and iv.Target(plain).dimension == 2

    def test_of_several_outputs_are_none(self, server):
        with pytest.raises(ValueError, match=r"density must be False .* other outputs than one number, got \[2, 1\]"):
            from_umbridge(server.url, "full", density=True)


def answers(port):
    with socket.socket() as wire:
        return wire.connect_ex(("localhost", port)) == 0


REFERENCE = """
import sys
import umbridge

class Product(umbridge.Model):
    def __init__(self):
        super().__init__("forward")
    def get_input_sizes(self, config):
        return [2]
    def get_output_sizes(self, config):
        return [2]
    def __call__(self, parameters, config):
        (a, b), = parameters
        return [[a * b, a + b]]
    def gradient(self, out_wrt, in_wrt, parameters, sens, config):
        (a, b), = parameters
        return [sens[0] * b + sens[1], sens[0] * a + sens[1]]
    def supports_evaluate(self):
        return True
    def supports_gradient(self):
        return True

umbridge.serve_models([Product()], int(sys.argv[1]))
"""
