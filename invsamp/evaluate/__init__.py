"""Evaluation: the requests of samplers, and the evaluators that answer them."""

from invsamp.evaluate.batched import together
from invsamp.evaluate.contract import Evaluator, EvaluatorError
from invsamp.evaluate.executors import executed
from invsamp.evaluate.requests import Batch, Estimate, Request
from invsamp.evaluate.solving import solve

__all__ = ["Batch", "Estimate", "Evaluator", "EvaluatorError", "Request", "executed", "solve", "together"]
