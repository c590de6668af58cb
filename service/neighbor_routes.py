"""What can be asked of models of neighbours: who votes on an instance, and who the hubs are."""

from __future__ import annotations

import asyncio

import numpy as np
from fastapi import APIRouter, Request, Response

from learners.neighbors import HubnessReport, HubWatch, WindowLearner, hubness_report
from learners.validation import FloatArray
from service import wire
from service.auth import Keys, Scope
from service.edge import JSON, check_request_type, json_response
from service.errors import Invalid
from service.fold import Fold
from service.host import Host
from service.neighbor_wire import (
    MAX_LISTED,
    MAX_VOTED,
    HubAlarmOut,
    HubOut,
    HubsOut,
    NeighborsOut,
    VoterOut,
)
from service.replica import Replica
from service.route_docs import json_answer, read_errors, schema, write_errors

_QUESTION = wire.parser(wire.NeighborsIn)


def neighbor_router(host: Host, keys: Keys) -> APIRouter:
    """Return the routes about neighbours."""
    router = APIRouter(tags=["neighbours"])

    @router.post(
        "/v1/models/{model}/neighbors",
        operation_id="neighbors",
        response_class=Response,
        responses=json_answer(200, "Who votes on it, nearest first.", "NeighborsOut")
        | write_errors(),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": schema("NeighborsIn")}},
            }
        },
    )
    async def neighbors(model: str, request: Request) -> Response:
        """Tell who votes on an instance, with what weight, and who looks mislabelled."""
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.PREDICT)
        check_request_type(request, (JSON,))
        question: wire.NeighborsIn = _QUESTION.parse(await request.body())

        async def act(replica: Replica) -> NeighborsOut:
            await replica.catch_up()
            return await _neighbors_out(replica.fold, _window_learner(replica), question)

        return json_response(await host.use(caller.key_of(model), act))

    @router.get(
        "/v1/models/{model}/hubs",
        operation_id="get_hubs",
        response_class=Response,
        responses=json_answer(200, "Hubs, orphans and the alarm.", "HubsOut") | read_errors(),
    )
    async def get_hubs(model: str, request: Request) -> Response:
        """Tell how unevenly neighbours are shared out, and whether hubs look mislabelled."""
        caller = keys.caller(request.headers.get("authorization"))

        async def act(replica: Replica) -> HubsOut:
            await replica.catch_up()
            fold, learner = replica.fold, _window_learner(replica)
            if not learner.keeps_graph:
                raise _refusal("a learner that keeps a graph of neighbours", replica)
            seq, near, alarm = fold.seq, learner.neighborhoods(), alarm_out(learner.hub_watch)
            # Counting takes tens of milliseconds in a wide window; nobody else uses this copy.
            report = await asyncio.to_thread(hubness_report, near)
            return _hubs_out(seq, report, fold.labels, alarm)

        return json_response(await host.use(caller.key_of(model), act))

    return router


async def _neighbors_out(
    fold: Fold, learner: WindowLearner, question: wire.NeighborsIn
) -> NeighborsOut:
    labels, seq = fold.labels, fold.seq
    x = fold.scaled(fold.encoder.encode(question.x))
    greedy = learner.distribution(x).greedy
    voters = learner.neighbors(x, MAX_LISTED)
    answer = []
    for voter in voters:
        # Each is a query of its own: the others have their turn in between, and an example
        # that leaves the window meanwhile is no suspect any more.
        await asyncio.sleep(0)
        suspected = bool(len(learner.suspects([voter.seq])))
        votes = _votes_out(voter.votes, labels)
        answer.append(VoterOut(voter.seq, labels[voter.label], voter.distance, votes, suspected))
    return NeighborsOut(seq, labels[greedy], answer)


def _votes_out(votes: FloatArray, labels: list[str]) -> dict[str, float]:
    given = np.flatnonzero(votes)
    most = given[np.argsort(-votes[given], kind="stable")][:MAX_VOTED]
    return {labels[code]: float(votes[code]) for code in most.tolist()}


def _hubs_out(seq: int, report: HubnessReport, labels: list[str], alarm: HubAlarmOut) -> HubsOut:
    hubs = zip(
        report.hubs[:MAX_LISTED].tolist(),
        report.labels.tolist(),
        report.occurrences.tolist(),
        report.bad_occurrences.tolist(),
        report.bad.tolist(),
        strict=False,
    )
    return HubsOut(
        seq,
        report.k,
        report.n_examples,
        report.skewness,
        report.threshold,
        [HubOut(example, labels[code], *counts) for example, code, *counts in hubs],
        len(report.hubs),
        int(report.bad.sum()),
        report.n_orphans,
        report.bad_share,
        alarm,
    )


def alarm_out(watch: HubWatch) -> HubAlarmOut:
    """Return a watch's alarm as it is reported."""
    last = watch.last
    return HubAlarmOut(
        watch.raised,
        watch.since,
        watch.looked_at,
        last.p_value,
        last.n_suspected,
        last.suspected_occurrences,
        last.mean_occurrences,
    )


def _window_learner(replica: Replica) -> WindowLearner:
    learner = replica.fold.learner
    if not isinstance(learner, WindowLearner):
        raise _refusal("a learner from the labels of neighbours", replica)
    return learner


def _refusal(wanted: str, replica: Replica) -> Invalid:
    return Invalid.of("model", wanted, replica.fold.learner.kind)
