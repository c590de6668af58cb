"""Tests of `learners.bandits`."""
