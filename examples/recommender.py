"""A shop that shows one item out of a few, and learns from clicks, some of which are accidents.

Start a service with `misclick serve`, then run `python -m examples.recommender`.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets

from clients import (
    Client,
    Field,
    ModelSpec,
    Named,
    Recommender,
    Retries,
    TooManyRequestsError,
    TransportError,
    UnavailableError,
)

#: What visitors of each kind really want.
WANTED = {"runner": 101, "reader": 202, "cook": 303}
#: A tenth of the wrong items shown are clicked by accident; a fifth of the real clicks get lost.
#: Nobody tells the model.
RHO_0, RHO_1 = 0.1, 0.2
VISITS = 300
#: What is shown where the service gives no answer.
BESTSELLER = 101
#: A page waits this long for an answer, and does not ask again.
PATIENCE_S = 0.5


def main() -> None:
    """Serve the visits, and print how often visitors were shown what they want."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    url, key = parser.parse_args().url, os.environ.get("MISCLICK_API_KEY")
    kinds = Field(name="visitor", type="category", values=tuple(WANTED))
    shop = ModelSpec(
        name=f"shop-{secrets.token_hex(4)}",
        labels=("101",),
        features=Named((kinds,)),
    )
    with (
        Client(url, api_key=key) as client,
        Client(url, api_key=key, timeout_s=PATIENCE_S, retries=Retries(tries=1)) as impatient,
    ):
        client.create_model(shop)
        reports = Recommender[int](client, shop.name)
        reports.sync_catalogue(WANTED.values())
        pages = Recommender[int](impatient, shop.name)
        visitors = random.Random(7)  # noqa: S311 - a simulation
        hits = [visit(pages, reports, visitors) for _ in range(VISITS)]
        client.delete_model(shop.name)
    fifth = VISITS // 5
    for name, part in (("first", hits[:fifth]), ("last", hits[-fifth:])):
        print(f"{name} fifth: {sum(part) / len(part):.0%} were shown what they want")


def visit(pages: Recommender[int], reports: Recommender[int], visitors: random.Random) -> bool:
    """Show an item and report whether it was clicked; return whether it was what is wanted."""
    visitor = visitors.choice(list(WANTED))
    try:
        shown = pages.recommend({"visitor": visitor}, list(WANTED.values()))
    except (TransportError, UnavailableError, TooManyRequestsError):
        # Nobody decided, so there is nothing to report.
        return WANTED[visitor] == BESTSELLER
    hit = shown.item == WANTED[visitor]
    clicks = visitors.random() < (1 - RHO_1 if hit else RHO_0)
    # Nobody waits for this: in a shop another process does it, and tries again for longer.
    (reports.clicked if clicks else reports.not_clicked)(shown)
    return hit


if __name__ == "__main__":
    main()
