"""Forward with a softmax: one label is right, and each click tells of all of them."""

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

#: Prior variances of a weight, and of the constant's: how much a label is likelier than others
#: wherever it is shown. (With .3 a label that is often clicked by mistake passes for likely: where
#: rates differ by label, 60,000 rounds of five streams, 1.01, 1.02, 1.07, 1.13 and 1.15 of the
#: mistakes on USPS, optdigits, letter, SynSep and pen digits; where shares fall by rank .945.)
PRIOR_VARIANCE, CONSTANT_VARIANCE = 10.0, 0.03
#: The constant's where there are no waves, which tell how usual a label is, too. (With .03, where
#: one of three or four labels is right in 94 to 97 %, .23 to .37 of 10,000 rounds were wrong, now
#: .02 to .09; shuttle .35, now .15; even labels up to .02 more, segment by label .10, six of which
#: one is clicked by mistake in .75, .15.)
PLAIN_CONSTANT_VARIANCE = 1.0
#: Labels with which `PRIOR_VARIANCE` was chosen; more have as many times as much, up to four times:
#: while each is as likely as any other, a click moves its scores by a K-th of it. (50 and 100
#: labels, five made worlds with two kinds of noise, 20,000 rounds: .01 to .15 fewer wrong in the
#: last fifth, in one of ten .02 more.)
FEW_LABELS, MOST_TIMES = 26, 4.0
#: What is left of the scores when it begins anew with them, because some may be right after all. Of
#: 0, .1, .2 and .4 it makes the fewest mistakes: 2 to 4 % fewer than 0, 7 to 10 % fewer than .4
#: (two data sets; all labels changed places, or three of ten).
KEPT = 0.1
#: Beyond any weight that rounds lead to, of which each moves one by less than 32; the rates' filter
#: squares what comes of weights again and again.
_MAX_WEIGHT = 1e20
#: What to do where weights or covariance would become too large.
_FEWER = "fewer n_waves take fewer"


class ForwardSoftmax(RelevanceLearner):
    """Learns which one label is right, and each label's noise, from the same clicks.

    The default: use it where exactly one label is right for an instance, as in classification.
    It needs no rates and no network: false and missed clicks, common ones and each label's own,
    are found on the way. Where several labels may be right, or none (a catalogue of items), where
    more than .8 of the clicks on right ones are missed, where one label is usual and features tell
    little besides, or labels have features, use `Forward`. Not for rounds of a few microseconds.

    A softmax behind the forward model, [1]_: with z as `BentInputs` makes it (x centred and
    scaled, a constant, waves), and p over the labels that can be right, a click on label a has the
    chance::

        m = rho_0a + beta_a p_a,       p = softmax(s W z),       beta_a = 1 - rho_0a - rho_1a

    An extended Kalman filter, [2]_, has the weights (one covariance P for the rows of all labels,
    within blocks b), another the rates, the sharpness s and the trust in whoever else decides
    (`RateFilter`; c is what doubt about the rates adds to the variance of a click). A bit y that
    was heard of a moves every label's row by its slope g::

        g_k = s beta_a p_a (1[k = a] - p_k)
        v = max(m (1 - m), .01),       total = v + |g|^2 z' P z + c
        w_k <- w_k + P z g_k (y - m) / total
        P_b <- P_b - (P_b z_b)(P_b z_b)' / (K v / |g|^2 + z_b' P_b z_b)

    so that a click on one label speaks against its rivals, which regression label by label does
    not hear. (One bit tells of one direction in K: hence the K.) With `drift` P_b then comes back
    to the first ones by drift / 10 of what is missing. Rounds that somebody else decided, which a
    challenger learns from, are as good, if `Outcome` says so and their propensities are true: what
    he knew counts for the rates, not for the weights. Labels are chosen by inverse gap weighting of
    p (`GapExploration`), with gaps as they show in clicks, and none more often than its chance to
    be right, times its odds against the best.

    Where instances tell less of its clicks than how often each label is clicked anyway
    (`ContextFree`), it decides by that alone, and goes on learning, until they tell more. Not
    while its rates are taken as known: if they are too low its clicks are told badly in any case.

    The rates that are told (`label_rates`) are another filter's (`ToldRates`), which begins anew
    where noise has fallen. Nothing is decided or learned by them: weights would not come right
    (letters: a sixth more mistakes).

    Clicks that stay away against all m (`Shortfall`) say that noise has changed, or what is right.
    Then, unless its rates were set, they are as at first, but for more doubt of the missed clicks,
    and if it is not taken for noise alone covariances are as at first, too, and of the scores s W
    a tenth is left. Where not even the false clicks come nothing counts them: until one comes it
    learns nothing.

    Parameters
    ----------
    n_features
        Length d of an instance.
    n_labels
        Number K of labels.
    rho_0, rho_1
        Rates of false and missed clicks that it begins with, in [0, 1) with a sum below 1; 0.2
        each by default. Clicks move them; rates that are set later as known stay. More than .8,
        and more than .9 in sum, counts as that much.
    exploration
        "gaps" (default) as above, or "greedy": the best label, so that `gamma` is all there is.
    gain
        How sharply gaps count, in [0, 1e6]; 20 by default. More explores less.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0 by default. With some, the log tells
        more of what other policies are worth.
    drift
        Variance that the weights gain with each round, in [0, 1]; 0 by default: clicks of all
        times since it began anew count the same. For what is right that changes little by little:
        with 1e-3, the last thousands count most, and s stays 1.
    block_size
        Inputs whose covariance is kept together, up to 1024, with (d + 2 + n_waves) block_size and
        K (d + 2 + n_waves) at most 4,000,000, d + 2 + n_waves rounded up to whole blocks. 0, the
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
        """How often it has begun anew with all, or with rates, or with those that it tells."""
        return self._shortfall.alarms + self._told.falls

    @property
    def silent(self) -> bool:
        """Whether not even false clicks come: it learns nothing until one does."""
        return self._shortfall.silent

    @property
    def context_free(self) -> bool:
        """Whether it decides by how often each label is clicked, because instances tell less."""
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
        """Return how often each label is right, whatever is asked."""
        if not self._rates.were_set:
            # Those of each label, as they are learned, explain away which one is usual.
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
        self._check_outcome(outcome)
        if self._shortfall.silent:
            if not outcome.feedback:
                return
            self._shortfall.end_silence()
        label, z = outcome.label, self._inputs.take_in(outcome.x, self._rounds)
        rivals = self._active_codes
        if rivals is not None:
            # Of a retired label a late click may tell: it could be right when it was shown.
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

    def _learn(
        self,
        outcome: Outcome,
        chances: FloatArray,
        scores: FloatArray,
        seen: tuple[FloatArray, FloatArray],
        n_rivals: int,
    ) -> float:
        """Let weights and rates take in a click; return its chance.

        `chances` are those of the labels to be right, of which `n_rivals` can be, and `seen` is
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
        """Doubt all that was learned as in the beginning, and keep some of the scores."""
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
        # They begin with what the active ones have in common.
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
            # Those that it begins anew with: the ones in use are among the rates.
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
