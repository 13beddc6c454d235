"""AgentGym's other families, shipped or described here: each reads replies as its servers were recorded or documented to give them."""

from __future__ import annotations

import httpx
import pytest

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import Dialect, load_dialect, shipped_dialects
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.wire import build_http
from agentgym_cli.episode.actions import action_text, read_action

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
}


@pytest.fixture
def dialect_of(tmp_path):
    def load(family: str) -> Dialect:
        if family in shipped_dialects():
            return load_dialect(family)
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
            (200, '{"observation":"no","reward":0.27,"score":0.81,"done":false}'),
            ("no", 0.0, False),
        ),
        (
            "babyai",
            ("step", "go"),
            'POST /step {"id":5,"action":"go"}',
            (200, '{"observation":"The task is completed.","reward":0.91,"score":0.91,"done":true}'),
            ("The task is completed.", 0.91, True),
        ),
        ("babyai", ("reset", -1), 'POST /reset {"id":5,"data_idx":-1}', (200, '{"error":"Seed must be greater"}'), ERROR),
        (
            "sciworld",
            ("reset", 9),
            'POST /reset {"id":5,"data_idx":9}',
            (200, '{"task_description":"Boil water.","observation":"A hallway.","reward":0,"score":0,"done":false}'),
            "Boil water.\nA hallway.",
        ),
        (
            "sciworld",
            ("step", "focus on air"),
            'POST /step {"id":5,"action":"focus on air"}',
            (200, '{"observation":"You focus.","reward":-103,"score":-100,"done":true}'),
            ("You focus.", -100.0, True),
        ),
        ("sciworld", ("close",), 'POST /close {"id":5}', (500, "Internal Server Error"), CRASH),
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
        ("searchqa", ("observe",), "GET /observation?env_idx=5 ", (200, '"Who?"'), "Who?"),
        ("searchqa", ("reset", 221328), 'POST /reset {"env_idx":5,"id":221328}', (500, "Internal Server Error"), CRASH),
        (
            "searchqa",
            ("step", "<answer>Rome</answer>"),
            'POST /step {"env_idx":5,"action":"<answer>Rome</answer>"}',
            (200, '{"observation":"Sorry","reward":0.0,"done":false,"info":null}'),
            ("Sorry", 0.0, False),
        ),
        ("searchqa", ("close",), 'POST /close {"env_idx":5}', (200, "false"), ERROR),
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
        (
            "webarena",
            ("step", "x"),
            'POST /step {"env_idx":5,"action":"x"}',
            (200, '{"observation":"page","reward":1.0,"terminated":false,"truncated":false,"info":{}}'),
            ("page", 0.0, False),
        ),
        (
            "webarena",
            ("step", "```clic [7]```"),
            'POST /step {"env_idx":5,"action":"```clic [7]```"}',
            (200, '{"observation":"Invalid action clic [7]","reward":0,"terminated":false,"truncated":false,"info":null}'),
            ("Invalid action clic [7]", 0.0, False),
        ),
        ("webarena", ("close",), 'POST /close {"env_idx":5}', (200, '{"closed":"closed"}'), None),
        ("webarena", ("close",), 'POST /close {"env_idx":5}', (200, '{"closed":"Close Env 5 time out."}'), ERROR),
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


async def test_a_first_observation_can_come_from_the_observe_route():
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(f"{request.method} {request.url.raw_path.decode()}")
        page = {"observation": "[1] link", "sites": ["map"], "object": "Find it."}
        return httpx.Response(200, json=page if request.method == "POST" else "OBSERVATION: [1] link OBJECTIVE: Find it.")

    endpoint = Endpoint(build_http(transport=httpx.MockTransport(answer)), load_dialect("webarena"), "http://host", call_seconds=1)
    assert await endpoint.reset(SESSION, 7) == "OBSERVATION: [1] link OBJECTIVE: Find it."
    assert requests == ["POST /reset", "GET /observation?env_idx=5"]


@pytest.mark.parametrize(
    ("family", "action_format", "text", "action"),
    [
        ("babyai", "react", "Thought: a ball\nAction: go to `red ball 1`.", "go to red ball 1"),
        ("babyai", "react", "Action: turn left\nAction: turn right", None),
        ("sciworld", "react", "Thought: the Action: is next\nAction:\nopen door to kitchen\n", "open door to kitchen"),
        ("sciworld", "react", "Action: look around\nAction: pick up thermometer (in box)", "pick up thermometer (in box)"),
        ("sciworld", "react", "open door to kitchen", ""),
        ("searchqa", "plain", " <think>It is Rome.</think> <answer>Rome</answer>\n", "<think>It is Rome.</think> <answer>Rome</answer>"),
        ("webarena", "code_block", "So I do ```click [7]```, once.", "So I do ```click [7]```, once."),
        ("webarena", "code_block", "One:\n```\nstop [N/A]\n```", "One:\n```\nstop [N/A]\n```"),
        ("webarena", "code_block", "So I do ```click [7]", None),
    ],
)
def test_a_family_reads_actions_as_its_own_client_does(family, action_format, text, action):
    parsed = read_action(text, load_dialect(family).rules().actions[action_format])
    assert (parsed.action if parsed.local_observation is None else None) == action


@pytest.mark.parametrize(
    ("family", "rewards", "met"),
    [
        ("babyai", [0.0, 0.91], True),
        ("babyai", [0.0, 0.0], False),
        ("sciworld", [17.0, 100.0], True),
        ("sciworld", [100.0, 99.0], False),
        ("sciworld", [17.0, -100.0], False),
        ("searchqa", [0.0, 1.0], True),
        ("webarena", [0.0, 0.0], False),
        ("webarena", [1.0], True),
    ],
)
def test_what_counts_as_a_success_of_a_family_that_is_done(family, rewards, met):
    assert load_dialect(family).spec.success.met(rewards) is met


def test_a_random_policy_finds_the_listed_actions_of_babyai_and_sciworld():
    babyai = 'You see a key.\nAvailable actions: ["turn left", "go to grey key 1", "check available actions"]'
    assert load_dialect("babyai").spec.random.found(babyai) == ["turn left", "go to grey key 1"]
    sciworld = "You also see:\n\tA door to the art studio (that is closed)\n\tA door to the kitchen (that is open)"
    assert load_dialect("sciworld").spec.random.found(sciworld) == ["open door to art studio", "go to kitchen"]


def test_a_known_action_said_as_a_code_block_stays_a_block_for_the_server_that_reads_it():
    assert read_action(action_text("scroll [down]", "code_block"), load_dialect("webarena").rules().actions["code_block"]).action == (
        "```scroll [down]```"
    )
