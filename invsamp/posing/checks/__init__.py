"""Tests of gradients. May import `forward_models` and below."""
