"""One model of a running service, with its calls."""

import json
from typing import Any, TypeAlias

import httpx

from tests.service.apps import NDJSON, Json, spec_of

Items: TypeAlias = list[Json]


class Model:
    """One model of a running service, with its calls."""

    def __init__(self, http: httpx.Client, **change: Any) -> None:
        self.http = http
        self.spec = spec_of(**change)
        self.path = f"/v1/models/{self.spec['name']}"
        answer = http.post("/v1/models", json=self.spec)
        assert answer.status_code == 201, answer.text
        self.created: Json = answer.json()

    def post(self, call: str, body: Any, status: int = 200) -> Json:
        """Send a call and return its answer."""
        answer = self.http.post(f"{self.path}/{call}", json=body)
        assert answer.status_code == status, answer.text
        found: Json = answer.json()
        return found

    def post_lines(self, call: str, items: Items, status: int = 200) -> Items:
        """Send a batch as NDJSON and return the lines of its answer."""
        body = "".join(json.dumps(item) + "\n" for item in items)
        answer = self.http.post(f"{self.path}/{call}/batch", content=body, headers=NDJSON)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == NDJSON["content-type"]
        return [json.loads(line) for line in answer.text.splitlines()]

    def describe(self) -> Json:
        """Return the model."""
        found: Json = self.http.get(self.path).json()
        return found

    def counters(self) -> dict[str, int]:
        """Return the counters that are not 0."""
        return {name: n for name, n in self.describe()["counters"].items() if n}

    def log(self) -> Items:
        """Return the events of the export."""
        return [json.loads(line) for line in self.http.get(f"{self.path}/log").text.splitlines()][
            1:
        ]


def refused(answer: Json) -> str:
    """Return the code of an error, after checking its form."""
    assert answer.keys() == {"error"}
    assert answer["error"].keys() == {"code", "message", "details"}
    return str(answer["error"]["code"])
