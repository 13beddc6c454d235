"""AgentGym's other families, shipped or described here: each reads replies as its servers were recorded or documented to give them."""

from __future__ import annotations

import httpx
import pytest

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import Dialect, load_dialect, shipped_dialects
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.wire import build_http
from agentgym_cli.episode.actions import action_text, read_action

LINES = """
name: lines
default_port: 36001
prompt: prompt.txt
session: {field: id, recycled: false}
done_sticky: true
routes:
  health: {call: GET /available_actions, greeting: {pointer: ""}}
  create: {call: POST /create, session: /id}
  reset: {call: POST /reset, task_field: seed, observation: /observation}
  step: {call: POST /step, action_field: action, action_suffix: "\\n", observation: /observation, reward: /reward, done: /done}
errors: [{pointer: /error}]
actions: {plain: {pattern: null}}
success: {reward_kind: terminal, at_least: 1}
probe_actions: [look]
"""
"""A family whose server wants a line feed after every action."""


@pytest.fixture
def dialect_of(tmp_path):
    def load(family: str) -> Dialect:
        if family in shipped_dialects():
            return load_dialect(family)
        (tmp_path / "prompt.txt").write_text("Act.")
        (tmp_path / "lines.yaml").write_text(LINES)
        return load_dialect(tmp_path / "lines.yaml")

    return load


SESSION = 5
ERROR, CRASH, MISSING, PROTOCOL = InfraCause.REPORTED_ERROR, InfraCause.SERVER_5XX, InfraCause.SERVER_4XX, InfraCause.PROTOCOL


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
            (200, '{"id":5,"observation":"You are","available_actions":["go to bed 1","look"],"task_type":"x"}'),
            "You are\nAVAILABLE ACTIONS: go to bed 1, look",
        ),
        ("alfworld", ("reset", 9), 'POST /reset {"world_type":"Text","id":5,"game":9}', (200, '{"id":5,"observation":"You are"}'), PROTOCOL),
        (
            "alfworld",
            ("step", "look"),
            'POST /step {"id":5,"action":"look"}',
            (200, '{"observation":"A bed.","reward":0.0,"available_actions":["look"],"done":false}'),
            ("A bed.\nAVAILABLE ACTIONS: look", 0.0, False),
        ),
        (
            "alfworld",
            ("step", "look"),
            'POST /step {"id":5,"action":"look"}',
            (200, '{"observation":"You won.","reward":1.0,"available_actions":["look"],"done":true}'),
            ("You won.", 1.0, True),
        ),
        (
            "alfworld",
            ("step", "look"),
            'POST /step {"id":5,"action":"look"}',
            (200, '{"observation":"A bed.","reward":0.0,"available_actions":"look","done":false}'),
            PROTOCOL,
        ),
        ("alfworld", ("step", "look"), 'POST /step {"id":5,"action":"look"}', (200, '{"error":"The task with environment 5 has finished."}'), ERROR),
        (
            "lines",
            ("step", "p a n i c"),
            'POST /step {"id":5,"action":"p a n i c\\n"}',
            (200, '{"observation":"b y b b b\\n","reward":0,"done":false}'),
            ("b y b b b\n", 0.0, False),
        ),
        ("lines", ("reset", 0), 'POST /reset {"id":5,"seed":0}', (422, '{"detail":[]}'), MISSING),
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
        ("maze", ("create",), "POST /maze/create {}", (200, '{"id":0}'), 0),
        (
            "maze",
            ("step", "move right"),
            'POST /maze/step {"id":5,"action":"move right"}',
            (200, '{"observation":"Success\\n","reward":1.0,"done":true}'),
            ("Success\n", 1.0, True),
        ),
        ("maze", ("reset", 26), 'POST /maze/reset {"id":5,"game":26}', (200, '{"error":"The game 26 is not valid."}'), ERROR),
        ("wordle", ("observe",), "GET /wordle/observation?id=5 ", (200, '"invalid word"'), "invalid word"),
        ("webshop", ("create",), "POST /create {}", (200, "48950076"), 48950076),
        ("webshop", ("reset", 3), 'POST /reset {"env_idx":5,"session_id":3}', (200, '["WebShop [SEP] Search",null]'), "WebShop [SEP] Search"),
        ("webshop", ("reset", 3), 'POST /reset {"env_idx":5,"session_id":3}', (200, '{"error":"x"}'), PROTOCOL),
        (
            "webshop",
            ("step", "click[buy now]"),
            'POST /step {"env_idx":5,"action":"click[buy now]"}',
            (200, '{"state":"Thank you","reward":0.75,"done":true,"info":null}'),
            ("Thank you", 0.75, True),
        ),
        ("weather", ("create",), 'POST /create {"id":0}', (200, "0"), 0),
        ("todo", ("reset", 2), 'POST /reset {"env_idx":5,"id":2}', (200, '"Now new trial starts."'), "Now new trial starts."),
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

    await Endpoint(build_http(transport=httpx.MockTransport(answer)), dialect_of("lines"), "http://host:36001/wordle/", call_seconds=1).create()
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
        ("alfworld", "react", "Thought: x\n\nAction:\ngo to fridge 1", "go to fridge 1"),
        ("alfworld", "react", "go to fridge 1", ""),
        ("webshop", "react", "Thought: x\nAction: \nclick[b07]", "click[b07]"),
        ("webshop", "react", "I would search[red shoes]", "I would search[red shoes]"),
        ("webshop", "react", "I would rather not", ""),
        ("sqlgym", "code_block", "Thought: x\n\nAction: ```sql\nSELECT 1;\n```", "SELECT 1;"),
        ("sqlgym", "code_block", "```sql\nSELECT 1\n``` or ```sql\nSELECT 2\n```", "SELECT 2"),
        ("sqlgym", "code_block", "```sql\nSELECT 1", "SELECT 1"),
        ("sqlgym", "code_block", "SELECT 1", "SELECT 1"),
        ("sqlgym", "code_block", "So: ```SELECT 1```", "SELECT 1"),
        ("sqlgym", "plain", " SELECT 1\n", "SELECT 1"),
        ("maze", "react", "Thought: x\nAction:\nmove up", "move up"),
        ("maze", "react", "Action: move up\nAction: move down", "move up"),
        ("maze", "react", "move up", "move up"),
        ("wordle", "react", "Thought: x\n\nAction:\ns h i r e", "s h i r e"),
        ("weather", "plain", "Thought: x\n\nAction: a with Action Input: {}", "Thought: x\n\nAction: a with Action Input: {}"),
        ("weather", "react", 'Thought: x\n\nAction: a with Action Input: {\n"b": 1}', 'Action: a with Action Input: {"b": 1}'),
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
        ("webshop", [0.0, 0.75], False),
        ("webshop", [0.0, 1.0], True),
        ("maze", [0.0, 1.0], True),
        ("maze", [0.0, -1.0], False),
        ("wordle", [0.0, 0.0], False),
        ("movie", [0.5, 0.5], False),
        ("weather", [0.0, 1.0], True),
    ],
)
def test_what_counts_as_a_success_of_a_family_that_is_done(family, rewards, met):
    assert load_dialect(family).spec.success.met(rewards) is met


def test_a_random_policy_finds_the_listed_actions_of_babyai_and_sciworld():
    babyai = 'You see a key.\nAvailable actions: ["turn left", "go to grey key 1", "check available actions"]'
    assert load_dialect("babyai").spec.random.found(babyai) == ["turn left", "go to grey key 1"]
    sciworld = "You also see:\n\tA door to the art studio (that is closed)\n\tA door to the kitchen (that is open)"
    assert load_dialect("sciworld").spec.random.found(sciworld) == ["open door to art studio", "go to kitchen"]


def test_a_random_policy_finds_what_other_families_list():
    alfworld = "A room.\nAVAILABLE ACTIONS: go to cabinet 1, inventory, put mug 1 in/on desk 1"
    assert load_dialect("alfworld").spec.random.found(alfworld) == ["go to cabinet 1", "put mug 1 in/on desk 1"]
    assert load_dialect("wordle").spec.random.found("Start!\nAccepted words: panic, solar") == ["panic", "solar"]
    page = "Instruction: [SEP] Find me red shoes, size 9 [SEP] Back to Search [SEP] B07XYZ1234 [SEP] Buy Now"
    assert load_dialect("webshop").spec.random.found(page) == [
        "click[Back to Search]",
        "click[B07XYZ1234]",
        "click[Buy Now]",
        "search[Find me red shoes]",
    ]
    assert load_dialect("webshop").spec.goal_in(page) == "Find me red shoes, size 9"


def test_a_known_action_said_as_a_code_block_stays_a_block_for_the_server_that_reads_it():
    assert read_action(action_text("scroll [down]", "code_block"), load_dialect("webarena").rules().actions["code_block"]).action == (
        "```scroll [down]```"
    )
