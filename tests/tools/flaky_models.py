"""Forward models that fail in known places; in a module of their own, so that worker processes can import them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from invsamp.errors import ModelError


def observations(theta):
    x, y = theta[:, 0], theta[:, 1]
    return np.stack([np.sin(x) * y, x * x * y, np.exp(0.1 * x * y)], axis=1)


def derivatives(theta):
    x, y = theta[:, 0], theta[:, 1]
    e = 0.1 * np.exp(0.1 * x * y)
    rows = [[np.cos(x) * y, np.sin(x)], [2 * x * y, x * x], [e * y, e * x]]
    return np.moveaxis(np.array(rows), -1, 0)


def square_and_process(theta):
    """Squares of theta, and the number of the process that computes them."""
    return np.concatenate([theta**2, np.full((len(theta), 1), float(os.getpid()))], axis=1)


def misbehave(deed):
    """What the named fault does to the process."""
    if deed == "raise":
        raise RuntimeError("the solver diverged")
    if deed == "hang":
        time.sleep(1000)
    if deed == "hang in C":
        ctypes.PyDLL(None).sleep(1000)  # holds the interpreter's lock
    if deed == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if deed == "exit":
        os._exit(3)
    if deed == "orphan":
        if os.fork() == 0:
            time.sleep(1000)  # and holds whatever the process holds
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "interrupt":  # the owner, which cannot be sooner or later than this call
        os.kill(multiprocessing.parent_process().pid, signal.SIGALRM)
        time.sleep(1000)
    if deed == "mistake":
        raise ModelError("the mesh file is gone")


@dataclass(frozen=True)
class Troubled:
    """Misbehaves, in the stage that is asked for, where theta's first entry is beyond 10."""

    deed: str = "raise"
    stage: str = "solve"
    parameters: tuple = ("x", "y")

    def check(self, stage, theta):
        if stage == self.stage and np.any(theta[:, 0] > 10.0):
            misbehave(self.deed)

    def __call__(self, theta):
        self.check("solve", theta)
        y = observations(theta)
        if self.deed == "nan":
            y[theta[:, 0] > 10.0] = np.nan
        return y

    def linearize(self, theta):
        y = self(theta)

        def vjp(cotangent):
            self.check("product", theta)
            return np.einsum("bm,bmp->bp", cotangent, derivatives(theta))

        return y, vjp


@dataclass(frozen=True)
class Thorough(Troubled):
    """Has the optional methods too."""

    n_observations: int = 3

    def jacobian(self, theta):
        return self(theta), derivatives(theta)

    def rows(self, theta, indices):
        row = np.arange(len(theta))[:, None]
        return self(theta)[row, indices], derivatives(theta)[row, indices]


class Complex(Troubled):
    """Gives complex numbers."""

    def __call__(self, theta):
        return observations(theta) + 0j


class Unpicklable(Thorough):
    def __reduce__(self):
        raise TypeError("holds a factorization")


def build_unpicklable():
    return Unpicklable()


def build_nothing():
    return "no model"


def build_failing():
    raise OSError("no license")


def build_in_turns(file, deeds):
    """Does the first deed when it is called first, in whatever process, and so on."""
    with open(file, "a") as out:
        out.write(".")
    misbehave(deeds[os.path.getsize(file) - 1])
    return Troubled("exit")


@dataclass(frozen=True)
class ProcessNumber(Troubled):
    """Returns the process's number, whether it has a launcher's variables, and its number of threads."""

    def __call__(self, theta):
        values = [os.getpid(), float("OMPI_COMM_WORLD_SIZE" in os.environ), float(os.environ["OMP_NUM_THREADS"])]
        return np.tile(np.array(values, dtype=float), (len(theta), 1))


@dataclass(frozen=True)
class StartsOthers(Troubled):
    """Starts a process, whose number is in the file then, interrupts the owner, and waits."""

    file: str = ""

    def __call__(self, theta):
        process = subprocess.Popen(["sleep", "1000"])
        with open(self.file, "w") as out:
            out.write(f"{os.getpid()} {process.pid}")
        misbehave("interrupt")


@dataclass(frozen=True)
class Unreliable:
    """The identity of one parameter, which fails where theta lies in one of the bands (lower, upper, deed).

    A process that is going to hang leaves a file in the folder, named by its number.
    """

    bands: tuple
    folder: str
    parameters: tuple = ("x",)
    n_observations: int = 1

    def deed(self, x):
        return next((deed for lower, upper, deed in self.bands if lower < x < upper), None)

    def __call__(self, theta):
        deeds = [self.deed(x) for x in theta[:, 0]]
        for deed in deeds:
            if deed == "hang":
                Path(self.folder, str(os.getpid())).touch()
            if deed is not None:
                misbehave(deed)
        return np.where([[deed == "nan"] for deed in deeds], np.nan, theta)

    def linearize(self, theta):
        return self(theta), lambda cotangent: np.array(cotangent)


@dataclass(frozen=True)
class BeginsMPI(Troubled):
    """Returns the number of ranks that the process knows, and theta's first entry."""

    def __call__(self, theta):
        from mpi4py import MPI

        return np.stack([np.full(len(theta), float(MPI.COMM_WORLD.size)), theta[:, 0]], axis=1)


class Forgetful:
    """Whose product belongs to the last theta, whichever it was made for."""

    def __call__(self, theta):
        return np.concatenate([theta**2, theta.sum(axis=1, keepdims=True)], axis=1)

    def linearize(self, theta):
        self.last = theta.copy()
        return self(theta), self.product

    def product(self, cotangent):
        return 2.0 * self.last * cotangent[:, :2] + cotangent[:, 2:]


def cotangents(parameters, y):
    """Of a noise whose gradient in the observations is y by the first parameter."""
    return y * parameters[:, :1]


def impossible(parameters, y):
    """Of a noise that has none."""
    raise ValueError("no density")
