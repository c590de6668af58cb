"""What is known of a model's noise, in clicks or in labels, and asking for an estimate of it."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response

from learners.neighbors import AutoRkNN, RkNN, WindowLearner, WindowNoise
from service import wire
from service.auth import Keys, Scope
from service.challengers import no_rates, rate_kinds
from service.contest import Contest
from service.edge import json_response
from service.errors import Invalid
from service.estimates import Estimates
from service.fold import Fold
from service.host import Host
from service.neighbor_wire import MAX_MATRIX, PairOut, TransitionOut, WindowNoiseOut
from service.rates_in_force import errors_of
from service.replica import Replica
from service.route_docs import errors, json_answer, read_errors

#: Learners that read the noise in their labels off a window, not off the log of clicks.
_READ_OFF = (RkNN, AutoRkNN)
_NOISE = ("NoiseOut", "WindowNoiseOut")


def noise_router(host: Host, keys: Keys) -> APIRouter:
    """Return the routes about noise."""
    router = APIRouter(tags=["noise"])

    @router.get(
        "/v1/models/{model}/noise",
        operation_id="get_noise",
        response_class=Response,
        responses=json_answer(
            200, "Rates in force and how they were found; or a window's.", *_NOISE
        )
        | read_errors(),
    )
    async def get_noise(model: str, request: Request) -> Response:
        """Tell the rates in force, the estimate under way and the latest results.

        For a learner that reads the noise off neighbours: what its window tells now.
        """
        caller = keys.caller(request.headers.get("authorization"))

        async def act(replica: Replica) -> wire.NoiseOut | WindowNoiseOut:
            if isinstance(replica.fold.learner, _READ_OFF):
                await replica.catch_up()
                return _window_noise_out(replica.fold)
            if isinstance(replica.fold.learner, WindowLearner):
                what = "a learner that reads noise off its window (rknn, plugin_knn, rknn_auto)"
                raise Invalid.of("model", what, replica.spec.learner.kind)
            estimates = Estimates(host.store, replica.address)
            asked, running = await estimates.status()
            history = await estimates.history()
            # So that the rates of the newest result in this answer are in force in it.
            await replica.catch_up()
            spec, fold = replica.spec, replica.fold
            rates, each = _rates(replica), _label_rates(fold)
            every = spec.estimate_after(rate_kinds(fold.contest.named))
            due = (every, spec.estimate_on_drift, fold.drift_seq)
            errors, error_of = _errors(fold)
            sources = errors is not None, _known(fold.contest)
            found, learner = (asked, running, history), fold.learner
            return wire.NoiseOut(
                rates,
                each,
                *due,
                *found,
                *sources,
                restarts=learner.restarts,
                silent=learner.silent,
                context_free=learner.context_free,
                label_by_label=learner.label_by_label,
                errors=errors,
                errors_by_label=error_of,
            )

        return json_response(await host.use(caller.key_of(model), act))

    _add_estimates(router, host, keys)
    return router


def _add_estimates(router: APIRouter, host: Host, keys: Keys) -> None:
    @router.post(
        "/v1/models/{model}/noise/estimate",
        operation_id="estimate_noise",
        status_code=202,
        response_class=Response,
        responses=json_answer(202, "It begins when no other model's is being made.", "Asked")
        | read_errors(),
    )
    async def estimate_noise(model: str, request: Request) -> Response:
        """Ask for an estimate of the noise rates now, from the newest feedback."""
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.ADMIN)

        async def act(replica: Replica) -> wire.Asked:
            _rates(replica)
            return wire.Asked(await Estimates(host.store, replica.address).ask())

        return json_response(await host.use(caller.key_of(model), act), 202)

    @router.delete(
        "/v1/models/{model}/noise/estimate",
        operation_id="cancel_estimate",
        status_code=204,
        response_class=Response,
        responses={204: {"description": "None is asked for or being made any more."}}
        | read_errors()
        | errors(409),
    )
    async def cancel_estimate(model: str, request: Request) -> Response:
        """End the estimate that is asked for or being made; the rates in force stay."""
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.ADMIN)

        async def act(replica: Replica) -> None:
            # The challenger that it is for may be gone: then it can still be ended.
            if not replica.fold.learner.takes_feedback:
                _rates(replica)
            await Estimates(host.store, replica.address).cancel()

        await host.use(caller.key_of(model), act)
        return Response(status_code=204)


def _known(contest: Contest) -> bool:
    """Whether the rates in force are ones that somebody set."""
    return contest.rates is not None and not contest.rates.estimated


def _errors(fold: Fold) -> tuple[wire.RatesOut | None, dict[str, wire.RatesOut]]:
    """Return the errors of the rates that clicks move, and each label's.

    None where clicks move none: rates that were set are not in doubt.
    """
    user = fold.contest.rate_user
    if user is None or not user.learns_rates or _known(fold.contest):
        return None, {}
    each = errors_of(user)
    # Labels share most of what their rates are off by: the mean's error is about theirs.
    errors = wire.RatesOut(*(float(some.mean()) for some in each))
    if not (errors.rho_0 or errors.rho_1):
        return None, {}
    pairs = zip(fold.labels, *(some.tolist() for some in each), strict=True)
    return errors, {name: wire.RatesOut(*pair) for name, *pair in pairs}


def _rates(replica: Replica) -> wire.RatesOut:
    contest = replica.fold.contest
    user, told = contest.rate_user, contest.rates
    if user is None:
        raise no_rates(contest.learner)
    if told is not None and (_known(contest) or not user.learns_rates):
        # What the learner itself uses may differ by label.
        return wire.RatesOut(told.rho_0, told.rho_1)
    return wire.RatesOut(*(getattr(user, name) for name in ("rho_0", "rho_1")))


def _label_rates(fold: Fold) -> dict[str, wire.RatesOut]:
    user = fold.contest.rate_user
    if user is None or not user.takes_label_rates:
        return {}
    each = zip(*(rates.tolist() for rates in user.label_rates), strict=True)
    return {name: wire.RatesOut(*pair) for name, pair in zip(fold.labels, each, strict=True)}


def _window_noise_out(fold: Fold) -> WindowNoiseOut:
    learner = cast("RkNN | AutoRkNN", fold.learner)
    pairs = learner.validation() if isinstance(learner, AutoRkNN) else []
    return WindowNoiseOut(
        fold.seq,
        len(learner),
        None if pairs else learner.k,
        [_transition_out(reading, fold.labels) for reading in learner.window_noise()],
        [PairOut(*pair) for pair in pairs],
    )


def _transition_out(reading: WindowNoise, labels: list[str]) -> TransitionOut:
    rates = reading.rates
    return TransitionOut(
        reading.k_noise,
        None if rates is None else rates.rho_0,
        None if rates is None else rates.rho_1,
        [labels[code] for code in reading.labels],
        reading.transition.tolist() if len(reading.labels) <= MAX_MATRIX else None,
    )
