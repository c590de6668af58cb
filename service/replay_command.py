"""The command `misclick replay`: a data set as a noisy click stream, in-process or over HTTP."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from pydantic import ValidationError

from clients import (
    Client,
    Dense,
    ForbiddenError,
    InputError,
    MisclickError,
    ModelSpec,
    NotFoundError,
    UnauthorizedError,
)
from clients.replay.datasets import BUNDLED, Dataset, load
from clients.replay.http_player import HttpPlayer
from clients.replay.live import LiveBoard
from clients.replay.report import as_json, plot, table
from clients.replay.run import Player, Replay
from clients.replay.stream import ClickStream, Noise, Rates, draw_rates
from learners import LEARNERS, LearnersError
from service.commands import (
    API_KEY_VARIABLE,
    PATIENT,
    client_of,
    ended,
    ending_in_order,
    parse_learner,
)
from service.complaints import of_pydantic
from service.errors import ServiceError
from service.features import A_NUMBER, MAX_VALUE
from service.inprocess import InProcessPlayer
from service.outputs import check_outputs, file_of, print_table, terminal, writing
from service.spec import ESTIMATE_AFTER

if TYPE_CHECKING:
    from service.commands import Subparsers

#: A replay may hold feedback back for long, and drop some: nothing may expire meanwhile.
WINDOW_S = 7 * 24 * 3600.0
MAX_PENDING = 1_000_000


def add_parser(subparsers: Subparsers) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "replay",
        help="replay a labelled data set as a noisy click stream and watch the errors",
        description=(
            "Replay a labelled data set as a click stream: in each round every learner shows a "
            "label for the same instance and gets a click if it is right, unless noise flips, "
            "delays, drops or doubles the feedback."
        ),
        epilog=(
            "example: misclick replay segments --scaling standard --rho-0 .2 --rho-1 .4 "
            "--learner banditron:gamma=.1 --learner rcnbf:gamma=.1,rho_0=.2,rho_1=.4 "
            "--png errors.png"
        ),
    )
    parser.set_defaults(run=run)
    bundled = ", ".join(BUNDLED)
    kinds = ", ".join(kind for kind, learner in LEARNERS.items() if learner.takes_feedback)
    parser.add_argument(
        "data",
        help=f"{bundled}, a .npz file with arrays X and y, or a .csv file whose first line names "
        "its columns",
    )
    parser.add_argument("--label-column", help="label column of a CSV file; default: the last")
    parser.add_argument(
        "--learner",
        action="append",
        required=True,
        metavar="KIND[:OPTION=VALUE,...]",
        help=f"what plays; repeat it to compare. One of {kinds}; or a JSON object such as "
        '\'{"kind": "bpa"}\'',
    )
    parser.add_argument(
        "--scaling",
        choices=("none", "unit", "standard"),
        default="none",
        help="of instances, as in a model's spec (default: none; columns in different units want "
        "standard)",
    )
    parser.add_argument("--horizon", type=int, default=100_000, help="rounds (default: 100,000)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of stream, noise and draws (default: 0)"
    )
    parser.add_argument(
        "--no-replacement",
        action="store_true",
        help="pass through the examples in random orders instead of drawing each round",
    )
    _add_noise(parser)
    _add_way(parser)
    parser.add_argument(
        "--window", type=int, default=1000, help="rounds of the recent error (default: 1,000)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the error curves there")
    parser.add_argument(
        "--scale", choices=("log", "linear"), default="log", help="of the curves (default: log)"
    )


def _add_noise(parser: argparse.ArgumentParser) -> None:
    noise = parser.add_argument_group("noise")
    rates = (
        "one rate, one for each label in ascending order (.1,.2,...), or a range (.1:.3) to draw "
        "them from"
    )
    noise.add_argument("--rho-0", default="0", metavar="RATE", help=f"false clicks: {rates}")
    noise.add_argument("--rho-1", default="0", metavar="RATE", help="missed clicks, likewise")
    noise.add_argument(
        "--delay", default="0", metavar="ROUNDS", help="until feedback arrives: 10, or 0:50"
    )
    noise.add_argument(
        "--shuffle", type=int, default=0, metavar="ROUNDS", help="hold back 0 to ROUNDS more"
    )
    noise.add_argument("--drop", type=float, default=0.0, metavar="SHARE", help="never arrives")
    noise.add_argument("--duplicate", type=float, default=0.0, metavar="SHARE", help="comes twice")


def _add_way(parser: argparse.ArgumentParser) -> None:
    kinds = " and ".join(sorted(ESTIMATE_AFTER))
    way = parser.add_argument_group(
        "in-process (default) or over HTTP",
        f"Only a service estimates noise rates, as {kinds} need them where theirs are not given.",
    )
    way.add_argument(
        "--url",
        help=f"replay over HTTP with this service; its API key, if any, is read from "
        f"{API_KEY_VARIABLE}",
    )
    way.add_argument(
        "--keep",
        action="store_true",
        help="keep the models made there for the replay, and say what they are called",
    )
    way.add_argument(
        "--batch",
        type=int,
        default=1,
        help="rounds decided at once, up to 4,096; with 1 (default) each learns from all before it",
    )


def run(args: argparse.Namespace) -> int:
    """Replay, print the errors, write the files; return the exit status."""
    try:
        _check(args)
        stream = stream_of(args)
        specs = specs_of(args, stream.dataset)
        if args.url is not None:
            _check_pending(stream)
        with ending_in_order() as end_if_asked, players_of(args, specs) as players:
            _replay(args, Replay(stream, players, batch=args.batch), specs, end_if_asked)
    except ValidationError as error:
        for detail in of_pydantic(error.errors(include_url=False)).details:
            print(f"misclick replay: {detail}", file=sys.stderr)
        return 2
    except (MisclickError, LearnersError, ServiceError, OSError, KeyboardInterrupt) as error:
        return ended("replay", error)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse what would only be noticed after the last round."""
    check_outputs(json=args.json, png=args.png)
    for option, path in (("json", args.json), ("png", args.png)):
        if path is not None and file_of(path) == file_of(args.data):
            raise InputError(f"--{option}: expected another file than the data, got '{path}'")
    if args.window < 1:
        raise InputError(f"--window: expected at least 1 round, got {args.window}")
    if args.keep and args.url is None:
        raise InputError("--keep: expected with --url; in-process no model outlives the replay")


def _check_pending(stream: ClickStream) -> None:
    """Refuse what a service would refuse after hours: too many decisions that wait for feedback."""
    noise, horizon = stream.noise, stream.horizon
    late = min(horizon, noise.delay[1] + noise.shuffle)
    waiting = round(noise.drop * horizon + late)
    if waiting > MAX_PENDING:
        what = f"at most {MAX_PENDING:,} decisions without feedback at a time over HTTP"
        raise InputError(f"drop, delay, shuffle: expected {what}, got {waiting:,}")


def _replay(
    args: argparse.Namespace,
    replay: Replay,
    specs: Mapping[str, ModelSpec],
    end_if_asked: Callable[[], None],
) -> None:
    console = terminal()
    stream = replay.stream
    board = LiveBoard(replay.tracks, stream.horizon, window=args.window, console=console)
    with board:
        for done in replay.run():
            end_if_asked()
            board.update(done)
    elapsed_s = board.elapsed_s
    print_table(table(replay.tracks, window=args.window))
    pace = f"{stream.horizon / elapsed_s:,.0f} a second"
    console.print(f"{stream.horizon:,} rounds in {elapsed_s:,.1f} s, {pace}")
    if args.json:
        result = as_json(stream, replay.tracks, window=args.window, elapsed_s=elapsed_s)
        # Without these nobody could repeat it.
        result |= {"scaling": args.scaling, "batch": args.batch}
        for each in result["learners"]:
            each["learner"] = specs[each["name"]].learner
            if args.keep:
                each["model"] = specs[each["name"]].name
        with writing("json", args.json):
            args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if args.png:
        title = f"{stream.dataset.name}, {stream.horizon:,} rounds"
        panels = {_panel_title(args): replay.tracks}
        with writing("png", args.png):
            plot(panels, args.png, title=title, scale=args.scale)


def _panel_title(args: argparse.Namespace) -> str:
    """Return the title of the panel: all that happens to feedback, in as few lines as it takes."""
    more = {
        "delay": args.delay,
        "shuffle": args.shuffle,
        "drop": args.drop,
        "duplicate": args.duplicate,
    }
    said = ", ".join(f"{name} {value}" for name, value in more.items() if value not in ("0", 0))
    rates = f"false clicks {args.rho_0}, missed clicks {args.rho_1}"
    return f"{rates}\n{said}" if said else rates


# -- what is replayed -----------------------------------------------------------------------
def stream_of(args: argparse.Namespace) -> ClickStream:
    """Return the click stream that the options describe."""
    dataset = load(args.data, label_column=args.label_column)
    _check_size(dataset)
    n_labels = len(dataset.labels)
    first, last = _range("delay", args.delay)
    noise = Noise(
        rho_0=parse_rates("rho-0", args.rho_0, n_labels=n_labels, seed=args.seed, which=0),
        rho_1=parse_rates("rho-1", args.rho_1, n_labels=n_labels, seed=args.seed, which=1),
        delay=(first, last),
        shuffle=args.shuffle,
        drop=args.drop,
        duplicate=args.duplicate,
    )
    return ClickStream(
        dataset,
        horizon=args.horizon,
        seed=args.seed,
        replacement=not args.no_replacement,
        noise=noise,
    )


def parse_rates(name: str, text: str, *, n_labels: int, seed: int, which: int) -> Rates:
    """Read one rate, a list of rates, or a range to draw them from.

    Examples
    --------
    >>> parse_rates("rho-0", ".1", n_labels=2, seed=0, which=0)
    0.1
    >>> parse_rates("rho-0", ".1,.2", n_labels=2, seed=0, which=0)
    [0.1, 0.2]
    """
    try:
        if ":" in text:
            low, high = map(float, text.split(":"))
            return draw_rates(low, high, n_labels=n_labels, seed=seed, which=which)
        rates = [float(part) for part in text.split(",")]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--{name}: expected .1, or .1,.2,..., or .1:.3, got {text!r}") from None
    return rates[0] if len(rates) == 1 else rates


def _check_size(dataset: Dataset) -> None:
    """Refuse at once what a model would refuse only in the round in which it comes."""
    x = dataset.x
    for at in (x.argmin(), x.argmax()):
        row, column = np.unravel_index(at, x.shape)
        if abs(x[row, column]) > MAX_VALUE:
            got = f"{x[row, column]:g}"
            raise InputError(f"X[{row}, {column}]: expected {A_NUMBER}, got {got}")


def _range(name: str, text: str) -> tuple[int, int]:
    """Read `10` or `0:50`."""
    try:
        first, last = map(int, text.split(":")) if ":" in text else (int(text), int(text))
    except ValueError:
        raise InputError(f"--{name}: expected 10, or 0:50, got {text!r}") from None
    return first, last


# -- who plays ------------------------------------------------------------------------------
def model_spec(
    name: str, learner: dict[str, Any], dataset: Dataset, *, scaling: Any, seed: int
) -> ModelSpec:
    """Return the spec of a model that plays `dataset`."""
    return ModelSpec(
        name=name,
        learner=learner,
        labels=dataset.labels,
        features=Dense(dataset.n_features),
        scaling=scaling,
        seed=seed,
        window_s=WINDOW_S,
        max_pending=MAX_PENDING,
    )


def specs_of(args: argparse.Namespace, dataset: Dataset) -> dict[str, ModelSpec]:
    """Return the model of each learner, by the name it is shown with."""
    learners = [parse_learner(text) for text in args.learner]
    kinds = [str(learner.get("kind")) for learner in learners]
    run_id = secrets.token_hex(4)
    specs = {}
    for number, (text, learner, kind) in enumerate(zip(args.learner, learners, kinds, strict=True)):
        shown = kind if kinds.count(kind) == 1 else text
        known = LEARNERS.get(kind)
        if known is not None and not known.takes_feedback:
            raise InputError(f"--learner: expected one that learns from clicks, got {kind!r}")
        if shown in specs:
            raise InputError(f"--learner: expected different ones, got {text!r} twice")
        specs[shown] = model_spec(
            f"replay-{run_id}-{number}", learner, dataset, scaling=args.scaling, seed=args.seed
        )
    return specs


def plain(spec: ModelSpec) -> dict[str, Any]:
    """Return a spec as the JSON values that the service would get."""
    try:
        return msgspec.json.decode(msgspec.json.encode(spec), type=dict[str, Any])
    except UnicodeEncodeError as error:
        raise InputError(f"text: expected whole characters, got {error.object!r}") from None


def _tell_who_lacks_estimates(specs: Mapping[str, ModelSpec]) -> None:
    """Say who is not what its name says: without estimates, RCINE is Banditron."""
    for shown, spec in specs.items():
        learner = plain(spec)["learner"]
        if learner["kind"] in ESTIMATE_AFTER and not {"rho_0", "rho_1"} & learner.keys():
            print(
                f"misclick replay: {shown} is told no noise rates: in-process nobody estimates "
                "them, a service (--url) does",
                file=sys.stderr,
            )


@contextmanager
def players_of(
    args: argparse.Namespace, specs: Mapping[str, ModelSpec]
) -> Iterator[dict[str, Player]]:
    """Yield a player for each model; models of a service are deleted in the end."""
    if args.url is None:
        players: dict[str, Player] = {
            shown: InProcessPlayer(plain(spec)) for shown, spec in specs.items()
        }
        _tell_who_lacks_estimates(specs)
        yield players
        return
    with ExitStack() as stack:
        # The first answer and the last ones are not worth such patience.
        hasty = stack.enter_context(client_of(args.url))
        hasty.live()
        client = stack.enter_context(client_of(args.url, PATIENT))
        for shown, spec in specs.items():
            if not args.keep:
                stack.callback(_forget, hasty, spec.name)
            client.create_model(spec)
            if args.keep:
                # Before it plays: it is kept even when it is interrupted.
                print(f"{shown} is kept as {spec.name}")
        yield {shown: HttpPlayer(client, spec.name) for shown, spec in specs.items()}


def _forget(client: Client, model: str) -> None:
    """Delete a model that was made, or was about to be when Ctrl-C came; report if that fails."""
    try:
        client.delete_model(model)
    except (NotFoundError, UnauthorizedError, ForbiddenError):
        # A key that may not delete it could not make it.
        pass
    except MisclickError as error:
        # What ended the replay is reported after this.
        print(f"misclick replay: {model} is left with the service: {error}", file=sys.stderr)
