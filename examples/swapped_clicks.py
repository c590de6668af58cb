"""A release swaps click and no click for an hour: rebuild the model without that hour.

Start a service with `misclick serve`, then run `python -m examples.swapped_clicks`. The data are
river's image segments.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
from datetime import UTC, datetime

import numpy as np

from clients import Client, Dense, Feedback, Instance, ModelSpec
from clients.replay import datasets

#: False and missed clicks.
RHO_0, RHO_1 = 0.1, 0.2
#: Visits before clicks are swapped, while they are, and after.
BEFORE, SWAPPED, AFTER = 10_000, 3_000, 2_000
#: Visits whose clicks are sent together.
AT_ONCE = 50


class Visitors:
    """People who click on the right label, mostly."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = np.random.default_rng(1)
        self.data = datasets.load("segments")
        self._right = np.array(self.data.labels)[self.data.y]

    def come(self, model: str, visits: int, *, swapped: bool = False) -> float:
        """Let some come; return the share that was shown a wrong label."""
        wrong = 0
        for _ in range(0, visits, AT_ONCE):
            who = self._rng.integers(len(self._right), size=AT_ONCE)
            decisions = self._client.predict_batch(model, [Instance(x=self.data.x[i]) for i in who])
            shown = self._right[who] == [decision.label for decision in decisions]
            wrong += int((~shown).sum())
            clicks = self._rng.random(AT_ONCE) < np.where(shown, 1 - RHO_1, RHO_0)
            told = zip(decisions, (clicks ^ swapped).tolist(), strict=True)
            self._client.feedback_batch(
                model, [Feedback(decision.decision_id, int(click)) for decision, click in told]
            )
        return wrong / visits


def main() -> None:
    """Learn, unlearn, and make the model anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    args = parser.parse_args()
    name = f"segments-{secrets.token_hex(4)}"
    anew = f"{name}-anew"
    with Client(args.url, api_key=os.environ.get("MISCLICK_API_KEY")) as client:
        visitors = Visitors(client)
        data = visitors.data
        features = Dense(size=data.x.shape[1])
        client.create_model(
            ModelSpec(name=name, labels=data.labels, features=features, scaling="standard")
        )
        print(f"{visitors.come(name, BEFORE):.1%} wrong while it learns")
        begin = _now()
        visitors.come(name, SWAPPED, swapped=True)
        end = _now()
        found = client.relearn(name, anew, without=[(begin, end)])
        print(f"{found.learned} rounds learned anew, {found.left_out} left out")
        print(f"as it was: {visitors.come(name, AFTER):.1%} wrong")
        print(f"made anew: {visitors.come(anew, AFTER):.1%} wrong")
        for model in (name, anew):
            client.delete_model(model)


def _now() -> datetime:
    # Events are dated in milliseconds.
    time.sleep(0.002)
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
