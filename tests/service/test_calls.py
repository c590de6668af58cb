"""Batches that are taken in turns."""

from __future__ import annotations
