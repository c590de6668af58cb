"""What is said of values that are in doubt."""

from __future__ import annotations

from clients import Evaluation, PolicyValue


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
