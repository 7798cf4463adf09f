"""A noise tied to its data, and to the columns of theta that hold what it does not know."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance
from invsamp.errors import ModelError
from invsamp.posing.compiled import likelihood_loops
from invsamp.posing.distributions.base import LARGEST
from invsamp.posing.noise.base import CompiledNoise, Noise
from invsamp.posing.noise.contract_check import check_noise, checked_terms
from invsamp.posing.noise.expected_misfit import expected
from invsamp.posing.noise.noise_parameter_per_output import as_quantity
from invsamp.posing.noise.per_output import Outputs
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Array, ExpectedMisfit

Indices = npt.NDArray[np.intp]
#: Of the differences of slopes that make second derivatives, over the size of what is observed.
DIFFERENCE = 1e-4
#: Methods of a noise of which the second must not come from a class above the first one's.
_DEFINING = ("evaluate", "cumulant")


class BoundNoise:
    """A noise with its data and the columns of theta that hold its unknowns.

    Parameters
    ----------
    noise : Noise or Outputs
    data : ndarray of any shape
        NaN is missing.
    prior : Prior
    unseen : bool
        Whether no datum need be there: they are only to be drawn.

    Attributes
    ----------
    outputs : int
        Number of noise-free observations that a model has to return, in C order.
    places : ndarray, shape (size,)
        Which of them were observed.
    size : int
        Number of data that are not missing.
    names : tuple of str
        The prior's parameters that the noise uses.
    independent : bool
        Whether each datum has a term of its own.

    Raises
    ------
    ValueError
        If all data are missing, the square of a datum overflows, or the noise cannot produce a datum. Also if a
        quantity is no parameter of the prior, may take forbidden values, or does not broadcast to the data's shape.
    """

    def __init__(self, noise: Noise | Outputs, data: Array, prior: Prior, *, unseen: bool = False) -> None:
        instance("noise", noise, (Noise, Outputs), "a noise such as GaussianNoise(0.1)")
        if data.size == 0 or (np.isnan(data).all() and not unseen):
            raise ValueError(f"data must hold at least one number, got shape {data.shape}")
        if (beyond := np.isfinite(data) & (np.abs(data) > LARGEST)).any():
            raise ValueError(
                f"data must be at most {LARGEST:g} in size, got {data[beyond][0]:g}: the squares of larger "
                "ones overflow double precision. Give them in other units"
            )
        self.data, self.outputs = data.reshape(-1), data.size
        if isinstance(noise, Outputs):
            parts = zip(noise.noises.items(), noise.places(data.shape), strict=True)
            self._all = [_Part(f"{name}.", part, self.data[places], places, prior) for (name, part), places in parts]
        else:
            self._all = [_Part("", noise, data, np.arange(data.size).reshape(data.shape), prior)]
        self.names = tuple(dict.fromkeys(name for part in self._all for name in part.names))
        self.keep(self._all)

    @property
    def loop(self) -> tuple[Indices, Array] | None:
        """The first arguments of `likelihood_loops.accumulate`; None where that does not do for all data."""
        return None if self._slow else self._loop

    def subset(self, chosen: Indices) -> BoundNoise:
        """The same noise for a model that returns the observations ``chosen`` (k,) alone."""
        part = copy.copy(self)
        part.outputs = len(chosen)
        position = np.full(self.outputs, -1)
        position[chosen] = np.arange(len(chosen))
        part.keep([entry.moved(position) for entry in self._parts])
        return part

    def keep(self, parts: list[_Part]) -> None:
        """Keep what was observed of these parts."""
        self._parts = [found for part in parts if len((found := part.observed()).places)]
        places = np.concatenate([np.empty(0, dtype=np.intp), *(part.places for part in self._parts)])
        order = np.argsort(places, kind="stable")
        self.places, self.size = places[order], len(places)
        counts = [len(part.places) for part in self._parts]
        self._part_of = np.repeat(np.arange(len(counts)), counts)[order]
        self._index = np.concatenate([np.arange(0), *(np.arange(count) for count in counts)])[order]
        self.independent = all(part.noise.independent for part in self._parts)
        loops = [part.loop for part in self._parts if part.loop is not None]
        self._loop: tuple[Indices, Array] | None = None
        if loops:
            what, numbers = zip(*loops, strict=True)
            self._loop = np.concatenate(what), np.concatenate(numbers)
        self._slow = [part for part in self._parts if part.loop is None]

    def at(self, theta: Array, y: Array, indices: Indices, gradient: Array) -> tuple[Array, Array]:
        """Log-likelihood of the data ``indices`` (batch, k) at their ``y`` and its derivative with respect to it.

        Adds the derivative with respect to theta by way of the noise's quantities to ``gradient``
        (batch, k, dimension), in place. For data that are independent.
        """
        value, by_y = np.zeros(y.shape), np.zeros(y.shape)
        for number, part in enumerate(self._parts):
            at = row, column = np.nonzero(self._part_of[indices] == number)
            found, slope, by_theta = part.evaluate(theta, y[at], row, self._index[indices[at]])
            value[at], by_y[at] = found, slope
            for columns, derivative in by_theta:
                gradient[row, column, columns] += derivative
        return value, by_y

    def bends(self, theta: Array, y: Array, indices: Indices) -> Array:
        """Second derivatives of minus the log-likelihoods of the data ``indices`` in their ``y`` (batch, k).

        By central differences, one-sided where a side has no density; NaN where neither has.
        """
        step = DIFFERENCE * np.maximum(np.abs(y), np.abs(y).mean(axis=1, keepdims=True))
        step[step == 0.0] = DIFFERENCE
        unused = np.zeros((*y.shape, theta.shape[1]))
        with np.errstate(all="ignore"):
            below, here, above = (self.at(theta, y + shift * step, indices, unused)[1] for shift in (-1.0, 0.0, 1.0))
            sides = (here - below) / step, (above - here) / step
            known = [np.isfinite(side) for side in sides]
            summed = sum(np.where(finite, side, 0.0) for finite, side in zip(known, sides, strict=True))
            return np.asarray(-summed / (known[0].astype(float) + known[1]))

    def accumulate(self, theta: Array, y: Array, value: Array, slope: Array) -> Array:
        """Add the log-likelihood to ``value`` (batch,) and its part by the quantities to ``slope`` (batch, dimension).

        In place. Returns the derivative with respect to y, shape (batch, outputs), with 0 where it is not finite.
        """
        if self._loop is None:
            by_y = np.zeros(y.shape)
        else:
            by_y = np.empty(y.shape)
            what, numbers = self._loop
            likelihood_loops.accumulate(what, numbers, theta, np.ascontiguousarray(y), value, slope, by_y)
        if not self._slow:
            return by_y
        rows = np.arange(len(theta))[:, None]
        for part in self._slow:
            found, y_slope, by_theta = part.evaluate(theta, y[:, part.seen], rows, part.every)
            if (found == np.inf).any():
                row, column = np.argwhere(found == np.inf)[0]
                raise ModelError(
                    f"the log-likelihood of {part.noise!r} must be finite, or -inf where there is none, got +inf for "
                    f"the datum {part.data[column]} where the model predicts {y[:, part.places][row, column]}"
                )
            value += found.sum(axis=1)
            with np.errstate(all="ignore"):  # infinite slopes may cancel, where there is no density
                for columns, derivative in by_theta:
                    np.add.at(slope, tuple(np.broadcast_arrays(rows, columns)), derivative)
            # scales that the model predicts may be outputs of other data, too
            np.add.at(by_y, np.ix_(rows[:, 0], part.seen), np.where(np.isfinite(y_slope), y_slope, 0.0))
        return by_y

    def cotangent(self, theta: Array, y: Array) -> Array:
        """The derivative of the log-likelihood with respect to y, as `accumulate` returns it."""
        return self.accumulate(theta, y, np.zeros(len(y)), np.zeros(theta.shape))

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Log-likelihood of each datum given the others, shape (batch, outputs); 0 where it is missing."""
        value = np.zeros(y.shape)
        rows = np.arange(len(theta))[:, None]
        for part in self._parts:
            seen = np.ascontiguousarray(y[:, part.seen])
            with np.errstate(all="ignore"):
                value[:, part.places] = part.noise.log_likelihood(seen, part.data, *part.values(theta, seen, rows))
        return value

    def residuals(self, theta: Array, y: Array) -> Array:
        r"""Of each datum :math:`\pm \sqrt{2 (\log p(d \mid d) - \log p(d \mid y))}`, above what is predicted or below.

        Shape (batch, outputs). Of Gaussian noise these are residuals in its sds; of any other those of the deviance
        (McCullagh and Nelder 1989, "Generalized Linear Models", section 2.4.3). NaN where a datum is missing, where
        its noise depends on that of others, or has no density if it is predicted exactly.
        """
        found, rows = np.full(y.shape, np.nan), np.arange(len(theta))[:, None]
        for part in self._parts:
            if not part.noise.independent:
                continue
            seen = np.ascontiguousarray(y[:, part.places])
            values, exact = part.values(theta, seen, rows), part.saturated(theta, rows)
            with np.errstate(all="ignore"):
                best, here = (part.noise.log_likelihood(at, part.data, *values) for at in (exact, seen))
                size = np.sqrt(2.0 * np.maximum(best - here, 0.0))
            found[:, part.places] = np.where(np.isfinite(size), np.sign(part.data - seen) * size, np.nan)
        return found

    @property
    def links(self) -> npt.NDArray[np.str_]:
        """`Noise.link` of all outputs (outputs,)."""
        found = np.full(self.outputs, "identity")
        for part in self._all:
            found[part.places] = part.noise.link
        return found

    def possible(self, y: Array) -> npt.NDArray[np.bool_]:
        """Which rows of y (n, outputs) can be: finite, no negative means of counts, no probabilities above 1."""
        links = self.links
        share = links == "arcsine"
        with np.errstate(invalid="ignore"):
            outside = ((share | (links == "root")) & (y < 0.0)) | (share & (y > 1.0))
        return np.asarray((np.isfinite(y) & ~outside).all(axis=1))

    def saturated(self, theta: Array, data: Array | None = None) -> Array:
        """The y (n, outputs) that predict data (n, outputs) exactly, by default the own ones; NaN where missing."""
        found, rows = np.full((len(theta), self.outputs), np.nan), np.arange(len(theta))[:, None]
        for part in self._all:
            found[:, part.places] = part.saturated(theta, rows, None if data is None else data[:, part.places])
        return found

    def expected_misfit(self) -> ExpectedMisfit | None:
        """Expected misfit of these data; None where a part of the noise does not state it, or is unknown."""
        parts = self._parts
        if any(quantity.known is None for part in parts for quantity in part.quantities):
            return None
        if any((found := part.cumulant(np.zeros(1))) is None or not np.isfinite(found).all() for part in parts):
            return None
        least = -sum(float(part.best().sum()) for part in parts)

        def cumulant(rate: Array) -> Array:
            with np.errstate(invalid="ignore"):
                return np.sum([len(part.data) * np.asarray(part.cumulant(rate)) for part in parts], axis=0)

        return expected(self.size, least, cumulant) if np.isfinite(least) else None

    def sample(self, rng: np.random.Generator, theta: Array, y: Array) -> Array:
        """Data that might have been observed, shape (batch, outputs); NaN in rows where a y is not finite.

        Of what the data inform about the noise itself.
        """
        return self._drawn(theta, y, lambda part, seen, values: part.noise.replicate(rng, seen, part.data, *values))

    def generate(self, rng: np.random.Generator, theta: Array, y: Array) -> Array:
        """Data of the noise as it was before there were any; otherwise as `sample`."""
        return self._drawn(theta, y, lambda part, seen, values: part.noise.sample(rng, seen, *values))

    def _drawn(self, theta: Array, y: Array, draw: Callable[[_Part, Array, list[Array]], Array]) -> Array:
        noisy = np.full(y.shape, np.nan)
        solved = np.isfinite(y).all(axis=1)
        theta, y = theta[solved], y[solved]
        rows = np.arange(len(theta))[:, None]
        found = np.empty(y.shape)
        for part in self._all:
            seen = np.ascontiguousarray(y[:, part.seen])
            drawn = np.asarray(draw(part, seen, part.values(theta, seen, rows)))
            if drawn.shape != (len(seen), len(part.places)):
                raise ModelError(
                    f"sample of {part.noise!r} must return data of shape {(len(seen), len(part.places))}, "
                    f"got {drawn.shape}"
                )
            found[:, part.places] = drawn
        noisy[solved] = found
        return noisy


class _Part:
    """One noise with the data that it explains and where they are among the observations."""

    def __init__(self, label: str, noise: Noise, data: Array, places: Indices, prior: Prior) -> None:
        check_noise(noise)
        good = np.isnan(data) | noise.accepts(data)
        if not good.all():
            index = tuple(int(i) for i in np.argwhere(~good)[0])
            of_output = label and f" of {label[:-1]}"
            of = "" if noise.wanted == "finite" else f" under {type(noise).__name__}"
            raise ValueError(f"data must be {noise.wanted}{of}, got {data[index]:g} at index {index}{of_output}")
        self._unbound, self._shape = noise, data.shape
        self.position: Indices | None = None  # of each output among those of a model that returns some of them
        self.quantities = [
            as_quantity(label + name, value, noise.limits.get(name, (0.0, np.inf)), data.shape, prior)
            for name, value in noise.quantities.items()
        ]
        self.names = tuple(name for quantity in self.quantities for name in quantity.names)
        self.choose(np.arange(data.size), data.reshape(-1), places.reshape(-1))

    def choose(self, chosen: Indices, data: Array, places: Indices) -> None:
        self.chosen, self.data, self.places = chosen, data, places
        self.noise = self._unbound.bind(self._shape, chosen)
        beside = self.noise.beside if self.position is None else self.position[self.noise.beside]
        if (beside < 0).any():
            raise ValueError(f"a fidelity must return the outputs that {self.noise!r} uses beside those of its data")
        #: Outputs that the noise is given.
        self.seen = np.concatenate([places, beside]) if len(beside) else places
        self.every = np.arange(len(chosen))[None, :]

    def observed(self) -> _Part:
        """Without the data that are missing."""
        return self._only(~np.isnan(self.data), self.places)

    def moved(self, position: Indices) -> _Part:
        """The data whose place has a new ``position``; -1 has none."""
        return self._only(position[self.places] >= 0, position[self.places], position)

    def _only(self, kept: npt.NDArray[np.bool_], places: Indices, position: Indices | None = None) -> _Part:
        if kept.all() and places is self.places:
            return self
        part = copy.copy(self)
        part.position = position if position is not None else self.position
        part.quantities = [quantity.subset(kept) for quantity in self.quantities]
        part.choose(self.chosen[kept], self.data[kept], places[kept])
        return part

    @property
    def loop(self) -> tuple[Indices, Array] | None:
        """Arguments of the compiled loop; None for a class with its own `evaluate`, which may disagree with it."""
        noise = self.noise
        if not isinstance(noise, CompiledNoise) or type(noise).evaluate is not CompiledNoise.evaluate:
            return None
        size = len(self.data)
        given = self.quantities[0].compiled if self.quantities else (np.ones(size), np.full(size, -1))
        if given is None:
            return None
        known, columns = given
        family, shape, constant = noise.compiled
        what = np.stack([np.full(size, family), self.places, columns], axis=1, dtype=np.intp)
        alike = np.full(size, shape), np.full(size, constant)
        return what, np.stack([*alike, self.data, noise.auxiliary(self.data, known), known], axis=1)

    def cumulant(self, rate: Array) -> Array | None:
        """As `Noise.cumulant`; None of a class whose own `evaluate` comes after it, and may disagree with it."""
        own = [next(k for k, one in enumerate(type(self.noise).__mro__) if n in vars(one)) for n in _DEFINING]
        return None if own[0] < own[1] else self.noise.cumulant(rate)

    def best(self) -> Array:
        """Log-likelihood (1, m) where every datum is predicted exactly; the quantities are known."""
        none, row = np.empty((1, 0)), np.zeros((1, 1), dtype=np.intp)
        exact = self.saturated(none, row)
        with np.errstate(all="ignore"):
            return self.noise.evaluate(exact, self.data, *self.values(none, exact, row))[0]

    def saturated(self, theta: Array, rows: Indices, data: Array | None = None) -> Array:
        """The y (n, m) that predict data (n, m) exactly, by default those of the part."""
        data = np.broadcast_to(self.data, (len(theta), len(self.data))).copy() if data is None else data
        with np.errstate(all="ignore"):
            return np.array(np.broadcast_to(self.noise.saturated(data, *self.values(theta, data, rows)), data.shape))

    def values(self, theta: Array, y: Array, rows: Indices) -> list[Array]:
        """Values of the quantities at all data of the part, for `Noise.evaluate`."""
        return [quantity.evaluate(theta, y, rows, self.every)[0] for quantity in self.quantities]

    def evaluate(
        self, theta: Array, y: Array, rows: Indices, index: Indices
    ) -> tuple[Array, Array, list[tuple[Indices, Array]]]:
        """Log-likelihood of the data ``index``, its derivative with respect to y, and those by columns of theta.

        ``y`` has the shape to which ``rows`` (of theta) and ``index`` broadcast.
        """
        seen = np.ascontiguousarray(np.atleast_2d(y))
        with np.errstate(all="ignore"):
            found = [quantity.evaluate(theta, seen, rows, index) for quantity in self.quantities]
            known, names = self.data[index], list(self._unbound.quantities)
            terms = self.noise.evaluate(seen, known, *(quantity[0] for quantity in found))
            value, by_y, *slopes = checked_terms(self._unbound, terms, seen, known, names)
            by_theta = []
            for slope, (_, by_name, by_observation) in zip(slopes, found, strict=True):
                by_theta += [(columns, (slope * factor).reshape(y.shape)) for columns, factor in by_name]
                by_y = by_y + slope * by_observation
        return value.reshape(y.shape) if value.size == y.size else value, by_y.reshape(y.shape), by_theta
