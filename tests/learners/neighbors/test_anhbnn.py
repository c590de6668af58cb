"""ANHBNN by its rule from scratch, and what its family does while the window fills."""

from __future__ import annotations
