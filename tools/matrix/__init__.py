"""Runs of bmoe-cli over a matrix of settings: see docs/benchmark-method.md."""
