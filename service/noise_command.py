"""The command `misclick noise`: how noisy a model's clicks are, as known or estimated now."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from clients import Client, InputError, MisclickError, Noise, ProtocolError, WindowNoise
from clients.noise_report import (
    history_table,
    in_force_table,
    label_summary,
    label_table,
    plot,
    rates_table,
    summary,
)
from clients.window_noise_report import window_summary, window_tables
from service.commands import API_KEY_VARIABLE, PATIENT, client_of, ended
from service.outputs import check_outputs, print_json, print_table, terminal, writing

if TYPE_CHECKING:
    from service.commands import Subparsers

#: The service's default limit on a training (600 s), twice, and some more.
WAIT_S = 1500.0
#: A trainer reports its progress every few seconds.
POLL_S = 0.5


def add_parser(subparsers: Subparsers) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "noise",
        help="how noisy a model's clicks are",
        description=(
            "Show the noise rates that a model assumes, how well they are known, and how they "
            "were found; with --estimate, estimate them now from the newest feedback. For a model "
            "that reads the noise in its labels off neighbours, show what these tell. The API "
            f"key, if the service has any, is read from {API_KEY_VARIABLE}."
        ),
        epilog="example: misclick noise ads --url http://localhost:8000 --estimate --png q.png",
    )
    parser.set_defaults(run=run)
    parser.add_argument("model", help="its name")
    parser.add_argument("--url", required=True, help="of the service")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument(
        "--estimate", action="store_true", help="ask for an estimate now and wait until it ends"
    )
    doing.add_argument(
        "--cancel", action="store_true", help="end the estimate that is asked for or being made"
    )
    parser.add_argument(
        "--wait-s",
        type=seconds,
        default=WAIT_S,
        metavar="SECONDS",
        help="longest wait for an estimate (default: %(default)g)",
    )
    parser.add_argument(
        "--png",
        type=Path,
        metavar="FILE",
        help="draw what the network of the newest estimate says of each label's clicks",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def seconds(text: str) -> float:
    """Read how long to wait; argparse reports what is wrong with other texts."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Show what is known, draw it; return the exit status."""
    noise: Noise | WindowNoise
    try:
        check_outputs(png=args.png)
        with client_of(args.url) as client:
            if args.estimate:
                number = client.estimate_noise(args.model)
                # Standard output is for the final result.
                console = terminal(stderr=True)
                with client_of(args.url, PATIENT) as patient:
                    noise = wait(patient, args.model, number, wait_s=args.wait_s, console=console)
            else:
                if args.cancel:
                    client.cancel_estimate(args.model)
                noise = known(client, args.model)
        if args.json:
            print_json(noise)
        else:
            _show(noise, terminal())
        if args.png:
            _draw(args, noise)
    except (MisclickError, OSError, KeyboardInterrupt) as error:
        going_on = "stopped; what was asked for goes on, until --cancel"
        return ended("noise", error, stopped=going_on)
    return 0


def known(client: Client, model: str) -> Noise | WindowNoise:
    """Return what is known of a model's noise, in its clicks or in its labels."""
    try:
        return client.noise(model)
    except ProtocolError:
        # Only the answer says which of the two a learner has.
        return client.window_noise(model)


def wait(client: Client, model: str, number: int, *, wait_s: float, console: Console) -> Noise:
    """Show on a terminal how far an estimate is; return what is known when it has ended.

    Parameters
    ----------
    client
        Of the service.
    model
        Its name.
    number
        Of the estimate.
    wait_s
        Longest wait, seconds, above 0.
    console
        Where the progress is shown.

    Raises
    ------
    TimeoutError
        The estimate has not ended by then.
    """
    end_s = time.monotonic() + wait_s
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with shown:
        task = shown.add_task(f"estimate {number} is asked for", total=None)
        while True:
            noise = client.noise(model)
            if noise.result(number) is not None:
                return noise
            if noise.running is not None:
                done = noise.running.progress
                what = f"estimate {noise.running.number} is being made, {done:.0%}"
                # Before the first epoch ends nothing is known: the bar pulses.
                shown.update(task, description=what, completed=done, total=1.0 if done else None)
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"estimate {number} has not ended within {wait_s:g} s")
            time.sleep(min(POLL_S, left_s))


def _show(noise: Noise | WindowNoise, console: Console) -> None:
    if isinstance(noise, WindowNoise):
        for table in window_tables(noise):
            print_table(table)
        for line in window_summary(noise):
            console.print(line)
        return
    print_table(rates_table(noise))
    for line in summary(noise):
        # What the service says is not markup.
        console.print(line, markup=False)
    if noise.learned or (noise.known and noise.rates_by_label):
        print_table(in_force_table(noise))
    if noise.history:
        print_table(history_table(noise.history))
    newest = next((estimate for estimate in noise.history if estimate.by_label), None)
    if newest is not None:
        print_table(label_table(newest))
        console.print(label_summary(newest))


def _draw(args: argparse.Namespace, noise: Noise | WindowNoise) -> None:
    if isinstance(noise, WindowNoise):
        raise InputError("--png: expected a model whose clicks a network looks at, got neighbours")
    drawn = next((estimate for estimate in noise.history if estimate.histogram), None)
    if drawn is None and noise.history:
        raise InputError(
            f"--png: the newest estimate has nothing to draw: {noise.history[0].verdict}"
        )
    if drawn is None:
        raise InputError("--png: expected an estimate to draw; ask for one with --estimate")
    trust = "" if drawn.trusted else ", not trusted"
    title = f"{args.model}: estimate {drawn.number} from {drawn.examples:,} rounds{trust}"
    with writing("png", args.png):
        plot(drawn, args.png, title=title)
