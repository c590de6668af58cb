"""Whether an estimate of the noise rates can be trusted, and if not, why not.

`refusals` looks at a block of rounds before anything is trained; `doubts` looks at what was read
from it. No doubt, no reason not to use the rates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learners.validation import FloatArray, IntArray

#: With fewer rounds a network learns nothing that holds for the held-out ones: at 200 the rates'
#: standard errors pass 0.05 even if it were told every right label.
LEAST_ROUNDS = 200
#: Least number of clicks, and of no-clicks; with fewer, the rarer kind could be all noise.
LEAST_OF_A_KIND = 20
#: Rounds with the right, and with a wrong label, according to the estimate: 50 give a standard
#: error of 0.07 at a rate of .5.
LEAST_RIGHT_OR_WRONG = 50.0
#: Rounds whose label is right, or wrong, with at least this probability are perfect examples.
PERFECT = 0.9
LEAST_PERFECT = 20
#: Largest standard error of a rate that is still of use: two of them are two thirds of the rates in
#: the paper's mildest setting, .15.
LARGEST_ERROR = 0.05
#: How much likelier (nats, over all held-out rounds) the feedback must be under the mixture than
#: under each label's own share of clicks. Four numbers more are fitted: a gain of 10 happens by
#: chance once in 2,000 times.
LEAST_GAIN = 10.0


class Doubt(NamedTuple):
    """A reason not to trust an estimate: a code for programs, a sentence for people."""

    code: str
    text: str


class Evidence(NamedTuple):
    """What the held-out rounds say about the fit.

    Attributes
    ----------
    right
        P(the shown label was right) of each round, shape (n,).
    alone
        The same from the instance alone, without what the choice tells. An example is perfect
        only if both say so: else rates that sum past 1 could pass for a choice that tells much.
    gain
        Nats by which the feedback is likelier than under each label's share of clicks.
    beta, beta_error
        1 - rho_0 - rho_1 and its standard error.
    error
        The larger standard error of the two rates.
    """

    right: FloatArray
    alone: FloatArray
    gain: float
    beta: float
    beta_error: float
    error: float


def refusals(labels: IntArray, feedback: IntArray) -> list[Doubt]:
    """Return why nothing can be estimated from such a block; empty where it can be tried.

    Examples
    --------
    >>> clicks = np.ones(1000, dtype=np.int64)
    >>> [doubt.code for doubt in refusals(np.arange(1000) % 3, clicks)]
    ['one_feedback']
    """
    n, clicks = len(feedback), int(feedback.sum())
    if n < LEAST_ROUNDS:
        return [Doubt("few_rounds", f"{n} rounds; at least {LEAST_ROUNDS} are needed")]
    if clicks in (0, n):
        kind = "a click" if clicks else "no click"
        return [Doubt("one_feedback", f"every one of {n} rounds ended with {kind}")]
    found = []
    if min(clicks, n - clicks) < LEAST_OF_A_KIND:
        text = f"{clicks} clicks in {n} rounds; {LEAST_OF_A_KIND} of either kind are needed"
        found.append(Doubt("few_clicks", text))
    if labels.min() == labels.max():
        text = "one label was shown in every round, so right and wrong cannot be told apart"
        found.append(Doubt("one_label", text))
    return found


def doubts(evidence: Evidence, *, beta_min: float) -> list[Doubt]:
    """Return why the rates that were read should not be used; empty where they can be.

    Parameters
    ----------
    evidence
        From rounds that the network did not see.
    beta_min
        Least beta that is believed, in [0, 1].
    """
    found = []
    right = evidence.right
    least, most = np.minimum(right, evidence.alone), np.maximum(right, evidence.alone)
    shown_right, shown_wrong = float(right.sum()), float((1.0 - right).sum())
    if evidence.gain < LEAST_GAIN:
        text = "whether there is a click does not depend on the instance, as far as can be seen"
        found.append(Doubt("no_signal", text))
    for code, count, which in (
        ("few_right", shown_right, "the right"),
        ("few_wrong", shown_wrong, "a wrong"),
    ):
        if count < LEAST_RIGHT_OR_WRONG:
            text = f"about {count:.0f} rounds showed {which} label; {LEAST_RIGHT_OR_WRONG:.0f} are"
            found.append(Doubt(code, f"{text} needed"))
    for code, count, which in (
        ("no_perfect_right", int((least >= PERFECT).sum()), "right"),
        ("no_perfect_wrong", int((most <= 1.0 - PERFECT).sum()), "wrong"),
    ):
        if count < LEAST_PERFECT:
            text = f"{count} rounds have a label that is {which} beyond doubt; {LEAST_PERFECT} are"
            found.append(Doubt(code, f"{text} needed"))
    if evidence.beta < beta_min + 2.0 * evidence.beta_error:
        text = f"beta = {evidence.beta:.3f} +- {evidence.beta_error:.3f} may be below {beta_min:g}"
        found.append(Doubt("beta_near_zero", f"{text}: a click tells next to nothing"))
    if evidence.error > LARGEST_ERROR:
        text = f"a rate's standard error is {evidence.error:.3f}, over {LARGEST_ERROR:g}"
        found.append(Doubt("uncertain", text))
    return found
