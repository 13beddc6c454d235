"""The schema fits AgentGym's other families: each described here, each reading replies as its servers were recorded or documented to give them."""

from __future__ import annotations

import httpx
import pytest

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.wire import build_http

COMMON = """
default_port: 36001
prompt: prompt.txt
actions: {plain: {pattern: null}}
success: {reward_kind: terminal, at_least: 1}
probe_actions: [look]
deviations: {done_latching: the client latches done, create: a recycled id is found by the probe only}
"""
BY_ID = "session: {field: id, recycled: false}\n"
BY_ENV_IDX = "session: {field: env_idx, recycled: true}\n"
FAMILIES = {
    "babyai": BY_ID
    + """
name: babyai
done_sticky: true
routes:
  health: {call: GET /, greeting: {pointer: "", equals: This is environment BabyAI.}}
  create: {call: POST /create, session: /id}
  reset: {call: POST /reset, task_field: data_idx, observation: /observation}
  step: {call: POST /step, action_field: action, observation: /observation, reward: /reward, done: /done}
  observe: {call: GET /observation, observation: /observation}
  close: {call: POST /close, closed: {pointer: "", equals: true}}
errors: [{pointer: /error}]
""",
    "sqlgym": BY_ENV_IDX
    + """
name: sqlgym
done_sticky: false
routes:
  health: {call: GET /, greeting: {pointer: "", equals: ok}}
  create: {call: POST /create, session: ""}
  reset: {call: POST /reset, task_field: item_id, observation: /0}
  step: {call: POST /step, action_field: action, observation: /state, reward: /reward, done: /done}
  observe: {call: GET /observation, observation: ""}
""",
    "searchqa": BY_ENV_IDX
    + """
name: searchqa
done_sticky: false
routes:
  health: {call: GET /, greeting: {pointer: "", equals: ok}}
  create: {call: POST /create, send: {id: 0}, session: ""}
  reset: {call: POST /reset, task_field: id, observation: ""}
  step: {call: POST /step, action_field: action, observation: /observation, reward: /reward, done: /done}
  close: {call: POST /close, closed: {pointer: "", equals: true}}
""",
    "alfworld": BY_ID
    + """
name: alfworld
done_sticky: true
routes:
  health: {call: GET /, greeting: {pointer: "", matches: AlfWorld}}
  create: {call: POST /create, session: /id}
  reset: {call: POST /reset, send: {world_type: Text}, task_field: game, observation: /observation}
  step: {call: POST /step, action_field: action, observation: /observation, reward: /reward, done: /done}
errors: [{pointer: /error}]
""",
    "wordle": BY_ID
    + """
name: wordle
done_sticky: true
routes:
  health: {call: GET /available_actions, greeting: {pointer: ""}}
  create: {call: POST /create, session: /id}
  reset: {call: POST /reset, task_field: seed, observation: /observation}
  step: {call: POST /step, action_field: action, action_suffix: "\\n", observation: /observation, reward: /reward, done: /done}
errors: [{pointer: /error}]
""",
    "webarena": BY_ENV_IDX
    + """
name: webarena
done_sticky: false
routes:
  health: {call: GET /, format: text, greeting: {pointer: "", equals: ok}}
  create: {call: POST /create, session: /env_idx}
  reset:
    call: POST /reset
    send: {seed: 0}
    task_field: idx
    observation: /observation
    errors: [{pointer: /observation, equals: TimeoutError}]
  step:
    call: POST /step
    action_field: action
    observation: /observation
    reward: /reward
    done: /terminated
    errors: [{pointer: /info, is_null: true}]
  close: {call: POST /close, closed: {pointer: /closed, equals: closed}}
""",
}


@pytest.fixture
def dialect_of(tmp_path):
    def load(family: str) -> Dialect:
        (tmp_path / "prompt.txt").write_text("Act.")
        (tmp_path / f"{family}.yaml").write_text(COMMON + FAMILIES[family])
        return load_dialect(tmp_path / f"{family}.yaml")

    return load


SESSION = 5
ERROR, CRASH, MISSING = InfraCause.REPORTED_ERROR, InfraCause.SERVER_5XX, InfraCause.SERVER_4XX


@pytest.mark.parametrize(
    ("family", "call", "sent", "reply", "meaning"),
    [
        ("babyai", ("create",), "POST /create {}", (200, '{"id":0}'), 0),
        (
            "babyai",
            ("reset", 0),
            'POST /reset {"id":5,"data_idx":0}',
            (200, '{"observation":"Your goal: go","reward":0,"done":false}'),
            "Your goal: go",
        ),
        (
            "babyai",
            ("step", "fly"),
            'POST /step {"id":5,"action":"fly"}',
            (200, '{"observation":"no","reward":0.5,"score":2.0,"done":false}'),
            ("no", 0.5, False),
        ),
        ("babyai", ("step", "fly"), 'POST /step {"id":5,"action":"fly"}', (200, '{"error":"0"}'), ERROR),
        ("babyai", ("observe",), "GET /observation?id=5 ", (200, '{"observation":"o","reward":0,"done":false}'), "o"),
        ("babyai", ("close",), 'POST /close {"id":5}', (200, "false"), ERROR),
        ("sqlgym", ("create",), "POST /create {}", (200, "141547"), 141547),
        ("sqlgym", ("reset", 1), 'POST /reset {"env_idx":5,"item_id":1}', (200, '["Name the cheapest item.",null]'), "Name the cheapest item."),
        (
            "sqlgym",
            ("step", "select 1"),
            'POST /step {"env_idx":5,"action":"select 1"}',
            (200, '{"state":"[(2,)]","reward":1.0,"done":true,"info":{}}'),
            ("[(2,)]", 1.0, True),
        ),
        ("sqlgym", ("step", "select 1"), 'POST /step {"env_idx":5,"action":"select 1"}', (500, "Internal Server Error"), CRASH),
        ("searchqa", ("create",), 'POST /create {"id":0}', (200, "3"), 3),
        ("searchqa", ("reset", 9), 'POST /reset {"env_idx":5,"id":9}', (200, '"Who?"'), "Who?"),
        ("searchqa", ("close",), 'POST /close {"env_idx":5}', (200, "true"), None),
        (
            "alfworld",
            ("reset", 9),
            'POST /reset {"world_type":"Text","id":5,"game":9}',
            (200, '{"id":5,"observation":"You are","task_type":"x"}'),
            "You are",
        ),
        ("alfworld", ("step", "look"), 'POST /step {"id":5,"action":"look"}', (200, '{"error":"The task with environment 5 has finished."}'), ERROR),
        (
            "wordle",
            ("step", "p a n i c"),
            'POST /step {"id":5,"action":"p a n i c\\n"}',
            (200, '{"observation":"b y b b b\\n","reward":0,"done":false}'),
            ("b y b b b\n", 0.0, False),
        ),
        ("wordle", ("reset", 0), 'POST /reset {"id":5,"seed":0}', (422, '{"detail":[]}'), MISSING),
        ("webarena", ("create",), "POST /create {}", (200, '{"env_idx":0}'), 0),
        (
            "webarena",
            ("reset", 7),
            'POST /reset {"seed":0,"env_idx":5,"idx":7}',
            (200, '{"observation":"TimeoutError","sites":"Error","object":"Error"}'),
            ERROR,
        ),
        (
            "webarena",
            ("step", "x"),
            'POST /step {"env_idx":5,"action":"x"}',
            (200, '{"observation":"page","reward":1.0,"terminated":true,"truncated":false,"info":{}}'),
            ("page", 1.0, True),
        ),
        (
            "webarena",
            ("step", "x"),
            'POST /step {"env_idx":5,"action":"x"}',
            (200, '{"observation":"Timeout 30000ms","reward":0,"terminated":false,"truncated":false,"info":null}'),
            ERROR,
        ),
        ("webarena", ("close",), 'POST /close {"env_idx":5}', (200, '"Close Env 5 time out."'), ERROR),
    ],
)
async def test_a_family_is_spoken_to_in_its_own_words(dialect_of, family, call, sent, reply, meaning):
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(f"{request.method} {request.url.raw_path.decode()} {request.content.decode()}")
        return httpx.Response(reply[0], content=reply[1])

    endpoint = Endpoint(build_http(transport=httpx.MockTransport(answer)), dialect_of(family), "http://host", call_seconds=1)
    name, *arguments = call
    try:
        got = await getattr(endpoint, name)(*(() if name == "create" else (SESSION, *arguments)))
    except EnvFailure as failure:
        got = failure.cause
    assert requests == [sent]
    assert got == (StepReply(observation=meaning[0], reward=meaning[1], done=meaning[2]) if isinstance(meaning, tuple) else meaning)


@pytest.mark.parametrize(
    ("family", "reply", "held"),
    [
        ("webarena", "ok", True),
        ("webarena", "nope", False),
        ("sqlgym", '"ok"', True),
        ("alfworld", '"This is environment AlfWorld."', True),
        ("sqlgym", '"This is environment TextCraft."', False),
    ],
)
async def test_a_family_is_told_by_its_greeting(dialect_of, family, reply, held):
    dialect = dialect_of(family)
    endpoint = Endpoint(
        build_http(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=reply))), dialect, "http://host", call_seconds=1
    )
    assert dialect.spec.routes.health.greeting.holds(*await endpoint.greeting()) is held


async def test_servers_under_a_prefix_are_reached_there(dialect_of):
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(200, json={"id": 0})

    await Endpoint(build_http(transport=httpx.MockTransport(answer)), dialect_of("wordle"), "http://host:36001/wordle/", call_seconds=1).create()
    assert paths == ["/wordle/create"]
