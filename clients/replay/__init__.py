"""Replay a labelled data set as a stream of noisy clicks."""
