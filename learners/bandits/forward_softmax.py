"""Forward with a softmax: one label is right, so each click tells about all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from learners.bandits.block_covariance import (
    blocks_of,
    let_drift,
    look,
    narrow,
    turned,
    unconnected,
)
from learners.bandits.context_free import ContextFree, sharpness_of
from learners.bandits.exploration import Eagerness
from learners.bandits.linear import (
    check_at_least,
    check_covariances,
    check_entries,
    product_space,
    row_sums,
)
from learners.bandits.rate_beliefs import SHARPNESS_BOUNDS
from learners.bandits.rate_filter import LEAST_NOISE, RateFilter
from learners.bandits.relevance_learner import RelevanceLearner, batch_sums
from learners.bandits.shortfall import Change, Shortfall
from learners.bandits.softmax import softmax
from learners.bandits.told_rates import ToldRates
from learners.base import Outcome
from learners.noise.rates import NoiseRates
from learners.states import State, StateValue, state_array
from learners.validation import FloatArray

#: Prior variances of a weight, and of the constant's weight: how much likelier than others a label
#: is whatever the instance. (With .3 for the latter, a label often clicked by mistake passes for
#: likely: where rates differ by label, over 60,000 rounds of five streams, mistakes were 1.01,
#: 1.02, 1.07, 1.13 and 1.15 times as many on USPS, optdigits, letter, SynSep and pen digits; where
#: shares fall by rank, .945 times.)
PRIOR_VARIANCE, CONSTANT_VARIANCE = 10.0, 0.03
#: The same for the constant's without waves, which also tell how usual a label is. (With .03, where
#: one of three or four labels is right in 94 to 97 %, .23 to .37 of 10,000 rounds were wrong, now
#: .02 to .09; shuttle .35, now .15. The cost: up to .02 more with even labels, .10 on segment with
#: noise by label, .15 with six labels of which one is clicked by mistake in .75.)
PLAIN_CONSTANT_VARIANCE = 1.0
#: Labels for which `PRIOR_VARIANCE` was chosen; with more, it grows in proportion, up to four
#: times: while all labels are equally likely, a click moves scores by a K-th of it. (50 and 100
#: labels, five synthetic worlds with two kinds of noise, 20,000 rounds: .01 to .15 fewer wrong in
#: the last fifth, in one of ten .02 more.)
FEW_LABELS, MOST_TIMES = 26, 4.0
#: Share of the scores kept when the learner begins anew, because some may still be right. Of 0, .1,
#: .2 and .4 it makes the fewest mistakes: 2 to 4 % fewer than 0, 7 to 10 % fewer than .4 (two data
#: sets; all labels changed places, or three of ten).
KEPT = 0.1
#: Larger than any weight that rounds lead to, each moving a weight by less than 32; the rates'
#: filter repeatedly squares numbers derived from weights.
_MAX_WEIGHT = 1e20
#: What to do where weights or covariance would become too large.
_FEWER = "fewer n_waves take fewer"


class ForwardSoftmax(RelevanceLearner):
    """Learns which one label is right, and each label's noise, from the same clicks.

    The default: use it where exactly one label is right for an instance, as in classification.
    It needs no rates and no network: the rates of false and missed clicks, common and each label's
    own, are estimated along the way. Use `Forward` where several labels may be right, or none (a
    catalogue of items); where more than .8 of the clicks on right labels are missed; where one
    label is usual and features add little; or where labels have features. Not where a round may
    take only microseconds.

    A softmax behind the forward model, [1]_: with z as `BentInputs` makes it (x centred and
    scaled, a constant, waves), and p over the labels that can be right, a click on label a has the
    chance::

        m = rho_0a + beta_a p_a,       p = softmax(s W z),       beta_a = 1 - rho_0a - rho_1a

    An extended Kalman filter, [2]_, estimates the weights (one covariance P, in blocks b, for the
    rows of all labels), a second one the rates, the sharpness s and the trust in any other decider
    (`RateFilter`; c is what doubt about the rates adds to the variance of a click). Feedback y on
    label a moves every label's row along its slope g::

        g_k = s beta_a p_a (1[k = a] - p_k)
        v = max(m (1 - m), .01),       total = v + |g|^2 z' P z + c
        w_k <- w_k + P z g_k (y - m) / total
        P_b <- P_b - (P_b z_b)(P_b z_b)' / (K v / |g|^2 + z_b' P_b z_b)

    so that a click on one label counts against its rivals, which label-by-label regression misses.
    (One bit informs about one direction in K: hence the K.) With `drift`, P_b then returns towards
    its first value by a share of the difference, drift over the largest first variance (10; with
    more than 26 labels up to 40). Rounds decided by somebody else, which a
    challenger learns from, are as good if `Outcome` says so and their propensities are true: what
    the other knew counts for the rates, not for the weights. Labels are chosen by inverse gap
    weighting of p (`GapExploration`), with gaps measured in clicks, and none more often than its
    chance to be right times its odds against the best.

    Where instances predict clicks worse than each label's click rate alone (`ContextFree`), it
    decides by the latter, and goes on learning, until instances predict better. Not while its rates
    are taken as known: if they are too low, it predicts clicks badly in any case.

    The reported rates (`label_rates`) come from a separate filter (`ToldRates`), which begins anew
    where noise has fallen. Nothing is decided or learned by them: weights would suffer (letters: a
    sixth more mistakes).

    Where clicks that m predicts stay away (`Shortfall`), either the noise or what is right has
    changed. Rates that were not set are then reset, with more doubt about missed clicks; unless
    noise alone is taken to be the cause, covariances are reset too, and a tenth of the scores s W
    is kept. Where not even false clicks come, nothing counts clicks: it learns nothing until one
    comes.

    Parameters
    ----------
    n_features
        Length d of an instance.
    n_labels
        Number K of labels.
    rho_0, rho_1
        Initial rates of false and missed clicks, in [0, 1) with a sum below 1; 0.2 each by default.
        Clicks move them; rates set later as known stay. More than .8, or more than .9 in sum,
        counts as that much.
    exploration
        "gaps" (default) as above, or "greedy": the best label, so that only `gamma` explores.
    gain
        How sharply gaps count, in [0, 1e6]; 20 by default. More explores less.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0 by default. With a positive share, the
        log tells more of what other policies are worth.
    drift
        Variance that the weights gain with each round, in [0, 1]; 0 by default: all clicks since it
        last began anew count the same. A positive one follows gradual change in what is right, and
        keeps s at 1; with 1e-3, the last thousands of rounds count most.
    block_size
        Inputs per covariance block, up to 1024, with (d + 2 + n_waves) block_size and K
        (d + 2 + n_waves) at most 4,000,000, d + 2 + n_waves rounded up to whole blocks. 0, the
        default, takes 32, or the most that fits.
    n_waves
        Number of random features, 0 to 65,536; 254 by default. 0 is a linear learner, which may
        take a label that is clicked by mistake in most rounds for a usual one.
    seed
        Of the random features, an integer of at least 0; 0 by default.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or the weights too many (also in
        `add_labels`).

    References
    ----------
    .. [1] Patrini et al., *Making deep neural networks robust to label noise: a loss correction
       approach*, 2017, section 3.2.
    .. [2] Anderson and Moore, *Optimal filtering*, 1979, section 8.2.

    Examples
    --------
    Label 1 is clicked by mistake in half of the rounds, label 0 in none; nobody says so:

    >>> learner = ForwardSoftmax(n_features=2, n_labels=2, n_waves=0)
    >>> sides = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> for i in range(400):
    ...     right, shown = i % 2, i // 2 % 2
    ...     clicked = shown == right or (shown == 1 and i // 4 % 2 == 0)
    ...     learner.update(Outcome(sides[right], shown, 0, 0.5, feedback=int(clicked)))
    >>> [learner.distribution(x).greedy for x in sides]
    [0, 1]
    >>> rho_0, rho_1 = learner.label_rates
    >>> bool(rho_0[0] < 0.1 and rho_0[1] > 0.35)
    True
    """

    kind: ClassVar[str] = "forward_softmax"
    learns_rates: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        rho_0: float = 0.2,
        rho_1: float = 0.2,
        exploration: str = "gaps",
        gain: float = 20.0,
        gamma: float = 0.0,
        drift: float = 0.0,
        block_size: int = 0,
        n_waves: int = 254,
        seed: int = 0,
    ) -> None:
        super().__init__(
            n_features,
            n_labels,
            exploration=exploration,
            gain=gain,
            gamma=gamma,
            drift=drift,
            block_size=block_size,
            n_covariances=1,
            n_waves=n_waves,
            seed=seed,
        )
        # What will have to be unlearned is not made to count for more.
        least = None if self.drift else SHARPNESS_BOUNDS[0]
        rates = NoiseRates.of_options(rho_0, rho_1)
        self._rates = RateFilter(self.n_labels, rates, least_sharpness=least)
        self._told = ToldRates(self.n_labels, rates)
        self._noise = (self._rates, self._told)
        self._shortfall = Shortfall()
        self._context_free = ContextFree(self.n_labels)
        n_blocks, block = blocks_of(self._width, self.block_size)
        check_entries("features x block_size", self._padded * block, _FEWER)
        check_entries("n_labels x features", self.n_labels * self._padded, _FEWER)
        self._first: FloatArray = self._first_variances(self.n_labels).reshape(n_blocks, block)
        self._space = np.empty((block, n_blocks, block))
        weights = np.zeros((self.n_labels, self._padded))
        self._take(weights, unconnected(self._first), np.zeros(self.n_labels))

    def _first_variances(self, n_labels: int) -> FloatArray:
        """Return the variances that the inputs' weights begin with, (padded,)."""
        times = min(max(n_labels / FEW_LABELS, 1.0), MOST_TIMES)
        first = np.full(self._padded, PRIOR_VARIANCE * times)
        constant = CONSTANT_VARIANCE if self.n_waves else PLAIN_CONSTANT_VARIANCE
        first[self._n_plain - 1] = constant
        return first

    @property
    def label_rate_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard errors of `label_rates`, as they are believed, each of shape (K,). Copies."""
        return self._told.errors

    @property
    def restarts(self) -> int:
        """How often it has begun anew: with everything, its rates, or the reported rates."""
        return self._shortfall.alarms + self._told.falls

    @property
    def silent(self) -> bool:
        """Whether not even false clicks come: it learns nothing until one does."""
        return self._shortfall.silent

    @property
    def context_free(self) -> bool:
        """Whether it decides by click rates alone, because instances predict clicks worse."""
        return self._context_free.leads and not self._rates.known

    # -- deciding -------------------------------------------------------------------------
    def _relevance(self, z: FloatArray) -> FloatArray:
        """Return p at `z`; 0 for retired labels."""
        if self.context_free:
            return self._usual()
        scores = self._scores(z)
        scores *= self._rates.sharpness
        chances: FloatArray = softmax(scores, self._active_codes)[0]
        return chances

    def _relevances(self, zs: FloatArray) -> FloatArray:
        """Return p at each row of `zs`."""
        if self.context_free:
            return np.tile(self._usual(), (len(zs), 1))
        scores = batch_sums(self._weights, zs)
        scores *= self._rates.sharpness
        return softmax(scores, self._active_codes)

    def _usual(self) -> FloatArray:
        """Return how often each label is right, whatever the instance."""
        if not self._rates.were_set:
            # Per-label rates, as they are learned, would explain away which label is usual.
            return self._context_free.chances(0.0, self._rates.common_beta, self._active_codes)
        false, missed = self._rates.each
        return self._context_free.chances(false, 1.0 - false - missed, self._active_codes)

    def _scores(self, z: FloatArray) -> FloatArray:
        """Return W z as one row."""
        scores = np.empty((1, self.n_labels))
        row_sums(self._weights, z, self._products, scores[0])
        return scores

    def _eagerness(self, codes: NDArray[np.intp] | None) -> Eagerness:
        """Return how much each label that may be chosen (None: all) wants to be tried."""
        beta = self._rates.common_beta
        return self._explorer.eagerness(self._counts, self._rounds, codes, beta, one_right=True)

    # -- learning -------------------------------------------------------------------------
    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self.take_in(outcome)

    def take_in(self, outcome: Outcome) -> float | None:
        """Do `update`; return the chance that a click had, None where nothing was learned."""
        self._check_outcome(outcome)
        if self._shortfall.silent:
            if not outcome.feedback:
                return None
            self._shortfall.end_silence()
        label, z = outcome.label, self._inputs.take_in(outcome.x, self._rounds)
        rivals = self._active_codes
        if rivals is not None:
            # A late click may be on a retired label: it could be right when it was shown.
            rivals = np.union1d(rivals, [label])
        n_rivals = self.n_labels if rivals is None else len(rivals)
        scores = self._scores(z)[0]
        seen = look(self._covariance, z.reshape(self._first.shape), self._space)
        spread = float(np.add.reduce(seen[1]))
        sharpness = self._rates.sharpness
        scales = np.array([sharpness, self._told.sharpness, sharpness_of(sharpness, spread)])
        products = np.multiply(scores, scales[:, np.newaxis])
        chances, blunter, bluntest = softmax(products, rivals)
        false, missed = self._rates.of(label)
        chance = self._learn(outcome, chances, scores, seen, n_rivals)
        if not self._rates.known:
            if not outcome.elsewhere:
                cautious = false + (1.0 - false - missed) * float(bluntest[label])
                self._context_free.observe(
                    label, outcome.feedback, chance=chance, cautious=cautious
                )
            self._told.take_in(outcome, blunter, scores, spread)
            change = self._shortfall.observe(label, outcome.feedback, chance=chance, false=false)
            if change is Change.NOISE:
                self._rates.doubt_rates()
                self._told.doubt_rates()
                self._context_free.begin_anew()
            elif change is Change.LABELS:
                self._begin_anew()
        return chance

    def _learn(
        self,
        outcome: Outcome,
        chances: FloatArray,
        scores: FloatArray,
        seen: tuple[FloatArray, FloatArray],
        n_rivals: int,
    ) -> float:
        """Let weights and rates take in a click; return its chance.

        `chances` are the labels' chances to be right, `n_rivals` is how many can be, and `seen`
        what the covariance says of the instance.
        """
        label = outcome.label
        right = float(chances[label])
        rho_0, rho_1 = self._rates.of(label)
        beta = 1.0 - rho_0 - rho_1
        clicked = rho_0 + beta * right
        slopes = np.multiply(chances, -beta * right)
        slopes[label] += beta * right
        bend = float(np.add.reduce(np.multiply(slopes, scores)))
        slopes *= self._rates.sharpness
        square = float(np.add.reduce(np.multiply(slopes, slopes)))
        moves, spreads = seen
        noise = max(clicked * (1.0 - clicked), LEAST_NOISE)
        spread = float(np.add.reduce(spreads))
        doubt = square * spread
        total = noise + doubt + self._rates.spread(label, right)
        error = outcome.feedback - clicked
        self._move(np.multiply(slopes, error / total), moves.reshape(-1))
        chance = self._rates.learn(
            label,
            outcome.feedback,
            right=right,
            bend=bend,
            doubt=doubt,
            propensity=outcome.propensity if outcome.elsewhere else None,
        )
        self._counts[label] += 1.0
        self._rounds += 1.0
        if square > 0.0:
            narrow(self._covariance, moves, spreads, n_rivals * noise / square, self._space)
        if self.drift:
            let_drift(self._covariance, self.drift, self._first)
        return chance

    def _begin_anew(self) -> None:
        """Doubt everything learned as at the beginning, but keep some of the scores."""
        self._weights *= KEPT * self._rates.sharpness
        self._covariance = unconnected(self._first)
        self._rates.begin_anew()
        self._told.begin_anew()
        self._context_free.begin_anew()

    def _move(self, steps: FloatArray, along: FloatArray) -> None:
        """Add `steps`, one for each label, times `along` to the weights."""
        n_rows = len(self._products)
        for start in range(0, self.n_labels, n_rows):
            rows = self._weights[start : start + n_rows]
            part = self._products[: len(rows)]
            np.multiply(steps[start : start + n_rows, np.newaxis], along, out=part)
            rows += part

    # -- labels ---------------------------------------------------------------------------
    def _grow(self, count: int) -> None:
        entries = self._weights.size + count * self._weights.shape[1]
        check_entries("n_labels x features", entries, _FEWER)
        # New labels begin with what the active ones have in common.
        weights = self._weights[self._active]
        means = np.tile(np.add.reduce(weights, 0) / len(weights), (count, 1))
        counts = np.append(self._counts, np.zeros(count))
        self._take(np.vstack((self._weights, means)), self._covariance, counts)
        for rates in self._noise:
            rates.add(count)
        self._context_free.add(count)
        first = self._first_variances(self.n_labels + count)
        self._first = first.reshape(self._first.shape)

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return options, rates and what was learned, as named arrays and scalars; copies."""
        first = self._rates.first
        return {
            **self._options(),
            # The rates that it begins anew with; those in use are in the filter's state.
            "rho_0": first.rho_0,
            "rho_1": first.rho_1,
            **self._inputs.state(),
            **self._rates.state(),
            **self._told.state(),
            **self._shortfall.state(self.n_labels),
            **self._context_free.state(),
            "weights": self._weights.copy(),
            "covariances": turned(self._covariance),
            "counts": self._counts.copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = cls._from_options(state)
        self._inputs.restore(state)
        self._shortfall.restore(state, self.n_labels)
        self._context_free.restore(state)
        anew = self._shortfall.alarms > 0
        self._rates.restore(state, anew=anew)
        self._told.restore(state, anew=anew)
        weights = state_array(state, "weights", self._weights.shape, _MAX_WEIGHT)
        n_blocks, block = self._first.shape
        covariance = state_array(state, "covariances", (n_blocks, block, block))
        counts = state_array(state, "counts", self._counts.shape)
        check_at_least("counts", counts, 0.0)
        check_covariances("covariances", covariance, self._first)
        self._take(weights, turned(covariance), counts)
        return self

    def _take(self, weights: FloatArray, covariance: FloatArray, counts: FloatArray) -> None:
        self._weights, self._covariance, self._counts = weights, covariance, counts
        self._rounds = float(np.add.reduce(counts))
        self._products = product_space(*weights.shape)
