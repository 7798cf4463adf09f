"""The emulator of the outputs, its fit to simulations, and the posterior that it gives."""
