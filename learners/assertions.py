"""What the checks of learners are built from: rounds to play, wrong input, and assertions.

They raise AssertionError explicitly, so they work under ``-O`` too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np

from learners.base import Distribution, Learner, Outcome
from learners.drawing import draw
from learners.errors import InputError, LearnersError, StateError
from learners.states import State
from learners.validation import FloatArray

#: Features and labels of the learners under check, and rounds that they play.
D, K = 5, 4
ROUNDS = 60


def state_digest(state: State) -> str:
    """Return a hash of every name, type, shape and byte of a state, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
            digest.update(value.tobytes())
        else:
            digest.update(f"{name} {type(value).__name__} {value!r} ".encode())
    return digest.hexdigest()


def play(learner: Learner, rng: np.random.Generator, n_rounds: int = ROUNDS) -> list[int]:
    """Play random rounds with `learner`, giving feedback or labels, whichever it takes.

    Returns
    -------
    list of int
        The labels that were drawn.
    """
    shown = []
    for _ in range(n_rounds):
        x = rng.normal(size=learner.n_features)
        truth = int(np.abs(x).argmax()) % learner.n_labels
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        shown.append(label)
        if learner.takes_feedback:
            learner.update(outcome_of(x, label, decision, int(label == truth)))
        else:
            learner.learn(x, truth)
    return shown


def outcome_of(x: FloatArray, label: int, decision: Distribution, feedback: int) -> Outcome:
    """Return the outcome of a round that showed `label` by `decision`."""
    propensity = float(decision.probabilities[label])
    return Outcome(x, label, decision.greedy, propensity, feedback)


def teach(learner: Learner, x: FloatArray, label: int, feedback: int) -> None:
    """Show `label` and give `feedback`, or teach that `label` is right."""
    if learner.takes_feedback:
        learner.update(Outcome(x, label, 0, 0.5, feedback))
    else:
        learner.learn(x, label)


def bad_instances() -> Iterator[object]:
    """Yield what no learner may accept as an instance; the types are wrong on purpose."""
    for value in (np.nan, np.inf, -np.inf, 1.000001e6, -1e300):
        x = np.ones(D)
        x[3] = value
        yield x
    yield from (
        np.ones(D - 1),
        np.ones((1, D)),
        np.ones(D, dtype=np.float32),
        np.ones(D, dtype=np.int64),
        np.ones(D, dtype=np.complex128),
        [1.0] * D,
        None,
    )


def assert_distribution(decision: Distribution, n_labels: int) -> None:
    """Raise unless this is a distribution over `n_labels` labels, the greedy one most probable."""
    probabilities = decision.probabilities
    require(probabilities.dtype == np.float64, "probabilities are float64")
    require(probabilities.shape == (n_labels,), "one probability a label")
    require((probabilities >= 0).all(), "a negative probability")
    require((probabilities <= 1).all(), "a probability above 1")
    require(abs(float(probabilities.sum()) - 1) < 1e-12 * n_labels, "probabilities sum to 1")
    require(type(decision.greedy) is int, "greedy is an int")
    require(probabilities[decision.greedy] == probabilities.max(), "greedy is the likeliest")


def assert_batch(learner: Learner, xs: FloatArray) -> None:
    """Raise unless `distributions` says what `distribution` does of each row, bit for bit."""
    batch = learner.distributions(xs)
    require(len(batch) == len(xs), "a batch answers each row")
    for x, decision in zip(xs, batch, strict=True):
        require(alike(decision, learner.distribution(x)), "batch and single differ")


def assert_refused(name: str, call: Callable[..., object], *arguments: object) -> None:
    """Raise unless `call` raises an InputError whose message starts with `name`."""
    try:
        call(*arguments)
    except InputError as error:
        message = str(error)
    except LearnersError as error:
        raise AssertionError(f"expected an InputError on {name}, got {error!r}") from error
    else:
        raise AssertionError(f"expected an InputError on {name}, got none")
    require(message.startswith(name), f"expected words on {name}, got: {message}")


def assert_state_refused(kind: type[Learner], state: State, what: str) -> None:
    """Raise unless loading `state` raises a StateError."""
    try:
        kind.from_state(state)
    except StateError:
        return
    raise AssertionError(f"expected a StateError for {what}")


def require(holds: bool | np.bool_, otherwise: str) -> None:
    """Raise AssertionError with the message `otherwise`; unlike `assert`, also under ``-O``."""
    if not holds:
        raise AssertionError(otherwise)


def alike(one: Distribution, two: Distribution) -> bool:
    """Whether two distributions are the same, bit for bit."""
    return one.greedy == two.greedy and one.probabilities.tobytes() == two.probabilities.tobytes()
