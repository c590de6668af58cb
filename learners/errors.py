"""The errors of this package: every one is a `LearnersError`.

::

    LearnersError
    ├── ParameterError   a constructor argument is wrong (also a ValueError)
    ├── InputError       an instance, label, outcome or rate is wrong (also a ValueError)
    ├── StateError       a saved state does not belong to this learner (also a ValueError)
    └── UnsupportedError the learner cannot do what was asked, by design
"""

from __future__ import annotations


class LearnersError(Exception):
    """Root of every error that this package raises on purpose."""


class ParameterError(LearnersError, ValueError):
    """A constructor argument is missing, unknown, of the wrong type or out of range."""


class InputError(LearnersError, ValueError):
    """An instance, a label, an outcome or a noise rate is not what was expected."""


class StateError(LearnersError, ValueError):
    """A saved state is damaged or belongs to another kind of learner."""


class UnsupportedError(LearnersError):
    """The learner cannot do what was asked, by design (a label learner gets feedback, say)."""


def expected(name: str, what: str, got: object) -> str:
    """Say in one sentence what `name` should have been and what came instead.

    Examples
    --------
    >>> expected("gamma", "a number in [0, 1)", 2)
    'gamma: expected a number in [0, 1), got 2'
    """
    return f"{name}: expected {what}, got {got!r}"
