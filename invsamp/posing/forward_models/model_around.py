"""Forward models that are made of another one."""

from __future__ import annotations

from invsamp.protocols import FunctionCalls, derivative_error, function_calls, no_derivatives


class ModelAround:
    """Base of a forward model that asks another one: what that one says of itself, it says of itself, too."""

    @property
    def inner(self) -> object:
        """The other one; None if there is none."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it is made of")

    @property
    def derivative_error(self) -> float:
        """Relative error of its derivatives."""
        return derivative_error(self.inner)

    @property
    def function_calls(self) -> FunctionCalls:
        """How often it calls its function."""
        return function_calls(self.inner)

    @property
    def no_derivatives(self) -> str | None:
        """Why it has no derivatives; None if it has."""
        return no_derivatives(self.inner)

    @property
    def cost(self) -> float | None:
        """Seconds, where it states them."""
        return getattr(self.inner, "cost", None)

    @property
    def work(self) -> float | None:
        """Work of a solve, where the inner model counts it."""
        return getattr(self.inner, "work", None)

    @property
    def message(self) -> str | None:
        """Message of the inner model's last failure, where it keeps it."""
        return getattr(self.inner, "message", None)
