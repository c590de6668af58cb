"""Let a second learner learn from the first one's log, and promote it if it is surely better.

Start a service with `misclick serve`, then run `python -m examples.challenger`.
"""

from __future__ import annotations

import argparse
import os
import secrets

import numpy as np

from clients import Client, Dense, Feedback, Instance, ModelSpec

LABELS = ("shoes", "hats", "coats")
#: False and missed clicks.
RHO_0, RHO_1 = 0.2, 0.3
ROUNDS = 3000


def play(client: Client, model: str, rng: np.random.Generator) -> None:
    """Show labels to visitors who click on the right one, mostly."""
    rights = rng.integers(len(LABELS), size=ROUNDS)
    xs = np.eye(len(LABELS))[rights] + rng.normal(0.0, 0.5, (ROUNDS, len(LABELS)))
    # Later batches are decided with what was learned from the ones before.
    for start in range(0, ROUNDS, 100):
        some = slice(start, start + 100)
        decisions = client.predict_batch(model, [Instance(x=x) for x in xs[some]])
        clicks = []
        for decision, right in zip(decisions, rights[some].tolist(), strict=True):
            is_right = decision.label == LABELS[right]
            clicked = rng.random() < (1 - RHO_1 if is_right else RHO_0)
            clicks.append(Feedback(decision.decision_id, int(clicked)))
        client.feedback_batch(model, clicks)


def main() -> None:
    """Play, evaluate, promote, and print what each policy is worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    args = parser.parse_args()
    name = f"challenger-{secrets.token_hex(4)}"
    spec = ModelSpec(
        name=name,
        learner={"kind": "banditron", "gamma": 0.3},
        labels=LABELS,
        features=Dense(size=len(LABELS)),
    )
    with Client(args.url, api_key=os.environ.get("MISCLICK_API_KEY")) as client:
        client.create_model(spec)
        learner = {"kind": "rcnbf", "gamma": 0.1, "rho_0": RHO_0, "rho_1": RHO_1}
        client.add_challenger(name, "corrected", learner)
        # With the rates known, clicks can be corrected, by the challenger and in the evaluation.
        client.set_rates(name, rho_0=RHO_0, rho_1=RHO_1)
        play(client, name, np.random.default_rng(1))
        policies = client.evaluate(name).policies
        for policy in policies:
            value = policy.best
            if value is not None:
                interval = f"{value.low:.0%} to {value.high:.0%}"
                who = " ".join(filter(None, (policy.policy, policy.name)))
                print(f"{who}: {value.value:.0%} right, {interval}")
        gain = next(policy.gain for policy in policies if policy.policy == "challenger")
        # The gain is more precise than the difference of two values, each with its own error.
        if gain is not None and gain.low > 0:
            print(f"{gain.low:.0%} to {gain.high:.0%} more than the one that decides: promote it")
            print(f"{client.promote(name, 'corrected').deciding} decides now")
        client.delete_model(name)


if __name__ == "__main__":
    main()
