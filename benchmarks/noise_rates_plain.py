"""The noise-rate network as the paper describes it: the plain loop that NREst is compared with.

x is normalised to length 1 and the label appended; dense layers with dropout, a softmax over two
outputs, cross-entropy, AdaGrad, batches of 128, a fixed number of epochs of which the one with
the least validation loss is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 128


class PlainNetwork(NamedTuple):
    """Layers, dropout, epochs and percentile that the authors chose for a data set."""

    layers: tuple[int, ...]
    dropout: float
    epochs: int
    percentile: float


#: As in the paper; data sets that it does not have get those of the most similar one.
AUTHORS = {
    "optdigits": PlainNetwork((128, 128), 0.2, 70, 89),
    "mnist": PlainNetwork((128, 128), 0.2, 70, 89),
    "usps": PlainNetwork((32, 256, 32), 0.2, 70, 89),
    "fashion_mnist": PlainNetwork((32, 128, 32), 0.2, 70, 89),
    "iris": PlainNetwork((32, 32), 0.2, 70, 89),
    "synsep": PlainNetwork((48, 48), 0.3, 70, 94),
}


def predict(
    xs: NDArray[np.float64],
    labels: NDArray[np.int64],
    feedback: NDArray[np.int64],
    options: PlainNetwork,
    *,
    one_hot: int = 0,
    row_by_row: bool = False,
) -> NDArray[np.float64]:
    """Train the plain way and return q of each round's own label.

    The label is one raw column, as in the authors' code, or `one_hot` columns. Batches are taken
    from arrays, or gathered row by row as a data loader does by default. From here on torch has
    one thread, as ours has: a second one, which spins while it waits, counts as processor time.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = _inputs(xs, labels, one_hot)
    targets = torch.from_numpy(feedback)
    order = torch.randperm(len(inputs))
    # 90/10, of which a tenth validates; the authors' test part is not needed here.
    train, valid = (
        order[: int(0.81 * len(order))],
        order[int(0.81 * len(order)) :][: len(order) // 11],
    )
    network = _network(inputs.shape[1], options)
    optimizer = torch.optim.Adagrad(network.parameters(), lr=0.01, eps=1e-6)
    criterion = nn.CrossEntropyLoss()
    best, kept = float("inf"), {}
    for _ in range(options.epochs):
        network.train()
        for some_inputs, some_targets in _batches(inputs, targets, train, row_by_row):
            optimizer.zero_grad()
            torch.autograd.backward(criterion(network(some_inputs), some_targets))
            optimizer.step()
        network.eval()
        with torch.no_grad():
            loss = float(criterion(network(inputs[valid]), targets[valid]))
        if loss < best:
            best, kept = loss, {k: v.clone() for k, v in network.state_dict().items()}
    network.load_state_dict(kept)
    network.eval()
    with torch.no_grad():
        click = torch.softmax(network(inputs), dim=1)[:, 1]
    return np.asarray(click.numpy(), dtype=np.float64)


def _batches(
    inputs: torch.Tensor, targets: torch.Tensor, train: torch.Tensor, row_by_row: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Shuffle and hand out batches."""
    if row_by_row:
        rows = TensorDataset(inputs[train], targets[train])
        yield from DataLoader(rows, batch_size=BATCH, shuffle=True)
        return
    shuffled = train[torch.randperm(len(train))]
    for begin in range(0, len(shuffled), BATCH):
        some = shuffled[begin : begin + BATCH]
        yield inputs[some], targets[some]


def _inputs(xs: NDArray[np.float64], labels: NDArray[np.int64], one_hot: int) -> torch.Tensor:
    length = np.maximum(np.linalg.norm(xs, axis=1, keepdims=True), 1e-12)
    columns = np.eye(one_hot)[labels] if one_hot else labels[:, np.newaxis]
    return torch.from_numpy(np.hstack([xs / length, columns]).astype(np.float32))


def _network(n_inputs: int, options: PlainNetwork) -> nn.Sequential:
    parts: list[nn.Module] = []
    widths = (n_inputs, *options.layers)
    for n_in, n_out in pairwise(widths):
        layer = nn.Linear(n_in, n_out)
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
        parts += [layer, nn.ReLU(), nn.Dropout(options.dropout)]
    return nn.Sequential(*parts, nn.Linear(widths[-1], 2))
