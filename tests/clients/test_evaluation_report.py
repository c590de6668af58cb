"""What is said of values: what they are, and that they are in doubt."""

from __future__ import annotations

from msgspec.structs import replace

from clients import Evaluation, PolicyValue
from clients.evaluation_report import doubts, slice_summary, values_table


def _policy(name: str, verdict: str = "trusted") -> PolicyValue:
    return PolicyValue(
        policy="label",
        name=name,
        rounds=9,
        effective=9.0,
        trusted=verdict == "trusted",
        verdict=verdict,
        ips=None,
        snips=None,
        dr=None,
    )


def _evaluation(*policies: PolicyValue) -> Evaluation:
    return Evaluation(
        rounds=9,
        first_seq=1,
        last_seq=9,
        seq=9,
        rho_0=0.1,
        rho_1=0.2,
        by_label=False,
        rates_from="log",
        policies=policies,
    )


def test_a_doubt_of_all_is_told_once() -> None:
    """One that not all have is told of those that have it: the others can be relied on."""
    few = "too few rounds"
    all_alike = _evaluation(_policy("a", few), _policy("b", few))
    assert doubts(all_alike) == [f"* all of them: {few}."]
    some = _evaluation(_policy("a"), _policy("b", few), _policy("c", few))
    assert doubts(some) == [f"* always b: {few}.", f"* always c: {few}."]


def test_clicks_taken_for_true_are_told_of() -> None:
    """Numbers without correction must not look like the others."""
    found = replace(_evaluation(), by_label=True)
    assert "in force: 10.0 % false clicks, 20.0 % missed clicks, each" in slice_summary(found)[1]
    assert str(values_table(found).title).startswith("Right labels, %")
    uncorrected = replace(found, rates_from="nothing")
    assert "taken as true" in slice_summary(uncorrected)[1]
    assert str(values_table(uncorrected).title).startswith("Clicks, %")
