"""The ordinary FastAPI endpoints that the service is compared with: they do nothing."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel


class Instance(BaseModel):
    """The body of a predict."""

    x: list[float]
    request_id: str | None = None
    allowed: list[str] | None = None


class Decision(BaseModel):
    """The answer to a predict."""

    decision_id: str
    label: str
    greedy: str
    propensity: float
    seq: int
    expires_at_ms: int


class Feedback(BaseModel):
    """The body of a feedback."""

    decision_id: str
    feedback: int


class Receipt(BaseModel):
    """The answer to a feedback."""

    status: str
    seq: int
    feedback: int


app = FastAPI()


@app.post("/predict")
async def predict(instance: Instance) -> Decision:
    """Take an instance and do nothing with it."""
    return Decision(
        decision_id="A" * 40,
        label="a",
        greedy="a",
        propensity=0.9,
        seq=len(instance.x),
        expires_at_ms=0,
    )


@app.post("/feedback")
async def feedback(item: Feedback) -> Receipt:
    """Take a feedback and do nothing with it."""
    return Receipt(status="applied", seq=1, feedback=item.feedback)
