"""What a window of neighbours tells of the noise in a model's labels: tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from clients.neighbor_types import Pair, Transition, WindowNoise
from clients.noise_report import MOST_ROWS

#: Size of neighbourhoods from which on the service asks of two labels that each has more than half
#: somewhere by more than a standard deviation.
_LEAST_SIZE = 20


def window_summary(noise: WindowNoise) -> list[str]:
    """Return sentences: what the window holds, and why it may tell nothing."""
    held = f"The window holds {noise.examples:,} examples, up to event {noise.seq:,} of the log"
    lines = [f"{held}; the model chooses how many neighbours vote."]
    if noise.k is not None:
        lines = [f"{held}; {noise.k:,} neighbours vote."]
    if not noise.estimates:
        lines.append("Its noise rates are given: none are read off the window.")
    for one in noise.estimates:
        if one.matrix is None:
            lines.append(f"{len(one.labels):,} labels are in the window: too many for a table.")
            break
        if len(one.labels) > 1 and len(set(one.matrix)) == 1:
            lines.append(
                f"By {one.k_noise:,} neighbours all labels look alike: they tell no rates."
            )
        elif not _each_prevails(one.matrix, min(one.k_noise + 1, noise.examples)):
            lines.append(
                f"By {one.k_noise:,} neighbours not every label clearly prevails somewhere: votes "
                "are not corrected."
            )
    lines.append("Client.neighbors tells which neighbours of an instance look mislabelled.")
    return lines


def window_rates_table(noise: WindowNoise) -> Table:
    """Return the two rates of a window of two labels, a row for each k'."""
    first, second = (escape(label) for label in noise.estimates[0].labels)
    result = Table(title="Labels told wrong, as the window tells", title_justify="left")
    result.add_column("k'", justify="right")
    result.add_column(f"told {second}, is {first}: rho_0", justify="right", overflow="fold")
    result.add_column(f"told {first}, is {second}: rho_1", justify="right", overflow="fold")
    for one in noise.estimates:
        rates = ("-" if rate is None else f"{100 * rate:.1f} %" for rate in (one.rho_0, one.rho_1))
        result.add_row(f"{one.k_noise:,}", *rates)
    return result


def transition_table(estimate: Transition) -> Table:
    """Return how often each label is told right, those most often told wrong first.

    Parameters
    ----------
    estimate
        One with a matrix, of at least one label.
    """
    title = f"How labels are told, by {estimate.k_noise:,} neighbours"
    result = Table(title=title, title_justify="left")
    result.add_column("is", overflow="fold")
    result.add_column("told so", justify="right", no_wrap=True)
    result.add_column("most often told instead", overflow="fold")
    result.add_column("as often as", justify="right", no_wrap=True)
    matrix = estimate.matrix or ()
    order = sorted(range(len(matrix)), key=lambda code: matrix[code][code])
    for code in order[:MOST_ROWS]:
        row = matrix[code]
        others = [other for other in range(len(row)) if other != code]
        instead = max(others, key=row.__getitem__, default=code)
        told = instead != code and row[instead] > 0
        result.add_row(
            escape(estimate.labels[code]),
            f"{100 * row[code]:.1f} %",
            escape(estimate.labels[instead]) if told else "-",
            f"{100 * row[instead]:.1f} %" if told else "-",
        )
    return result


def pairs_table(pairs: tuple[Pair, ...]) -> Table:
    """Return how well the pairs of k and k' do that a model chooses from, the best first."""
    result = Table(title="Pairs that the model chooses from", title_justify="left")
    for name in ("k", "k'", "told labels predicted"):
        result.add_column(name, justify="right")
    result.add_column("decides")
    for one in sorted(pairs, key=lambda pair: -pair.hits):
        hits = f"{100 * one.hits:.1f} %"
        result.add_row(f"{one.k:,}", f"{one.k_noise:,}", hits, "yes" if one.voting else "")
    return result


def window_tables(noise: WindowNoise) -> list[Table]:
    """Return all tables that a window can fill."""
    told = [one for one in noise.estimates if one.labels]
    tables = []
    if any(one.rho_0 is not None for one in told):
        tables.append(window_rates_table(noise))
    else:
        tables += [transition_table(one) for one in told if one.matrix is not None]
    if noise.pairs:
        tables.append(pairs_table(noise.pairs))
    return tables


def _each_prevails(matrix: Sequence[Sequence[float]], size: int) -> bool:
    """Whether each label is told as itself more often than as any other: else no rates hold.

    Of two labels in neighbourhoods of `size`, a lead that chance alone may give counts for nothing,
    as in the service, which corrects no votes then. (`rho_0` does not say it where the model has
    more labels than the window.)
    """
    chance = size if len(matrix) == 2 and size >= _LEAST_SIZE else 0
    leads = (
        round(size * (row[code] - share))
        for code, row in enumerate(matrix)
        for other, share in enumerate(row)
        if other != code
    )
    return all(lead > 0 and lead * lead > chance for lead in leads)
