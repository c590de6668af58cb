"""Let a model learn beside a policy of your own, see what it would be worth, then switch.

Start a service with `misclick serve`, then run `python -m examples.shadow`.
"""

from __future__ import annotations

import argparse
import os
import secrets

import numpy as np

from clients import Client, Dense, ModelSpec, PolicyValue, Round

LABELS = ("shoes", "hats", "coats")
#: False and missed clicks.
RHO_0, RHO_1 = 0.2, 0.3
ROUNDS = 4000
#: The policy shows the label it thinks best, except in this share of rounds: there it draws.
EXPLORES = 0.2


def own_policy(x: np.ndarray, rng: np.random.Generator) -> tuple[int, float]:
    """Return a label, and the probability with which it was chosen: both have to be logged."""
    chances = np.full(len(LABELS), EXPLORES / len(LABELS))
    # It knows nothing of coats.
    chances[int(x[:2].argmax())] += 1 - EXPLORES
    label = int(rng.choice(len(LABELS), p=chances))
    return label, float(chances[label])


def play(rng: np.random.Generator) -> list[Round]:
    """Show labels to visitors who click on the right one, mostly; return what was logged."""
    logged = []
    for right in rng.integers(len(LABELS), size=ROUNDS).tolist():
        x = np.eye(len(LABELS))[right] + rng.normal(0.0, 0.4, len(LABELS))
        label, propensity = own_policy(x, rng)
        clicked = rng.random() < (1 - RHO_1 if label == right else RHO_0)
        logged.append(Round(x=x, label=LABELS[label], propensity=propensity, feedback=int(clicked)))
    return logged


def shown(policy: PolicyValue) -> str:
    """Return what a policy is worth, in words."""
    who = {"elsewhere": "your policy", "deciding": "the model in its place"}[policy.policy]
    value = policy.best
    if value is None:
        return f"{who}: {policy.verdict}"
    return f"{who}: {value.value:.0%} right, {value.low:.0%} to {value.high:.0%}"


def main() -> None:
    """Tell the rounds, evaluate, and let the model decide."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    args = parser.parse_args()
    name = f"shadow-{secrets.token_hex(4)}"
    spec = ModelSpec(name=name, labels=LABELS, features=Dense(size=len(LABELS)))
    rng = np.random.default_rng(1)
    with Client(args.url, api_key=os.environ.get("MISCLICK_API_KEY")) as client:
        client.create_model(spec)
        # An old log goes in at once; beside a running policy, `tell_round` after each visit.
        client.tell_rounds(name, play(rng))
        for policy in client.evaluate(name).policies[:2]:
            print(shown(policy))
        decision = client.predict(name, [1.0, 0.0, 0.0])
        print(f"the model shows {decision.label} now")
        client.delete_model(name)


if __name__ == "__main__":
    main()
