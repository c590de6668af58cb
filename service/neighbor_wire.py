"""Bodies of the calls on neighbours, and of what a window tells of its noise."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

#: Most neighbours, or hubs, that an answer lists.
MAX_LISTED = 100
#: For how many labels an answer says what a neighbour's vote adds: those with the most.
MAX_VOTED = 10
#: Most labels for which an answer has the transition matrix.
MAX_MATRIX = 100

Example = Annotated[int, Meta(description="Examples are numbered as they came, from 0.")]


class VoterOut(Struct):
    """A neighbour's part in a decision."""

    example: Example
    label: Annotated[str, Meta(description="As it was told.")]
    distance: float
    votes: Annotated[
        dict[str, float],
        Meta(
            description="What it adds to the scores of labels; "
            f"of more than {MAX_VOTED}, those with the most."
        ),
    ]
    suspected: Annotated[
        bool, Meta(description="Whether its own neighbours decide for another label.")
    ]


class NeighborsOut(Struct):
    """Who votes on an instance."""

    seq: int
    label: Annotated[str, Meta(description="What they decide.")]
    neighbors: Annotated[
        list[VoterOut],
        Meta(
            description="Nearest first (of aknn by the distances that it adapts), "
            f"at most {MAX_LISTED}."
        ),
    ]


class HubOut(Struct):
    """An example that is a neighbour of unusually many."""

    example: Example
    label: str
    occurrences: int
    bad_occurrences: Annotated[int, Meta(description="In lists of examples with another label.")]
    bad: Annotated[bool, Meta(description="Whether that is more than half of them.")]


class HubAlarmOut(Struct):
    """Whether labels of hubs look wrong more often than by chance."""

    raised: bool
    since: Annotated[int, Meta(description="Examples that had come when it last went on or off.")]
    looked_at: Annotated[int, Meta(description="Examples that had come at the last look.")]
    p_value: float
    suspected: Annotated[
        int, Meta(description="Examples with another label than most of their neighbours.")
    ]
    suspected_occurrences: Annotated[float, Meta(description="The mean of the suspected.")]
    mean_occurrences: Annotated[float, Meta(description="The mean of all.")]


class HubsOut(Struct):
    """How unevenly the neighbours in a window are shared out."""

    seq: int
    k: int
    examples: int
    skewness: float
    threshold: Annotated[float, Meta(description="Hubs have more occurrences than this.")]
    hubs: Annotated[
        list[HubOut], Meta(description=f"With the most occurrences first, at most {MAX_LISTED}.")
    ]
    n_hubs: int
    n_bad_hubs: int
    n_orphans: Annotated[int, Meta(description="Examples that are nobody's neighbour.")]
    bad_share: Annotated[float, Meta(description="Share of occurrences between different labels.")]
    alarm: HubAlarmOut


class TransitionOut(Struct):
    """What a window tells of the noise in its labels, by k' neighbours of each example."""

    k_noise: int
    rho_0: Annotated[
        float | None,
        Meta(
            description="Of two labels, P(told the second | is the first); null for more, and "
            "where one of them prevails nowhere."
        ),
    ]
    rho_1: Annotated[float | None, Meta(description="P(told the first | is the second).")]
    labels: Annotated[list[str], Meta(description="Those in the window.")]
    matrix: Annotated[
        list[list[float]] | None,
        Meta(description=f"P(told column | is row); null for more than {MAX_MATRIX} labels."),
    ]


class PairOut(Struct):
    """How one pair of k and k' did on the stream."""

    k: int
    k_noise: int
    hits: Annotated[
        float, Meta(description="Share of told labels that were predicted before learning.")
    ]
    voting: Annotated[bool, Meta(description="Whether it is one of those that decide now.")]


class WindowNoiseOut(Struct):
    """What a window of neighbours tells of the noise in its labels."""

    seq: int
    examples: int
    k: Annotated[
        int | None, Meta(description="Neighbours that vote; null where chosen among `pairs`.")
    ]
    estimates: Annotated[
        list[TransitionOut], Meta(description="One for each k'; none where the rates are given.")
    ]
    pairs: Annotated[list[PairOut], Meta(description="Of a model that chooses k and k' itself.")]
