"""What ``agentgym probe`` takes, refuses before it asks a server anything, and sends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agentgym_cli.errors import AgentgymError, PolicyError, RecipeError, StoreError
from agentgym_cli.verbs.probe import ProbeRequest, probe_servers
from agentgym_cli.verbs.progress import Silent

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def server() -> Iterator[tuple[str, list[str | None]]]:
    """URL of a server that is another environment, and the tokens it was shown."""
    tokens: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers["authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'"This is environment BabyAI."')

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", tokens
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("request_", "kind", "said"),
    [
        (ProbeRequest(), RecipeError, "expected a recipe, or --url and --dialect, got neither"),
        (ProbeRequest(urls=[NOWHERE]), RecipeError, "got neither"),
        (ProbeRequest(recipe="x.yaml", urls=[NOWHERE]), RecipeError, "got both"),
        (ProbeRequest(recipe="x.yaml", token_variable="TOKEN"), RecipeError, "got both"),
        (ProbeRequest(urls=["ftp://host"], dialect="textcraft"), RecipeError, "expected http://HOST:PORT"),
        (ProbeRequest(urls=[NOWHERE], dialect="textcraf"), RecipeError, "got 'textcraf'"),
        (ProbeRequest(urls=[NOWHERE], dialect="textcraft", idle_seconds=0), RecipeError, "--idle-seconds: expected seconds above 0"),
        (ProbeRequest(urls=[NOWHERE], dialect="textcraft", idle_seconds=float("nan")), RecipeError, "got nan"),
        (ProbeRequest(urls=[NOWHERE], dialect="textcraft", token_variable="AGENTGYM_NO_SUCH"), PolicyError, "AGENTGYM_NO_SUCH"),
    ],
)
def test_what_cannot_be_meant_is_refused(request_, kind, said):
    with pytest.raises(AgentgymError) as caught:
        probe_servers(request_, progress=Silent())
    assert isinstance(caught.value, kind)
    assert said in caught.value.message


def test_a_file_that_cannot_be_written_is_refused_before_an_hour_has_passed(tmp_path):
    request = ProbeRequest(urls=[NOWHERE], dialect="textcraft", files=[None, tmp_path / "no" / "probe.xml"])
    with pytest.raises(StoreError, match="expected the name of a file in a folder that exists"):
        probe_servers(request, progress=Silent())


def test_the_token_of_the_named_variable_is_sent_to_servers_named_by_url(server, monkeypatch):
    url, tokens = server
    monkeypatch.setenv("AGENTGYM_TEST_TOKEN", "s3cret")
    for name in ("AGENTGYM_TEST_TOKEN", None):
        report = probe_servers(ProbeRequest(urls=[url], dialect="textcraft", token_variable=name), progress=Silent())
        assert [check.name for check in report.servers[0].failed] == ["identity"]
    assert tokens == ["Bearer s3cret"] * 2 + [None] * 2


def test_the_token_of_a_recipe_is_sent_to_its_servers(server, monkeypatch):
    url, tokens = server
    monkeypatch.setenv("AGENTGYM_TEST_TOKEN", "s3cret")
    overrides = ["profile=laptop", f"env.urls=[{url}]", "env.token_variable=AGENTGYM_TEST_TOKEN"]
    probe_servers(ProbeRequest(recipe="recipes/textcraft_grpo.yaml", overrides=overrides), progress=Silent())
    assert set(tokens) == {"Bearer s3cret"}
