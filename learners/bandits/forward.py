"""Forward: regression on the raw click, corrected for each label's noise when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from learners.bandits.block_regression import BlockRegression, first_variances
from learners.bandits.exploration import Eagerness
from learners.bandits.label_features import MAX_LABEL_FEATURES, LabelFeatures
from learners.bandits.label_rates import LabelRates
from learners.bandits.relevance_learner import RelevanceLearner, batch_sums
from learners.base import Outcome
from learners.errors import UnsupportedError
from learners.noise.rates import NoiseRates
from learners.states import State, StateValue, state_number
from learners.validation import FloatArray, check_count

#: First variances of weights where labels have features, in shares of the usual ones: of the
#: labels' own weights and of the shared ones. (With .1 instead of .5, items whose features say
#: nearly all about their worth needed slightly fewer clicks, others many more.)
OWN_PRIOR, SHARED_PRIOR = 0.5, 2.0


class Forward(RelevanceLearner):
    """Learns how often each label is clicked, and what that says of how often it is right.

    Use it where several labels may be right for an instance, or none, as with a catalogue of items,
    where clicks are rare, or where labels have features. (Where exactly one is right,
    `ForwardSoftmax` needs a fraction of the clicks.) It learns from every click at once, needs no
    rates where noise is the same for all labels, and can use rates that differ by label (a big
    button beside the close cross). Not where a round may take only microseconds: it takes some ten
    times as long as `RCNBF`.

    The forward model, [1]_, says P(click | x, k) = rho_0k + beta_k q_k(x), with
    beta_k = 1 - rho_0k - rho_1k. The left side is regressed (`BlockRegression`) on z, as
    `BentInputs` makes it (x centred and scaled, a constant, waves); q is read from it when a label
    is chosen, so that new rates correct everything learned before::

        q_k = (w_k . z - rho_0k) / beta_k
        p_k = 1 / (m + gain_k (max q - q_k)) for each of m labels but the best, which has the rest
        gain_k = gain max(1, m / 10) mean(beta) sqrt(min(rounds, m n_k) + 1),
                                                                  n_k rounds that showed k

    This is inverse gap weighting, [2]_, with three changes: gaps are measured in clicks, which is
    what was learned from; they count more among many labels, so that the worse ones together are
    tried no more often than among ten; and less for a label shown less than its share, so that a
    new one is tried at once. A new label begins with the mean of the others' weights. Estimated
    rates shrink towards their mean as far as their standard errors explain the differences. One
    round moves a label's prediction at that instance towards the bit and never past it. Where
    labels are described by features (items of a catalogue, say), similar ones learn from each
    other's clicks (`LabelFeatures`).

    Parameters
    ----------
    n_features
        Length d of an instance.
    n_labels
        Number K of labels.
    rho_0, rho_1
        Rates of false and missed clicks, in [0, 1) with a sum below 1, until others are set; 0 by
        default. Rates that are the same for all labels change no choice.
    exploration
        "gaps" (default) as above, or "greedy": the best label, so that only `gamma` explores.
    gain
        How sharply gaps count, in [0, 1e6]; 20 by default. More explores less. With more than ten
        labels, gaps count proportionally more.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0 by default.
    drift
        Variance that a label's well-known weights gain with each of its rounds, in [0, 1]; 0 by
        default: all clicks count the same, however old. With 1e-4 a label's last hundreds of rounds
        count, with 1e-5 its last thousands.
    block_size
        Inputs per covariance block, up to 1024, with (K (d + 2 + n_waves) + n_label_features
        (d + 2)) block_size <= 4,000,000, both terms rounded up to whole blocks. 0, the default,
        takes 32, or the most that leaves room for as many labels again.
    n_waves
        Number of random features, 0 to 65,536; 254 by default. 0 is a linear learner.
    n_label_features
        Number m of features of a label, 0 to 32; 0 by default. See `describe_label`.
    seed
        Of the random features, an integer of at least 0; 0 by default.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or the covariances too large (also
        in `add_labels`).

    References
    ----------
    .. [1] Patrini et al., *Making deep neural networks robust to label noise: a loss correction
       approach*, 2017, section 3.2.
    .. [2] Foster and Rakhlin, *Beyond UCB: optimal and efficient contextual bandits with
       regression oracles*, 2020.

    Examples
    --------
    Label 1 is clicked by mistake in half of the rounds, which regression alone takes for merit:

    >>> learner = Forward(n_features=2, n_labels=2)
    >>> x = np.array([3.0, 0.0])
    >>> for i in range(200):
    ...     learner.update(Outcome(x, 0, 0, 0.5, feedback=int(i % 5 < 2)))
    ...     learner.update(Outcome(x, 1, 0, 0.5, feedback=i % 2))
    >>> learner.distribution(x).greedy
    1
    >>> sure = np.zeros(2)
    >>> learner.set_label_rates(np.array([0.02, 0.45]), np.array([0.1, 0.1]), sure, sure)
    >>> learner.distribution(x).greedy
    0
    """

    kind: ClassVar[str] = "forward"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        rho_0: float = 0.0,
        rho_1: float = 0.0,
        exploration: str = "gaps",
        gain: float = 20.0,
        gamma: float = 0.0,
        drift: float = 0.0,
        block_size: int = 0,
        n_waves: int = 254,
        n_label_features: int = 0,
        seed: int = 0,
    ) -> None:
        n_shared = check_count("n_label_features", n_label_features, 0, MAX_LABEL_FEATURES)
        super().__init__(
            n_features,
            n_labels,
            exploration=exploration,
            gain=gain,
            gamma=gamma,
            drift=drift,
            block_size=block_size,
            # With room for as many labels again.
            n_covariances=2 * check_count("n_labels", n_labels) + n_shared,
            n_waves=n_waves,
            seed=seed,
        )
        self.n_label_features = n_shared
        self._rates = LabelRates(self.n_labels, NoiseRates.of_options(rho_0, rho_1))
        self._noise = (self._rates,)
        self._shared = None
        if n_shared:
            self._shared = LabelFeatures(
                self.n_labels,
                n_shared,
                first_variances(self._n_plain, 0, SHARED_PRIOR),
                block=self.block_size,
                drift=self.drift,
            )
        self._regression = BlockRegression(
            self.n_labels,
            first_variances(self._n_plain, self.n_waves, OWN_PRIOR if n_shared else 1.0),
            block=self.block_size,
            drift=self.drift,
            beside=0 if self._shared is None else self._shared.size,
        )

    # -- deciding -------------------------------------------------------------------------
    def _relevance(self, z: FloatArray) -> FloatArray:
        """Return q at `z`; outside [0, 1] where unsure."""
        clicks = self._regression.predict(z)
        if self._shared is not None:
            clicks += self._shared.clicks(z)
        return self._rates.relevance(clicks)

    def _relevances(self, zs: FloatArray) -> FloatArray:
        """Return q at each row of `zs`."""
        clicks = batch_sums(self._regression.weights, zs)
        if self._shared is not None:
            clicks += np.array([self._shared.clicks(z) for z in zs])
        return self._rates.relevance(clicks)

    def _eagerness(self, codes: NDArray[np.intp] | None) -> Eagerness:
        """Return how much each label that may be chosen (None: all) wants to be tried."""
        known, beta = self._regression, self._rates.mean_beta
        return self._explorer.eagerness(known.counts, known.rounds, codes, beta, one_right=False)

    # -- learning -------------------------------------------------------------------------
    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self.take_in(outcome)

    def take_in(self, outcome: Outcome) -> float:
        """Do `update`; return what was predicted for the click, in [0, 1] unless unsure."""
        self._check_outcome(outcome)
        inputs = self._inputs.take_in(outcome.x, self._regression.rounds)
        shared = None if self._shared is None else self._shared.share(outcome.label, inputs)
        return self._regression.fit(outcome.label, inputs, float(outcome.feedback), shared)

    # -- labels ---------------------------------------------------------------------------
    def _grow(self, count: int) -> None:
        # New labels begin with what the active ones have in common.
        weights = self._regression.weights[self._active]
        self._regression.grow(count, np.add.reduce(weights, 0) / len(weights))
        self._rates.add(count)
        if self._shared is not None:
            self._shared.add(count)

    def describe_label(self, label: int, features: FloatArray) -> None:
        """Say what a label is like: it shares what is learned of labels with similar features.

        A label that was not described shares nothing. Described again, it keeps what was learned of
        itself and shares what its new features say.

        Parameters
        ----------
        label
            Its code.
        features
            Shape (n_label_features,), float64, each of size at most 1e6, in any unit.

        Raises
        ------
        InputError
            If there is no such label or `features` is not as said.
        UnsupportedError
            If `n_label_features` is 0.
        """
        self._check_label(label)
        if self._shared is None:
            raise UnsupportedError("this forward has no features of labels: n_label_features is 0")
        self._shared.describe(label, features)

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return options, rates and what was learned, as named arrays and scalars; copies."""
        shared = {} if self._shared is None else self._shared.state()
        return {
            **self._options(),
            **self._inputs.state(),
            **self._rates.state(),
            **self._regression.state(),
            **shared,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        # These are means over labels; those of estimates may add up to 1 or more, which options may
        # not. They are not needed: the labels' own rates are restored below.
        for name in ("rho_0", "rho_1"):
            state_number(state, name)
        self = cls._from_options({**state, "rho_0": 0.0, "rho_1": 0.0})
        self._inputs.restore(state)
        self._rates.restore(state)
        self._regression.restore(state)
        if self._shared is not None:
            self._shared.restore(state)
        return self
