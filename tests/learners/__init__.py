"""Tests of `learners`."""
