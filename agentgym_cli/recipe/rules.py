"""Rules between the values of a run that no single field can state. Each returns sentences ``key: expected, got``; reads no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentgym_cli.recipe.addresses import address_problem
from agentgym_cli.recipe.algorithm_rules import algorithm_rules
from agentgym_cli.recipe.features import lacking
from agentgym_cli.recipe.protocols import departures
from agentgym_cli.recipe.schema.algorithms import SftSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.learning import FixedHorizon, HorizonSpec, IncrementHorizon, StagesHorizon, TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.stored_rules import plays_training_tasks, stored_rules
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import KeyPath

KEY_VARIABLE = "policy.endpoint.key_variable"
"""Where a recipe names the variable with the key of its endpoint."""
Finding = tuple[KeyPath, str]
"""Where, and ``expected ..., got ...``."""
LEAST_TURN_TOKENS = {"words": 3, "chatml": 10, "template": 3}
"""Tokens of one turn with an empty observation and one sampled token, by turn format: no turn is shorter. A template is taken for the shortest."""


def broken_rules(run: Run) -> Iterator[Finding]:
    """What makes the run impossible."""
    yield from _world(run)
    yield from _policy(run)
    yield from _horizon(run)
    yield from _sizes(run)
    yield from algorithm_rules(run)
    yield from stored_rules(run)
    yield from lacking(run)
    yield from _turns(run)
    yield from _money(run)
    yield from _cluster(run)
    if run.train is None and run.evaluation.every is not None:
        yield ("evaluation", "every"), f"expected null where nothing is trained, got {run.evaluation.every}"
    if run.tasks.train is None and plays_training_tasks(run):
        yield ("tasks", "train"), "expected a split to train on, got null"
    names = [split.name for split in run.tasks.evaluation]
    if run.tasks.train is not None and run.tasks.train.name in names:
        place = names.index(run.tasks.train.name)
        yield ("tasks", "evaluation", place, "name"), f"expected another name than the training split's, got {shown(names[place])}"
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ("tasks", "evaluation", number, "name"), f"expected each split once, got {shown(name)} again"
    yield from _overlaps(run, names)


def doubts(run: Run) -> Iterator[Finding]:
    """What is possible and probably not meant."""
    yield from departures(run)
    if run.train is not None:
        yield from _unreached(run.horizon, run.train.steps)
        every = run.evaluation.every
        if every is not None and every >= run.train.steps:
            yield ("evaluation", "every"), f"expected fewer than the {run.train.steps} steps, got {every}: no evaluation falls in between"


def _world(run: Run) -> Iterator[Finding]:
    if run.env.urls is None and run.env.world is None:
        yield ("env",), "expected urls of running servers or the name of a world to serve, got neither"
    if run.env.urls is not None and not run.env.urls:
        yield ("env", "urls"), "expected at least one address or null, got an empty list"
    for number, url in enumerate(run.env.urls or ()):
        if (problem := address_problem(url)) is not None:
            yield ("env", "urls", number), f"expected http://HOST:PORT or https://HOST:PORT, got {problem}"


def _policy(run: Run) -> Iterator[Finding]:
    """Who acts has to be there."""
    endpoint, acts = run.policy.endpoint, run.evaluation.policy
    if run.policy.model is None and (run.train is not None or run.warm_start is not None):
        yield ("policy", "model"), "expected a model to train, got null"
    if run.policy.model is None and endpoint is None:
        yield ("policy",), "expected a model or an endpoint, got neither"
    if endpoint is None:
        if acts == "endpoint":
            yield ("evaluation", "policy"), "expected a section policy.endpoint beside it, got endpoint without one"
        return
    if (problem := address_problem(endpoint.url, variable=KEY_VARIABLE)) is not None:
        yield ("policy", "endpoint", "url"), f"expected http://HOST:PORT/v1 or https://HOST/v1, got {problem}"
    if endpoint.api == "completions" and run.policy.model is None:
        yield ("policy", "endpoint", "api"), "expected chat, or policy.model with the tokenizer that lays out tokens, got completions without one"
    if endpoint.return_token_ids == "required" and endpoint.logprobs == "off":
        yield ("policy", "endpoint", "logprobs"), "expected raw or processed, since a trajectory has log-probabilities, got off"


def _horizon(run: Run) -> Iterator[Finding]:
    horizon = run.horizon
    if isinstance(horizon, StagesHorizon):
        stages, lengths = len(horizon.turns), len(horizon.steps)
        if lengths not in (1, stages - 1, stages):
            yield ("horizon", "steps"), f"expected 1, {stages - 1} or {stages} lengths for {stages} stages, got {lengths}"
        for number in range(1, stages):
            if horizon.turns[number] < horizon.turns[number - 1]:
                yield (
                    ("horizon", "turns", number),
                    f"expected a horizon that never falls, got {horizon.turns[number]} after {horizon.turns[number - 1]}",
                )
    if isinstance(horizon, IncrementHorizon) and horizon.cap < horizon.start:
        yield ("horizon", "cap"), f"expected at least start ({horizon.start}), got {horizon.cap}"


def _sizes(run: Run) -> Iterator[Finding]:
    budgets, train = run.budgets, run.train
    if budgets.response_tokens >= budgets.context_tokens:
        yield ("budgets", "response_tokens"), f"expected less than context_tokens ({budgets.context_tokens}), got {budgets.response_tokens}"
    least = LEAST_TURN_TOKENS[run.prompt.turn_format]
    for path, turns in ((("horizon",), longest(run.horizon)), (("evaluation", "horizon"), run.evaluation.horizon)):
        if turns * least > budgets.context_tokens:
            most = budgets.context_tokens // least
            yield path, f"expected at most {most} turns, which is what fits {budgets.context_tokens} tokens of context at {least} a turn, got {turns}"
    if train is not None:
        episodes = train.tasks_per_step * train.algorithm.group_size
        if train.updates_per_step > episodes:
            yield ("train", "updates_per_step"), f"expected at most the {episodes} episodes of a step, got {train.updates_per_step}"


def _turns(run: Run) -> Iterator[Finding]:
    """The local engine lays out turns by a chat template, or by a format of our own, and ignores neither."""
    if run.engine.kind != "local" or run.prompt.turn_format == "template":
        return
    if run.policy.model is not None and run.policy.model.chat_template is not None:
        yield ("prompt", "turn_format"), f"expected template, since policy.model.chat_template names one, got {run.prompt.turn_format}"
    if run.prompt.history == "append":
        yield ("prompt", "history"), f"expected exact with turn format {run.prompt.turn_format}, which rewrites no turn, got append"


def _money(run: Run) -> Iterator[Finding]:
    """A limit in money needs the prices of both kinds of tokens."""
    if run.budgets.run_cost is None:
        return
    endpoint = run.policy.endpoint
    if endpoint is None or endpoint.price_per_million_input is None or endpoint.price_per_million_output is None:
        said = "no endpoint" if endpoint is None else "an endpoint without one of them"
        yield (("budgets", "run_cost"), f"expected policy.endpoint with price_per_million_input and price_per_million_output, got {said}")


def longest(horizon: HorizonSpec) -> int:
    """The largest horizon of a schedule, in turns."""
    if isinstance(horizon, FixedHorizon):
        return horizon.turns
    return max(horizon.turns) if isinstance(horizon, StagesHorizon) else horizon.cap


def _cluster(run: Run) -> Iterator[Finding]:
    """What an engine on several devices cannot divide."""
    if run.engine.kind != "verl":
        return
    if run.cluster is None:
        yield ("engine", "kind"), "expected local, or verl beside a section cluster that says how many GPUs it has, got verl without one"
        return
    if run.cluster.gpus_per_node and run.cluster.gpus_per_node % run.cluster.tensor_parallel:
        yield (
            ("cluster", "tensor_parallel"),
            f"expected a divisor of the {run.cluster.gpus_per_node} GPUs of a node, got {run.cluster.tensor_parallel}",
        )
    if run.train is not None:
        yield from _batches(run.train, run.cluster)
        yield from _imitated(run.train, run.cluster)
        yield from _whole_alpha(run.train)


def _imitated(train: TrainSpec, cluster: ClusterSpec) -> Iterator[Finding]:
    """verl's supervised trainer is started by torchrun on this machine, without Ray."""
    if not isinstance(train.algorithm, SftSpec):
        return
    # In a rehearsal a node is one process more on this machine.
    if cluster.nodes != 1 and cluster.gpus_per_node:
        yield ("cluster", "nodes"), f"expected 1 with algorithm sft, which verl trains on one machine, got {cluster.nodes}"
    if cluster.ray_address is not None:
        yield ("cluster", "ray_address"), f"expected null with algorithm sft, which needs no Ray, got {cluster.ray_address}"
    if cluster.max_staleness:
        yield ("cluster", "max_staleness"), f"expected 0 with algorithm sft, which plays no step ahead, got {cluster.max_staleness}"


def _whole_alpha(train: TrainSpec) -> Iterator[Finding]:
    """verl takes whole numbers alone."""
    if train.lora is not None and not train.lora.alpha.is_integer():
        yield ("train", "lora", "alpha"), f"expected a whole number with engine verl, got {train.lora.alpha:g}"


def _batches(train: TrainSpec, cluster: ClusterSpec) -> Iterator[Finding]:
    """verl hands each GPU the same number of episodes, in every update, and never splits a group."""
    tasks, updates, group = train.tasks_per_step, train.updates_per_step, train.algorithm.group_size
    if tasks % updates:
        yield ("train", "updates_per_step"), f"expected a divisor of the {tasks} tasks of a step, got {updates}"
    elif (tasks // updates) * group % cluster.gpus:
        share = (tasks // updates) * group
        yield (
            ("train", "tasks_per_step"),
            f"expected episodes of an update that {cluster.gpus} GPUs can share, got {share} ({tasks} tasks / {updates} updates x {group})",
        )


def _overlaps(run: Run, names: Sequence[str]) -> Iterator[Finding]:
    """Overlaps that are allowed or reported name an evaluation split."""
    allowed: list[tuple[KeyPath, str]] = [(("tasks", "allow_overlap", number), name) for number, name in enumerate(run.tasks.allow_overlap)]
    notes: list[tuple[KeyPath, str]] = [
        (("about", "reported_overlaps", number, "split"), note.split) for number, note in enumerate(run.about.reported_overlaps)
    ]
    for path, name in (*allowed, *notes):
        if name not in names:
            yield path, f"expected an evaluation split ({listed(names)}), got {shown(name)}{asked(name, names, before='; ')}"


def _unreached(horizon: object, steps: int) -> Iterator[Finding]:
    if isinstance(horizon, StagesHorizon):
        lengths = horizon.steps if len(horizon.steps) > 1 else horizon.steps * (len(horizon.turns) - 1)
        before_last = sum(lengths[: len(horizon.turns) - 1])
        if len(horizon.turns) > 1 and steps <= before_last:
            yield ("horizon",), f"expected every stage to be reached, got {steps} steps where the last stage starts after step {before_last}"
    if isinstance(horizon, IncrementHorizon):
        rises = -(-(horizon.cap - horizon.start) // horizon.increment)
        if rises > 0 and steps <= rises * horizon.every:
            yield ("horizon",), f"expected the cap to be reached, got {steps} steps where it is reached after step {rises * horizon.every}"
