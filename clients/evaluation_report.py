"""What policies are worth, as a table."""

from __future__ import annotations

from textwrap import wrap

from rich import box
from rich.markup import escape
from rich.table import Table

from clients.evaluation_types import Evaluation, PolicyValue, Value

#: What the policies are called in the table.
NAMES = {
    "deciding": "decides: {}",
    "elsewhere": "decided elsewhere",
    "uniform": "every label alike",
    "challenger": "challenger: {}",
    "label": "always {}",
}
#: Marks the numbers of a policy that are not to be trusted.
UNTRUSTED = "*"
#: Longest line of a name: what numbers of three digits leave of 80 columns.
NAME_CHARS = 12


def values_table(evaluation: Evaluation) -> Table:
    """Return what each policy is worth, in percent of right labels; for 80 columns.

    Examples
    --------
    >>> empty = Evaluation(rounds=0, first_seq=None, last_seq=None, seq=0, rho_0=0.0, rho_1=0.0,
    ...                    by_label=False, rates_from="nothing", policies=())
    >>> values_table(empty).row_count
    0
    """
    what = "Clicks" if evaluation.rates_from == "nothing" else "Right labels"
    title = f"{what}, %, with 95 % intervals"
    result = Table(
        title=title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0)
    )
    result.add_column("policy", no_wrap=True)
    for name in ("IPS", "SNIPS", "doubly\nrobust", "gain", "as good as\nso many\nrounds"):
        result.add_column(name, justify="right", no_wrap=True)
    for policy in evaluation.policies:
        size = f"{policy.effective:,.0f}{'' if policy.trusted else UNTRUSTED}"
        name = "\n".join(wrap(_name(policy), NAME_CHARS))
        result.add_row(escape(name), *_cells(policy), size)
    return result


def doubts(evaluation: Evaluation) -> list[str]:
    """Return why policies are marked in the table, one sentence each, or one for all.

    Examples
    --------
    >>> few = PolicyValue(policy="label", name="a", rounds=9, effective=3.0, trusted=False,
    ...                   verdict="too few rounds", ips=None, snips=None, dr=None)
    >>> doubts(Evaluation(rounds=9, first_seq=1, last_seq=9, seq=9, rho_0=0.0, rho_1=0.0,
    ...                   by_label=False, rates_from="nothing", policies=(few,)))
    ['* always a: too few rounds.']
    """
    marked = [policy for policy in evaluation.policies if not policy.trusted]
    if len(marked) > 1 and {policy.verdict for policy in evaluation.policies} == {
        marked[0].verdict
    }:
        return [f"{UNTRUSTED} all of them: {marked[0].verdict}."]
    return [f"{UNTRUSTED} {_name(policy)}: {policy.verdict}." for policy in marked]


def _name(policy: PolicyValue) -> str:
    return NAMES[policy.policy].format(policy.name)


def _cells(policy: PolicyValue) -> list[str]:
    values = [_cell(value) for value in (policy.ips, policy.snips, policy.dr)]
    return [*values, _cell(policy.gain, "+")]


def _cell(value: Value | None, sign: str = "") -> str:
    if value is None:
        return "-"
    # Intervals lie evenly about the value.
    return f"{100 * value.value:{sign}.1f} ± {50 * (value.high - value.low):.1f}"


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
        lines.append("No noise rates are known: clicks were taken as true.")
        found = "a challenger of kind forward_softmax finds how often"
        return [*lines, f"Where they lie, and exactly one label is right, {found}."]
    means = "each label's own, on average" if evaluation.by_label else "the same for every label"
    source = {
        "log": "in force",
        "learner": "that the deciding learner was made with or has found",
        "challenger": "that a challenger was made with or has found",
    }
    lines.append(
        f"Corrected by the rates {source[evaluation.rates_from]}: {100 * evaluation.rho_0:.1f} % "
        f"false clicks, {100 * evaluation.rho_1:.1f} % missed clicks, {means}."
    )
    return lines
