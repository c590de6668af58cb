"""Tests of `learners.noise`."""
