"""Progress bar of a run, on the process that shows it."""

from __future__ import annotations

from tqdm.auto import tqdm

from invsamp.engine.engine import Engine


class Bar:
    """Progress bar; touches tqdm every so many steps only, because a step may take microseconds."""

    def __init__(self, engine: Engine, shown: bool) -> None:
        shown, steps = shown and engine.ranks.root, engine.plan.steps
        self._bar = tqdm(total=steps, initial=engine.done, disable=not shown, unit="step", mininterval=0.5)
        self._every = 20 if shown else 10**12
        self._engine, self._pending = engine, 0

    def tick(self) -> None:
        """Count one step."""
        self._pending += 1
        if self._pending >= self._every:
            if self._bar.update(self._pending):
                self._bar.set_postfix(self._facts(), refresh=False)
            self._pending = 0

    def close(self) -> None:
        """Take the bar down."""
        if not self._bar.disable:
            self._bar.update(self._pending)
        self._bar.close()

    def _facts(self) -> dict[str, str]:
        facts = {name: f"{evaluator.evaluations} solves" for name, evaluator in self._engine.evaluators.items()}
        exchange = self._engine.exchange
        if exchange is not None and exchange.attempts.sum():
            facts["swaps"] = f"{exchange.accepts.sum() / exchange.attempts.sum():.0%}"
        return facts
