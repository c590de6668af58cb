"""What the service knows of the noise in clicks."""

from __future__ import annotations

import msgspec


class NoiseRates(msgspec.Struct, frozen=True, kw_only=True):
    """How often clicks lie.

    Attributes
    ----------
    rho_0
        P(feedback = 1 | the label was wrong): false clicks.
    rho_1
        P(feedback = 0 | the label was right): missed clicks.
    """

    rho_0: float
    rho_1: float


class LabelRates(msgspec.Struct, frozen=True, kw_only=True):
    """The noise rates of one label, their standard errors, and how often it was shown."""

    label: str
    rho_0: float
    rho_1: float
    rho_0_error: float
    rho_1_error: float
    shown: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one estimate of a model's noise rates.

    Attributes
    ----------
    number
        Estimates of a model are counted from 1.
    ended_at_ms, took_s
        When it ended, milliseconds since 1970, and the seconds it took.
    examples
        Rounds that it was made from.
    trusted
        Whether its rates came into force.
    verdict
        `"trusted"`, or why not.
    rho_0, rho_1, rho_0_error, rho_1_error
        The rates common to all labels and their standard errors; None where the rounds were
        refused before training.
    labels_differ
        Whether the labels' rates differ by more than chance explains.
    by_label
        The rates of each label; empty where there are none.
    histogram
        For each label of `by_label`, over all instances, how many of the network's
        q = P(feedback = 1 | x, label) fall into each of equal bins of [0, 1].
    """

    number: int
    ended_at_ms: int
    took_s: float
    examples: int
    trusted: bool
    verdict: str
    rho_0: float | None = None
    rho_1: float | None = None
    rho_0_error: float | None = None
    rho_1_error: float | None = None
    labels_differ: bool | None = None
    by_label: tuple[LabelRates, ...] = ()
    histogram: tuple[tuple[int, ...], ...] = ()


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate that is being made: its number, the share done in [0, 1], and since when."""

    number: int
    progress: float
    started_at_ms: int


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the noise in a model's clicks.

    Attributes
    ----------
    rates
        In force: what the model assumes of all labels.
    rates_by_label
        What it assumes of each label; empty where the learner uses common rates only.
    estimate_every
        Feedbacks from one estimate to the next; 0 where none begins by their number.
    estimate_on_drift
        Whether a change of the clicks begins one.
    drift_seq
        The last event of the log at which the clicks were seen to have changed; 0 for never.
    asked
        Whether an estimate is asked for.
    running
        The estimate that is being made; None where none is.
    history
        The latest results, newest first.
    learned
        Whether the learner finds the rates itself, with each click.
    known
        Whether somebody set the rates in force: clicks do not move them.
    restarts
        How often the learner has begun anew, with its rates or with all, because fewer clicks came
        than it expected, or more.
    silent
        Whether no clicks come at all, not even false ones: nothing is learned until one does.
    context_free
        Whether the learner decides by click rates alone, because instances predict clicks worse.
    label_by_label
        Whether `forward_auto` decides label by label, because that predicts clicks better: several
        may be right for an instance, or none. No noise rates are known then.
    errors
        Standard errors of `rates` where the learner finds them; else None.
    errors_by_label
        The same of `rates_by_label`; else empty. About .29 where nothing is known: it found as much
        noise as it allows for, or more.
    """

    rates: NoiseRates
    estimate_every: int
    estimate_on_drift: bool
    drift_seq: int
    asked: bool
    running: Running | None
    history: tuple[Estimate, ...]
    rates_by_label: dict[str, NoiseRates] = {}
    learned: bool = False
    known: bool = False
    restarts: int = 0
    silent: bool = False
    context_free: bool = False
    label_by_label: bool = False
    errors: NoiseRates | None = None
    errors_by_label: dict[str, NoiseRates] = {}

    @property
    def source(self) -> Estimate | None:
        """The estimate that the rates in force come from; None where somebody set them."""
        for estimate in self.history:
            if estimate.trusted:
                found = (estimate.rho_0, estimate.rho_1)
                return estimate if found == (self.rates.rho_0, self.rates.rho_1) else None
        return None

    def result(self, number: int) -> Estimate | None:
        """Return the result of an estimate by its number; None where it has not ended."""
        return next((estimate for estimate in self.history if estimate.number == number), None)
