"""Slow, plain twins of fast code: what the tests compare it with."""
