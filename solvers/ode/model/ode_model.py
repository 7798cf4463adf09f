"""Ordinary differential equations x' = f(t, x, p) from a plain right-hand side, with forward sensitivities.

Trajectories are integrated in batches; one that fails gets a status and NaN, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from invsamp.solvers.ode.codegen.observable_functions import Function
from invsamp.solvers.ode.integrators.solution import SensitiveSolution, Solution
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.model.initial_values import Initial
from invsamp.solvers.ode.model.observation import OdeObservation, observe
from invsamp.solvers.ode.model.ode_solver import OdeSolver
from invsamp.solvers.ode.model.steady_state import SteadyState

__all__ = ["OdeModel", "SensitiveSolution", "Solution", "Status"]


@dataclass(frozen=True, repr=False)
class OdeModel(OdeSolver):
    r"""An ODE with named states and parameters.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, x, p)`` with a float and two arrays of floats, which may also be unpacked, returning one derivative
        per state. Plain Python: it is compiled. Either it consists of arithmetic and elementary functions of `math` or
        `numpy`, without branches on its arguments, and then its derivatives are symbolic; or numba has to be able to
        compile it as it stands. What it captures is read once, when it is compiled.
    states, parameters : sequence of str
        Names, in the order of ``x`` and ``p``.
    method : {"auto", "RK45", "DOP853", "Taylor", "Rodas5P", "LSODA", "CVODE"}
        For problems that are not stiff: "RK45" and "DOP853", the pairs of Dormand and Prince of orders 5(4) and 8(5, 3)
        with dense output, compiled. Also "Taylor", steps along the Taylor series of the solution, of an order that
        follows from ``rtol`` (Jorba and Zou 2005). It needs a ``rhs`` that traces and makes no choice by its states
        (``np.where``, ``abs``, ``%``). For stiff problems: "Rodas5P", linearly implicit of order 5(4) with dense output
        (Steinebach 2023), compiled. It needs a ``rhs`` that traces, and has sparse factors of 1 / (h gamma) - J where
        these save work. Also "LSODA", Adams and BDF with automatic switching (ODEPACK), and "CVODE", the BDF of
        SUNDIALS. The latter needs the extra ``cvode``. Its Newton matrices are banded or sparse where ``rhs`` traces,
        so it is the fastest for large systems with narrow bands. "auto", the default: "RK45" where
        ``rtol`` is at least 1e-7. Below, "Taylor" where ``rhs`` has a series and there are fewer than 50 states and
        parameters, else "DOP853", which also follows where "Taylor" fails. A trajectory on which these fail is
        solved by Rodas5P where ``rhs`` traces and has at most 100 states or a Jacobian with sparse factors, and else or
        after that by LSODA. The solution's ``switched`` reports it. An explicit method is left as soon as a trajectory
        is stiff and would take 1000 more explicit steps (``max_steps`` where there is no Rodas5P).
    rtol, atol : float, > 0
        Relative and absolute tolerance of the local error of the states, that of one step: errors at the end are
        larger where the system amplifies them. A state that grows from a value so small that ``atol`` would lose it
        has a smaller absolute tolerance: see the notes.
    max_steps : int, >= 1
        Bound on the accepted steps of one trajectory.
    jacobian : callable, optional
        ``jacobian(t, x, p)`` returning ``(rows of df/dx, rows of df/dp)``, for the sensitivities, compiled by numba.
        Needed only where ``rhs`` neither traces nor takes complex numbers.
    stop : callable, optional
        ``stop(t, x, p)``: the trajectory ends when this changes its sign from one step to the next. Not with
        LSODA and CVODE; "auto" does not switch to LSODA then.
    breakpoints : sequence of quantities
        Times at which the right-hand side switches: the integration restarts there, so that no step goes across, and
        the right-hand side is evaluated on either side only. A quantity is a number, the name of a parameter, or a
        function of the parameters ``p``; sensitivities know of times that depend on parameters. Conditions of time
        and parameters in ``rhs`` are found (see Notes): what is left is what a `Table` or another function hides.
    doses : sequence of (quantity, {state: quantity})
        Times at which amounts are added to states at once. A value at the time of a dose is the one before it. A dose
        at ``t0`` counts, one before it does not.
    events : sequence of Event
        What happens at given times, or where a function of the states passes zero. The latter not with LSODA and
        CVODE; "auto" does not switch to LSODA then.
    max_step : float, > 0, optional
        Longest step of the integration; any by default. For a pulse that ``rhs`` makes as a state passes by, or that
        it hides: choose it below the duration of the pulse.
    threads : int, >= 1
        Threads for the rows of a batch, but for LSODA and CVODE. The numbers do not depend on it.
    error_control : {"full", "states"}
        Tolerances of sensitivities. With "full" they are those of the states. With "states" they are larger, ``rtol``
        and ``atol`` divided by the square root of ``rtol``, which is cheaper. Most sensitivities are as accurate then,
        but those that were far larger on the way than where they are wanted may have no digit right.

    Raises
    ------
    ValueError
        For duplicate or unknown names, an unknown method, settings out of range, or doses of unknown amounts. Also for
        a ``rhs`` that is no function of (t, x, p), does not take and return as many values as there are names, or
        cannot be compiled.
    ModuleNotFoundError
        If ``method`` is "CVODE" and scikit-SUNDAE is not installed: ``pip install 'invsamp[cvode]'``.

    Notes
    -----
    Sensitivities are integrated together with the states once more, with steps of their own. The states of the solution
    are those of `solve`, to the bit: a posterior has one energy, whether its gradient is asked for or not. Taylor's
    method integrates them once: its steps are those of the states, and sensitivities divide a step in which their error
    would be more than half a tolerance.

    The error test takes the largest of the weighted norms of the states and of each column of sensitivities (LSODA
    takes maxima, the others root mean squares). CVODE bounds the norm over all of them, so that of each is smaller.
    The column of a parameter :math:`p_j` has the relative tolerance ``rtol`` and the absolute one ``atol``
    :math:`/ \max(|p_j|, 1)`. CVODES has ``atol`` :math:`/ |\bar p_j|` with
    typical sizes :math:`\bar p_j` that a user gives, 1 by default. See Serban and Hindmarsh 2005, "CVODES: the
    sensitivity-enabled ODE solver in SUNDIALS", and its user guide, "Selection of the absolute tolerances for
    sensitivity variables". Here they are the parameters' own sizes, but not below 1: a parameter that passes through 0
    keeps its sensitivity under control.

    Tighter tolerances follow where a sensitivity has been far larger before than at the output times. They end when
    sensitivities change by less than the square root of ``rtol`` of their scale, or at the limits of rounding and
    `max_steps`: see `invsamp.solvers.ode.sensitivities.forward_sensitivities`. That is ``error_control="full"``. With
    "states" both tolerances of sensitivities are ``rtol`` :math:`^{-1/2}` times as large (in CVODE the absolute one
    alone), and no tighter ones follow.
    Sensitivities are never left out of the test, as CVODES may do: states at rest have no error at any step, and
    sensitivities diverge where explicit steps exceed the bound of stability.

    An error of ``atol`` is not negligible where a state grows in proportion to itself from a value that is not much
    larger. An initial value other than zero below ``atol`` has the absolute tolerance ``rtol`` :math:`|x_0|`. A
    trajectory may amplify an error of ``atol`` to more than 30 tolerances, from an initial value or from a trough. Then
    it is solved again with such a tolerance for that state, and for those that start at zero. Sensitivities have the
    tolerances of their states. Evaluations and steps count all solves. See
    `invsamp.solvers.ode.integrators.amplification`.

    A step evaluates ``rhs`` at its stages alone, so it may pass a short pulse with an estimated error of zero.
    Therefore the operations of ``rhs`` on time and parameters alone are bounded over intervals before each integration,
    by interval arithmetic. Times at which its conditions change (``np.where``, branches, ``%``, ``np.floor``) become
    breakpoints, with their derivatives by the parameters. The integration pauses before and after each pulse
    (``np.exp``, ``np.tanh``, quotients, powers). This needs a ``rhs`` that runs on symbols, with at most 32 ways
    through its branches.

    Where sensitivities are asked for, the states of the two integrations are compared. A warning reports a difference
    of more than 1000 tolerances, or of more than the same relative change of the parameters causes.

    Observations of 50 unknowns and more have gradients by the adjoint of the discrete steps, where there is one: see
    `invsamp.solvers.ode.model.adjoint`.

    LSODA has the Jacobian from the same source as the sensitivities: see
    `invsamp.solvers.ode.integrators.lsoda_jacobian`. How CVODE is called: `invsamp.solvers.ode.integrators.cvode`.

    Examples
    --------
    Heat in a rod of 100 cells with one end at 1, which is stiff. ``method="CVODE"`` needs the extra ``cvode``.

    >>> from importlib.util import find_spec
    >>> from invsamp.solvers.ode import OdeModel
    >>> def rod(t, x, p):
    ...     cells = (1.0, *x, x[-1])
    ...     return [1e4 * p[0] * (cells[i] - 2 * cells[i + 1] + cells[i + 2]) for i in range(100)]
    >>> method = "CVODE" if find_spec("sksundae") else "Rodas5P"
    >>> model = OdeModel(rod, [f"x{i}" for i in range(100)], ["diffusivity"], method)
    >>> solution = model.solve_with_sensitivities([[0.1]], [0.0] * 100, [0.0, 1.0], initial_states=())
    >>> solution.states[0, -1, 99].round(2), solution.sensitivities[0, -1, 99, 0].round(2)
    (np.float64(0.05), np.float64(1.44))
    """

    def observe(
        self,
        times: npt.ArrayLike,
        initial: Initial | SteadyState,
        *,
        t0: float | None = None,
        given: Mapping[str, float | str] | None = None,
        states: Sequence[str] | None = None,
        of: Function | Sequence[str] | None = None,
        jacobian: Callable[[object, object, object], npt.ArrayLike] | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> OdeObservation:
        """Forward model that observes states, or functions of them, at given times.

        Parameters
        ----------
        times : array, shape (n_times,)
            Observation times, increasing.
        initial : sequence of n_states entries, mapping from state to entry, callable, or SteadyState
            Per state its known initial value, the name of a parameter, or a formula of names ("1000 - infected"). Names
            that are not parameters of the model are new ones, and several states may share them. Or a function of the
            model's parameters ``p``; or one function ``initial(p)`` that returns them all. Or the steady state of the
            system.
        t0 : float, optional
            Time of the initial values; the first observation time by default.
        given : mapping from parameter to number or name, optional
            Parameters of the model that are known here, or that have another name here: what differs between
            experiments (see `Experiments`).
        states : sequence of str, optional
            The observed states; all by default.
        of : callable, or sequence of str, optional
            ``of(t, x, p)`` -> outputs, observed in place of states: sums, ratios, a quantity with a calibration; or
            formulas of names, ``["blood / volume"]``. It takes all states and the model's parameters, among which may
            be some that only it uses. Its derivatives are symbolic where it can be traced; see
            `OdeObservation.derivatives`.
        jacobian : callable, optional
            Of ``of``: ``jacobian(t, x, p)`` -> (n_outputs, n_states + n_parameters).
        mask : array of bool, shape (n_times, n_observed), optional
            Which outputs are observed at which time; all by default. The data are then those where it is true.

        Raises
        ------
        ValueError
            For a wrong number of initial entries, names that are unknown, bad times, both ``states`` and
            ``of``, or an ``of`` that cannot be differentiated.
        """
        return observe(self, times, initial, t0=t0, given=given, states=states, of=of, jacobian=jacobian, mask=mask)
