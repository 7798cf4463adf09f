"""A network that is held to an equation: what is posed is a choice of how well it has to hold."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

torch = pytest.importorskip("torch", reason="torch is not installed")

from invsamp.torch import module_posterior  # noqa: E402


class Solution(torch.nn.Module):
    """u(x) = x (1 - x) net(x), and u'', of -u'' = f on (0, 1) with u = 0 at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(1, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def u(at: torch.Tensor) -> torch.Tensor:
            return (at * (1.0 - at) * self.net(at))[0]

        second = torch.func.vmap(torch.func.grad(lambda at: torch.func.grad(u)(at)[0]))
        return torch.cat([torch.func.vmap(u)(x)[:, None], second(x)], dim=1)


@pytest.mark.slow
def test_poisson_with_noisy_sensors(draw):
    """Sensors .1 off; the equation as pseudo-data whose sd is chosen: the band is as wide as that lets it be."""
    rng = np.random.default_rng(0)
    sensors, points = rng.random((8, 1)), np.linspace(0.02, 0.98, 15)[:, None]
    measured = np.sin(np.pi * sensors) + 0.1 * rng.standard_normal((8, 1))
    source = np.pi**2 * np.sin(np.pi * points)  # of u = sin(pi x)
    x = np.concatenate([sensors, points])
    targets = np.concatenate([np.c_[measured, np.zeros(8)], np.c_[source, np.ones(15)]])

    def likelihood(sd: float):
        def log_likelihood(said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
            is_equation = wanted[:, 1] > 0.5
            at_sensor = -0.5 * ((said[:, 0] - wanted[:, 0]) / 0.1) ** 2
            in_equation = -0.5 * ((said[:, 1] + wanted[:, 0]) / sd) ** 2
            return torch.where(is_equation, in_equation, at_sensor)

        return log_likelihood

    torch.manual_seed(0)
    grid = np.linspace(0.1, 0.9, 9)[:, None]
    spread = {}
    for sd in (0.3, 30.0):
        posterior = module_posterior(Solution().double(), (x, targets), likelihood(sd), prior=3.0)
        wanted = {"u": posterior.outputs(grid)}
        run = draw(posterior, iv.samplers.ghmc(), draws=100, warmup=200, chains=3, record=wanted, keep=False)
        u = run.draws("u")[..., 0]
        spread[sd] = u.std(axis=(0, 1)).mean()
        assert np.abs(u.mean(axis=(0, 1)) - np.sin(np.pi * grid[:, 0])).max() < (0.05 if sd < 1 else 0.3)
    assert spread[0.3] < 0.03 and spread[30.0] > 3 * spread[0.3]
