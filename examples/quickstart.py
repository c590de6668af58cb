"""Create a model, decide, report a click.

Start a service with `misclick serve`, then run `python -m examples.quickstart`.
"""

from __future__ import annotations

import argparse
import os

from clients import Client, Dense, ModelSpec

# The default learner, which finds out itself how noisy clicks are.
ADS = ModelSpec(name="quickstart", labels=("sports", "news", "music"), features=Dense(2))


def main() -> None:
    """Make one round trip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    with Client(parser.parse_args().url, api_key=os.environ.get("MISCLICK_API_KEY")) as client:
        client.create_model(ADS)
        decision = client.predict(ADS.name, [0.3, 0.9])
        print(f"show {decision.label!r}: it was drawn with probability {decision.propensity:.3f}")
        receipt = client.feedback(ADS.name, decision.decision_id, 1)
        print(f"the click is event {receipt.seq} of the model's log: {receipt.status}")


if __name__ == "__main__":
    main()
