"""Making learners from plain values."""

from __future__ import annotations

import json

import pytest

import learners
from learners import LEARNERS, Learner, ParameterError, create


def options_of(kind: str) -> dict[str, object]:
    """Return the options that `kind` cannot do without."""
    options: dict[str, dict[str, object]] = {"rcnbf": {"rho_0": 0.1, "rho_1": 0.2}}
    return options.get(kind, {})


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_kind_can_be_created(kind: str) -> None:
    """Each kind is made from its name, and its options survive JSON and a round trip."""
    learner = create(kind, 3, 2, **options_of(kind))
    assert type(learner) is LEARNERS[kind]
    assert learner.kind == kind
    options = {name: getattr(learner, name) for name in learner.option_names()}
    again = create(kind, 3, 2, **json.loads(json.dumps(options)))
    assert {name: getattr(again, name) for name in again.option_names()} == options


@pytest.mark.parametrize("name", ["gama", "kind", "n_features", "n_labels"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_unknown_option_lists_the_known(kind: str, name: str) -> None:
    """A typo, or what `create` itself takes, does not go unnoticed: it is named, and what there is.

    A spec from JSON may have any name beside its kind, and must not be a TypeError.
    """
    with pytest.raises(ParameterError) as refused:
        create(kind, 3, 2, **{**options_of(kind), name: 0.1})
    assert repr(name) in str(refused.value)
    for known in LEARNERS[kind].option_names():
        assert known in str(refused.value)


@pytest.mark.parametrize("kind", ["nothing", "RCNBF", "", None, 3, ["rcnbf"]])
def test_unknown_kind_lists_the_known(kind: str) -> None:
    """An unknown kind is an error that names all kinds."""
    with pytest.raises(ParameterError, match="kind: expected one of perceptron, banditron, rcnbf"):
        create(kind, 3, 2)


def test_missing_option_is_named() -> None:
    """Rates have no default: RCNBF without them would be a Banditron in disguise."""
    with pytest.raises(ParameterError, match="options of rcnbf: expected rho_1, which has no"):
        create("rcnbf", 3, 2, rho_0=0.1)


def test_what_is_not_plain_is_no_option() -> None:
    """An estimator cannot come from JSON, and `create` does not take it."""
    with pytest.raises(ParameterError, match="estimator"):
        create("rcine", 3, 2, estimator=print)


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("rcnbf", {"rho_0": "0.1", "rho_1": 0.1}, "rho_0"),
        ("banditron", {"gamma": None}, "gamma"),
        ("bpa", {"variant": "i"}, "variant"),
        ("soba", {"matrix": 1}, "matrix"),
        ("rcine", {"block_size": 0.5}, "block_size"),
        ("rcine", {"beta_min": 0}, "beta_min"),
    ],
)
def test_bad_values_are_refused_by_name(kind: str, options: dict[str, object], name: str) -> None:
    """What JSON can carry and no option takes is a ParameterError, never a TypeError."""
    with pytest.raises(ParameterError) as refused:
        create(kind, 3, 2, **options)
    assert str(refused.value).startswith(f"{name}: ")


@pytest.mark.parametrize("kind", [k for k in LEARNERS if "rho_0" in LEARNERS[k].option_names()])
def test_rates_that_leave_no_signal_are_refused(kind: str) -> None:
    """By all learners alike, also where their sum is below 1 by a hair."""
    for rho_0, rho_1 in ((0.5, 0.5), (0.5, 0.4999999)):
        with pytest.raises(ParameterError, match=r"rho_0 \+ rho_1: expected at most"):
            create(kind, 3, 2, rho_0=rho_0, rho_1=rho_1)


def test_public_names_exist() -> None:
    """Every name of `__all__` is there, and every learner is public."""
    for name in learners.__all__:
        assert hasattr(learners, name)
    for learner in LEARNERS.values():
        assert issubclass(learner, Learner)
        assert learner.__name__ in learners.__all__
