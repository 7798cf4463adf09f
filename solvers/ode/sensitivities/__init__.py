"""Forward sensitivities. May import `integrators`."""
