"""Benchmarks: each prints a table, and with `--json` one JSON object as its last line."""
