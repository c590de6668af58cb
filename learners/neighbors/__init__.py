"""Nearest neighbours over a moving window, and what is robust to wrong labels on top of them."""
