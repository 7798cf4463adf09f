"""DEO*-SGD: gradient descents at rising rates that exchange positions by a fixed rule. A baseline."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import integer, real, store
from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import ActiveRung as Active
from invsamp.kernels.contract import Info, Moved, Point
from invsamp.kernels.defaults import Baseline
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class DeoSgd(Baseline):
    r"""DEO*-SGD: P processes in one kernel, of which the first is SGLD and the chain's draws. Approximate.

    Process p > 1 is gradient descent without noise at a learning rate :math:`\eta_p`; each energy and gradient is
    estimated afresh at each step. With :math:`A_p = 1[\tilde L_{p+1} + C < \tilde L_p]`, pairs of the parity of
    :math:`\lfloor k / W \rfloor` swap where :math:`A_p`, once in a window of W steps at most. C and the rates
    follow a target S,

    .. math:: \eta_p \leftarrow \tfrac12 \bigl(\eta_{p-1} + v_{p-1}^+ e^{\gamma (A_{p-1} - S)} + \eta_{p+1}
              - v_p^+ e^{\gamma (A_p - S)}\bigr), \quad v_p = \eta_{p+1} - \eta_p, \quad
              C \leftarrow C + \gamma (\bar A - S), \quad \gamma_k = 50 / (k^{.8} + 500).

    Its adaptation never ends, its swaps leave no density invariant, and its hot processes have no temperature but their
    gradients' noise.

    Parameters
    ----------
    processes : int, >= 2
        P.
    highest : float, > 0
        :math:`\eta_P`, fixed as :math:`\eta_1`, the rung's step size, is; the others begin in equal ratios between
        them.
    target : float in (0, 1)
        S.
    window : int, >= 1
        W.
    buffer : float
        C at the start: the variance of the energies' noise.

    References
    ----------
    Deng (2021), thesis, Purdue, Algorithm 4, eq. (4.8) to (4.12), with the indices of v as its program has them (the
    print shifts them by one) and gates that close after a swap (the print lets one attempt through in each window).

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.DeoSgd(processes=4, window=8)
    DeoSgd(processes=4, highest=0.6, target=0.4, window=8, buffer=4.0)
    """

    processes: int = 16
    highest: float = 0.6
    target: float = 0.4
    window: int = 8
    buffer: float = 4.0
    name: ClassVar[str] = "deo*-sgd"
    statistics = MappingProxyType({"first_process": int, "process_round_trips": int, "swap_rate": float})

    def __post_init__(self) -> None:
        store(
            self,
            processes=integer("processes", self.processes, least=2),
            highest=real("highest", self.highest, above=0),
            target=real("target", self.target, above=0, below=1),
            window=integer("window", self.window, least=1),
            buffer=real("buffer", self.buffer),
        )

    def __str__(self) -> str:
        return f"DEO*-SGD ({self.processes} processes, window {self.window}; approximate)"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Of each chain its processes; empty until the first step, which knows where they are."""
        chains, (d, p) = shape[0], (shape[1], self.processes)
        return {
            "steps": np.zeros(()),
            "position": np.zeros((chains, p, d)),
            "energy": np.zeros((chains, p)),
            "gradient": np.zeros((chains, p, d)),
            "rate": np.zeros((chains, p)),
            "buffer": np.full(chains, self.buffer),
            "free": np.ones((chains, p - 1), dtype=bool),
            "replica": np.tile(np.arange(p), (chains, 1)),  # the replica at each process
            "end": np.where(np.arange(p) == 0, 0, -1) + np.zeros((chains, 1), dtype=np.int64),  # by walker
            "crossings": np.zeros((chains, p), dtype=np.int64),
        }

    def step(self, rung: Active, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every process of every chain once."""
        chains, d = here.position.shape
        memory = self._begun(rung, here, memory)
        position, k = memory["position"].copy(), int(memory["steps"])
        position[:, 0] = here.position
        gradient = memory["gradient"].copy()
        gradient[:, 0] = rung.gradient(here.estimate)
        moved = position - memory["rate"][:, :, None] * gradient
        moved[:, 0] += np.sqrt(2.0 * memory["rate"][:, :1]) * rung.normal()
        found = yield from rung.evaluate(moved.reshape(-1, d), np.repeat(np.arange(chains), self.processes))
        energy, slope = rung.energy(found).reshape(chains, -1), rung.gradient(found).reshape(moved.shape)
        failed = ~np.isfinite(energy)  # they stay where they were, and do not swap
        moved[failed], energy[failed] = position[failed], memory["energy"][failed]
        slope[failed] = gradient[failed]
        order, better, free = self._swapped(energy, failed, memory, k)
        rows = np.arange(chains)[:, None]
        kept = {
            "steps": np.asarray(k + 1.0),
            "position": moved[rows, order],
            "energy": energy[rows, order],
            "gradient": slope[rows, order],
            "free": free,
            **self._adapted(memory, better, k),
            **self._traveled(memory, order),
        }
        cold = order[:, 0] + self.processes * np.arange(chains)
        estimate = found.take(cold)
        if (stayed := np.flatnonzero(failed[:, 0])).size:
            estimate = estimate.replaced(stayed, here.estimate.take(stayed))
        statistics = {
            "first_process": kept["replica"].argmin(axis=1),
            "process_round_trips": (kept["crossings"] // 2).sum(axis=1),
            "swap_rate": better.mean(axis=1),
        }
        return Point(kept["position"][:, 0].copy(), estimate), kept, Info(statistics=statistics)

    def _begun(self, rung: Active, here: Point, memory: Memory) -> Memory:
        if memory["steps"]:
            return memory
        p, (chains, _) = self.processes, here.position.shape
        lowest = float(np.mean(rung.step_size))
        rate = lowest * (self.highest / lowest) ** (np.arange(p) / (p - 1))
        return memory | {
            "position": np.repeat(here.position[:, None], p, axis=1),
            "energy": np.repeat(rung.energy(here.estimate)[:, None], p, axis=1),
            "gradient": np.repeat(rung.gradient(here.estimate)[:, None], p, axis=1),
            "rate": np.tile(rate, (chains, 1)),
        }

    def _swapped(
        self, energy: Array, failed: npt.NDArray[np.bool_], memory: Memory, k: int
    ) -> tuple[npt.NDArray[np.intp], Array, npt.NDArray[np.bool_]]:
        """Which process each position comes from (chains, P), the A (chains, P - 1), and which pairs are still free."""
        better = energy[:, 1:] + memory["buffer"][:, None] < energy[:, :-1]
        free = memory["free"].astype(bool) if k % self.window else np.ones_like(better)
        parity = np.arange(self.processes - 1) % 2 == k // self.window % 2
        swap = better & free & parity & ~(failed[:, 1:] | failed[:, :-1])
        order = np.tile(np.arange(self.processes), (len(energy), 1))
        order[:, :-1] += swap
        order[:, 1:] -= swap
        return order, better.astype(float), free & ~swap

    def _adapted(self, memory: Memory, better: Array, k: int) -> Memory:
        gain = 50.0 / ((k + 1.0) ** 0.8 + 500.0)
        rate, away = memory["rate"], better - self.target
        wide = np.maximum(np.diff(rate, axis=1), 0.0) * np.exp(gain * away)
        new = rate.copy()
        # the sign of what a pair of much swapping does to the rate between it and the next one is the program's
        new[:, 1:-1] = 0.5 * (rate[:, :-2] + wide[:, :-1] + rate[:, 2:] - wide[:, 1:])
        return {"rate": new, "buffer": memory["buffer"] + gain * away.mean(axis=1)}

    def _traveled(self, memory: Memory, order: npt.NDArray[np.intp]) -> Memory:
        """The replica at each process, and its number of crossings from one end to the other, from the first one on."""
        rows, last = np.arange(len(order)), self.processes - 1
        replica = memory["replica"][rows[:, None], order]
        end, crossings = memory["end"].copy(), memory["crossings"].copy()
        for at in (0, last):
            who, side = replica[:, at], int(at == last)
            before = end[rows, who]
            # a trip begins at the first process: replicas from elsewhere have made none yet
            crossed = (before >= 0) & (before != side)
            crossings[rows, who] += crossed
            end[rows, who] = np.where(crossed | (side == 0), side, before)
        return {"replica": replica, "end": end, "crossings": crossings}
