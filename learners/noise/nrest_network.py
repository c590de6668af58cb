"""The network of `NREst` and its training. Needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from learners.errors import InputError, expected
from learners.noise.block_fit import BlockFit, fit_block
from learners.noise.estimate import CancelledError
from learners.noise.mixture import Levels, first_levels, rounds_of, sigmoid

#: The trained networks: by name, the folds along the first axis; and how instances are scaled.
Arrays: TypeAlias = dict[str, NDArray[np.float32]]
#: Width of the two hidden layers, as in the paper's largest networks.
HIDDEN = 128
#: Rounds in a step. With 128 as in the paper an epoch takes longer.
BATCH = 256
LEARNING_RATE = 2e-3
#: The scalar parameters see every round and may learn faster than the weights.
SCALAR_LEARNING_RATE = 2e-2
ADAM_DECAYS = (0.9, 0.999)
#: A fold's training ends after so many epochs without an improvement of the held-out loss by
#: this many nats a round, which moves the rates by far less than their standard error.
PATIENCE = 2
LEAST_GAIN = 1e-4
#: For small blocks, whose epochs have few steps, after so many steps without one: the loss
#: fluctuates by more than an epoch gains. (6,000 rounds of three stripes: training ended before it
#: had found the middle one, whose rho_0 came out at .52 +- .03 instead of .10; with half as many
#: steps it still did.)
PATIENCE_STEPS = 256
#: Nats a round by which training rounds are predicted better than held-out ones once a network has
#: begun to learn by heart: nothing more is found then, and `PATIENCE` epochs suffice for any block.
#: (10,000 rounds of 784 features: 24 epochs instead of 51. Rates of each label are off by as much
#: on average; with .02 by a fifth more in some blocks.)
BY_HEART = 0.035
#: Epochs at most; for small blocks, more in proportion as their epochs are shorter.
MOST_EPOCHS = 30
#: In training rho_0 + rho_1 stays below this, or no gradient would be left.
_MOST_NOISE = 0.98
#: While it trains, each label's beta is at least this share of the labels' median: after the first
#: epoch, the decrease with each further one, and in the end. Rates drawn from [.02, .5] and
#: [.02, .3] hardly go below a half.
_FIRST_SHARE, _SHARE_STEP, _LAST_SHARE = 1.0, 0.2, 0.5
#: But no false-click rate is lowered to less than this share of itself.
_LEAST_LEFT = 0.25
#: After an epoch the rates are fitted to no more held-out rounds than these, which know them to
#: about 0.01: training needs no better, and the fit takes less time than the epoch.
MOST_FITTED = 8192
#: And no more exactly than this, in shares of the loss.
TRAINING_TOLERANCE = 1e-5
#: A label's largest log probability, as far from 0 as float32 can tell: the log odds stay finite.
_MOST_CERTAIN = -1e-6
_BLOCK = 8192
#: Steps between two looks at the clock and at the caller's wish to stop.
_STEPS_BETWEEN_LOOKS = 20


class Tensors(NamedTuple):
    """A block of rounds, where torch computes: scaled instances, labels, feedback as floats."""

    xs: Tensor
    labels: Tensor
    feedback: Tensor


class Watch(NamedTuple):
    """When to stop, and whom to tell."""

    until_s: float | None
    cancelled: Callable[[], bool]
    tell: Callable[[float, float], None]

    def time_is_up(self) -> bool:
        """Look at the clock and at the caller's wish."""
        if self.cancelled():
            raise CancelledError("the estimate was cancelled")
        return self.until_s is not None and time.monotonic() > self.until_s


class Fold(NamedTuple):
    """What a fold's best epoch left: predictions of the held-out rounds, and the weights."""

    scores: NDArray[np.float32]
    predicted: NDArray[np.float32]
    arrays: Arrays
    epochs: int
    loss: float


class Network:
    """Two hidden layers and two heads: which label is right, and which one is shown."""

    def __init__(
        self, n_features: int, n_labels: int, generator: torch.Generator, device: torch.device
    ) -> None:
        def weights(n_in: int, n_out: int, gain: float) -> Tensor:
            drawn: Tensor = torch.randn(n_in, n_out, generator=generator)
            return drawn.mul(gain * (2.0 / n_in) ** 0.5)

        first = {
            "hidden_1": weights(n_features, HIDDEN, 1.0),
            "bias_1": torch.zeros(HIDDEN),
            "hidden_2": weights(HIDDEN, HIDDEN, 1.0),
            "bias_2": torch.zeros(HIDDEN),
            # The right label is first sought where the learner sought it: u(x) = 0.
            "right": torch.zeros(HIDDEN, n_labels),
            "right_bias": torch.zeros(n_labels),
            "shown": weights(HIDDEN, n_labels, 0.3),
            "shown_bias": torch.zeros(n_labels),
            "trust": torch.ones(()),
            "offset": torch.zeros(()),
        }
        # All weights lie in one vector, and their gradients in another: a step of the optimiser
        # is then a handful of operations, not a handful for each part.
        self.weights = torch.cat([part.ravel() for part in first.values()]).to(device)
        self.gradient = torch.zeros_like(self.weights)
        self.rates = torch.full_like(self.weights, LEARNING_RATE)
        self.parts: dict[str, Tensor] = {}
        begin = 0
        for name, part in first.items():
            own = slice(begin, begin + part.numel())
            self.parts[name] = self.weights[own].view(part.shape).requires_grad_()
            self.parts[name].grad = self.gradient[own].view(part.shape)
            if part.ndim == 0:
                self.rates[own] = SCALAR_LEARNING_RATE
            begin = own.stop

    def load(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Take over the weights of an earlier network."""
        for name, part in self.parts.items():
            got = arrays.get(name)
            if got is None or got.shape != tuple(part.shape):
                shape = None if got is None else got.shape
                raise InputError(expected(f"warm[{name!r}]", f"shape {tuple(part.shape)}", shape))
            part.data.copy_(torch.from_numpy(np.asarray(got, dtype=np.float32)))

    def arrays(self) -> Arrays:
        """Return copies of the weights."""
        return {name: part.detach().cpu().numpy().copy() for name, part in self.parts.items()}

    def forward(self, xs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the right label's scores, and log probabilities of the shown one, each (K, n).

        Labels come first because torch normalises over a short last axis a dozen times slower.
        """
        p = self.parts
        hidden = torch.relu(torch.addmm(p["bias_1"], xs, p["hidden_1"]))
        hidden = torch.relu(torch.addmm(p["bias_2"], hidden, p["hidden_2"]))
        shown = torch.addmm(p["shown_bias"], hidden, p["shown"]).T.log_softmax(dim=0)
        right = torch.addmm(p["right_bias"], hidden, p["right"]).T
        # What the choice says is evidence, not to be bent to fit the clicks.
        return right + p["trust"] * shown.detach(), shown

    def scores(self, xs: Tensor, rows: Tensor) -> NDArray[np.float32]:
        """Return the right label's scores of some instances."""
        with torch.no_grad():
            parts = [
                self.forward(xs.index_select(0, rows[i : i + _BLOCK]))[0]
                for i in range(0, len(rows), _BLOCK)
            ]
            return np.ascontiguousarray(torch.cat(parts, dim=1).T.cpu().numpy())


class Adam:
    """Adam with its usual constants, on one vector of weights.

    torch's own would import its compiler first: a second, and 100 MB.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.mean = torch.zeros_like(network.weights)
        self.square = torch.zeros_like(network.weights)
        #: Room for what is made of these in a step.
        self.length = torch.zeros_like(network.weights)
        self.move = torch.zeros_like(network.weights)
        self.steps = 0

    def step(self, loss: Tensor) -> None:
        """Go one step down the gradient of `loss`."""
        gradient = self.network.gradient.zero_()
        torch.autograd.backward(loss)
        self.steps += 1
        self.mean.lerp_(gradient, 1.0 - ADAM_DECAYS[0])
        self.square.mul_(ADAM_DECAYS[1]).addcmul_(gradient, gradient, value=1.0 - ADAM_DECAYS[1])
        # Both means begin at 0; what makes up for it is applied to scalars, not to all weights.
        unbias = 1.0 - ADAM_DECAYS[0] ** self.steps
        length_unbias = (1.0 - ADAM_DECAYS[1] ** self.steps) ** 0.5
        torch.sqrt(self.square, out=self.length).add_(1e-8 * length_unbias)
        torch.mul(self.mean, self.network.rates, out=self.move)
        self.network.weights.addcdiv_(self.move, self.length, value=-length_unbias / unbias)


def train_fold(
    network: Network,
    block: Tensors,
    held: NDArray[np.bool_],
    generator: torch.Generator,
    most_epochs: int | None,
    watch: Watch,
) -> Fold:
    """Train on the other folds until the held-out rounds are predicted no better."""
    device = block.xs.device
    rows = torch.from_numpy(np.flatnonzero(~held))
    held_rows = torch.from_numpy(np.flatnonzero(held)).to(device)
    fitted = held_rows[:: -(-len(held_rows) // MOST_FITTED)]
    labels = block.labels[fitted].cpu().numpy()
    feedback = block.feedback[fitted].cpu().numpy().astype(np.float64)
    optimizer = Adam(network)
    n_labels = network.parts["right"].shape[1]
    levels: Levels = first_levels(feedback, n_labels)
    fit: BlockFit | None = None
    best, best_arrays = levels, network.arrays()
    steps = -(-len(rows) // BATCH)
    patience = max(PATIENCE, -(-PATIENCE_STEPS // steps))
    most = most_epochs or MOST_EPOCHS * patience // PATIENCE
    epochs, waited = 0, 0
    while epochs < most and waited < patience:
        order = rows[torch.randperm(len(rows), generator=generator)].to(device)
        seen_loss = _train_epoch(network, block, order, telling(levels, epochs), optimizer, watch)
        if seen_loss is None:
            break
        epochs += 1
        rounds = rounds_of(network.scores(block.xs, fitted), labels, feedback)
        fit = fit_block(rounds, fit, bayes_rounds=1, tolerance=TRAINING_TOLERANCE)
        levels = fit.chosen
        waited += 1
        if levels.loss < best.loss - LEAST_GAIN:
            waited = 0
            best, best_arrays = levels, network.arrays()
        watch.tell(epochs / most, levels.loss)
        if waited >= PATIENCE and levels.loss - seen_loss > BY_HEART:
            break
    watch.tell(1.0, best.loss)
    network.load(best_arrays)
    scores = network.scores(block.xs, held_rows)
    return Fold(scores, _predict(scores, best, network), best_arrays, epochs, best.loss)


def telling(levels: Levels, epochs: int) -> Levels:
    """Return rates to train with after `epochs` epochs: no label's clicks tell next to nothing.

    What the network does not know yet looks like noise, above all like false clicks of a label
    that was seldom wrong. Trained with such rates, it would have no gradient to find out.
    """
    share = min(_FIRST_SHARE, max(_LAST_SHARE, _FIRST_SHARE - _SHARE_STEP * (epochs - 1)))
    least_beta = share * float(np.median(1.0 - levels.rho_0 - levels.rho_1))
    most = np.maximum(1.0 - least_beta - levels.rho_1, _LEAST_LEFT * levels.rho_0)
    return levels._replace(rho_0=np.minimum(levels.rho_0, most))


def _train_epoch(
    network: Network,
    block: Tensors,
    order: Tensor,
    levels: Levels,
    optimizer: Adam,
    watch: Watch,
) -> float | None:
    """Go once through the rounds and return the mean loss; None if time was up before the end."""
    shrink = np.minimum(1.0, _MOST_NOISE / (levels.rho_0 + levels.rho_1))
    pair = np.stack([levels.rho_0 * shrink, 1.0 - levels.rho_1 * shrink]).astype(np.float32)
    low, high = torch.from_numpy(pair).to(block.xs.device)
    labels, feedback = block.labels[order], block.feedback[order]
    columns = (order, labels[None], feedback, low[labels], (high - low)[labels])
    batches = zip(*(column.split(BATCH, dim=-1) for column in columns), strict=True)
    total = torch.zeros((), device=block.xs.device)
    for step, (some, own, clicks, lowest, beta) in enumerate(batches):
        if step % _STEPS_BETWEEN_LOOKS == 0 and watch.time_is_up():
            return None
        # Takes less than half the time of block.xs[some].
        right, shown = network.forward(block.xs.index_select(0, some))
        odds = own_odds(right, own) + network.parts["offset"]
        clicked = lowest + beta * torch.sigmoid(odds)
        loss = functional.binary_cross_entropy(clicked.clamp(1e-6, 1.0 - 1e-6), clicks)
        optimizer.step(loss - shown.gather(0, own).mean())
        total += loss.detach() * len(some)
    return float(total) / len(order)


def own_odds(scores: Tensor, own: Tensor) -> Tensor:
    """Return the log odds (n,) of each column's own label, (1, n), in its softmax, (K, n)."""
    certain = scores.log_softmax(dim=0).gather(0, own)[0].clamp(max=_MOST_CERTAIN)
    return certain - torch.log(-torch.expm1(certain))


def _predict(scores: NDArray[np.float32], levels: Levels, network: Network) -> NDArray[np.float32]:
    """Return the network's q(x, label) for every label, without any later correction."""
    exact = scores.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    posterior = np.exp(exact)
    posterior /= posterior.sum(axis=1, keepdims=True)
    odds = np.log(posterior.clip(1e-12)) - np.log((1.0 - posterior).clip(1e-12))
    probability = sigmoid(odds + network.parts["offset"].item())
    beta = (1.0 - levels.rho_0 - levels.rho_1).clip(0.0)
    predicted: NDArray[np.float32] = (levels.rho_0 + beta * probability).astype(np.float32)
    return predicted
