"""Robust kNN: the vote corrected by noise rates that the neighbourhoods themselves tell."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np

from learners.errors import ParameterError, UnsupportedError, expected
from learners.neighbors.counts import NeighborhoodLabels
from learners.neighbors.graph import NeighborGraph, check_places
from learners.neighbors.knn import DEFAULT_K
from learners.neighbors.neighborhood_noise import NeighborhoodNoise, WindowNoise
from learners.neighbors.options import check_quantile
from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW, WindowLearner
from learners.noise.rates import NoiseRates
from learners.validation import FloatArray, check_choice, check_count, is_integer

#: Default k': the authors advise 20 to 100. Small ones find rates that are too high, because among
#: few neighbours an extreme share comes about by chance.
DEFAULT_K_NOISE = 50


class RkNN(WindowLearner):
    """The vote of the k nearest, against a threshold that noise has moved.

    Use it where labels are wrong more often in one direction than in the other: there plain kNN
    is wrong on a whole band of instances, however many examples it has. Where noise is
    symmetric it decides as kNN does, give or take the noise of its estimate. It needs some examples
    around which all labels are the same; where classes overlap everywhere, the rates come out too
    high on both sides, which partly cancels. Where one label prevails nowhere, because it is rare
    and scattered or mostly mislabelled, it decides as kNN. Of three or more labels, a rare one that
    overlaps others may prevail by chance: where an eighth of the examples have it and a fifth of
    all are told wrong, .34 of the decisions were wrong, of kNN .25.

    Rule for two labels, [1]_: around each example of the window let etatilde be the share of
    label 1 among itself and its k' nearest (``k_noise``), and m_min, m_max the extreme counts.
    Then (the paper's eq. 5 with its orientation put right)::

        rho_0 = min etatilde = m_min / (k' + 1)     rho_1 = 1 - max etatilde
        predict 1 iff  q_1 >= (1 + rho_0 - rho_1) / 2
                  iff  2 (k' + 1) s >= k (m_min + m_max)     s of the k voters having label 1

    decided in integers; the threshold is 1/2 unless 2 m_min < k' + 1 < 2 m_max, from k' = 19 on
    both by more than the standard deviation sqrt(k' + 1). For more labels
    [2]_: the example with the largest share of label c is its anchor, the shares around it row c
    of a transition matrix T, and the decision is argmax of ``(T^T)^-1 q`` over the labels in the
    window, the lowest code where several tie; that of kNN where T cannot be trusted, or a label
    does not prevail around its anchor. While only two labels are in the window, the rule for two
    applies, except that ties go to the lower code. O(N d) a decision, O(N d + k'^2) an example.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that vote, at least 1; 10 by default. All that tie with the k-th vote.
    k_noise
        k', neighbours besides the example itself that the rates are read from, at least 0; 50 by
        default.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.
    quantile
        Use this quantile of the shares, at either end, instead of the extreme, in [0, 0.5); 0 by
        default. 0.01 depends less on single neighbourhoods.
    rates
        ``"estimated"`` (the default), or ``"given"`` for two labels with known rates.
    rho_0, rho_1
        The known rates, P(told 1 | is 0) and P(told 0 | is 1), each in [0, 1) with a sum below 1; 0
        by default. Used with ``rates="given"`` only.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or rates are given for more than
        two labels.

    References
    ----------
    .. [1] Gao, Niu and Zhou, *On the consistency of exact and approximate nearest neighbor
       with noisy data*, 2016, algorithm 1.
    .. [2] Patrini et al., *Making deep neural networks robust to label noise*, 2017, for the
       anchors; Zhang, Lee and Agarwal, 2021, for the plug-in decision.

    Examples
    --------
    >>> xs = np.array([[0, 1, 2.2, 3.5, 5, 6.6, 8.3, 10.1, 12, 14]]).T
    >>> learner = RkNN(1, 2, k=5, k_noise=4)
    >>> learner.learn_many(xs, np.array([0, 0, 1, 0, 1, 1, 1, 1, 1, 1]))
    >>> learner.noise_rates()
    NoiseRates(rho_0=0.4, rho_1=0.0)
    >>> learner.distribution(np.array([4.1])).greedy  # 3 of 5 say 1, the threshold is 0.7
    0
    """

    kind: ClassVar[str] = "rknn"
    _ties_vote: ClassVar[bool] = True
    _upper_wins: ClassVar[bool] = True
    #: The option that says how many neighbours the rates are read from.
    _noise_option: ClassVar[str] = "k_noise"
    #: Set only where the rates are estimated: known ones need no graph.
    _noise: NeighborhoodNoise

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K,
        k_noise: int = DEFAULT_K_NOISE,
        metric: str = "euclidean",
        quantile: float = 0.0,
        rates: str = "estimated",
        rho_0: float = 0.0,
        rho_1: float = 0.0,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self.k_noise = check_count("k_noise", k_noise, least=0)
        self.quantile = check_quantile(quantile)
        self.rates = check_choice("rates", rates, ("estimated", "given"))
        given = NoiseRates.of_options(rho_0, rho_1)
        self.rho_0, self.rho_1 = given.rho_0, given.rho_1
        if self.rates == "given" and self.n_labels != 2:
            raise ParameterError(expected("n_labels", "2 where rates are given", n_labels))
        if self.rates == "estimated":
            # Before the graph checks, which would name its own k.
            name = self._noise_option
            n_around = max(1, self.k_noise)
            # The histogram has a row for each label, the window one for each example.
            rows = max(self.window, self.n_labels)
            check_places(name, getattr(self, name), rows, n_around)
            graph = NeighborGraph(self._examples, n_around)
            around = NeighborhoodLabels(graph, self.n_labels, self.k_noise)
            self._noise = NeighborhoodNoise(self._examples, around, self.quantile)
            self._follow(graph, around)

    # -- what is estimated ----------------------------------------------------------------
    def noise_rates(self) -> NoiseRates | None:
        """Return the rates that decisions are corrected by, for two labels.

        None where the window does not tell: one of the two labels prevails around no example.

        Raises
        ------
        UnsupportedError
            If there are more labels, or fewer: see `transition`.
        """
        if self.n_labels != 2:
            raise UnsupportedError("noise_rates is for two labels; see transition")
        if self.rates == "given":
            return NoiseRates(self.rho_0, self.rho_1)
        return self._noise.rates()

    def transition(self) -> tuple[list[int], FloatArray]:
        """Return the labels in the window, and P(told j | is i) between them, estimated.

        Row i holds the shares around the example that is the anchor of label i.

        Raises
        ------
        UnsupportedError
            If the rates are given.
        """
        self._estimated_only("transition")
        return self._noise.transition()

    def window_noise(self) -> list[WindowNoise]:
        """Return what the window tells of its noise: once, or not at all where rates are given."""
        return [self._noise.reading()] if self.rates == "estimated" else []

    # -- inside ---------------------------------------------------------------------------
    def _scores_from(self, found: Found) -> FloatArray:
        counts = self._counts_of(found)
        if self.rates == "estimated":
            return self._noise.scores(counts)
        # The rates as they were written: 0.1 is meant, not the nearest binary fraction.
        rho_0, rho_1 = Fraction(repr(self.rho_0)), Fraction(repr(self.rho_1))
        lead = float(2 * int(counts[1]) - len(found.slots) * (1 + rho_0 - rho_1))
        return np.array([-lead, lead])

    def _estimated_only(self, what: str) -> None:
        if self.rates == "given":
            raise UnsupportedError(f"{what} is estimated; here the rates are given")

    def _grow(self, count: int) -> None:
        self._estimated_only("more than two labels' noise")
        n_around = max(1, self._noise.around.k)
        check_places(self._noise_option, n_around, self.n_labels + count, n_around)
        super()._grow(count)


class PlugIn(RkNN):
    """Robust kNN with one k: Reeve and Kaban's plug-in rule with kNN maximum estimation.

    Use it instead of `RkNN` where one number is to be chosen, not two; its convergence is
    proved, with rates, for a k that grows with the window. The k nearest of the *whole* window
    estimate etatilde; at an example they include the example itself::

        p_0 = min etatilde,   p_1 = 1 - max etatilde       over the examples
        etahat = (etatilde - p_0) / (1 - p_0 - p_1),       predict 1 iff etahat >= 1/2

    which is `RkNN` with ``k_noise = k - 1`` and no quantile; as there, the rates are taken for 0
    unless both are below 1/2.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours, at least 1; 50 by default.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Reeve and Kaban, *Fast rates for a kNN classifier robust to unknown asymmetric label
       noise*, 2019, algorithm 2.

    Examples
    --------
    >>> learner = PlugIn(1, 2, k=3)
    >>> learner.learn_many(np.arange(9.0)[:, np.newaxis], np.array([0, 0, 1, 0, 1, 1, 1, 1, 1]))
    >>> learner.noise_rates().rho_0 == 1 / 3
    True
    """

    kind: ClassVar[str] = "plugin_knn"
    _noise_option: ClassVar[str] = "k"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_NOISE,
        metric: str = "euclidean",
    ) -> None:
        k_noise = k - 1 if is_integer(k) else k  # a wrong k is named below
        super().__init__(n_features, n_labels, window=window, k=k, k_noise=k_noise, metric=metric)
