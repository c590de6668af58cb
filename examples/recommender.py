"""A shop that shows one item out of a few, and learns from clicks of which some are accidents.

Start a service with `misclick serve`, then run `python -m examples.recommender`.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets

from clients import Client, Field, ModelSpec, Named, Recommender

#: What visitors of each kind really want.
WANTED = {"runner": 101, "reader": 202, "cook": 303}
#: A tenth of what else is shown is clicked by accident; a fifth of the real clicks get lost. Nobody
#: tells the model.
RHO_0, RHO_1 = 0.1, 0.2
VISITS = 600


def main() -> None:
    """Serve the visits, and print how often visitors were shown what they want."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--visits", type=int, default=VISITS)
    args = parser.parse_args()
    kinds = Field(name="visitor", type="category", values=tuple(WANTED))
    shop = ModelSpec(
        name=f"shop-{secrets.token_hex(4)}",
        labels=("101",),
        features=Named((kinds,)),
    )
    with Client(args.url, api_key=os.environ.get("MISCLICK_API_KEY")) as client:
        client.create_model(shop)
        recommender = Recommender[int](client, shop.name)
        recommender.sync_catalogue(WANTED.values())
        hits = serve(recommender, args.visits)
        client.delete_model(shop.name)
    fifth = max(1, args.visits // 5)
    for name, part in (("first", hits[:fifth]), ("last", hits[-fifth:])):
        print(f"{name} fifth: {sum(part) / len(part):.0%} were shown what they want")


def serve(recommender: Recommender[int], visits: int) -> list[bool]:
    """Return for each visit whether the visitor was shown what they want."""
    random_visitors = random.Random(7)  # noqa: S311 - a simulation
    hits = []
    for _ in range(visits):
        visitor = random_visitors.choice(list(WANTED))
        shown = recommender.recommend({"visitor": visitor}, list(WANTED.values()))
        hit = shown.item == WANTED[visitor]
        clicks = random_visitors.random() < (1 - RHO_1 if hit else RHO_0)
        (recommender.clicked if clicks else recommender.not_clicked)(shown)
        hits.append(hit)
    return hits


if __name__ == "__main__":
    main()
