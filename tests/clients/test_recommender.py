"""The recommender on top of the client."""

import socket
import time
from typing import Any

import numpy as np
import pytest

from clients import (
    AsyncClient,
    Client,
    ConflictError,
    InputError,
    InvalidError,
    Recommender,
    Retries,
    TransportError,
)
from clients.recommender import by_label
from tests.clients.conftest import fresh_spec


def test_items_that_look_alike_are_refused() -> None:
    """1 and "1" would share one label, and a click on one would teach the other."""
    with pytest.raises(InputError, match="different texts"):
        by_label([1, "1"])
    with pytest.raises(InputError, match="at least one"):
        by_label([])
    assert by_label([2, 1, 2]) == {"2": 2, "1": 1}


@pytest.mark.parametrize("given", ["hat", b"hat", 7, np.zeros((2, 2))])
def test_what_is_no_list_of_items_is_no_catalogue(given: Any) -> None:
    """Of one text each letter became an item, and all others were retired."""
    with pytest.raises(InputError, match=r"^items: expected"):
        by_label(given)


def test_a_shop_learns_what_is_clicked(client: Client) -> None:
    """Item ids go in and out as they are; clicks teach, and only candidates are shown."""
    spec = fresh_spec(labels=("11",), learner={"kind": "banditron", "gamma": 0.2}, seed=1)
    client.create_model(spec)
    shop = Recommender[int](client, spec.name)
    shop.sync_catalogue([11, 12, 15])
    x = [1.0, 0.0, 0.0]
    for visit in range(60):
        shown = shop.recommend(x, [11, 15], request_id=f"visit-{visit}")
        assert shown.item in (11, 15)
        assert 0 < shown.propensity <= 1
        report = shop.clicked if shown.item == 15 else shop.not_clicked
        assert report(shown).status == "applied"
    assert shop.recommend(x, [11, 15], request_id="visit-0").decision_id is not None
    late = [shop.recommend(x, [11, 12, 15]).item for _ in range(20)]
    assert late.count(15) > 10
    clicks = client.get_model(spec.name).counters.clicks
    assert 30 < clicks < 60


def test_a_shelf_shows_different_items_and_learns_from_each(client: Client) -> None:
    """Each place is a decision among what is left; what is clicked comes to the front."""
    spec = fresh_spec(labels=("11",), learner={"kind": "forward", "n_waves": 0}, seed=1)
    client.create_model(spec)
    shop = Recommender[int](client, spec.name)
    shop.sync_catalogue([11, 12, 13, 14, 15])
    x = [1.0, 0.0, 0.0]
    for _ in range(60):
        shelf = shop.recommend_several(x, [11, 12, 13, 14, 15], 3)
        assert len({shown.item for shown in shelf}) == 3
        for shown in shelf:
            report = shop.clicked if shown.item in (13, 15) else shop.not_clicked
            assert report(shown).status == "applied"
    late = [shop.recommend_several(x, [11, 12, 13, 14, 15], 2) for _ in range(20)]
    assert sum({shown.item for shown in shelf} == {13, 15} for shelf in late) > 10
    # The last place had one candidate left.
    (*_, last) = shop.recommend_several(x, [11, 13], 2)
    assert last.propensity == 1.0


def test_a_shelf_is_as_long_as_there_are_candidates(client: Client) -> None:
    """The same view gets the same shelf; retired items leave places empty."""
    spec = fresh_spec(labels=("11", "12", "13"))
    client.create_model(spec)
    shop = Recommender[int](client, spec.name)
    x = [1.0, 0.0, 0.0]
    shelf = shop.recommend_several(x, [11, 12, 13], 5, request_id="view-1")
    assert {shown.item for shown in shelf} == {11, 12, 13}
    assert shop.recommend_several(x, [11, 12, 13], 5, request_id="view-1") == shelf
    shop.sync_catalogue([12, 13])
    assert {shown.item for shown in shop.recommend_several(x, [11, 12, 13], 3)} == {12, 13}
    with pytest.raises(InvalidError, match="allowed"):
        shop.recommend_several(x, [12, 99], 2)
    with pytest.raises(InvalidError, match="retired"):
        shop.recommend_several(x, [11], 2)
    # A place's id is longer than the view's, the eleventh one's by three.
    shop.sync_catalogue(range(11))
    with pytest.raises(InvalidError, match="request_id"):
        shop.recommend_several(x, range(11), 11, request_id="v" * 126)
    with pytest.raises(InputError, match="n: expected at least 1, got 0"):
        shop.recommend_several(x, [12], 0)


def test_the_catalogue_follows_the_shop(client: Client) -> None:
    """New items can be shown, missing ones cannot, and what stays is not touched."""
    spec = fresh_spec(labels=("11", "12"))
    client.create_model(spec)
    shop = Recommender[int](client, spec.name)
    shop.sync_catalogue([12, 13])
    assert client.get_model(spec.name).active_labels == ("12", "13")
    with pytest.raises(InvalidError, match="allowed"):
        shop.recommend([0.0, 0.0, 0.0], [11, 12, 99])
    seq = client.get_model(spec.name).seq
    shop.sync_catalogue([13, 12])
    assert client.get_model(spec.name).seq == seq
    shop.sync_catalogue([11, 13])
    assert client.get_model(spec.name).active_labels == ("11", "13")


def test_new_items_come_with_what_they_are_like(client: Client) -> None:
    """They are described as they come, and once: the same catalogue again changes nothing."""
    learner = {"kind": "forward", "n_waves": 0, "n_label_features": 2}
    features = {11: [1.0, 0.0], 12: [0.9, 0.1], 13: [0.0, 1.0]}
    spec = fresh_spec(
        labels=("11", "13"),
        learner=learner,
        label_features={"11": features[11], "13": features[13]},
    )
    client.create_model(spec)
    shop = Recommender[int](client, spec.name)
    x = [1.0, 0.0, 0.0]
    for _ in range(60):
        shown = shop.recommend(x, [11, 13])
        report = shop.clicked if shown.item == 11 else shop.not_clicked
        report(shown)
    shop.sync_catalogue(features, features=features)
    seq = client.get_model(spec.name).seq
    shop.sync_catalogue(features, features=features)
    assert client.get_model(spec.name).seq == seq
    # Of an item that is not in the catalogue, nothing was said.
    with pytest.raises(InvalidError, match="99"):
        shop.sync_catalogue(features, features={99: [1.0, 0.0]})
    # Never shown, but like the one that is clicked.
    new = [shop.recommend(x, [12, 13]).item for _ in range(20)]
    assert new.count(12) > 10


def test_a_page_outlives_its_catalogue(client: Client) -> None:
    """What was shown can be reported when it is retired since; twice is once, and no opposite."""
    spec = fresh_spec(labels=("11", "12"))
    client.create_model(spec)
    shop = Recommender[int](client, spec.name)
    x = [1.0, 0.0, 0.0]
    shown = shop.recommend(x, [11], request_id="view-1")
    assert shop.recommend(x, [11], request_id="view-1") == shown
    shop.sync_catalogue([12])
    assert shop.recommend(x, [11, 12]).item == 12
    assert shop.clicked(shown).status == "applied"
    assert shop.clicked(shown).status == "duplicate"
    with pytest.raises(ConflictError, match="1 already"):
        shop.not_clicked(shown)
    with pytest.raises(InvalidError, match="retired"):
        shop.recommend(x, [11])
    with pytest.raises(ConflictError, match="request_id"):
        shop.recommend(x, [12], request_id="view-1")


def test_a_page_hears_in_time_that_there_is_no_answer() -> None:
    """With a client that does not wait, a service that hangs costs a page what it was given."""
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        url = f"http://127.0.0.1:{hangs.getsockname()[1]}"
        with Client(url, timeout_s=0.2, retries=Retries(tries=1)) as client:
            shop = Recommender[int](client, "shop")
            begin_s = time.monotonic()
            with pytest.raises(TransportError, match="ReadTimeout"):
                shop.recommend([1.0], [11, 12])
            assert time.monotonic() - begin_s < 2


async def test_a_client_for_asyncio_is_refused() -> None:
    """Its coroutines have no label: the first visit would have failed, and asked nobody."""
    async with AsyncClient("http://127.0.0.1:9") as client:
        wrong: Any = client
        with pytest.raises(InputError, match="client: expected a Client"):
            Recommender[int](wrong, "shop")
