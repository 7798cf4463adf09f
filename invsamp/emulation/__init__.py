"""Posteriors of expensive simulators without derivatives, by an emulator of their outputs."""

from invsamp.emulation.certificate import Certificate
from invsamp.emulation.emulate import emulate
from invsamp.emulation.emulated_run import EmulatedRun

__all__ = ["Certificate", "EmulatedRun", "emulate"]
