"""What policies are worth, as a table."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from clients.evaluation_types import Evaluation, PolicyValue, Value

#: How the policies are called in the table.
NAMES = {
    "deciding": "decides: {}",
    "elsewhere": "decided elsewhere",
    "uniform": "every label alike",
    "challenger": "challenger: {}",
    "label": "always {}",
}


def values_table(evaluation: Evaluation) -> Table:
    """Return what each policy is worth, in percent of right labels.

    Examples
    --------
    >>> empty = Evaluation(rounds=0, first_seq=None, last_seq=None, seq=0, rho_0=0.0, rho_1=0.0,
    ...                    by_label=False, rates_from="nothing", policies=())
    >>> values_table(empty).row_count
    0
    """
    what = "Clicks" if evaluation.rates_from == "nothing" else "Right labels"
    result = Table(title=f"{what}, %, with 95 % intervals", title_justify="left")
    result.add_column("policy")
    for name in ("IPS", "SNIPS", "doubly robust", "gain", "as good as"):
        result.add_column(name, justify="right")
    result.add_column("verdict")
    for policy in evaluation.policies:
        name = NAMES[policy.policy].format(policy.name)
        size = f"{policy.effective:,.0f} rounds"
        result.add_row(escape(name), *_cells(policy), size, escape(policy.verdict))
    return result


def _cells(policy: PolicyValue) -> list[str]:
    values = [_cell(value) for value in (policy.ips, policy.snips, policy.dr)]
    return [*values, _cell(policy.gain, "+")]


def _cell(value: Value | None, sign: str = "") -> str:
    if value is None:
        return "-"
    numbers = [f"{100 * number:{sign}.1f}" for number in (value.value, value.low, value.high)]
    return "{} ({} to {})".format(*numbers)


def slice_summary(evaluation: Evaluation) -> list[str]:
    """Return what the table is made from, and corrected by, as sentences.

    Examples
    --------
    >>> empty = Evaluation(rounds=0, first_seq=None, last_seq=None, seq=0, rho_0=0.0, rho_1=0.0,
    ...                    by_label=False, rates_from="nothing", policies=())
    >>> slice_summary(empty)
    ['No rounds yet.']
    """
    if evaluation.first_seq is None:
        return ["No rounds yet."]
    rounds = f"From {evaluation.rounds:,} rounds, events {evaluation.first_seq:,} to"
    lines = [f"{rounds} {evaluation.last_seq:,} of {evaluation.seq:,}."]
    if evaluation.rates_from == "nothing":
        lines.append("No noise rates are known: clicks were taken for true.")
        return [*lines, "Where they lie: a challenger of kind forward_softmax finds how often."]
    means = "each label's own, on average" if evaluation.by_label else "the same for every label"
    source = {
        "log": "in force",
        "learner": "that the deciding learner was made with or has found",
        "challenger": "that a challenger has found",
    }
    lines.append(
        f"Corrected by the rates {source[evaluation.rates_from]}: {100 * evaluation.rho_0:.1f} % "
        f"false clicks, {100 * evaluation.rho_1:.1f} % missed clicks, {means}."
    )
    return lines
