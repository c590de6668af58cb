"""A smoke test on logged clicks of a shop: the Open Bandit Dataset's small sample."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from learners import Outcome, create

#: Shown at random, so that every item's propensity is known and above 0: 10,000 rounds, 80 items.
LOG = "obd_random_all"
#: Slots of the page; the slot belongs to the context.
N_POSITIONS = 3


def smoke_test(kind: str, folder: Path) -> str | None:
    """Learn the log once; say what a round cost and how often the learner's choices were clicked.

    The click rate is the inverse propensity estimate of the learner as it was in each round. The
    log holds 38 clicks: the standard error says that nothing is to be concluded from it.
    """
    path = folder / f"{LOG}.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as log:
        users = log["user_features"].astype(np.int64)
        sizes = [len(log[f"user_feature_{j}_levels"]) for j in range(users.shape[1])]
        parts = [np.eye(size)[users[:, j]] for j, size in enumerate(sizes)]
        xs = np.hstack([*parts, np.eye(N_POSITIONS)[log["position"] - 1], np.ones((len(users), 1))])
        items, clicks = log["item_id"].tolist(), log["click"].tolist()
        chances, n_items = log["pscore"].tolist(), len(log["item_feature_0"])
    learner = create(kind, xs.shape[1], n_items)
    worth = np.empty(len(xs))
    begin_s = time.process_time()
    for t, (x, item, click, chance) in enumerate(zip(xs, items, clicks, chances, strict=True)):
        decision = learner.distribution(x)
        worth[t] = click * decision.probabilities[item] / chance
        learner.update(Outcome(x, item, decision.greedy, chance, click))
    taken_s = time.process_time() - begin_s
    error = worth.std() / np.sqrt(len(worth))
    return (
        f"{kind} on {LOG}: {taken_s / len(xs) * 1e6:.0f} us a round, click rate"
        f" {worth.mean():.4f} +- {error:.4f} (log: {np.mean(clicks):.4f})"
    )
