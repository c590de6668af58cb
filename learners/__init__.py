"""Learners that survive misclicks: pure, deterministic, one round at a time."""
