"""NREst: noise rates from a block of rounds, with the help of a neural network.

This module and its `nrest_network` alone import torch (seconds, and hundreds of megabytes): run
it in a process of its own. Everything that it returns is numpy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, expected
from learners.noise.estimate import NoiseEstimate
from learners.noise.held_out import RULES, HeldOut, read
from learners.noise.nrest_network import Arrays, Fold, Network, Tensors, Watch, train_fold
from learners.noise.rates import NoiseRates
from learners.noise.verdict import LEAST_ROUNDS, Doubt, doubts, refusals
from learners.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_codes,
    check_count,
    check_instances,
    check_number,
)

#: A feature whose spread is below this share of the features' root mean square spread is not
#: blown up to unit spread: in an image it is a pixel at the margin.
LEAST_SPREAD = 0.1
#: Standardised features are cut off here: one wild value must not silence all the others.
LARGEST = 6.0
BINS = 50
#: Instances that are scaled at a time: few enough that what is computed on the way stays in the
#: processor's cache. With 8,192, fresh memory for it took longer than the arithmetic.
_BLOCK = 256
#: torch takes no seed from here on; numpy takes any.
_TORCH_SEEDS = 1 << 64
#: Thirty years; and more threads than a machine has cores, of which torch makes as many as it is
#: told to.
_LONGEST_S, _MOST_THREADS = 1e9, 1024


class Trained(NamedTuple):
    """An estimate, the networks that the next one can start from, and what it was read from.

    The latter (`learners.noise.held_out.read` takes it, for another rule) is None where the block
    was refused before training.
    """

    estimate: NoiseEstimate
    networks: Arrays
    held_out: HeldOut | None


class NREst:
    """Estimates how often clicks lie, from rounds of any learner.

    Use it on a block of thousands of rounds where some labels were right and some wrong, and
    where the instance mostly tells which (perfect examples). Where it tells nothing at all, the
    verdict says so. Where every instance leaves equally much open, no clicks can tell that from
    noise, and no verdict does: with five instances, each with a label that is right in three of
    four rounds, rho_1 was read as .31 +- .01 instead of .1. Not for a process that answers
    requests. Rates that sum past 1 look like possible rates of other labels: always with two
    labels, sometimes with three; with more, the verdict says so.

    The network of [1]_ predicts q(x, label) = P(feedback = 1 | x, label), and its extremes are
    read as rates. Here the network is built on what theorem 5 of [1]_ says, that q is a mixture of
    two levels::

        q(x, j) = rho_0[j] + beta[j] sigmoid(log odds of p_j(x) + offset)

    with one posterior p(x) = softmax(u(x) + c log m(x)) for all labels; u and m, the share of
    rounds with such an instance that showed each label, are two heads of one network
    (d-128-128-K) trained by cross-entropy on the feedback and on the shown label. Three folds:
    each network predicts the rounds that it did not see; their rates are fitted to those
    (`learners.noise.mixture`) after every epoch, for training as well as for stopping early, so
    that they never come from what was learned by heart. In training, no label's clicks are taken to
    tell much less than the others' (`learners.noise.nrest_network.telling`). The rule "mixture"
    fits the rates once more to all held-out rounds, together with a temperature that undoes
    over-confidence; "authors" and "per_label" are the rules of [1]_ (`learners.noise.reading`).

    Results are the same, bit for bit, for the same block, options and seed on one machine, unless
    a time limit ends the training.

    Parameters
    ----------
    n_labels
        K, at least 2.
    rule
        "mixture" (default), "per_label" or "authors".
    seed
        Of the folds, the first weights and the order of the rounds; default 0.
    folds
        At least 2 and at most 200, the rounds of the smallest block; default 3. Cost grows with
        it; more help where rounds are few.
    most_epochs
        Epochs of one fold at most; None (default) for 30; for blocks of less than 50,000 rounds,
        more in proportion as their epochs are shorter.
    beta_min
        Rates are kept to ``rho_0 + rho_1 <= 1 - beta_min``; in (0, 1), default 0.05.
    time_limit_s
        Seconds, up to 1e9, after which training ends with what it has, checked between steps; None
        (default) for no limit. A fold that has not finished an epoch by then is a doubt in the
        verdict.
    threads
        torch's threads while it trains, up to 1,024; default 1.
    device
        Where torch computes, as torch names it; default "cpu".

    Raises
    ------
    ParameterError
        If an option is out of range, or there is no such device.

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, section 3.3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> xs = rng.normal(size=(3000, 2))
    >>> labels = rng.integers(2, size=3000)
    >>> right = labels == (xs[:, 0] > 0)
    >>> feedback = (rng.random(3000) < np.where(right, 0.8, 0.1)).astype(np.int64)
    >>> estimate = NREst(2, most_epochs=8).estimate(xs, labels, feedback).estimate
    >>> estimate.trusted, round(estimate.reading.rho_0, 1), round(estimate.reading.rho_1, 1)
    (True, 0.1, 0.2)
    """

    def __init__(
        self,
        n_labels: int,
        *,
        rule: str = "mixture",
        seed: int = 0,
        folds: int = 3,
        most_epochs: int | None = None,
        beta_min: float = 0.05,
        time_limit_s: float | None = None,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.n_labels = check_count("n_labels", n_labels, 2)
        self.rule = check_choice("rule", rule, RULES)
        self.seed = check_count("seed", seed, 0)
        self.folds = check_count("folds", folds, 2, LEAST_ROUNDS)
        self.most_epochs = None if most_epochs is None else check_count("most_epochs", most_epochs)
        self.beta_min = check_number("beta_min", beta_min, 1e-3, 1.0 - 1e-3)
        if time_limit_s is not None:
            time_limit_s = check_number("time_limit_s", time_limit_s, 0.0, _LONGEST_S)
        self.time_limit_s = time_limit_s
        self.threads = check_count("threads", threads, 1, _MOST_THREADS)
        try:
            self.device = torch.device(device)
            torch.empty(0, device=self.device)
        except (AssertionError, RuntimeError, TypeError) as error:
            # A torch built without that kind of device raises an AssertionError.
            raise ParameterError(expected("device", "a device that torch has", device)) from error

    def __call__(self, xs: FloatArray, labels: IntArray, feedback: IntArray) -> NoiseRates | None:
        """Return the rates of a block, or None where they cannot be trusted (for `RCINE`)."""
        return self.estimate(xs, labels, feedback).estimate.rates

    def estimate(
        self,
        xs: FloatArray,
        labels: IntArray,
        feedback: IntArray,
        *,
        warm: Mapping[str, NDArray[np.float32]] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[float, float], None] = lambda _done, _loss: None,
    ) -> Trained:
        """Train on a block of rounds and read the rates.

        Parameters
        ----------
        xs
            Instances, shape (n, d), float64, finite.
        labels
            Codes of the labels that were shown, shape (n,), int64.
        feedback
            Shape (n,), int64, each 0 or 1.
        warm
            Networks of an earlier block with the same d, K and number of folds, to begin with: a
            third less time where instances still determine the right labels in the same way. Where
            that has changed, the estimate may be worse than one from scratch. The blocks should
            share no rounds: one that was trained on then is not held out now.
        cancelled
            Asked every few steps; True ends the training.
        progress
            Called after every epoch with the share of the most work that is done, and the held-out
            loss.

        Raises
        ------
        InputError
            If an array is not as said, or `warm` has other shapes.
        CancelledError
            If `cancelled` said so.
        """
        _check_block(xs, labels, feedback, self.n_labels)
        shown = np.bincount(labels, minlength=self.n_labels)
        found = refusals(labels, feedback)
        if found:
            empty = np.zeros((self.n_labels, BINS), dtype=np.int64)
            refused = NoiseEstimate(
                self.rule, len(labels), shown, None, tuple(found), empty, 0, 0.0
            )
            return Trained(refused, dict(warm or {}), None)
        with _threads(self.threads):
            held_out, networks, ends = self._train(xs, labels, feedback, warm, cancelled, progress)
        reading, evidence = read(held_out, self.rule, beta_min=self.beta_min)
        found = doubts(evidence, beta_min=self.beta_min)
        if not all(end.epochs for end in ends):
            text = f"{self.time_limit_s:g} s were too short for one epoch of every fold"
            found.append(Doubt("out_of_time", text))
        estimate = NoiseEstimate(
            rule=self.rule,
            examples=len(labels),
            shown=shown,
            reading=reading,
            doubts=tuple(found),
            histogram=_histogram(held_out.predicted),
            epochs=sum(end.epochs for end in ends),
            loss=float(np.mean([end.loss for end in ends if end.epochs] or [0.0])),
        )
        return Trained(estimate, networks, held_out)

    def _train(
        self,
        xs: FloatArray,
        labels: IntArray,
        feedback: IntArray,
        warm: Mapping[str, NDArray[np.float32]] | None,
        cancelled: Callable[[], bool],
        progress: Callable[[float, float], None],
    ) -> tuple[HeldOut, Arrays, list[Fold]]:
        """Train every fold and put the held-out predictions together."""
        begin_s = time.monotonic()
        center, spread = _scaling(xs)
        first = None if warm is None else _rescaled(warm, center, spread, self.folds)
        block = Tensors(
            torch.from_numpy(_scaled(xs, center, spread)).to(self.device),
            torch.from_numpy(labels).to(self.device),
            torch.from_numpy(feedback.astype(np.float32)).to(self.device),
        )
        order = np.random.default_rng(self.seed).permutation(len(labels))
        folds = (order % self.folds).astype(np.int64)
        scores = np.empty((len(labels), self.n_labels), dtype=np.float32)
        predicted = np.empty_like(scores)
        ends: list[Fold] = []
        for fold in range(self.folds):
            seed = (self.seed * self.folds + fold) % _TORCH_SEEDS
            generator = torch.Generator().manual_seed(seed)
            network = Network(xs.shape[1], self.n_labels, generator, self.device)
            if first is not None:
                network.load({name: values[fold] for name, values in first.items()})

            def tell(share: float, loss: float, fold: int = fold) -> None:
                progress((fold + share) / self.folds, loss)

            until_s = None
            if self.time_limit_s is not None:
                until_s = begin_s + self.time_limit_s * (fold + 1) / self.folds
            watch = Watch(until_s, cancelled, tell)
            held = folds == fold
            end = train_fold(network, block, held, generator, self.most_epochs, watch)
            scores[held], predicted[held] = end.scores, end.predicted
            ends.append(end)
        networks = {name: np.stack([end.arrays[name] for end in ends]) for name in ends[0].arrays}
        networks |= {"center": center, "spread": spread}
        return HeldOut(labels, feedback, folds, scores, predicted), networks, ends


def _histogram(predicted: NDArray[np.float32]) -> IntArray:
    """Count each label's predictions in `BINS` equal bins of [0, 1]."""
    n_labels = predicted.shape[1]
    bins = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount((bins + np.arange(n_labels) * BINS).ravel(), minlength=n_labels * BINS)
    return counts.reshape(n_labels, BINS)


def _scaling(xs: FloatArray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return each feature's mean, and what its deviations are divided by."""
    center = xs.mean(axis=0)
    squares = np.zeros_like(center)
    for begin in range(0, len(xs), _BLOCK):
        squares += ((xs[begin : begin + _BLOCK] - center) ** 2).sum(axis=0)
    spread = np.sqrt(squares / len(xs))
    least = LEAST_SPREAD * float(np.sqrt((spread**2).mean()))
    spread = np.maximum(spread, max(least, 1e-12))
    return center.astype(np.float32), spread.astype(np.float32)


def _rescaled(
    warm: Mapping[str, NDArray[np.float32]],
    center: NDArray[np.float32],
    spread: NDArray[np.float32],
    folds: int,
) -> Arrays:
    """Return warm networks that take instances scaled anew for what they were trained on.

    A feature that has moved or spread beyond what scaling lets through is met halfway.
    """
    for name in ("center", "spread", "hidden_1", "bias_1"):
        if name not in warm:
            raise InputError(expected("warm", f"an array {name!r}", sorted(warm)))
    for name in ("center", "spread"):
        if warm[name].shape != center.shape:
            raise InputError(expected(f"warm[{name!r}]", f"shape {center.shape}", warm[name].shape))
    hidden = warm["hidden_1"]
    if hidden.ndim != 3 or hidden.shape[:2] != (folds, len(center)):
        what = f"networks of {folds} folds and {len(center)} features"
        raise InputError(expected("warm['hidden_1']", what, hidden.shape))
    wider = (spread / warm["spread"]).clip(1.0 / LARGEST, LARGEST)
    moved = ((center - warm["center"]) / warm["spread"]).clip(-LARGEST, LARGEST)
    networks = {name: each for name, each in warm.items() if name not in ("center", "spread")}
    networks["hidden_1"] = hidden * wider[:, np.newaxis]
    networks["bias_1"] = warm["bias_1"] + (hidden * moved[:, np.newaxis]).sum(axis=1)
    return networks


def _scaled(
    xs: FloatArray, center: NDArray[np.float32], spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return standardised float32 instances, block by block to save memory."""
    result = np.empty(xs.shape, dtype=np.float32)
    for begin in range(0, len(xs), _BLOCK):
        some = slice(begin, begin + _BLOCK)
        result[some] = ((xs[some] - center) / spread).clip(-LARGEST, LARGEST)
    return result


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_block(xs: FloatArray, labels: IntArray, feedback: IntArray, n_labels: int) -> None:
    """Raise InputError unless the three arrays are a block of rounds."""
    check_instances(xs)
    check_codes("labels", labels, n_labels, size=len(xs), int64=True)
    check_codes("feedback", feedback, 2, size=len(xs), int64=True)
