"""Real processes, real kills, and oracles that look at everything afterwards."""
