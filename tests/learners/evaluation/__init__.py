"""Tests of `learners.evaluation`."""
