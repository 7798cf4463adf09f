"""States as bytes: read bit for bit as written, and damage is reported."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from invsamp import samplers
from invsamp.engine.driver import serialization
from invsamp.estimators import minibatch, noisy
from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.evaluate.requests import Estimate as Estimate_
from invsamp.kernels.metric import DenseMetric
from invsamp.ladder import GradientNoise
from invsamp.stored import PARTS
from invsamp.swaps.rules import multi_variance
from invsamp.swaps.schemes import seo
from invsamp.variances.models import kernel_ridge, known, running_average


def same(found, expected):
    """Equal in value, type, bits and order in memory."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes("K") == expected.tobytes("K")
        if found.size:
            assert found.flags.c_contiguous or not expected.flags.c_contiguous
            assert found.flags.f_contiguous or not expected.flags.f_contiguous
    elif isinstance(expected, float):
        assert np.float64(found).tobytes() == np.float64(expected).tobytes()
    else:
        assert found == expected


def there_and_back(tree):
    return serialization.decode(serialization.encode(tree))


ARRAYS = hnp.arrays(
    st.sampled_from([np.float64, np.int64, np.bool_, np.uint32, np.complex128]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**140), 2**140),
    st.floats(allow_nan=False),
    st.text(),
    ARRAYS,
    ARRAYS.map(np.transpose),
    st.floats(allow_nan=False).map(np.float64),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(0, 9)), inner, max_size=4),
    ),
    max_leaves=12,
)


class TestRoundTrip:
    @given(TREES)
    @settings(max_examples=80)
    def test_of_any_tree(self, tree):
        same(there_and_back(tree), tree)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1 + 0.2])
    def test_of_floats(self, value):
        found = there_and_back([value, np.array([value])])
        assert np.float64(found[0]).tobytes() == np.float64(value).tobytes()
        assert found[1].tobytes() == np.array([value]).tobytes()

    def test_of_the_order_in_memory(self):
        """Sums round by it."""
        wide = np.random.default_rng(0).standard_normal((40, 50, 3))
        for array in (wide, wide.T, wide.transpose(1, 0, 2), wide[::2, :, 1], np.asfortranarray(wide[:, :, 0])):
            found = there_and_back(array)
            np.testing.assert_array_equal(found, array)
            np.testing.assert_array_equal(found.sum(axis=0), array.sum(axis=0))
            assert np.argsort(found.strides).tolist() == np.argsort(array.strides).tolist()

    def test_what_comes_back_can_be_written_to(self):
        found = there_and_back({"position": np.zeros((2, 3))})["position"]
        found[0] = 1.0

    def test_what_is_held_twice_is_written_once(self):
        table = np.random.default_rng(0).standard_normal(1000)
        once, twice = serialization.encode([table]), serialization.encode([table, {"again": table}])
        assert len(twice) < 1.1 * len(once)
        first, second = serialization.decode(twice)[0], serialization.decode(twice)[1]["again"]
        np.testing.assert_array_equal(first, table)
        np.testing.assert_array_equal(second, table)

    @pytest.mark.parametrize("bits", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox])
    def test_generators_continue(self, bits):
        rng = np.random.Generator(bits(5))
        rng.integers(10, size=3, dtype=np.int32)  # leaves half of a 64-bit number for the next call
        found = there_and_back(rng)
        np.testing.assert_array_equal(
            found.integers(10, size=7, dtype=np.int32), rng.integers(10, size=7, dtype=np.int32)
        )
        np.testing.assert_array_equal(found.standard_normal(100), rng.standard_normal(100))

    def test_parts_are_not_computed_anew(self):
        metric = DenseMetric(np.linalg.cholesky(np.array([[2.0, 0.3], [0.3, 1.0]])))
        object.__setattr__(metric, "_inverse", metric._inverse * (1.0 + 1e-15))  # as another machine rounds it
        found = there_and_back(metric)
        np.testing.assert_array_equal(found._inverse, metric._inverse)
        np.testing.assert_array_equal(found.matrix, metric.matrix)

    @pytest.mark.parametrize(
        "sampler",
        [
            samplers.sgld(0.1, estimator=minibatch(3, groups=[0, 0, 1, 1, 2, 2, 3]), boundary="ignore"),
            samplers.cyclic_sgld(0.1, cycles=4),
            samplers.sghmc(friction=0.3, gradient_noise=GradientNoise(known((1.0, 2.0)), "diagonal", "clip")),
            samplers.mala(preconditioner="diagonal"),
            samplers.parallel_tempering((1.0, 2.0), scheme=seo(), boundary="project"),
            samplers.resgld((1.0, 4.0), 0.1, estimator=noisy(0.5, 0.5)),
            samplers.r2sgld((1.0, 4.0), 0.1),
            samplers.multi_variance_resgld((1.0, 4.0), 0.1, estimator=noisy(0.5, 0.5)),
            samplers.fast_resgld((1.0, 4.0), estimator=noisy(0.5, 0.5), variance=kernel_ridge(), swap=multi_variance()),
            samplers.fast_resgld((1.0, 4.0), estimator=[coupled_sum(), noisy(0.1, 0.1)], variance=running_average()),
        ],
        ids=lambda sampler: str(sampler)[:30],
    )
    def test_of_samplers(self, sampler):
        found = there_and_back(sampler)
        assert found == sampler and repr(found) == repr(sampler)


class TestRefused:
    @pytest.mark.parametrize(
        "value, kind",
        [
            (print, "builtin_function_or_method"),
            ({1, 2}, "set"),
            (b"bytes", "bytes"),
            (np.array([print], dtype=object), "object"),
            (np.array(["2026-01-01"], dtype="datetime64[D]"), "datetime64"),
            ({1.5: "key"}, "dict"),
            (samplers.sgld(lambda k: 0.1), "function"),
        ],
    )
    def test_what_is_no_state_says_where(self, value, kind):
        with pytest.raises(TypeError, match=rf"^state\['rungs'\]\[1\].*cannot be saved: .*{kind}"):
            serialization.encode({"rungs": [None, value]})

    def test_a_subclass_is_not_taken_for_its_parent(self):
        class Estimate(Estimate_):
            """Of the same name."""

        with pytest.raises(TypeError, match="Estimate"):
            serialization.encode(Estimate(np.zeros(1), np.zeros((1, 1))))


def test_of_a_newer_invsamp(monkeypatch):
    data = serialization.encode([np.zeros(3), DenseMetric(np.eye(2))])
    monkeypatch.delitem(PARTS, "DenseMetric")
    with pytest.raises(
        ValueError, match="holds a DenseMetric, which this invsamp does not know: go on with the version"
    ):
        serialization.decode(data)


class TestForged:
    """States with a valid digest, as an attacker may write them."""

    @staticmethod
    def forged(tree, entries=b""):
        body = (
            serialization._MAGIC + len(tree).to_bytes(8, "little") + len(entries).to_bytes(8, "little") + tree + entries
        )
        return body + hashlib.sha256(body).digest()

    def test_the_honest_one_is_read(self):
        np.testing.assert_array_equal(
            serialization.decode(self.forged(b'{"array":["<f8",[1],[0],0]}', bytes(8))), [0.0]
        )

    @pytest.mark.parametrize(
        "tree",
        [
            b'{"array":["<f8",[1000000000000000],[0],0]}',
            b'{"array":["<f8",[3],[0],0]}',
            b'{"array":["<f8",[1],[0],8]}',
            b'{"array":["<f8",[-1],[0],0]}',
            b'{"array":["<f8",[1.0],[0],0]}',
            b'{"array":["O",[1],[0],0]}',
            b'{"array":["|V8",[1],[0],0]}',
            b'{"array":[[["a","O"]],[1],[0],0]}',
            b'{"array":["<f8",[1],[1],0]}',
            b'{"array":["nonsense",[1],[0],0]}',
            b'{"array":3}',
            b'{"part":["Popen",{"args":"id"}]}',
            b'{"part":["Rung",{"__class__":"x"}]}',
            b'{"part":["Reflect",{"extra":1}]}',
            b'{"part":[["Rung"],{}]}',
            b'{"generator":{"dict":[["bit_generator","seterr"]]}}',
            b'{"generator":{"dict":[["bit_generator","PCG64"],["state",3]]}}',
            b'{"dict":[[["a"],1]]}',
            b'{"dict":1,"tuple":2}',
            b"[" * 100_000,
            b"nonsense",
        ],
    )
    def test_what_it_claims_makes_no_room_and_runs_no_code(self, tree):
        with pytest.raises(ValueError, match="the state of the run cannot be read"):
            serialization.decode(self.forged(tree, bytes(8)))


class TestDamage:
    DATA = serialization.encode({"position": np.arange(6.0).reshape(2, 3), "rng": np.random.default_rng(1), "step": 12})

    @given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
    def test_of_any_byte_is_found(self, place, change):
        damaged = bytearray(self.DATA)
        damaged[place] ^= change
        with pytest.raises(ValueError, match=r"state"):
            serialization.decode(bytes(damaged))

    @given(st.integers(0, len(DATA) - 1))
    def test_of_the_length_is_found(self, length):
        with pytest.raises(ValueError, match=r"truncated|no state"):
            serialization.decode(self.DATA[:length])
        with pytest.raises(ValueError, match="truncated"):
            serialization.decode(self.DATA + self.DATA[:1])
