"""The server against its own description: whatever fits or does not fit it, nothing breaks.

schemathesis makes requests from /openapi.json, in process and always the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server.routes import create_app
from quoth.settings.server import ServerConfig

EXAMPLES = 12
REFUSED = {400, 404, 405, 413, 422}
OPERATIONS = (
    *("POST /search", "POST /explain", "POST /answer", "POST /documents"),
    *("GET /documents", "DELETE /documents"),
    *("GET /documents/{docid}", "DELETE /documents/{docid}"),
    *("GET /status", "GET /report", "GET /limits", "GET /stats", "GET /metrics"),
    *("GET /health/live", "GET /health/ready"),
    *("GET /access", "POST /files", "GET /job", "POST /job", "DELETE /job"),
)
STARTS_A_PROCESS = "POST /job"  # tried by tests/unit/server/test_managing.py
TRIED = [
    (label, mode)
    for label in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or label.startswith("POST") or "/documents" in label
    if label != STARTS_A_PROCESS
]
"""Operations with requests that fit, and with wrong ones where something could be wrong."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("served") / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts.",)}, {"year": 2020})])
        app = create_app(engine, ServerConfig(workers=2), allow_writes=True)
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            yield client


@pytest.fixture(scope="module")
def schema(client: TestClient) -> Any:
    return schemathesis.openapi.from_dict(client.get("/openapi.json").json())


def test_every_operation_is_tried(schema: Any) -> None:
    described = {each.ok().label for each in schema.get_all_operations()}
    assert described == set(OPERATIONS)


@pytest.mark.parametrize(("label", "mode"), TRIED)
def test_whatever_is_sent_is_answered_as_described(
    client: TestClient, schema: Any, label: str, mode: GenerationMode
) -> None:
    method, path = label.split()
    operation = schema[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        kwargs = case.as_transport_kwargs(base_url="http://127.0.0.1")
        for unknown in ("cookies", "timeout"):
            kwargs.pop(unknown, None)
        if isinstance(kwargs.get("data"), bytes | str):
            kwargs["content"] = kwargs.pop("data")
        response = client.request(**kwargs)
        if response.status_code == 200:
            if response.headers["content-type"].startswith("application/json"):
                operation.validate_response(
                    schemathesis.Response.from_httpx(response, verify=False)
                )
            return
        if label == "GET /health/ready":
            assert response.status_code == 503
        else:
            assert response.status_code in REFUSED, response.text
        error = response.json()["error"]
        assert error["message"] and error["request_id"] == response.headers["x-request-id"]

    check()
