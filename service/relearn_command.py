"""The command `misclick relearn`: another model, from a model's log."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clients import InputError, MisclickError, Relearned, Times
from service.commands import API_KEY_VARIABLE, client_of, ended, parse_learner
from service.outputs import print_json

if TYPE_CHECKING:
    from service.commands import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "relearn",
        help="make another model from a model's log, without wrong clicks",
        description=(
            "Make another model from a model's log, without the feedback of some times, "
            "without retired labels, or with another learner. The first model stays as it is; ask "
            "the new one from then on. It reaches as far back as the log does (log_keep). "
            f"The API key, if the service has any, is read from {API_KEY_VARIABLE}."
        ),
        epilog=(
            "example: misclick relearn ads ads-2 --url http://localhost:8000 "
            "--without 2026-03-01T02:00Z/2026-03-01T04:00Z"
        ),
    )
    parser.set_defaults(run=run)
    parser.add_argument("model", help="its name")
    parser.add_argument("name", help="of the new model")
    parser.add_argument("--url", required=True, help="of the service")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="FROM/UNTIL",
        help="leave out the feedback of this time (where silence is no click, decisions whose "
        "windows were open then), in ISO 8601 with a time zone (Z, +02:00); either end may be left "
        "out; may be given several times",
    )
    parser.add_argument(
        "--without-retired",
        action="store_true",
        help="leave out labels that are retired now, and what was learned of them: the new model "
        "has room for as many others",
    )
    parser.add_argument(
        "--learner",
        metavar="KIND:OPTION=VALUE,...",
        help="another learner (default: the one that decides)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Make the model, say what it learned from; return the exit status."""
    try:
        without = [parse_times(text) for text in args.without]
        learner = None if args.learner is None else parse_learner(args.learner)
        with client_of(args.url) as client:
            found = client.relearn(
                args.model,
                args.name,
                without=without,
                without_retired=args.without_retired,
                learner=learner,
            )
        if args.json:
            print_json(found)
        else:
            print("\n".join(said_of(found)))
    except (MisclickError, OSError, KeyboardInterrupt) as error:
        return ended("relearn", error, stopped=f"stopped; {args.name} may be made all the same")
    return 0


def parse_times(text: str) -> Times:
    """Read a span of time.

    Examples
    --------
    >>> parse_times("2026-03-01T02:00Z/")
    (datetime.datetime(2026, 3, 1, 2, 0, tzinfo=datetime.timezone.utc), None)
    """
    begin, slash, end = text.partition("/")
    if not slash or not (begin or end):
        raise InputError(f"--without: expected FROM/UNTIL, got {text!r}")
    return _moment(begin), _moment(end)


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    what = "a time with a time zone, such as 2026-03-01T02:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--without: expected {what}, got {text!r}") from None
    if moment.tzinfo is None:
        raise InputError(f"--without: expected {what}, got {text!r}")
    return moment


def said_of(found: Relearned) -> list[str]:
    """Return what became of the log, line by line."""
    if found.first_ms is None or found.last_ms is None:
        return [f"{found.name} has learned nothing: the log holds nothing to learn from."]
    among = f"{found.learned:,} of {found.learned + found.left_out + found.refused:,} rounds"
    times = f"{_when(found.first_ms)} to {_when(found.last_ms)}"
    lines = [f"{found.name} has learned from {among}, {times}."]
    if found.left_out:
        lines.append(f"Left out: {found.left_out:,}, {found.left_out_clicks:,} with a click.")
    if found.refused:
        lines.append(f"Refused by the learner: {found.refused:,}.")
    return lines


def _when(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
