"""How long Hypothesis looks: longer with ``tests/learners --hypothesis-profile thorough``."""

from __future__ import annotations

from hypothesis import settings

# No deadline: on a busy machine the clock says nothing about the code.
settings.register_profile("short", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=2_000)
settings.load_profile("short")
