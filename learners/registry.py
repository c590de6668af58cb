"""Every learner by its kind, and the one way to make one from plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from learners.bandits.banditron import Banditron
from learners.bandits.bpa import BPA
from learners.bandits.confidit import Confidit
from learners.bandits.forward import Forward
from learners.bandits.forward_auto import ForwardAuto
from learners.bandits.forward_softmax import ForwardSoftmax
from learners.bandits.perceptron import Perceptron
from learners.bandits.rcine import RCINE
from learners.bandits.rcnbf import RCNBF
from learners.bandits.soba import SOBA
from learners.base import Learner
from learners.errors import ParameterError, expected
from learners.neighbors.anhbnn import ANHBNN
from learners.neighbors.auto import AutoRkNN
from learners.neighbors.bandit import NeighborBandit
from learners.neighbors.hfnn import HFNN
from learners.neighbors.hiknn import HIKNN
from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.knn import KNN
from learners.neighbors.nhbnn import NHBNN
from learners.neighbors.rknn import PlugIn, RkNN
from learners.neighbors.weighted import AKNN, NWKNN

_ALL: tuple[type[Learner], ...] = (
    Perceptron, Banditron, RCNBF, RCINE, BPA, SOBA, Confidit, Forward, ForwardSoftmax,
    ForwardAuto,
    KNN, RkNN, PlugIn, AutoRkNN, HwKNN, HFNN, HIKNN, NHBNN, ANHBNN, AKNN, NWKNN, NeighborBandit,
)  # fmt: skip

#: Learner classes by kind. To add one, add its class above.
LEARNERS: Mapping[str, type[Learner]] = MappingProxyType({each.kind: each for each in _ALL})


def create(kind: str, n_features: int, n_labels: int, /, **options: object) -> Learner:
    """Make a fresh learner of the given kind.

    Parameters
    ----------
    kind
        A key of `LEARNERS`.
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    **options
        The keyword-only arguments of the learner's constructor that are plain JSON values;
        ``LEARNERS[kind].option_names()`` lists them.

    Raises
    ------
    ParameterError
        If the kind or an option is unknown (the message lists the known ones), if an option is
        missing, or if the constructor refuses a value.

    Examples
    --------
    >>> create("rcnbf", 4, 3, gamma=0.1, rho_0=0.15, rho_1=0.15).n_labels
    3
    >>> create("banditron", 4, 3, gama=0.1)
    Traceback (most recent call last):
        ...
    learners.errors.ParameterError: options of banditron: expected some of gamma, got 'gama'
    """
    if not isinstance(kind, str) or kind not in LEARNERS:
        raise ParameterError(expected("kind", f"one of {', '.join(LEARNERS)}", kind))
    learner = LEARNERS[kind]
    known = learner.option_names()
    for name in options:
        if name not in known:
            what = f"some of {', '.join(known)}" if known else "none"
            raise ParameterError(expected(f"options of {kind}", what, name))
    for name in learner.required_option_names():
        if name not in options:
            raise ParameterError(f"options of {kind}: expected {name}, which has no default")
    build: Callable[..., Learner] = learner  # the constructor checks the type of each value
    return build(n_features, n_labels, **options)
