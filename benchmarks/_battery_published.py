"""Posteriors of posteriordb, posed from its descriptions in words; data and reference moments are read from a folder.

posteriordb: Magnusson, Torgander, Bürkner, Zhang, Carpenter and Vehtari (2025), "posteriordb: testing, benchmarking and
developing Bayesian inference algorithms", AISTATS. Most of its data state no license of their own, so none is included.
The folder has a file NAME.json for each posterior. Its ``data`` has the names below; its ``reference`` maps labels to
``mean``, ``sd`` and ``mcse_mean`` of 10,000 reference draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np
from _battery_case import Case, FlatRegression, Linear, by_likelihood, last_is_log
from scipy.special import logsumexp

import invsamp as iv
from invsamp.problems import lotka_volterra
from invsamp.protocols import Array, Problem

Data = Mapping[str, Any]
#: What a builder returns: the problem, the map from theta to the reference's quantities, and other fields of `Case`.
Posed = tuple[Problem, Callable[[Array], Array], dict[str, Any]]


def published(folder: Path, name: str) -> Case:
    """The posterior of this name, with data from the folder."""
    stored = json.loads((folder / f"{name.removesuffix('_centered')}.json").read_text())
    problem, quantities, rest = BUILDERS[name](
        {key: np.asarray(v) for key, v in stored["data"].items() if key[0] != "_"}
    )
    reference = stored["reference"]
    known = {label: (m["mean"], m["sd"], m["mcse_mean"]) for label, m in reference.items()}
    if name == "hmm_example":  # the second share of each row is 1 less the first
        known = {label: known[label] for label in ("theta1[1]", "theta2[1]", "mu[1]", "mu[2]")}
    return Case(name, problem, known, quantities, **rest)


def _same(theta: Array) -> Array:
    return theta


def _regression(columns: list[Array], y: Array, half_cauchy: float | None = None) -> Posed:
    """Density of the coefficients and log sigma under flat priors."""
    potential = FlatRegression(np.column_stack([np.ones(len(y)), *columns]), np.asarray(y, dtype=float), half_cauchy)
    names = [f"b{k}" for k in range(1, potential.dimension)]
    return iv.Target(potential, names=[*names, "log_sigma"]), last_is_log, {}


def earn_height(data: Data) -> Posed:
    """Earnings on height, uncentered."""
    return _regression([data["height"]], data["earn"])


def logearn_interaction(data: Data) -> Posed:
    """Log earnings on height, sex and their product."""
    height, male = data["height"], data["male"]
    return _regression([height, male, height * male], np.log(data["earn"]))


def mesquite(data: Data) -> Posed:
    """Weight of leaves on six measures of a bush and its group."""
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    return _regression([data[name] for name in names], data["weight"])


def nes2000(data: Data) -> Posed:
    """Party on ideology, race, age, education, gender and income."""
    ages = [(data["age_discrete"] == k) * 1.0 for k in (2, 3, 4)]
    first, last = ("real_ideo", "race_adj"), ("educ1", "gender", "income")
    return _regression([*(data[n] for n in first), *ages, *(data[n] for n in last)], data["partyid7"])


def kidscore_interaction(data: Data) -> Posed:
    """Test scores of children on their mothers' school and IQ."""
    school, iq = data["mom_hs"], data["mom_iq"]
    return _regression([school, iq, school * iq], data["kid_score"], half_cauchy=2.5)


def sblrc(data: Data) -> Posed:
    """Five correlated columns, a posterior 10,000 times narrower than the prior."""
    prior = iv.Prior(beta=iv.Normal(0.0, 10.0, shape=5), sigma=iv.HalfNormal(10.0))
    return iv.Posterior(prior, Linear(data["X"]), data["y"], iv.GaussianNoise("sigma")), _same, {}


def ark(data: Data) -> Posed:
    """Autoregression of order five."""
    y, order = data["y"], int(data["K"])
    lags = [y[order - k : len(y) - k] for k in range(1, order + 1)]
    prior = iv.Prior(b=iv.Normal(0.0, 10.0, shape=order + 1), sigma=iv.HalfCauchy(2.5))
    model = Linear(np.column_stack([np.ones(len(y) - order), *lags]))
    return iv.Posterior(prior, model, y[order:], iv.GaussianNoise("sigma")), _same, {}


def diamonds(data: Data) -> Posed:
    """Log price on 24 columns."""
    logs = [np.log(data[name]) for name in "xyz"]
    carat, contrasts = data["carat"], data["contrasts"].item()
    factors = [np.asarray(contrasts[name])[data[name]] for name in ("cut", "color", "clarity")]
    columns = np.column_stack([carat, *logs, *factors, *(carat * values for values in logs)])
    columns = columns - columns.mean(axis=0)
    prior = iv.Prior(
        b=iv.Normal(0.0, 1.0, shape=24),
        intercept=iv.StudentT(3.0, 8.0, 10.0),
        sigma=iv.distributions.HalfStudentT(3.0, 10.0),
    )
    model = Linear(np.column_stack([columns, np.ones(len(carat))]))
    return iv.Posterior(prior, model, np.log(data["price"]), iv.GaussianNoise("sigma")), _same, {}


class _Schools:
    """Effects mu + tau z of the schools."""

    def __call__(self, theta: Array) -> Array:
        return theta[:, :1] + theta[:, 1:2] * theta[:, 2:]

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Effects and the vector-Jacobian product."""

        def product(cotangent: Array) -> Array:
            sums = cotangent.sum(axis=1), (cotangent * theta[:, 2:]).sum(axis=1)
            return np.column_stack([*sums, cotangent * theta[:, 1:2]])

        return self(theta), product


def eight_schools(data: Data) -> Posed:
    """Non-centered."""
    prior = iv.Prior(mu=iv.Normal(0.0, 5.0), tau=iv.HalfCauchy(5.0), z=iv.Normal(0.0, 1.0, shape=8))
    posterior = iv.Posterior(prior, _Schools(), data["y"], iv.GaussianNoise(data["sigma"]))
    return posterior, lambda theta: np.column_stack([theta[:, :1] + theta[:, 1:2] * theta[:, 2:], theta[:, :2]]), {}


def eight_schools_centered(data: Data) -> Posed:
    """The same in effects, mu and log tau: a funnel."""
    y, sigma = data["y"], data["sigma"]

    def energy_and_gradient(x: Array) -> tuple[Array, Array]:
        effects, mu, log_tau = x[:, :8], x[:, 8], x[:, 9]
        with np.errstate(over="ignore", invalid="ignore"):
            tau = np.exp(log_tau)
            away, z = (effects - y) / sigma, (effects - mu[:, None]) / tau[:, None]
            ratio = np.square(tau / 5.0)
            energy = 0.5 * np.square(away).sum(axis=1) + 0.5 * np.square(z).sum(axis=1) + 0.5 * np.square(mu / 5.0)
            energy += 7.0 * log_tau + np.log1p(ratio)  # eight from the effects, less one of the coordinate
            by_tau = 7.0 - np.square(z).sum(axis=1) + 2.0 * ratio / (1.0 + ratio)
            by_effects = away / sigma + z / tau[:, None]
            by_mu = mu / 25.0 - (z / tau[:, None]).sum(axis=1)
        gradient = np.column_stack([by_effects, by_mu, by_tau])
        failed = ~(np.isfinite(energy) & np.isfinite(gradient).all(axis=1))
        gradient[failed] = 0.0
        return np.where(failed, np.inf, energy), gradient

    names = [*(f"theta{k}" for k in range(1, 9)), "mu", "log_tau"]
    return iv.Target(iv.extending.FunctionPotential(energy_and_gradient, 10), names=names), last_is_log, {}


def low_dim_gauss_mix(data: Data) -> Posed:
    """Mixture of two Gaussians with ordered means."""
    y = data["y"]

    def likelihood(theta: Array) -> tuple[Array, Array]:
        mu, sigma, share = theta[:, None, :2], theta[:, None, 2:4], theta[:, None, 4:]
        shares = np.concatenate([share, 1.0 - share], axis=2)
        z = (y[:, None] - mu) / sigma
        terms = np.log(shares) - np.log(sigma) - 0.5 * np.square(z) - 0.5 * math.log(2.0 * math.pi)
        value = logsumexp(terms, axis=2)
        weight = np.exp(terms - value[:, :, None])
        by_mu, by_sigma = (weight * z / sigma).sum(axis=1), (weight * (np.square(z) - 1.0) / sigma).sum(axis=1)
        by_share = (weight / shares).sum(axis=1) @ np.array([[1.0], [-1.0]])
        return value.sum(axis=1), np.concatenate([by_mu, by_sigma, by_share], axis=1)

    prior = iv.Prior(
        mu=iv.distributions.Ordered(iv.Normal(0.0, 2.0, shape=2)),
        sigma=iv.HalfNormal(2.0, shape=2),
        share=iv.Beta(5.0, 5.0),
    )
    return by_likelihood(prior, likelihood, transforms={"share": "logit"}), _same, {}


def gp_regr(data: Data) -> Posed:
    """Gaussian process with its values marginalized."""
    y, squares = data["y"], np.square(data["x"][:, None] - data["x"])

    def likelihood(theta: Array) -> tuple[Array, Array]:
        rho, alpha, sigma = (theta[:, k, None, None] for k in range(3))
        smooth = np.exp(-0.5 * squares / np.square(rho))
        inverse = np.linalg.inv(np.square(alpha) * smooth + sigma * np.eye(len(y)))
        weights = inverse @ y
        value = -0.5 * (weights @ y) + 0.5 * np.linalg.slogdet(inverse)[1] - 0.5 * len(y) * math.log(2.0 * math.pi)
        slope = 0.5 * (weights[:, :, None] * weights[:, None, :] - inverse)  # by the entries of the covariance
        parts = (np.square(alpha) * smooth * squares / rho**3, 2.0 * alpha * smooth)
        by_theta = [np.einsum("ijk,ijk->i", slope, part) for part in parts]
        return value, np.column_stack([*by_theta, np.trace(slope, axis1=1, axis2=2)])

    prior = iv.Prior(rho=iv.Gamma(25.0, 4.0), alpha=iv.HalfNormal(2.0), sigma=iv.HalfNormal(1.0))
    return by_likelihood(prior, likelihood), _same, {}


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _garch(y: Array, first: float, theta: Array) -> tuple[Array, Array]:
    """Energy of a flat prior and its gradient."""
    energy, gradient = np.zeros(len(theta)), np.zeros(theta.shape)
    slope, new = np.zeros(4), np.zeros(4)
    for i in range(len(theta)):
        mu, base, arch, memory = theta[i]
        v = first * first
        slope[:] = 0.0
        for t in range(len(y)):
            if t > 0:
                before = y[t - 1] - mu
                new[0] = -2.0 * arch * before + memory * slope[0]
                new[1] = 1.0 + memory * slope[1]
                new[2] = before * before + memory * slope[2]
                new[3] = v + memory * slope[3]
                v = base + arch * before * before + memory * v
                slope[:] = new
            away = y[t] - mu
            energy[i] += 0.5 * np.log(v) + 0.5 * away * away / v
            gradient[i] += 0.5 * (1.0 - away * away / v) / v * slope
            gradient[i, 0] -= away / v
    return energy, gradient


def garch11(data: Data) -> Posed:
    """Volatility, flat within its bounds; unconstrained: the log of alpha0, and log ratios of the shares."""
    y, first = data["y"], float(data["sigma1"])

    def energy_and_gradient(theta: Array) -> tuple[Array, Array]:
        energy, gradient = _garch(y, first, np.ascontiguousarray(theta))
        return np.where(np.isnan(energy), np.inf, energy), np.nan_to_num(gradient)

    def theta_of(x: Array) -> Array:
        shares = np.exp(x[:, 2:] - logsumexp(np.column_stack([np.zeros(len(x)), x[:, 2:]]), axis=1)[:, None])
        return np.column_stack([x[:, 0], np.exp(x[:, 1]), shares])

    def unconstrained(x: Array) -> tuple[Array, Array]:
        theta = theta_of(x)
        energy, slope = energy_and_gradient(theta)
        shares = theta[:, 2:]
        jacobian = x[:, 1] + np.log(shares).sum(axis=1) + np.log1p(-shares.sum(axis=1))
        mixed = shares * (slope[:, 2:] - (shares * slope[:, 2:]).sum(axis=1)[:, None])
        by_shares = mixed - (1.0 - 3.0 * shares)
        return energy - jacobian, np.column_stack([slope[:, 0], theta[:, 1] * slope[:, 1] - 1.0, by_shares])

    bounds = [iv.constraint(text) for text in ("alpha0 > 0", "alpha1 > 0", "beta1 > 0", "alpha1 + beta1 < 1")]
    names = ("mu", "alpha0", "alpha1", "beta1")
    target = iv.Target(iv.extending.FunctionPotential(energy_and_gradient, 4), domain=bounds, names=names)
    return target, _same, {"smooth": iv.extending.FunctionPotential(unconstrained, 4), "of_smooth": theta_of}


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _hidden_states(y: Array, theta: Array) -> tuple[Array, Array]:
    """Log-likelihood of two hidden states with initial weights 1, and its gradient, by the forward-backward algorithm.

    Theta: probabilities of state 1 after state 1 and after state 2, means of both states.
    """
    n = len(y)
    value, gradient = np.zeros(len(theta)), np.zeros(theta.shape)
    forward, emitted, scale = np.zeros((n, 2)), np.zeros((n, 2)), np.zeros(n)
    move = np.zeros((2, 2))
    for i in range(len(theta)):
        for k in range(2):
            move[k, 0], move[k, 1] = theta[i, k], 1.0 - theta[i, k]
        for t in range(n):
            for k in range(2):
                emitted[t, k] = np.exp(-0.5 * (y[t] - theta[i, 2 + k]) ** 2)
                came = 1.0 if t == 0 else forward[t - 1, 0] * move[0, k] + forward[t - 1, 1] * move[1, k]
                forward[t, k] = came * emitted[t, k]
            scale[t] = forward[t, 0] + forward[t, 1]
            forward[t] /= scale[t]
            value[i] += np.log(scale[t]) - 0.5 * np.log(2.0 * np.pi)
        after0, after1 = 1.0, 1.0
        for t in range(n - 1, -1, -1):
            gradient[i, 2] += forward[t, 0] * after0 * (y[t] - theta[i, 2])
            gradient[i, 3] += forward[t, 1] * after1 * (y[t] - theta[i, 3])
            if t > 0:
                to0, to1 = emitted[t, 0] * after0 / scale[t], emitted[t, 1] * after1 / scale[t]
                gradient[i, 0] += forward[t - 1, 0] * (to0 - to1)
                gradient[i, 1] += forward[t - 1, 1] * (to0 - to1)
                after0, after1 = move[0, 0] * to0 + move[0, 1] * to1, move[1, 0] * to0 + move[1, 1] * to1
    return value, gradient


def hmm_example(data: Data) -> Posed:
    """Hidden Markov chain of two states, marginalized; constraints order the means."""
    y = data["y"]

    def likelihood(theta: Array) -> tuple[Array, Array]:
        return _hidden_states(y, np.ascontiguousarray(theta))  # type: ignore[no-any-return]

    prior = iv.Prior(
        stay=iv.Uniform(0.0, 1.0),
        back=iv.Uniform(0.0, 1.0),
        mu1=iv.truncated(iv.Normal(3.0, 1.0), lower=0.0),
        mu2=iv.truncated(iv.Normal(10.0, 1.0), lower=0.0),
    )
    logits = {"stay": "logit", "back": "logit"}
    posterior = by_likelihood(prior, likelihood, iv.constraint("mu1 < mu2"), logits)
    logs = by_likelihood(prior, likelihood, None, logits)  # both means as their logarithms
    potential = logs.potential()

    def apart(x: Array) -> tuple[Array, Array]:
        second = np.logaddexp(x[:, 2], x[:, 3])
        return np.column_stack([x[:, :3], second]), np.exp(x[:, 3] - second)

    def unconstrained(x: Array) -> tuple[Array, Array]:
        """The logarithm of the first mean, and that of the gap."""
        at, share = apart(x)
        energy, slope = potential.energy_and_gradient(at)
        by_first = slope[:, 2] + (slope[:, 3] + 1.0) * (1.0 - share)
        by_gap = slope[:, 3] * share - (1.0 - share)
        return energy - np.log(share), np.column_stack([slope[:, :2], by_first, by_gap])

    smooth = iv.extending.FunctionPotential(unconstrained, 4)
    return posterior, _same, {"smooth": smooth, "of_smooth": lambda x: logs.to_theta(apart(x)[0])}


def hare_lynx(data: Data) -> Posed:
    """The posterior of `invsamp.problems.lotka_volterra`, in two fidelities."""
    return lotka_volterra.hare_lynx(), _same, {}


BUILDERS: dict[str, Callable[[Data], Posed]] = {
    "arK": ark,
    "diamonds": diamonds,
    "earn_height": earn_height,
    "eight_schools": eight_schools,
    "eight_schools_centered": eight_schools_centered,
    "garch11": garch11,
    "gp_regr": gp_regr,
    "hmm_example": hmm_example,
    "kidscore_interaction": kidscore_interaction,
    "logearn_interaction": logearn_interaction,
    "lotka_volterra": hare_lynx,
    "low_dim_gauss_mix": low_dim_gauss_mix,
    "mesquite": mesquite,
    "nes2000": nes2000,
    "sblrc": sblrc,
}
