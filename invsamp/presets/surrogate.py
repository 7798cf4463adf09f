"""Moves on a coarse model, which the fine one only decides. See `invsamp.presets`."""

from __future__ import annotations

from collections.abc import Sequence

from invsamp.arguments import instance, integer, optional
from invsamp.kernels import CrankNicolson, Kernel, Momentum
from invsamp.ladder import COARSEST, Rung, Sampler, Swap, as_fidelity
from invsamp.laws import Law, as_ladder, tempered
from invsamp.swap.rules import product_target

#: Share of the momentum that is lost in a step of the coarse chains.
_FRICTION = 0.1


def surrogate_exchange(
    temperatures: Sequence[Law | float] = (1.0,),
    *,
    every: int = 20,
    local: int = 20,
    kernel: Kernel | None = None,
    coarse: str | int = COARSEST,
    preconditioner: str | None = "auto",
) -> Sampler:
    r"""Few fine solves: a coarse model does the moving, the fine one only decides. Exact.

    A fine rung at temperature 1 exchanges positions every so many steps with a coarse rung at temperature 1, by

    .. math:: \log S = U_f(t_f) - U_f(t_c) + U_c(t_c) - U_c(t_f),

    which keeps both laws whatever the coarse model is. An attempt takes one fine energy, and no gradient. The coarse
    rung may be the cold end of a ladder, all of it on the coarse model. Correct that model first (`invsamp.correct`):
    swaps are accepted where its energy is off by less than about 1, up to a constant, over the posterior.

    Parameters
    ----------
    temperatures : sequence of float or Law
        Of the coarse rungs, from 1 upwards. (1, 3, 9, 27) lets them cross between modes.
    every : int
        Steps of the coarse rungs between two exchanges: about as many as it takes these to forget where they were, if
        that costs less than a fine solve. With ``thin=every`` each draw is one after an exchange.
    local : int
        The fine rung moves by itself after so many exchanges (one step of preconditioned Crank-Nicolson, one fine
        energy), so that no chain stands for ever where the coarse model is far off.
    kernel : Kernel, optional
        Of the coarse rungs. Default: that of ``ghmc(0.1)``.
    coarse : str or int
        Fidelity of the coarse rungs, as in `invsamp.ladder.Rung`: the coarsest by default.
    preconditioner : "auto", None, "diagonal" or "dense"
        See `invsamp.presets`.

    Raises
    ------
    ValueError
        If an argument is wrong.

    Notes
    -----
    With two rungs of one temperature this is a subchain on the coarse level (Christen and Fox 2005, "Markov chain Monte
    Carlo using an approximation"; Lykkegaard et al. 2023, "Multilevel delayed acceptance MCMC") whose coarse chain goes
    on, with its momentum, where the fine one left off.
    """
    every, local = integer("every", every, least=1), integer("local", local, least=1)
    level = as_fidelity("coarse", coarse)
    if level == 0:
        raise ValueError("coarse must be another fidelity than the finest, got 0")
    moves = optional(instance, "kernel", kernel, Kernel, "a Kernel, such as Momentum(...)") or Momentum(_FRICTION, True)
    rungs = [Rung(tempered(1.0), 0, kernel=CrankNicolson(every * local))]
    rungs += [Rung(law, level, kernel=moves) for law in as_ladder(temperatures)]
    # the coarse pairs' rule by default: they are of one fidelity, for which `product_target` is the same
    return Sampler(rungs, Swap(product_target(), every=every), preconditioner)
