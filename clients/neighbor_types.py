"""What calls about neighbours return, as typed, immutable values."""

from __future__ import annotations

import msgspec


class Voter(msgspec.Struct, frozen=True, kw_only=True):
    """A neighbour's part in a decision.

    Attributes
    ----------
    example
        Which example it is: they are numbered as they came, from 0.
    label
        Its label, as it was told.
    distance
        From the instance asked about, in the model's metric and scaling.
    votes
        What it adds to the scores of labels; of more than ten, those with the most.
    suspected
        Whether it looks mislabelled: its own neighbours decide for another label.
    """

    example: int
    label: str
    distance: float
    votes: dict[str, float]
    suspected: bool


class Neighbors(msgspec.Struct, frozen=True, kw_only=True):
    """Who votes on an instance.

    Attributes
    ----------
    seq
        Up to which event of the log the model had learned.
    label
        What they decide.
    neighbors
        Nearest first, at most 100.
    """

    seq: int
    label: str
    neighbors: tuple[Voter, ...]


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """An example that is a neighbour of unusually many.

    Attributes
    ----------
    example
        Which example it is: they are numbered as they came, from 0.
    label
        Its label, as it was told.
    occurrences
        Of how many examples it is among the k nearest.
    bad_occurrences
        Of how many with another label.
    bad
        Whether these are more than half.
    """

    example: int
    label: str
    occurrences: int
    bad_occurrences: int
    bad: bool


class HubAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """Whether labels of hubs look wrong more often than by chance.

    Attributes
    ----------
    raised
        Whether the alarm is on.
    since
        How many examples had come when it last went on or off; 0 if it never did.
    looked_at
        How many had come at the last look; one is taken each time a tenth of the window is new.
    p_value
        At the last look: probability of so many occurrences of suspected examples by chance.
    suspected
        How many examples carry another label than most of their neighbours.
    suspected_occurrences, mean_occurrences
        How many examples a suspected one, and any one, is a neighbour of, on average.
    """

    raised: bool
    since: int
    looked_at: int
    p_value: float
    suspected: int
    suspected_occurrences: float
    mean_occurrences: float


class Hubs(msgspec.Struct, frozen=True, kw_only=True):
    """How unevenly the neighbours in a model's window are shared out.

    Attributes
    ----------
    seq
        Up to which event of the log the model had learned.
    k, examples
        Neighbours counted of each example, and examples in the window.
    skewness
        Of the numbers of occurrences; above 1.4 or so, hubs are many.
    threshold
        Hubs have more occurrences than this: the mean and two standard deviations.
    hubs
        Those with the most occurrences first, at most 100.
    n_hubs, n_bad_hubs, n_orphans
        How many there are of them, of bad ones, and of examples that are nobody's neighbour.
    bad_share
        Share of all occurrences between different labels.
    alarm
        Whether somebody seems to mislabel hubs.
    """

    seq: int
    k: int
    examples: int
    skewness: float
    threshold: float
    hubs: tuple[Hub, ...]
    n_hubs: int
    n_bad_hubs: int
    n_orphans: int
    bad_share: float
    alarm: HubAlarm


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """What a window tells of the noise in its labels, by k' neighbours of each example.

    Attributes
    ----------
    k_noise
        k'.
    rho_0, rho_1
        Of two labels, P(told the second | is the first) and P(told the first | is the second);
        None for more, and where one of them prevails nowhere: then votes are not corrected.
    labels
        The labels in the window.
    matrix
        P(told column | is row) between them; None for more than 100.
    """

    k_noise: int
    rho_0: float | None
    rho_1: float | None
    labels: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...] | None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """How one pair of k and k' did on the stream.

    Attributes
    ----------
    k, k_noise
        Neighbours that vote, and neighbours that the noise is read from.
    hits
        Share of the latest examples whose told label it predicted before they were learned.
    voting
        Whether it is one of the pairs that decide now.
    """

    k: int
    k_noise: int
    hits: float
    voting: bool


class WindowNoise(msgspec.Struct, frozen=True, kw_only=True):
    """What a window of neighbours tells of the noise in its labels.

    Attributes
    ----------
    seq
        Up to which event of the log the model had learned.
    examples
        In the window.
    k
        Neighbours that vote; None where the model chooses among `pairs`.
    estimates
        One for each k' that is in use; empty where the rates are given.
    pairs
        How well the pairs do that a model chooses from by itself; empty for other models.
    """

    seq: int
    examples: int
    k: int | None
    estimates: tuple[Transition, ...]
    pairs: tuple[Pair, ...]
