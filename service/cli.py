"""The command `misclick`: only the module of the command that runs is imported."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

#: A serving process must not carry what replays and plots need.
COMMANDS = {
    "serve": ("service.serve_command", "run the service"),
    "replay": ("service.replay_command", "replay a data set as a noisy click stream"),
    "demo": ("service.demo_command", "show the whole loop on real data in a minute or two"),
    "noise": ("service.noise_command", "what is known of how a model's clicks lie"),
    "evaluate": ("service.evaluate_command", "what a model's policies are worth, from its log"),
    "relearn": ("service.relearn_command", "make another model of a model's log"),
    "key": ("service.key_command", "make an API key"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An output that knows no ± must not end a command.
            stream.reconfigure(errors="replace")
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="misclick",
        description="Online learning that survives misclicks.",
        epilog="misclick COMMAND --help says more of a command.",
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
        # The parser of all commands would show its own options, which are none of the command's.
        commands.choices[args.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    status: int = args.run(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
