# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurmrestd that answers without an end, too deep, packed, from elsewhere, or of work on no node."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bounded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import rest, rest_shapes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm

PATHS = {"/slurm/v0.0.44/nodes/": {"get": {}}, "/slurm/v0.0.44/node/{name}": {"post": {}}}
NODES = b'{"errors": [], "nodes": []}'
Answers = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        if self.path.startswith("/openapi"):
            self.answers(json.dumps({"paths": PATHS}).encode())
        else:
            self.server.answer(self)

    def answers(self, body: bytes, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    found: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.asked = []
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def states(server: Any, answer: Answers) -> Any:
    server.answer = answer
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in ({"alg": "HS256"}, {"sun": "root"})]
    url = f"http://127.0.0.1:{server.server_address[1]}"
    return Slurm({"scheduler_url": url, "scheduler_token": ".".join([*parts, "x"])}).states(["gpu001", "gpu002"])


def drips(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    try:
        for _ in range(100):
            handler.wfile.write(b" ")
            time.sleep(0.1)
    except OSError:
        pass


def test_a_byte_now_and_then_holds_nobody_for_longer_than_an_answer_may_take(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bounded, "SECONDS", 0.5)
    monkeypatch.setattr(rest, "TIMEOUT", 0.5)
    with pytest.raises(BadAnswer, match="without an end") as caught:
        states(server, drips)
    seen = int(caught.value.seen.split()[0])
    assert 0 < seen < 200 and caught.value.address, "with its head, and without most of its body"


def test_no_answer_fills_the_memory(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounded, "MOST", 1024 * 1024)
    with pytest.raises(BadAnswer, match="without an end"):
        states(server, lambda handler: handler.answers(b" " * (3 * 1024 * 1024) + NODES))
    packed = gzip.compress(b" " * (64 * 1024 * 1024) + NODES)
    with pytest.raises(BadAnswer, match="packed"):
        states(server, lambda handler: handler.answers(packed, Content_Encoding="gzip"))
    assert {headers["Accept-Encoding"] for _path, headers in server.asked} == {"identity"}


@pytest.mark.parametrize(
    "form", ['{"x": DEEP}', '{"errors": [{"error": DEEP}]}', '{"errors": [], "nodes": [{"name": DEEP}]}']
)
@pytest.mark.parametrize("depth", [300, 600, 990, 100_000])
def test_what_is_nested_too_deep_is_a_wrong_answer(server: Any, form: str, depth: int) -> None:
    body = form.replace("DEEP", "[" * depth + "]" * depth).encode()
    with pytest.raises(FleetError) as caught:
        states(server, lambda handler: handler.answers(body))
    assert caught.value.address


def test_a_token_follows_no_redirect_to_anybody_else(server: Any) -> None:
    with pytest.raises(BadAnswer, match="redirect"):
        states(server, lambda handler: handler.answers(b"", 307, Location="/slurm/v0.0.44/elsewhere"))
    assert not [path for path, _headers in server.asked if "elsewhere" in path]


@pytest.mark.parametrize("nodes", [None, "", "(null)"])
@pytest.mark.parametrize("state", [["RUNNING"], ["SUSPENDED"], "CONFIGURING", ["RUNNING", "COMPLETING"]])
def test_work_that_is_on_no_node_is_no_answer(state: Any, nodes: Any) -> None:
    """It is on one, and who drains that would be told that it is free."""
    job = {"job_id": 7, "job_state": state, "nodes": nodes, "start_time": 1, "suspend_time": 0}
    with pytest.raises(BadAnswer, match="nodes in a shape"):
        rest_shapes.jobs([job])
    assert rest_shapes.jobs([{**job, "job_state": ["PENDING"]}]) == {}
