"""Recommend one of some items, and learn from the click or its absence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from clients._values import check_flat, quoted
from clients.client import Client
from clients.errors import InputError, InvalidError
from clients.types import Features, LabelFeatures, Receipt

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Recommendation(Generic[Item]):
    """One item to show, and the id by which to report what the user did.

    Attributes
    ----------
    item
        One of the candidates.
    decision_id
        Keep it with the page view; a click may come late, and from another process, which
        reports it by ``client.feedback(model, decision_id, 1)``. None where the model's learner
        takes no feedback.
    propensity
        Probability with which `item` was drawn among the candidates, in (0, 1].
    """

    item: Item
    decision_id: str | None
    propensity: float


class Recommender(Generic[Item]):
    """Items of a catalogue as the labels of one model.

    Use it where one item out of a changing set of candidates is shown, or a handful side by side.
    For labels that are no items, or with asyncio, use the client itself. Threads may share it.

    Where the service gives no answer, or has too much to do, `recommend` raises a `TransportError`,
    an `UnavailableError` or a `TooManyRequestsError` once the client's tries are used up: show what
    you would without it, and report nothing. A page takes a client of its own that does not wait
    long, such as ``Client(url, timeout_s=0.2, retries=Retries(tries=1))``; reports can wait.

    Parameters
    ----------
    client
        A client of the service; `sync_catalogue` needs the scope `admin`.
    model
        Name of a model whose labels are item ids as text, `str(item)`.

    Raises
    ------
    InputError
        Two different items have the same text (1 and "1"), there is no candidate, or `client` is
        no `Client`.

    Examples
    --------
    ::

        shop = Recommender[int](client, "shop")
        shop.sync_catalogue([11, 12, 15])
        shown = shop.recommend({"age": 31}, [11, 15], request_id="view-8841")
        shop.clicked(shown)
    """

    def __init__(self, client: Client, model: str) -> None:
        if not isinstance(client, Client):
            # An `AsyncClient` would answer with coroutines, which hold no item.
            raise InputError(f"client: expected a Client, got {client!r}")
        self._client = client
        self._model = model

    def sync_catalogue(
        self, items: Iterable[Item], *, features: Mapping[Item, LabelFeatures] | None = None
    ) -> None:
        """Make `items` the only ones that can be shown: add the new, retire the missing.

        What was learned of a retired item is kept and used when it comes back. It therefore still
        counts among the labels that one model may have: 1,024, with `forward` some 400.
        `Client.relearn` with `without_retired` makes a model that has room again.

        Parameters
        ----------
        items
            The whole catalogue.
        features
            What items of the catalogue are like, where the model's learner has `n_label_features`:
            that many numbers for each, an embedding, say. A new item then begins like those similar
            to it.
        """
        wanted = by_label(items)
        described = {str(item): values for item, values in (features or {}).items()}
        present = set(self._client.get_model(self._model).active_labels)
        # Adding what is there already, described as it was, changes nothing.
        add = [label for label in wanted if label not in present or label in described]
        retire = sorted(present - wanted.keys())
        if add or retire or described:
            self._client.change_labels(self._model, add=add, retire=retire, features=described)

    def recommend(
        self, user_features: Features, items: Sequence[Item], *, request_id: str | None = None
    ) -> Recommendation[Item]:
        """Choose one of `items` for a user.

        Parameters
        ----------
        user_features
            What the model's `features` ask for.
        items
            The candidates, at least one. Those that are retired are left out.
        request_id
            The same id gets the same item for the same user and candidates: the id of the page
            view, say.

        Raises
        ------
        InvalidError
            A candidate was never in the catalogue, all are retired, or the user's features are not
            as the model takes them: a new value of a category, say.
        ConflictError
            The same id came before with another user or other candidates.
        """
        candidates = by_label(items)
        decision = self._client.predict(
            self._model, user_features, request_id=request_id, allowed=list(candidates)
        )
        return Recommendation(
            item=candidates[decision.label],
            decision_id=decision.decision_id,
            propensity=decision.propensity,
        )

    def recommend_several(
        self,
        user_features: Features,
        items: Sequence[Item],
        n: int,
        *,
        request_id: str | None = None,
    ) -> list[Recommendation[Item]]:
        """Choose up to `n` different ones of `items`, the first place first.

        Use it for a shelf of a few items, each reported on its own, with a model whose learner is
        `forward`: several may be right. Report `not_clicked` for those that were seen, nothing for
        the others (which a model with `on_expiry` `no_click` would take for zeros). Each place is
        one more call, whose candidates are the ones that are left; its propensity is among these.
        Not for hundreds of places, nor for `misclick evaluate`, which knows nothing of shrinking
        candidates.

        Parameters
        ----------
        user_features, items
            As `recommend` takes them.
        n
            How many places there are, at least 1. Fewer are filled where fewer candidates are in
            the catalogue.
        request_id
            The same id gets the same shelf; the calls' own ids are made from it and the place.

        Raises
        ------
        InputError
            `n` is below 1.
        InvalidError, ConflictError
            As `recommend` does.
        """
        if n < 1:
            raise InputError(f"n: expected at least 1, got {n}")
        left = list(by_label(items).values())
        shown: list[Recommendation[Item]] = []
        for place in range(min(n, len(left))):
            own_id = request_id if request_id is None else f"{request_id}/{place}"
            try:
                shown.append(self.recommend(user_features, left, request_id=own_id))
            except InvalidError as error:
                # The first place was filled: all that is left by now is retired.
                if not shown or [each.where for each in error.details] != ["allowed"]:
                    raise
                break
            left.remove(shown[-1].item)
        return shown

    def clicked(self, shown: Recommendation[Item]) -> Receipt:
        """Report that the user clicked on what was shown, even if the item has been retired since.

        Raises
        ------
        ConflictError
            It was reported before that the user did not. (The same report again is a duplicate.)
        """
        return self._client.feedback(self._model, shown.decision_id, 1)

    def not_clicked(self, shown: Recommendation[Item]) -> Receipt:
        """Report that the user saw the item and did not click on it."""
        return self._client.feedback(self._model, shown.decision_id, 0)


def by_label(items: Iterable[Item]) -> dict[str, Item]:
    """Return the items by their text; different items must have different texts.

    Examples
    --------
    >>> by_label([11, 12])
    {'11': 11, '12': 12}
    """
    check_flat("items", items)
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        # A text would be taken for its letters.
        raise InputError(f"items: expected a list of items, got {quoted(items)}")
    found: dict[str, Item] = {}
    for item in items:
        other = found.setdefault(str(item), item)
        if other != item:
            raise InputError(f"items: expected different texts, got {other!r} and {item!r}")
    if not found:
        raise InputError("items: expected at least one, got none")
    return found
