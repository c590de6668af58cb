"""The calls on models, for code without asyncio: made, changed, and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from clients import _wire
from clients._base import Base
from clients._call import Call
from clients.evaluation_types import Evaluation
from clients.noise_types import Noise, NoiseRates
from clients.types import Challenger, LabelFeatures, Model, ModelSpec, Relearned, Times

T = TypeVar("T")


class ModelCalls(Base, ABC):
    """The calls of `Client` other than those for rounds and files and about the service."""

    @abstractmethod
    def _send(self, call: Call[T]) -> T:
        """Send a call, if need be again, and return what its answer means."""

    def create_model(self, spec: ModelSpec) -> Model:
        """Create a model, or find it there with the same spec.

        Raises
        ------
        ConflictError
            A model of this name was made with another spec, or is being imported or relearned.
            (Its labels and learner may have changed since: what counts is what it was made with.)
        InvalidError
            The spec is wrong; `details` says where.
        """
        return self._send(_wire.create_model(spec))

    def list_models(self) -> list[Model]:
        """Return all models."""
        return self._send(_wire.list_models())

    def get_model(self, model: str) -> Model:
        """Return one model.

        Raises
        ------
        NotFoundError
            There is no such model; likewise in every call that names one.
        """
        return self._send(_wire.get_model(model))

    def delete_model(self, model: str) -> None:
        """Delete a model with its log and state, for good."""
        self._send(_wire.delete_model(model))

    def change_labels(
        self,
        model: str,
        *,
        add: Sequence[str] = (),
        retire: Sequence[str] = (),
        features: Mapping[str, LabelFeatures] | None = None,
    ) -> Model:
        """Add labels (or restore retired ones) and retire others; what was learned stays.

        Parameters
        ----------
        model
            Its name.
        add, retire
            Names of labels.
        features
            What labels in `add` are like, new or not, where the learner has `n_label_features`:
            that many numbers each. A new label begins like those with similar features.

        Raises
        ------
        InvalidError
            There would be too many labels or no active one, or a name or features are wrong.
        """
        return self._send(_wire.change_labels(model, add, retire, features))

    def set_rates(
        self,
        model: str,
        *,
        rho_0: float,
        rho_1: float,
        by_label: Mapping[str, NoiseRates] | None = None,
    ) -> int:
        """Let the model assume other noise rates from now on; return the event's number.

        Parameters
        ----------
        model
            Its name.
        rho_0
            P(feedback = 1 | the label was wrong), in [0, 1).
        rho_1
            P(feedback = 0 | the label was right), in [0, 1), with rho_0 + rho_1 < 1.
        by_label
            Labels with rates of their own, for a learner that uses each label's; every other
            label has the common ones.

        Raises
        ------
        InvalidError
            No learner of the model uses noise rates, or each label's, or these are not valid.
        """
        return self._send(_wire.set_rates(model, rho_0, rho_1, by_label))

    def add_challenger(self, model: str, name: str, learner: dict[str, Any]) -> Model:
        """Let one more learner learn from the model's log without deciding.

        Parameters
        ----------
        model
            Its name.
        name, learner
            As in `Challenger`.

        Raises
        ------
        InvalidError
            The learner takes no feedback, or there are four already.
        ConflictError
            There is another learner with this name.
        """
        return self._send(_wire.add_challenger(model, Challenger(name, learner)))

    def drop_challenger(self, model: str, name: str) -> None:
        """Forget a challenger with what it has learned.

        Raises
        ------
        ConflictError
            It decides: promote another one first.
        NotFoundError
            There is no such challenger.
        """
        self._send(_wire.drop_challenger(model, name))

    def promote(self, model: str, name: str) -> Model:
        """Let a challenger decide from now on; the one that decided becomes a challenger.

        The learner that the model was made with is called `"original"`.

        Raises
        ------
        NotFoundError
            There is no such challenger.
        """
        return self._send(_wire.promote(model, name))

    def relearn(
        self,
        model: str,
        name: str,
        *,
        without: Sequence[Times] = (),
        without_retired: bool = False,
        learner: dict[str, Any] | None = None,
    ) -> Relearned:
        """Make another model from a model's log, and leave that one as it is.

        Use it after clicks that were wrong for a while (a counter that was dead, a storm of
        robots), to see what another learner makes of the same log, or to make room for other
        labels. It reaches as far back as the log does (`log_keep`). It learns from the rounds as
        decided by somebody else, because the new learner did not decide them; challengers do not
        come along, noise rates do if they were set. What waits for its click stays with the first
        model. The call is not tried again.

        The new model's spec is the first one's with its labels and deciding learner as they are
        now: an application that creates its model at each start finds it with that spec only.

        Parameters
        ----------
        model
            Its name.
        name
            Of the new model.
        without
            Times whose feedback, and examples, are left out; with `no_click`, decisions whose
            windows were open then.
        without_retired
            Whether labels that are retired now are left out, and what was learned of them; False
            by default. A catalogue whose items come and go thus has room again: retired labels
            count among the most that a model can have.
        learner
            As in `ModelSpec`; by default the one that decides.

        Raises
        ------
        ConflictError
            There is a model with the new name, or one is being imported or relearned under it.
        InvalidError
            The learner could not learn from this log, or its options are wrong.
        InputError
            A time has no time zone.

        Examples
        --------
        ::

            dead = datetime(2026, 3, 1, 2, tzinfo=UTC), datetime(2026, 3, 1, 4, tzinfo=UTC)
            print(client.relearn("ads", "ads-2", without=[dead]).left_out)
        """
        return self._send(
            _wire.relearn(model, name, without, learner, without_retired=without_retired)
        )

    def evaluate(self, model: str, *, rounds: int | None = None) -> Evaluation:
        """Return what the model's policies are worth, from the newest rounds of its log.

        Parameters
        ----------
        model
            Its name.
        rounds
            How many at most, 2 to 20,000; as many as possible by default.

        Raises
        ------
        InvalidError
            The model's learner takes no feedback.

        Examples
        --------
        ::

            for policy in client.evaluate("ads").policies:
                print(policy.policy, policy.name, policy.best, policy.verdict)
        """
        return self._send(_wire.evaluate(model, rounds))

    def noise(self, model: str) -> Noise:
        """Return what is known of the noise in a model's clicks: rates in force, and estimates.

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.
        ProtocolError
            Its learner reads them off neighbours' labels: see `window_noise`.
        """
        return self._send(_wire.noise(model))

    def estimate_noise(self, model: str) -> int:
        """Ask for an estimate of the noise rates from the newest feedback; return its number.

        It is made in the background and comes into force by itself if it can be trusted. While one
        is asked for or being made, its number is returned.

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.

        Examples
        --------
        ::

            number = client.estimate_noise("ads")
            while (estimate := client.noise("ads").result(number)) is None:
                time.sleep(1)
            print(estimate.verdict, estimate.rho_0, estimate.rho_1)
        """
        return self._send(_wire.estimate_noise(model))

    def cancel_estimate(self, model: str) -> None:
        """End the estimate that is asked for or being made, if any; the rates in force stay.

        It is then in the history, with the verdict "cancelled".

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.
        """
        self._send(_wire.cancel_estimate(model))
