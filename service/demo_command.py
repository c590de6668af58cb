"""The command `misclick demo`: a real service, a real data set, clicks that lie."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from clients import Client, InputError, MisclickError, Retries
from clients.replay.datasets import load
from clients.replay.http_player import HttpPlayer
from clients.replay.live import LiveBoard
from clients.replay.report import percent, plot, table
from clients.replay.run import Replay, Track
from clients.replay.stream import ClickStream, Noise
from service.commands import ended, ending_in_order
from service.outputs import check_outputs, print_table, terminal, writing
from service.replay_command import model_spec

if TYPE_CHECKING:
    from service.commands import Subparsers

#: False and missed clicks: mild noise and heavy noise.
NOISES = ((0.15, 0.15), (0.2, 0.4))
#: Share of exploration. A tenth lets both learners settle within the demo.
GAMMA = 0.1
#: Long enough for the gap to open; half a minute to two on two cores, depending on their load.
ROUNDS = 40_000
#: Rounds decided by one call: a call costs the client as much as some twenty decisions.
BATCH = 100
WINDOW = 2000
#: What the service prints when it has a port.
LISTENS = re.compile(r"listens on (http://\S+)")
POLL_S = 0.05
START_S = 60.0
STOP_S = 20.0


class DemoError(Exception):
    """The demo's service did not start, or ended."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "demo",
        help="watch learners learn from clicks that lie, through a real service",
        description=(
            "Start the service with a store of its own, replay river's image segments to it as "
            "a noisy click stream, show the running errors side by side, draw them, and stop."
        ),
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"length of the replay (default: {ROUNDS:,})"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of examples, noise and draws (default: 0)"
    )
    parser.add_argument(
        "--png",
        type=Path,
        default=Path("out/demo.png"),
        metavar="FILE",
        help="the picture (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo and leave nothing running; return the exit status."""
    console = terminal()
    try:
        # Wrong options are reported before the service starts, not after the minute or two of the
        # replay, when the picture is drawn.
        streams = _streams(args)
        args.png.parent.mkdir(parents=True, exist_ok=True)
        check_outputs(png=args.png)
        with ending_in_order() as end_if_asked, running_service() as url, Client(url) as client:
            console.print(f"The service answers at {url}", soft_wrap=True)
            _demo(args, streams, client, console, end_if_asked)
    except (DemoError, MisclickError, OSError, KeyboardInterrupt) as error:
        return ended("demo", error)
    return 0


def _streams(args: argparse.Namespace) -> dict[tuple[float, float], ClickStream]:
    """Return the click stream of each noise."""
    if args.rounds < 1:
        raise InputError(f"--rounds: expected at least 1, got {args.rounds}")
    dataset = load("segments")
    return {
        (rho_0, rho_1): ClickStream(
            dataset, horizon=args.rounds, seed=args.seed, noise=Noise(rho_0=rho_0, rho_1=rho_1)
        )
        for rho_0, rho_1 in NOISES
    }


def _demo(
    args: argparse.Namespace,
    streams: Mapping[tuple[float, float], ClickStream],
    client: Client,
    console: Console,
    end_if_asked: Callable[[], None],
) -> None:
    dataset = streams[NOISES[0]].dataset
    console.print(
        f"{len(dataset.y):,} image segments, {dataset.n_features} features, "
        f"{len(dataset.labels)} labels: {', '.join(dataset.labels)}. "
        f"Each of {args.rounds:,} rounds shows a label for one of them and hears a click if the "
        "label is right, but some clicks are false and some are missed. Banditron believes what "
        "it hears; RCNBF knows how often it is wrong; Softmax finds that out from the clicks."
    )
    replays = {rates: _replay(client, stream, *rates) for rates, stream in streams.items()}
    tracks = {
        f"{learner} {rho_0:.0%}/{rho_1:.0%}": track
        for (rho_0, rho_1), replay in replays.items()
        for learner, track in replay.tracks.items()
    }
    board = LiveBoard(tracks, args.rounds, window=WINDOW, console=console)
    with board:
        runs = [replay.run() for replay in replays.values()]
        for done in zip(*runs, strict=True):
            end_if_asked()
            board.update(done[-1])
    _summarise(args, console, replays, tracks, board.elapsed_s)


def noise_title(rho_0: float, rho_1: float) -> str:
    """Return the name of a noise for titles.

    Examples
    --------
    >>> noise_title(0.2, 0.4)
    '20 % false and 40 % missed clicks'
    """
    return f"{100 * rho_0:.0f} % false and {100 * rho_1:.0f} % missed clicks"


def _replay(client: Client, stream: ClickStream, rho_0: float, rho_1: float) -> Replay:
    """Create the models of one noise, and return the replay that plays them."""
    learners: dict[str, dict[str, Any]] = {
        "Banditron": {"kind": "banditron", "gamma": GAMMA},
        "RCNBF": {"kind": "rcnbf", "gamma": GAMMA, "rho_0": rho_0, "rho_1": rho_1},
        "Softmax": {"kind": "forward_softmax"},
    }
    players = {}
    for shown, learner in learners.items():
        name = f"{learner['kind']}-{100 * rho_0:.0f}-{100 * rho_1:.0f}"
        spec = model_spec(name, learner, stream.dataset, scaling="standard", seed=stream.seed)
        players[shown] = HttpPlayer(client, client.create_model(spec).name)
    return Replay(stream, players, batch=BATCH)


def _summarise(
    args: argparse.Namespace,
    console: Console,
    replays: Mapping[tuple[float, float], Replay],
    tracks: Mapping[str, Track],
    elapsed_s: float,
) -> None:
    print_table(table(tracks, window=WINDOW))
    for rates, replay in replays.items():
        banditron, *others = replay.tracks.items()
        console.print(
            f"With {noise_title(*rates)}, {banditron[0]} showed the wrong label in "
            f"{percent(banditron[1].error())} of the rounds, "
            + " and ".join(f"{name} in {percent(track.error())}" for name, track in others)
            + "."
        )
    n_calls = len(tracks) * args.rounds
    console.print(
        f"{n_calls:,} decisions and as many feedbacks over HTTP in {elapsed_s:.0f} s, "
        f"each feedback written to disk before it was acknowledged."
    )
    panels = {noise_title(*rates): replay.tracks for rates, replay in replays.items()}
    with writing("png", args.png):
        plot(panels, args.png, title=f"Image segments, {args.rounds:,} rounds of noisy clicks")
    # A folder's name may look like rich's markup.
    console.print(f"The error curves: {args.png.resolve()}", soft_wrap=True, markup=False)


# -- the service ----------------------------------------------------------------------------
@contextmanager
def running_service() -> Iterator[str]:
    """Run the service with a store of its own in a temporary folder; give its address.

    Raises
    ------
    DemoError
        It did not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="misclick-") as folder:
        log = Path(folder) / "service.log"
        # On a tether: a demo that is killed cannot stop it.
        command = [sys.executable, "-m", "service.tether", "serve"]
        command += ["--port", "0", "--data-dir", str(Path(folder) / "data")]
        # Settings of the user's own service must not reach this one.
        environ = {k: v for k, v in os.environ.items() if not k.startswith("MISCLICK_")}
        with log.open("wb") as output:
            # A session of its own: Ctrl-C ends the demo, and the demo ends the service.
            child = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environ,
                start_new_session=True,
            )
        try:
            yield _wait_until_ready(child, log)
        finally:
            _stop(child)


def _wait_until_ready(child: subprocess.Popen[bytes], log: Path) -> str:
    """Return the service's address when it is ready; raise when it ends or takes too long."""
    deadline_s = time.monotonic() + START_S
    reason = "it does not listen"
    while time.monotonic() < deadline_s and child.poll() is None:
        time.sleep(POLL_S)
        listening = LISTENS.search(log.read_text(encoding="utf-8", errors="replace"))
        if listening is None:
            continue
        url = listening.group(1)
        with Client(url, timeout_s=2.0, retries=Retries(tries=1)) as client:
            try:
                readiness = client.ready()
            except MisclickError as error:
                reason = str(error)
                continue
        if readiness.ready:
            return url
        reason = f"its check {readiness.failing!r} fails"
    if child.poll() is not None:
        reason = f"it ended with status {child.returncode}"
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise DemoError(f"the service did not start: {reason}\n{said}")


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ask the service to end, and kill it if it does not."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdin is not None:
        child.stdin.close()
