"""Tests of what the benchmarks say of their numbers."""
