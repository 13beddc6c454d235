"""Which rules of a diagnosis a run breaks: each with its threshold, the numbers, the rows behind them, and what to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentgym_cli.report.diagnosis_learning import (
    dropped_groups,
    entropy,
    gradient_norm,
    kl,
    logp_difference,
    policy_age,
    reward_without_verifier,
    still_clipping,
    zero_variance,
)
from agentgym_cli.report.diagnosis_playing import invalid_actions, repeated_actions, slow_world, stalls, truncation
from agentgym_cli.report.signals import Signals
from agentgym_cli.report.verdict import FOUND, NO_DATA, QUIET, Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that goes wrong."""

    name: str
    threshold: str
    """When it is called out, in words."""
    advice: str
    rows: str
    """SQL behind the numbers; ``{run}`` is the run's name as a literal."""
    judge: Callable[[Signals], Verdict]


_METRIC = "select step, value from metrics_final where run = {{run}} and phase = 'train' and name = '{}' order by step"
_EPISODES = "from episodes_final where run = {run}"

RULES: tuple[Rule, ...] = (
    Rule(
        name="groups without variance",
        threshold="more than 50% of the planned groups have one reward in all their episodes",
        advice="tasks nearer to what the policy half solves, larger groups, or a higher temperature; such groups teach nothing",
        rows=_METRIC.format("groups_zero_variance"),
        judge=zero_variance,
    ),
    Rule(
        name="dropped groups",
        threshold="more than 5% of the planned groups are dropped for want of scored episodes",
        advice="look at the causes of infra errors first; then more retries (retry.attempts), or fewer sessions at once on each server",
        rows=_METRIC.format("groups_dropped"),
        judge=dropped_groups,
    ),
    Rule(
        name="truncation",
        threshold="more than 30% of the episodes of one phase and horizon (20 episodes or more) are cut",
        advice="a longer horizon or a later stage, more tokens of context; read a cut episode to see whether it was getting anywhere",
        rows="select phase, horizon, truncated, count(*) " + _EPISODES + " group by all order by all",
        judge=truncation,
    ),
    Rule(
        name="invalid actions",
        threshold="more than 10% of the turns of one phase (100 turns or more) hold no action that the world can execute",
        advice="the prompt's action format, a warm start on demonstrations, more response tokens where responses are cut",
        rows="select phase, sum(invalid_actions), sum(turns_count) " + _EPISODES + " group by all order by all",
        judge=invalid_actions,
    ),
    Rule(
        name="entropy",
        threshold="the mean of the last third of the steps is below a fifth of the first third's",
        advice="a smaller learning rate, fewer updates per step, an entropy bonus; a policy that always says the same stops exploring",
        rows=_METRIC.format("entropy"),
        judge=entropy,
    ),
    Rule(
        name="KL",
        threshold="at some step the policy moved more than 0.1 nats a token away from the one that sampled",
        advice="a smaller learning rate, fewer updates per step, a smaller clip",
        rows=_METRIC.format("approx_kl"),
        judge=kl,
    ),
    Rule(
        name="clip fraction",
        threshold="in the last third of the steps more than 30% of the tokens are clipped on average",
        advice="a smaller learning rate or fewer updates per step: most of the gradient is thrown away",
        rows=_METRIC.format("clip_fraction"),
        judge=still_clipping,
    ),
    Rule(
        name="gradient norm",
        threshold="at some step it is more than 10 times its median over all steps",
        advice="look at the episodes of that step; a smaller train.max_gradient_norm bounds what one step can do",
        rows=_METRIC.format("gradient_norm"),
        judge=gradient_norm,
    ),
    Rule(
        name="trainer and sampler",
        threshold="at some step the log-probabilities of a token differ by more than 0.1 nats between the two",
        advice="compare weights, precision and chat template of both; agentgym report RUN --episode ID --tokens shows a trajectory as sampled",
        rows=_METRIC.format("logp_difference_max"),
        judge=logp_difference,
    ),
    Rule(
        name="policy age",
        threshold="more than 10% of the sampled tokens come from weights that are more than one step old",
        advice="weights that reach the sampler sooner, or fewer episodes in flight",
        rows="select step, policy_version, sum(action_tokens) " + _EPISODES + " and phase = 'train' group by all order by all",
        judge=policy_age,
    ),
    Rule(
        name="reward without verifier",
        threshold="from the first to the last third of the steps the mean reward rises by more than twice its standard error, while the share "
        "of episodes that the verifier passes rises by less than 2 points",
        advice="the policy is learning the reward and not the task: read episodes with a high reward that the verifier fails",
        rows="select step, avg(reward), avg((outcome = 'success')::int) "
        + _EPISODES
        + " and phase = 'train' and by_verifier group by all order by all",
        judge=reward_without_verifier,
    ),
    Rule(
        name="repeated actions",
        threshold="more than 10% of the attempts among the last 20,000 turns (20 attempts or more) send one action 4 times in a row",
        advice="say in the prompt that what an action without effect is worth; a higher temperature; look at what the world answers",
        rows="select episode, attempt, turn, action from turns where run = {run} order by episode, attempt, turn",
        judge=repeated_actions,
    ),
    Rule(
        name="slow world",
        threshold="the 95th percentile of a turn's time in the world is above 5 s in some phase, or above 0.5 s while the world takes more than half "
        "of the attempts' time",
        advice="more replicas (env.replicas, env.urls), fewer episodes at once, agentgym probe RECIPE --level full for the server's own numbers",
        rows="select episode, attempt, turn, env_seconds from turns where run = {run} order by env_seconds desc limit 50",
        judge=slow_world,
    ),
    Rule(
        name="stalls",
        threshold="among the last 200,000 attempts none ended for more than 60 s and for more than 20 times as long as is usual",
        advice="look at what the named phase waits for: the world, the policy, or the update between two steps",
        rows="select segment, episode, run_seconds, seconds from attempts where run = {run} order by segment, run_seconds",
        judge=stalls,
    ),
)


def diagnose(signals: Signals, run: str) -> tuple[Finding, ...]:
    """Every rule's word on a run, those that found something first."""
    literal = "'" + run.replace("'", "''") + "'"
    order = (FOUND, QUIET, NO_DATA)
    return tuple(sorted((_finding(rule, rule.judge(signals), literal) for rule in RULES), key=lambda finding: order.index(finding.state)))


def _finding(rule: Rule, verdict: Verdict, run: str) -> Finding:
    state = NO_DATA if verdict.fired is None else FOUND if verdict.fired else QUIET
    return Finding(rule=rule.name, state=state, said=verdict.said, threshold=rule.threshold, advice=rule.advice, rows=rule.rows.replace("{run}", run))


def rules_table() -> str:
    """The rules as a Markdown table."""
    lines = ["| rule | called out when | what to try |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {rule.name} | {rule.threshold} | {rule.advice} |" for rule in RULES)]) + "\n"
