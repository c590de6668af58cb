"""Tables and pictures of a model's noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from msgspec.structs import replace
from numpy.typing import NDArray
from rich.console import Console

from clients import Estimate, InputError, LabelRates, Noise, NoiseRates, Running
from clients.noise_report import (
    history_table,
    in_force_table,
    label_summary,
    label_table,
    plot,
    rates_table,
    summary,
)

ORANGE, BLUE = (0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2)
HALF, TENTH = NoiseRates(rho_0=0.5, rho_1=0.2), NoiseRates(rho_0=0.1, rho_1=0.2)
REFUSED = Estimate(
    number=8,
    ended_at_ms=1_780_000_000_000,
    took_s=1.0,
    examples=7,
    trusted=False,
    verdict="torch is not installed: install misclick[noise]",
)


def estimate(n_labels: int) -> Estimate:
    """Return a trusted estimate; label k was shown k times."""
    by_label = tuple(
        LabelRates(
            label=f"label [{k}]",
            rho_0=0.1,
            rho_1=0.3,
            rho_0_error=0.01,
            rho_1_error=0.02,
            shown=k,
        )
        for k in range(n_labels)
    )
    hills = tuple(60 if bin_ == 5 else 40 if bin_ == 35 else 0 for bin_ in range(50))
    return Estimate(
        number=7,
        ended_at_ms=1_780_000_000_000,
        took_s=4.2,
        examples=12_345,
        trusted=True,
        verdict="trusted",
        rho_0=0.1,
        rho_1=0.3,
        rho_0_error=0.01,
        rho_1_error=0.02,
        labels_differ=False,
        by_label=by_label,
        histogram=(hills,) * n_labels,
    )


def noise(*history: Estimate, rho_0: float = 0.1, **fields: Any) -> Noise:
    """Return what is known where these estimates were made."""
    given: dict[str, Any] = {"estimate_every": 50_000, "asked": False, "running": None}
    given |= {"estimate_on_drift": False, "drift_seq": 0}
    rates = NoiseRates(rho_0=rho_0, rho_1=0.3)
    return Noise(rates=rates, history=history, **(given | fields))


def shown(*what: Any) -> str:
    """Return what a terminal of usual width shows."""
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        for one in what:
            console.print(one)
    return capture.get()


def test_rates_have_intervals_where_an_estimate_is_behind_them() -> None:
    """A reader is not given an interval for rates that somebody set."""
    text = shown(rates_table(noise(estimate(2))))
    assert "10.0 %" in text
    assert "8.0 to 12.0 %" in text
    assert "26.1 to 33.9 %" in text
    text = shown(rates_table(noise(estimate(2), rho_0=0.2)))
    assert "20.0 %" in text
    assert " to " not in text


def test_rates_that_a_learner_found_have_its_intervals() -> None:
    """Of missed clicks that it knows nothing of, a reader sees that; clicks moved an estimate."""
    errors = NoiseRates(rho_0=0.02, rho_1=0.29)
    text = shown(rates_table(noise(estimate(2), learned=True, errors=errors)))
    assert "6.1 to 13.9 %" in text
    assert "0.0 to 86.8 %" in text


def test_rates_in_force_are_shown_by_label() -> None:
    """A label that is often clicked by mistake stands above the others, and names are no markup."""
    each = {"[a]": NoiseRates(rho_0=0.05, rho_1=0.1), "b": NoiseRates(rho_0=0.5, rho_1=0.2)}
    text = shown(in_force_table(noise(rates_by_label=each)))
    assert text.index("50.0") < text.index("[a]") < text.index("5.0", text.index("[a]"))
    assert "±" not in text
    errors = {"[a]": NoiseRates(rho_0=0.01, rho_1=0.02), "b": NoiseRates(rho_0=0.29, rho_1=0.03)}
    text = shown(in_force_table(noise(rates_by_label=each, errors_by_label=errors)))
    assert "50.0 ± 29.0" in text
    assert "10.0 ± 2.0" in text


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (noise(estimate(2)), ["come from estimate 7", "every 50,000 feedbacks"]),
        (noise(REFUSED, estimate(2)), ["come from estimate 7", "is 8: torch", "every 50,000"]),
        (noise(rho_0=0.2, estimate_every=0), ["No estimate", "only when somebody asks"]),
        (
            noise(estimate_on_drift=True),
            ["No estimate", "every 50,000 feedbacks and when clicks are seen"],
        ),
        (
            noise(estimate_every=0, estimate_on_drift=True, drift_seq=1234),
            ["No estimate", "made when clicks are seen", "changed at event 1,234"],
        ),
        (noise(learned=True, estimate_every=0), ["finds them itself, with each click"]),
        (noise(learned=True), ["finds them itself", "every 50,000 feedbacks"]),
        (
            noise(learned=True, estimate_every=0, rates_by_label={"a": HALF, "b": HALF}),
            ["finds them itself", "they are what it begins with"],
        ),
        (
            noise(learned=True, estimate_every=0, rates_by_label={"a": HALF, "b": TENTH}),
            ["finds them itself"],
        ),
        (
            noise(learned=True, estimate_every=0, restarts=1),
            ["finds them itself", "the learner began anew once"],
        ),
        (
            noise(learned=True, estimate_every=0, silent=True),
            ["finds them itself", "No clicks come at all"],
        ),
        (
            noise(learned=True, estimate_every=0, context_free=True),
            ["finds them itself", "it decides by these alone"],
        ),
        (
            noise(learned=True, estimate_every=0, label_by_label=True),
            ["finds them itself", "Label by label, clicks are predicted better"],
        ),
        (noise(known=True, estimate_every=0), ["They were set", "only when somebody asks"]),
        (noise(asked=True), ["No estimate", "An estimate is asked for"]),
        (
            noise(asked=True, running=Running(number=9, progress=0.4, started_at_ms=0)),
            ["No estimate", "Estimate 9 is being made: 40%"],
        ),
    ],
)
def test_the_summary_says_where_rates_come_from_and_what_comes(
    known: Noise, said: list[str]
) -> None:
    """Each state of a model has its sentences, and none of another state."""
    lines = summary(known)
    for part in said:
        assert sum(part in line for line in lines) == 1
    assert len(lines) == len(said)


def test_the_history_fits_a_terminal() -> None:
    """Numbers are whole at 80 columns, and brackets of a verdict are not taken for markup."""
    text = shown(history_table([REFUSED, estimate(2)]))
    for part in ("2026-05-28 20:26", "12,345", "10.0 ± 1.0", "30.0 ± 2.0", "trusted"):
        assert part in text
    assert "[noise]" in text
    assert "…" not in text
    assert " - " in text


def test_labels_are_listed_by_how_often_they_were_shown() -> None:
    """The best known rates come first, and what is left out is counted."""
    many = estimate(50)
    text = shown(label_table(many), label_summary(many))
    assert text.index("label [49]") < text.index("label [10]")
    assert "label [9]" not in text
    assert "10 labels were shown less often than these." in text
    assert "differ no more than chance" in label_summary(many)
    assert "differ more than chance" in label_summary(replace(many, labels_differ=True))


def lines_of(image: NDArray[np.int64], colour: tuple[int, int, int]) -> list[int]:
    """Return at which columns of a picture vertical lines of this colour begin."""
    columns = set(np.flatnonzero((image == colour).all(axis=-1).sum(axis=0) > 200).tolist())
    return sorted(column for column in columns if column - 1 not in columns)


@pytest.mark.parametrize(("n_labels", "across"), [(1, 1), (2, 2), (5, 3), (30, 4)])
def test_the_picture_has_the_chosen_points(tmp_path: Path, n_labels: int, across: int) -> None:
    """In each panel of a row there is a line at rho_0, and one at 1 - rho_1 right of it."""
    path = tmp_path / "q.png"
    plot(estimate(n_labels), path, title="Test, $5")
    image = np.rint(imread(path)[..., :3] * 255).astype(np.int64)
    orange, blue = lines_of(image, ORANGE), lines_of(image, BLUE)
    assert len(orange) == len(blue) == across
    panel = image.shape[1] / across
    # rho_0 = .1 and 1 - rho_1 = .7 are .6 apart; an axis is somewhat narrower than its panel.
    assert all(0.4 * panel < b - o < 0.6 * panel for o, b in zip(orange, blue, strict=True))


def test_what_has_no_histogram_cannot_be_drawn(tmp_path: Path) -> None:
    """The reason is said instead of an empty picture."""
    with pytest.raises(InputError, match="torch is not installed"):
        plot(REFUSED, tmp_path / "q.png", title="Test")
    assert not (tmp_path / "q.png").exists()


def test_each_rate_of_a_label_has_its_own_error() -> None:
    """How far off rho_1 may be was never looked at: that of rho_0 could stand beside it."""
    few = estimate(40)
    text = shown(label_table(few))
    assert text.count("10.0 ± 1.0") == text.count("30.0 ± 2.0") == 40
    # All of them are there.
    assert label_summary(few) == "The labels' rates differ no more than chance explains."


def test_one_label_alone_does_not_say_that_nothing_was_learned() -> None:
    """Its rates are no different from any other's: there is none."""
    first = {"a": NoiseRates(rho_0=0.2, rho_1=0.2)}
    untouched = "It has learned from no feedback yet"
    assert untouched not in " ".join(summary(noise(learned=True, rates_by_label=first)))
    both = first | {"b": first["a"]}
    assert untouched in " ".join(summary(noise(learned=True, rates_by_label=both)))


def test_labels_in_force_are_sorted_by_false_clicks() -> None:
    """Only forty are shown: those that are often clicked by mistake, not those often missed."""
    each = {
        "missed": NoiseRates(rho_0=0.05, rho_1=0.6),
        "false": NoiseRates(rho_0=0.5, rho_1=0.2),
    }
    text = shown(in_force_table(noise(rates_by_label=each)))
    assert text.index("false") < text.index("missed")


def test_what_was_asked_for_and_seen_is_told_of_every_learner() -> None:
    """Also of one that finds rates itself, and where no change begins an estimate."""
    lines = summary(noise(learned=True, asked=True, drift_seq=1234))
    assert lines[1:] == [
        "An estimate is asked for and begins when no other model's is being made.",
        "Clicks were last seen to have changed at event 1,234.",
    ]
