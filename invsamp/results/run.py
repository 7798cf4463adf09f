"""Result of a sampler: draws, counts and figures, in an ArviZ InferenceData."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from invsamp import arguments, storage
from invsamp.arguments import array, floats, instance, integer, mapping, one_of, optional
from invsamp.diagnostics import weights
from invsamp.diagnostics.evidence import LogEvidence
from invsamp.diagnostics.report import Report
from invsamp.diagnostics.separation import Separation
from invsamp.diagnostics.tails import TAIL_SHAPES
from invsamp.domains.contract import Domain
from invsamp.domains.saved import from_dict
from invsamp.posing.expressions.variable_names import check_predicts, check_quantities, check_shapes, labels

# Not lazily: `storage` imports h5py, which must come before dolfinx. Whoever imports invsamp imports this module, so
# `import invsamp` above `import dolfinx` is enough. ArviZ, xarray and matplotlib wait for their first use.
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Array, Facts, InferenceData, Observed, Problem
from invsamp.results.arrays import Arrays, Dataset, Source
from invsamp.results.derived import derived
from invsamp.results.evidence import evidence_of
from invsamp.results.expectation import Expectation, expectation
from invsamp.results.fields import Field, FieldDraws, Mesh, field_draws
from invsamp.results.fitted_prior import run_as_prior
from invsamp.results.loo import leave_one_out
from invsamp.results.predictions import Predictions
from invsamp.results.predictive import evenly_spaced, log_likelihood, predict
from invsamp.results.printing import printed, printed_html, verdict
from invsamp.results.run_figures import Pictures
from invsamp.results.run_summary import RunSummary
from invsamp.results.stored import Stored
from invsamp.storage import arviz_data, layout
from invsamp.storage.contents import attributes_of, constants, groups_of
from invsamp.storage.files import write_whole

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class Run(Pictures):
    """Draws of one run and the diagnostics that say whether to trust them.

    Parameters
    ----------
    source : Source
        Where the draws are; a sampler, `load` and `from_arrays` say so.

    Attributes
    ----------
    data : arviz.InferenceData, or xarray.DataTree where ArviZ 1 is installed
        Groups are ``posterior`` (chain, draw, *shape of each parameter) and ``sample_stats`` (chain, draw). ``hot``
        (chain, draw, rung, *shape) and ``hot_stats`` (chain, draw, rung) have the rungs above the cold one.
        ``observed_data`` and ``prior`` (up to 1000 draws within the domain) exist where the problem has them,
        ``posterior_predictive`` and ``log_likelihood`` once they were asked for. ``log_weight`` among the statistics
        gives the draws weights, which count in all statistics, figures and predictions here. Attributes: ``report``,
        ``parameters`` and ``domain`` as JSON. It is made when it is asked for. If the run is in a directory, the draws
        are read only then, variable by variable.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> theta = np.random.default_rng(0).normal(size=(1, 4, 500, 1))  # rungs, chains, draws, parameters
    >>> run = iv.Run.from_arrays(None, {"x": ()}, theta, {"energy": np.zeros((4, 500))}, {})
    >>> run.draws("x").shape
    (4, 500)
    >>> run.warnings()
    []
    """

    def __init__(self, source: Source) -> None:
        self._source, self._summary = source, RunSummary(source)

    @property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`, or `xarray.DataTree` for ArviZ 1, made when it is first asked for."""
        return self._source.data

    @classmethod
    def from_arrays(
        cls,
        problem: Problem | None,
        names_shapes: Mapping[str, tuple[int, ...]],
        theta: Array,
        sample_stats: Mapping[str, Array],
        report: Facts,
        domain: Domain | None = None,
        log_weight: npt.ArrayLike | None = None,
        recorded: Mapping[str, Array] | None = None,
        between: Array | None = None,
    ) -> Run:
        """Wrap what a sampler recorded.

        Parameters
        ----------
        problem : Problem
            Its ``data``, where it has any, becomes ``observed_data``.
        names_shapes : mapping
            Shape of every parameter, in the order of theta's columns.
        theta : ndarray, shape (rungs, chains, draws, d)
            Natural parameters, the cold rung first.
        sample_stats : mapping of names to ndarray, shape (chains, draws) or (rungs, chains, draws)
            ``energy``, ``replica``, ...; with a rung axis, the rungs above the cold one go to ``hot_stats``.
        report : mapping
            Counts and settings, JSON-able (NumPy numbers and arrays included). Keys that are read, all optional, are
            sampler, seed, draws, warmup, thin, chains, temperatures, fidelities, step_sizes, preconditioner, acceptance
            and clipped_noise. Counts over all chains and recorded steps, one entry per rung, are reflections and
            reflection_fallbacks. Per adjacent pair: swap_attempts, swap_accepts. Per fidelity: evaluations,
            evaluation_seconds, failed_solves. Others are round_trips, failure_message, seconds, warnings and versions.
        domain : Domain, optional
            Where theta may lie, for the plots.
        log_weight : array_like, shape (chains, draws) or (rungs, chains, draws), optional
            Logs of the weights, unnormalized, with which draws of another distribution represent the posterior, -inf
            for a draw of no weight; it becomes one of the statistics.
        recorded : mapping of names to ndarray, shape (chains, draws, *shape), optional
            Functions of the draws of the cold rung.
        between : ndarray, shape (steps, chains, draws, d), optional
            Natural parameters of a coarse rung on the way to each draw, for `expectation`: the group ``coarse``.

        Raises
        ------
        ValueError
            If shapes do not fit together, a parameter has the name of a dimension, or log weights are none.
        """
        theta = array("theta", theta, ("rungs", "chains", "draws", "d"), finite=False, nan=True, empty=True)
        names_shapes, facts = mapping("names_shapes", names_shapes), mapping("report", report)
        if not names_shapes:
            raise ValueError("names_shapes must name at least one parameter, got none")
        stats = {name: np.asarray(values) for name, values in mapping("sample_stats", sample_stats).items()}
        optional(instance, "domain", domain, Domain, "a Domain, or None")
        if log_weight is not None:
            if "log_weight" in stats:
                raise ValueError("log_weight must be None where sample_stats has one already, got both")
            given = array("log_weight", log_weight, finite=False)
            shape = theta.shape[: 3 if given.ndim == 3 else 0] or theta.shape[1:3]
            stats["log_weight"] = weights.checked("log_weight", given, shape)
        functions = {} if recorded is None else mapping("recorded", recorded)
        quantities = {name: floats(f"recorded[{name!r}]", values) for name, values in functions.items()}
        layout.check_arrays(names_shapes, theta, stats, quantities)
        if between is not None:
            between = array("between", between, ("steps", *theta.shape[1:]), finite=False, nan=True)
        groups = groups_of(theta, names_shapes, stats, quantities, between)
        groups |= constants(problem, names_shapes, facts.get("seed"))
        shapes = {name: values.shape[2:] for name, values in quantities.items()}
        return Run(Arrays(groups, attributes_of(names_shapes, facts, domain, shapes)))

    @property
    def report(self) -> Report:
        """Counts and settings of the run, see `from_arrays`; a fresh copy."""
        return self._source.report

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter, in the order of theta's columns."""
        return self._source.parameters

    @property
    def recorded(self) -> dict[str, tuple[int, ...]]:
        """Shape of every quantity beside the parameters: of ``record=`` of `invsamp.sample`, and of `derive`."""
        return self._source.recorded

    @property
    def labels(self) -> list[str]:
        """Name of every column of theta: ``x``, ``k[0]``, ``k[1]``, ``m[0, 1]``.

        Entries whose axes have labels, as those of a population's members, are called by these: ``clearance[Ann]``.
        """
        return list(labels(self.shapes, self._source.axes))

    @property
    def domain(self) -> Domain | None:
        """Where theta may lie; None if the sampler did not say."""
        text = self._source.attributes.get("domain")
        return None if text is None else from_dict(json.loads(text))

    @property
    def theta(self) -> Array:
        """Draws of the cold rung, shape (chains, draws, d), of the parameters that the run keeps, `labels`.

        Without blocks that are too large to keep all their draws (`thinned`).

        Raises
        ------
        ValueError
            If it keeps none (``keep=False`` of `invsamp.sample`).
        """
        if not self.shapes:
            few = "thinned" in self._source.shapes
            why, see = ("too large to keep all", "run.thinned(name)") if few else ("keep=False", "run.draws(name)")
            raise ValueError(f"the run keeps no parameters ({why}), but {list(self.recorded)}: see {see}")
        return layout.join({name: self._source.read("posterior", name) for name in self.shapes})

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        return self._source.rungs

    def rung_theta(self, rung: int) -> Array:
        """Draws of one rung, 0 the cold one, shape (chains, draws, d).

        Raises
        ------
        ValueError
            If there is no such rung.
        """
        rung = integer("rung", rung, least=0, most=self.rungs - 1)
        if rung == 0:
            return self.theta
        return layout.join({name: self._source.read("hot", name, rest=(rung - 1,)) for name in self.shapes})

    @property
    def weights(self) -> Array | None:
        """Weights of the cold rung's draws, shape (chains, draws), of mean 1; None if all draws count alike."""
        return self.rung_weights(0)

    def rung_weights(self, rung: int) -> Array | None:
        """Weights of one rung's draws, 0 the cold one, shape (chains, draws), of mean 1; None if all count alike.

        Raises
        ------
        ValueError
            If there is no such rung.
        """
        return self._source.weights(integer("rung", rung, least=0, most=self.rungs - 1))

    def draws(self, name: str) -> Array:
        """Draws of one parameter of the cold rung, or of a quantity of them, shape (chains, draws, *shape).

        Raises
        ------
        ValueError
            If there is no such parameter, and no such quantity.
        """
        return self._source.read("posterior", one_of("name", name, self._source.quantities))

    def derive(
        self,
        name: str,
        function: Callable[[Array], npt.ArrayLike],
        posterior: Posterior | None = None,
        fidelity: str | None = None,
    ) -> Array:
        """Add a function of the draws to the run, as ``record=`` of `invsamp.sample` does while it samples.

        The run has it from then on as it has its parameters: `summary` with effective draws and Monte Carlo errors,
        `warnings`, `draws`, figures, `to_dataframe`, `data`, and what `save` writes. A run in a directory stays there
        as it is; `save` writes the quantity too.

        Parameters
        ----------
        name : str
            Of the quantity; one that was there before under this name is replaced.
        function : callable
            Natural parameters (batch, d), columns as `labels`, -> (batch, ...). With ``posterior``, of what it predicts
            without noise, (batch, *shape of the data), nan where the solve failed. Row by row: it is called with some
            of the draws at a time.
        posterior : Posterior, optional
            The one that was sampled, or `Posterior.for_prediction` of it: a solve for each draw that differs from
            others.
        fidelity : str, optional
            Of the predictions; the finest by default.

        Returns
        -------
        ndarray, shape (chains, draws, ...)

        Raises
        ------
        ValueError
            If the name is that of a parameter or statistic, or cannot be stored. If the function gives no numbers, no
            row for each draw, or different shapes. If ``posterior`` cannot predict or has other parameters than the
            run. If the run keeps no parameters, or every k-th draw of some (`thinned`).
        """
        arguments.function("function", function, "(batch, ...) -> (batch, ...)")
        self._refuse_thinned()
        check_quantities("name", self.shapes, {arguments.text("name", name): ()})
        others = {key: shape for key, shape in self.recorded.items() if key != name}
        predict = None
        if posterior is not None:
            check_predicts(posterior, self.shapes)
            predict = partial(posterior.predict, fidelity=optional(arguments.text, "fidelity", fidelity))
        elif fidelity is not None:
            raise ValueError(f"fidelity must be None without a posterior, got {fidelity!r}")
        values = derived(name, function, self.theta, predict)
        check_quantities("name", self.shapes, others | {name: values.shape[2:]})
        self._source.add(name, values)
        self._summary.clear()
        return values

    def moments(self, name: str) -> tuple[Array, Array]:
        """Mean and standard deviation of every entry of a parameter, or of a quantity, each of its shape.

        Over all draws of the cold rung, with their weights where they have some. Also of blocks whose draws the run
        does not keep, as they would not fit into memory (`invsamp.sample`).

        Raises
        ------
        ValueError
            If there is no such parameter, and no such quantity.
        """
        if self._source.holds("moments", arguments.text("name", name)):
            mean, sd = self._source.read("moments", name)
            return mean, sd
        return self._summary.moments(one_of("name", name, self._source.quantities))

    def thinned(self, name: str) -> npt.NDArray[np.float32]:
        """Draws in single precision: every k-th one of a block whose draws the run does not keep (`invsamp.sample`).

        Of all other parameters and quantities those of `draws`.

        Returns
        -------
        ndarray, shape (chains, draws / k rounded up, *shape)
            The first draw of each chain is among them.

        Raises
        ------
        ValueError
            If there is no such parameter, and no such quantity.
        """
        if self._source.holds("thinned", arguments.text("name", name)):
            return np.asarray(self._source.read("thinned", name), dtype=np.float32)
        return self.draws(name).astype(np.float32)

    def summary(self) -> pd.DataFrame:
        """Statistics of every scalar parameter and recorded quantity; the sampling error's as arviz-stats has them.

        Where draws have weights, these count in all of it: effective sizes are those of weighted means
        (`invsamp.diagnostics.ess`).

        Returns
        -------
        DataFrame
            A row per label; columns mean, sd, 5%, 50%, 95% (unit of the parameter), mcse_mean, mcse_sd (Monte Carlo
            standard errors), ess_bulk, ess_tail, r_hat. Where there is no answer (fewer than 4 draws; R-hat of
            one chain) it is NaN. Chains that depend on each other, ``report["ensemble_size"]`` of them, count as one.
        """
        return self._summary.table().drop(columns=list(TAIL_SHAPES))  # a copy

    def short_summary(self) -> pd.DataFrame:
        """The `summary` that is printed: of blocks of more than 2,000 entries 50, evenly spread, and the energy.

        ``attrs["entries"]`` is the number of all entries, ``attrs["left_out"]`` of those without a row. All statistics
        of a million entries take half a minute.

        Examples
        --------
        >>> import invsamp as iv
        >>> posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=2)), lambda x: x, [1.0, 2.0], iv.GaussianNoise(1))
        >>> run = iv.sample(posterior, iv.samplers.stretch(), draws=50, chains=16, seed=1, progress=False)
        >>> list(run.short_summary().index)
        ['x[0]', 'x[1]']
        """
        return self._summary.table(few=True).drop(columns=list(TAIL_SHAPES))  # a copy

    def warnings(self) -> list[str]:
        """Reasons not to trust the draws, in words that say what to do; empty if there are none.

        Judged from 100,000 evenly spaced draws where there are more, but from at least 1000 of each chain. Of blocks of
        more than 2,000 entries 50 are judged, evenly spread, and the energy beside them.
        """
        return self._summary.warnings(self._summary.thinning)

    def notes(self) -> list[str]:
        """Notes for a reader of the summary that are no fault of the draws; ``print(run)`` shows them.

        Heavy tails, where means of ranks and quantiles have converged: standard deviations have no finite error then.
        """
        return self._summary.notes()

    @property
    def verdict(self) -> str:
        """`warnings` as text: "no warnings", or one line for each."""
        return verdict(self.warnings())

    def report_html(
        self, path: str | os.PathLike[str], posterior: Posterior | None = None, title: str = "Report of a run"
    ) -> None:
        """Write one self-contained HTML page: warnings, problem, sampler, results and cost.

        Parameters
        ----------
        path : path
            An existing file is replaced in one step.
        posterior : Posterior, optional
            The one that was sampled, for predictions over the data and residuals: up to 1000 solves, unless
            `posterior_predictive` was called before.
        title : str
            Heading of the page.

        Raises
        ------
        ValueError
            If the parameters of ``posterior`` are not those of the run.
        FileNotFoundError
            If the folder does not exist.
        """
        from invsamp.results.report import page

        place, heading = arguments.path("path", path), arguments.text("title", title)
        optional(instance, "posterior", posterior, Posterior, "a Posterior, or None")
        if posterior is not None:
            check_shapes(posterior.shapes, self._all_shapes(posterior))
        if not place.parent.is_dir():  # before predictions are solved and figures drawn
            raise FileNotFoundError(f"path must lie in a folder that exists, got {str(place)!r}")
        write_whole(place, [page(self, posterior, heading).encode()])

    def to_dataframe(self) -> pd.DataFrame:
        """Draws of the cold rung as a table: a row for each draw, indexed by chain and draw.

        Returns
        -------
        DataFrame
            A column per label of parameters and quantities (`labels`), in its natural unit; where draws have weights,
            also ``weight``, of mean 1.
        """
        import pandas as pd

        chains, draws = self._source.size
        index = pd.MultiIndex.from_product([range(chains), range(draws)], names=["chain", "draw"])
        values = layout.join({name: self.draws(name) for name in self._source.quantities})
        columns = labels(self._source.quantities, self._source.axes)
        table = pd.DataFrame(values.reshape(chains * draws, -1), index, columns)
        if self.weights is not None:
            table.insert(len(table.columns), "weight", self.weights.ravel())  # an error where one is there
        return table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a netCDF file that ArviZ can read too; an existing file is replaced in one step.

        Raises
        ------
        FileNotFoundError
            If the folder does not exist.
        """
        storage.write(self.data, arguments.path("path", path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Load what `save` saved, or the directory of a run, which may be unfinished; runs no code that it finds there.

        Of a directory the draws are read when they are asked for. What its last checkpoint holds is what is there; a
        segment that is damaged is left out, and named in `warnings`.

        Raises
        ------
        FileNotFoundError
            If there is no such file or folder, or the folder holds no run.
        ValueError
            If the file holds no run, is damaged, or was written by a newer invsamp. If not a single draw of a
            directory can be read.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> import invsamp as iv
        >>> theta = np.random.default_rng(0).normal(size=(1, 4, 100, 1))
        >>> run = iv.Run.from_arrays(None, {"x": ()}, theta, {"energy": np.zeros((4, 100))}, {})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save(f"{folder}/run.nc")
        ...     print(iv.load(f"{folder}/run.nc").shapes)
        ...
        {'x': ()}
        """
        place = arguments.path("path", path)
        if place.is_dir():
            return cls(Stored(place))
        return cls(Dataset(storage.read(place)))

    def expectation(self, quantity: Callable[[Array], npt.ArrayLike]) -> Expectation:
        r"""Posterior mean of any quantity, with its standard error, by all fidelities that the run has draws of.

        Where the fine model only decided (`invsamp.samplers.surrogate_exchange` with ``correct``), the coarse rung has
        made many steps for each draw, and its target is near the posterior. Then

        .. math:: E[f] = E_c[f] + (E[f] - E_c[f]),

        the first by all those steps and the second by the draws of both rungs, a time apart. It is taken where
        its standard error is smaller by a tenth than that of the draws alone; elsewhere these are. No solves.

        Parameters
        ----------
        quantity : callable
            Natural parameters (n, dimension) -> values (n, ...).

        Returns
        -------
        Expectation

        Raises
        ------
        ValueError
            If what it gives has another shape, or is not finite; with fewer than 16 draws of each chain; if the run
            keeps every k-th draw of some parameters (`thinned`).

        References
        ----------
        Giles (2015), "Multilevel Monte Carlo methods", Acta Numerica 24, eq. (2.1); over Markov chains Dodwell et al.
        (2015), SIAM/ASA J. Uncertainty Quantification 3, eq. (2.5).
        """
        arguments.function("quantity", quantity)
        self._refuse_thinned()
        coarse = None
        if self._source.holds("coarse", next(iter(self.shapes))):
            parts = [self._source.read("coarse", name) for name in self.shapes]
            coarse = np.concatenate([part.reshape((*part.shape[:3], -1)) for part in parts], axis=-1)
        hot = None if coarse is None else self.rung_theta(1)
        return expectation(quantity, self.theta, self.weights, coarse, hot, self.report.get("ensemble_size", 1))

    def posterior_predictive(
        self, posterior: Posterior, draws: int | None = None, seed: int = 0, fidelity: str | None = None
    ) -> xr.Dataset:
        """Predict the data from draws of the posterior, with observation noise.

        Parameters
        ----------
        posterior : Posterior
            The one that was sampled: its forward model is solved, and its noise drawn. Or
            `Posterior.for_prediction` of it, for what was not measured.
        draws : int, optional
            How many, over all chains together, evenly spaced; rounded up to the same number for every chain. All by
            default, but at most 1000. Of a field that is not kept whole those of `thinned`.
        seed : int
            Of the noise.
        fidelity : str, optional
            The finest by default.

        Returns
        -------
        Dataset
            ``data`` (chain, draw, *shape of the data) with noise and ``mean`` without. NaN where the solve failed.
            That of the data is also stored as the group ``posterior_predictive``, in place of an earlier one. Of draws
            with weights, those that are predicted are taken as often as their weights say, from all chains in turn:
            predictions count alike.

        Raises
        ------
        ValueError
            If ``posterior`` has no data to predict, its parameters are not those of the run, or ``draws`` < 1.
        """
        theta, shapes, numbers = self._complete(draws, posterior)
        predicted = predict(theta, self.weights, shapes, posterior, draws, seed, fidelity)
        if numbers is not None:
            predicted = predicted.assign_coords(draw=numbers)
        if isinstance(posterior, Observed) and np.isnan(np.asarray(posterior.data, dtype=float)).all():
            return predicted  # of what was not measured
        return self._keep("posterior_predictive", predicted)

    def predict(
        self, posterior: Posterior, draws: int | None = None, seed: int = 0, fidelity: str | None = None
    ) -> Predictions:
        """Predict the data, with noise and without: bands as a table, labeled as the data are.

        Parameters
        ----------
        posterior, draws, seed, fidelity
            As of `posterior_predictive`, whose dataset this has, too.

        Returns
        -------
        Predictions
            It prints how many of the draws were used.

        Raises
        ------
        ValueError
            As `posterior_predictive`.

        Examples
        --------
        ``run.predict(posterior).to_dataframe().to_csv("bands.csv")``
        """
        dataset = self.posterior_predictive(posterior, draws, seed, fidelity)
        chains, available = self._source.size
        observed = None
        if isinstance(posterior, Observed) and np.shape(posterior.data) == dataset["data"].shape[2:]:
            values = np.asarray(posterior.data, dtype=float)
            if not np.isnan(values).all():
                observed = dataset["data"][0, 0].drop_vars(("chain", "draw")).copy(data=values)
        used = dataset.sizes["chain"] * dataset.sizes["draw"]
        return Predictions(dataset, used, chains * available, observed)

    def as_prior(self, names: Sequence[str] | None = None, *, seed: int = 0) -> Prior:
        """The posterior of this run as the prior of the next.

        A mixture of Gaussians is fitted to effective draws, in coordinates without bounds: logarithms of positive
        parameters, logits between two ends. The number of its components is the one that gives held-out draws the
        largest density. Parameters keep their names and shapes, and stay dependent.

        Parameters
        ----------
        names : sequence of str, optional
            Parameters that the next posterior has; the others are integrated out. Default: all.
        seed : int
            Of the choice of draws and of where the fit begins.

        Returns
        -------
        Prior
            How well it represents the draws is ``prior.fit``, a `PriorFit`, which prints. A ``domain`` is not part of
            it: give the next posterior the domain of the first.

        Raises
        ------
        ValueError
            If a name is unknown, there are too few effective draws, or the entries of a vector constrain each other, as
            shares or correlations do.

        Warns
        -----
        UserWarning
            If a Kolmogorov distance between the fit and held-out draws exceeds 0.05 and what chance explains.

        Examples
        --------
        ``tomorrow = iv.Posterior(run.as_prior(), model, new_data, noise)``
        """
        return run_as_prior(self, None if names is None else arguments.names("names", names), seed)

    def log_likelihood(self, posterior: Posterior, fidelity: str | None = None) -> xr.Dataset:
        """Log-likelihood of each datum at every draw, for `arviz.loo` and its kind. Solves the model for each draw.

        Parameters
        ----------
        posterior : Posterior
            The one that was sampled.
        fidelity : str, optional
            The finest by default.

        Returns
        -------
        Dataset
            ``data`` (chain, draw, *shape of the data); -inf where the solve failed. It is also stored as the group
            ``log_likelihood``, in place of an earlier one.

        Raises
        ------
        ValueError
            If ``posterior`` has no data, or its parameters are not those of the run.
        """
        return self._keep("log_likelihood", log_likelihood(self.theta, self.shapes, posterior, fidelity))

    def loo(self, posterior: Posterior | None = None, fidelity: str | None = None) -> InferenceData:
        """Leave-one-out cross-validation, as `arviz.loo` has it, with the draws' weights where they have some.

        Parameters
        ----------
        posterior : Posterior, optional
            Needed unless `log_likelihood` has been called: solves the model for each draw.
        fidelity : str, optional
            The finest by default.

        Returns
        -------
        ELPDData of ArviZ
            Pointwise, for `arviz.compare` and its kind.

        Raises
        ------
        ValueError
            If there is neither the likelihood nor a posterior to make it, or as `log_likelihood`.
        """
        if posterior is not None:
            self.log_likelihood(posterior, fidelity)
        elif "log_likelihood" not in self.data:
            raise ValueError("posterior must be given, or run.log_likelihood(posterior) called before: got None")
        return leave_one_out(self.data, self.weights, self.theta)

    def log_evidence(self) -> LogEvidence:
        """Log of the evidence (marginal likelihood) of the model, by stepping stones.

        For runs of a ladder of tempered likelihoods from the prior to the posterior, of one fidelity, with exact
        energies, as ``parallel_tempering(ladder="auto")`` makes them. Densities are those of the data, normalized, and
        the prior is that within the domain, normalized there. Differences between models of the same data are log Bayes
        factors; the evidence depends on how wide the priors are.

        Returns
        -------
        LogEvidence
            With standard errors, in which autocorrelation and swaps are accounted for; prints itself.

        Raises
        ------
        ValueError
            If the run has no such ladder: with what to do.
        """
        return evidence_of(self.report, partial(self._source.statistic, "misfit"))

    def field(
        self,
        field: Field,
        mesh: Mesh,
        *,
        on: Literal["nodes", "cells"] = "nodes",
        draws: int | None = None,
        truth: Mapping[str, npt.ArrayLike] | None = None,
        of: Literal["posterior", "prior"] = "posterior",
    ) -> FieldDraws:
        """An unknown field on a mesh: its mean, sd, quantiles, probabilities to exceed a level, and draws.

        Parameters
        ----------
        field : Field
            Of unknowns of this run, such as those of `invsamp.solvers.fem.fields`: ``Modes("z", ...)``,
            ``LogField(...)``, ``GaussianBump(...)``. It need not be one that the forward model has.
        mesh : Mesh
            Where: of `invsamp.solvers.fem.mesh.unit_square`, `invsamp.solvers.fem.mesh.read_mesh`, or an equation's.
        on : {"nodes", "cells"}
            Nodes, or the midpoints of cells, as for fields that jump: those per region have to be asked for there.
        draws : int, optional
            How many, over all chains together, evenly spaced; all by default, but at most 1000. Those with weights are
            taken as often as these say.
        truth : mapping from name to value, optional
            Of the field's unknowns, for comparison.
        of : {"posterior", "prior"}
            Which draws: those of the run, or those of the prior that a run of a `Posterior` keeps for comparison. Mean
            and sd of the prior are exact at the nodes of a field's own mesh, if it is a function of one Gaussian field
            of known range and sd.

        Returns
        -------
        FieldDraws
            ``points``, ``cells``, ``values``; writes itself to files for ParaView.

        Raises
        ------
        ValueError
            If the field's unknowns are not those of the run, or do not fit the mesh; if there are no prior draws.
        """
        one_of("of", of, ("posterior", "prior"))
        held, grids = self._source.shapes, self.report.get("grids", {})
        if of == "prior":
            if "prior" not in held:
                raise ValueError("of must be 'posterior': the run has no draws of the prior, as runs of a Posterior do")
            parts = {name: self._source.read("prior", name) for name in held["prior"]}
            theta, shapes = layout.join(parts), {name: values.shape[2:] for name, values in parts.items()}
            known = {name: tuple(self._source.read("prior_moments", name)) for name in held.get("prior_moments", {})}
            return field_draws(theta, None, shapes, field, mesh, on, draws, truth, known, True, grids)
        theta, shapes, _ = self._complete(draws)
        known = {name: self.moments(name) for name in held.get("moments", {})}
        return field_draws(theta, self.weights, shapes, field, mesh, on, draws, truth, known, False, grids)

    def _complete(
        self, draws: int | None = None, posterior: object = None
    ) -> tuple[Array, dict[str, tuple[int, ...]], npt.NDArray[np.intp] | None]:
        """Draws theta (chains, draws, d), and the shapes of their parameters.

        Of a run that keeps every k-th draw of some parameters: so many of those that have all, evenly spaced, and their
        numbers in their chains.
        """
        thinned, shapes = self._source.shapes.get("thinned", {}), self._all_shapes(posterior)
        if not thinned:
            return self.theta, shapes, None
        chains, available = next(iter(thinned.values()))[:2]
        at = evenly_spaced(chains, available, draws)
        numbers = self._source.every * at
        groups = {name: ("thinned", at) if name in thinned else ("posterior", numbers) for name in shapes}
        parts = {name: self._source.read(group, name, which) for name, (group, which) in groups.items()}
        return layout.join(parts), shapes, numbers

    def _refuse_thinned(self) -> None:
        """Raise where theta lacks parameters that no one left out: a function would take others for them."""
        thinned = self._source.shapes.get("thinned", {})
        if thinned:
            names = ", ".join(thinned)
            raise ValueError(
                f"functions of theta need all draws of all parameters, but those of {names} are too large to keep. "
                "Give the function by record= of iv.sample, or compute it from run.thinned(name) or run.moments(name)"
            )

    def _all_shapes(self, posterior: object = None) -> dict[str, tuple[int, ...]]:
        """Shapes of all parameters; of a run that keeps every k-th draw of some in the order of a posterior."""
        thinned = {name: shape[2:] for name, shape in self._source.shapes.get("thinned", {}).items()}
        shapes = self.shapes | thinned
        order = [name for name in getattr(posterior, "shapes", ()) if name in shapes] if thinned else []
        return {name: shapes[name] for name in order} | shapes

    def _keep(self, group: str, dataset: xr.Dataset) -> xr.Dataset:
        """Store a dataset as a group, in place of an earlier one."""
        arviz_data.put(self.data, group, dataset)
        return dataset

    def _repr_html_(self) -> str:
        """HTML for a notebook: the table, and the warnings."""
        return printed_html(*self._to_print())

    def __repr__(self) -> str:
        return printed(*self._to_print())

    def _to_print(self) -> tuple[pd.DataFrame, Report, list[str], Mapping[str, Separation], list[str]]:
        """Table, report, warnings, modes and notes."""
        summary = self._summary
        modes = summary.separations() if self.rungs > 1 else {}
        return self.short_summary(), self.report, summary.warnings(), modes, summary.notes()
