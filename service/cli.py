"""The command `misclick`: only the module of the command that runs is imported."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

#: A serving process must not carry what replays and plots need.
COMMANDS = {
    "serve": ("service.serve_command", "run the service"),
    "replay": ("service.replay_command", "replay a data set as a noisy click stream"),
    "demo": ("service.demo_command", "show the whole loop on real data in a minute or two"),
    "noise": ("service.noise_command", "how noisy a model's clicks are"),
    "evaluate": ("service.evaluate_command", "what a model's policies are worth, from its log"),
    "relearn": ("service.relearn_command", "make another model from a model's log"),
    "key": ("service.key_command", "make an API key"),
}
#: The exit status that shells report for a process that Ctrl-C ended.
INTERRUPTED = 130
#: The status with which rich ends a command whose table nobody reads to its end.
UNREAD = 1
UNWRITTEN = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _run(given)
        finally:
            _write_out()
    except BrokenPipeError:
        # Whoever read has read enough, as `head` does: nothing to report.
        _drop_output()
        return UNREAD
    except KeyboardInterrupt:
        # The command itself was still being loaded.
        print("misclick: stopped", file=sys.stderr)
        return INTERRUPTED


def _run(given: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An output that cannot encode ± must not end a command.
            stream.reconfigure(errors="replace")
    parser = argparse.ArgumentParser(
        prog="misclick",
        description="Online learning that survives misclicks.",
        epilog="misclick COMMAND --help says more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"misclick {version('misclick')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = given[0] if given else None
    for name, (module, what) in COMMANDS.items():
        if name == asked:
            import_module(module).add_parser(commands)
        else:
            commands.add_parser(name, help=what)
    args, unknown = parser.parse_known_args(given)
    if unknown:
        # The parser of all commands would show its own options, not the command's.
        commands.choices[args.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    status: int = args.run(args)
    return status


def _write_out() -> None:
    """Write what is buffered: Python itself, when it ends, could only say that it failed."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        print(f"misclick: standard output: {error.strerror}", file=sys.stderr)
        raise SystemExit(UNWRITTEN) from None


def _drop_output() -> None:
    """Let Python discard what is left when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
