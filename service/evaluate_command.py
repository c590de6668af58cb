"""The command `misclick evaluate`: what the policies of a model are worth."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clients import Evaluation, MisclickError
from clients.evaluation_report import doubts, slice_summary, values_table
from service.commands import API_KEY_VARIABLE, client_of, ended
from service.outputs import print_json, print_table, terminal

if TYPE_CHECKING:
    from service.commands import Subparsers

#: More than a table takes.
TABLE_CHARS = 200


def add_parser(subparsers: Subparsers) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "evaluate",
        help="what a model's policies are worth, from its log",
        description=(
            "Estimate from the newest rounds of a model's log how often the label shown is the "
            "right one, clicks corrected for noise: for the learner that decides, for its "
            "challengers, for showing every label alike, and for always showing the same one. "
            f"The API key, if the service has any, is read from {API_KEY_VARIABLE}."
        ),
        epilog="example: misclick evaluate ads --url http://localhost:8000",
    )
    parser.set_defaults(run=run)
    parser.add_argument("model", help="its name")
    parser.add_argument("--url", required=True, help="of the service")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="newest rounds at most (default: 20000)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Show what is found; return the exit status."""
    try:
        with client_of(args.url) as client:
            found = client.evaluate(args.model, rounds=args.rounds)
        if args.json:
            print_json(found)
        else:
            _show(found)
    except (MisclickError, OSError, KeyboardInterrupt) as error:
        return ended("evaluate", error)
    return 0


def _show(found: Evaluation) -> None:
    if found.policies:
        print_table(values_table(found), chars=TABLE_CHARS)
    console = terminal()
    for line in [*doubts(found), *slice_summary(found)]:
        console.print(line, markup=False)
