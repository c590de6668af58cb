"""Tests of the neighbour learners."""
