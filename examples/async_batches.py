"""Many decisions at once: batches, and several calls under way at the same time.

Start a service with `misclick serve`, then run `python -m examples.async_batches`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets

from clients import AsyncClient, Dense, Feedback, Instance, ModelSpec

PAGES = 4
VIEWS = 500


async def show_page(client: AsyncClient, model: str, page: int) -> int:
    """Decide on all views of a page in one call, report in another; return the clicks."""
    views = [Instance(x=[page / PAGES, view / VIEWS]) for view in range(VIEWS)]
    decisions = await client.predict_batch(model, views)
    # Here everybody clicks on "a" and nobody on "b".
    reports = [Feedback(one.decision_id, int(one.label == "a")) for one in decisions]
    receipts = await client.feedback_batch(model, reports)
    return sum(receipt.feedback or 0 for receipt in receipts)


async def run(url: str) -> None:
    """Show all pages at the same time."""
    name = f"pages-{secrets.token_hex(4)}"
    spec = ModelSpec(name=name, labels=("a", "b"), features=Dense(2))
    async with AsyncClient(url, api_key=os.environ.get("MISCLICK_API_KEY")) as client:
        await client.create_model(spec)
        clicks = await asyncio.gather(*(show_page(client, spec.name, n) for n in range(PAGES)))
        model = await client.get_model(spec.name)
        await client.delete_model(spec.name)
    print(f"{sum(clicks)} clicks on {model.counters.decisions} decisions")


def main() -> None:
    """Read the options and go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    asyncio.run(run(parser.parse_args().url))


if __name__ == "__main__":
    main()
