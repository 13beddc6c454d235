"""The named questions of a diagnosis, of curves and of the matrix of tasks. Returns rows; computes no rate."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_cli.store.db import Connection
from agentgym_cli.store.diagnosis_rows import AgeRow, AxisRow, CutRow, GapRow, LoopRow, MatrixRow, VerdictRow
from agentgym_cli.store.queries import fetch

REPEATS = 4
"""The same action so many times in a row is a loop."""
LATEST_TURNS = 20_000
"""Loops are looked for in so many of the run's last turns, so that a large run can be asked too."""
LATEST_ATTEMPTS = 200_000
"""The same for stalls."""
MOST_GAPS = 5
_BLOCK = 10_000

_CUTS = """
select phase, horizon, count(*) as scheduled, count(*) filter (truncated) as truncated
from episodes_final where run = ? and horizon is not null and phase != 'warm_start'
group by phase, horizon
order by phase, horizon
"""
_VERDICTS = """
select
    step, count(reward) as rewards, coalesce(sum(reward), 0) as reward_sum, count(*) filter (outcome in ('success', 'failure')) as scored,
    count(*) filter (outcome = 'success') as success, count(*) filter (by_verifier and outcome in ('success', 'failure')) as by_verifier
from episodes_final where run = ? and phase = 'train'
group by step
order by step
"""
_AGES = """
select greatest(step - 1 - policy_version, 0) as age, sum(action_tokens)::bigint as tokens
from episodes_final where run = ? and phase = 'train' and policy_version is not null and action_tokens > 0
group by age
order by age
"""
_LOOPS = f"""
with latest as (
    select episode, attempt, turn, action from turns
    where run = ? and action is not null and rowid > (select max(rowid) - {LATEST_TURNS} from turns where run = ?)
    -- An attempt that was made again after a resume stands in both segments.
    qualify rank() over (partition by episode, attempt order by segment desc) = 1
),
marked as (
    select
        episode, attempt,
        {" and ".join(f"action = lag(action, {back}) over w" for back in range(1, REPEATS))} as again
    from latest window w as (partition by episode, attempt order by turn)
),
each as (select episode, attempt, coalesce(bool_or(again), false) as looping from marked group by episode, attempt)
select count(*) as attempts, count(*) filter (looping) as looping, min(episode) filter (looping) as example from each
"""
_GAPS = f"""
with ends as (
    select
        segment, episode, run_seconds, seconds, policy_seconds, env_seconds,
        lag(run_seconds) over w as last_seconds, lag(episode) over w as last_episode
    from attempts
    where run = ? and run_seconds is not null and rowid > (select max(rowid) - {LATEST_ATTEMPTS} from attempts where run = ?)
    window w as (partition by segment order by run_seconds)
),
gaps as (select *, run_seconds - last_seconds as gap from ends where last_seconds is not null),
typical as (select median(gap) as usual from gaps)
select
    segment, gap as gap_seconds, usual, split_part(last_episode, '/', 1) as before_phase,
    coalesce(try_cast(split_part(last_episode, '/', 3) as bigint), 0) as before_step, split_part(episode, '/', 1) as phase,
    coalesce(try_cast(split_part(episode, '/', 3) as bigint), 0) as step, seconds as attempt_seconds, policy_seconds, env_seconds, episode
from gaps, typical
order by gap desc
limit {MOST_GAPS}
"""
_AXIS = """
select e.step, max(a.run_turns) as turns, max(a.run_tokens_sampled) as tokens, max(a.run_seconds) as seconds
from episodes_final e join attempts a on a.run = e.run and a.segment = e.segment and a.episode = e.episode
where e.run = ? and e.phase = 'train'
group by e.step
order by e.step
"""
# Numbers are chosen first: grouping all episodes by the names of their tasks would cost several times as much.
_MATRIX = """
with numbers as (select split, task_index from episodes_final where run = ? and phase like 'eval%' group by split, task_index),
shown as (
    select *, count(*) over (partition by split) as of from numbers
    qualify row_number() over (partition by split order by task_index) <= ?
)
select
    e.split, e.task, min(e.category) as category, e.phase, e.step, count(*) as scheduled,
    count(*) filter (e.outcome = 'success') as success, count(*) filter (e.outcome = 'failure') as failure,
    count(*) filter (e.outcome = 'infra_error') as infra_error, count(*) filter (e.outcome = 'missing') as missing, n.of as tasks
from episodes_final e join shown n on n.split = e.split and n.task_index = e.task_index
where e.run = ? and e.phase like 'eval%'
group by e.split, e.task, n.of, e.phase, e.step
order by e.split, min(e.task_index), e.task, e.step, e.phase
"""
EPISODE_COLUMNS = (
    "run", "segment", "episode", "phase", "split", "step", "task", "task_index", "task_digest", "category", "goal", "sample", "horizon", "outcome",
    "first_outcome", "attempts", "attempt", "reward", "by_verifier", "stop", "cause", "truncated", "action_induced", "detail", "turns_count",
    "invalid_actions", "prompt_tokens", "action_tokens", "policy_version", "seconds", "policy_seconds", "env_seconds", "replica",
)  # fmt: skip
"""Columns of ``episodes_final`` in the order of ``episodes``."""
_EPISODES = f"select {', '.join(EPISODE_COLUMNS)} from episodes_final where run = ? order by phase, split, step, task_index, task, sample"


def cuts(connection: Connection, run: str) -> list[CutRow]:
    """Episodes and truncated ones by phase and horizon."""
    return fetch(connection, CutRow, _CUTS, [run])


def verdicts(connection: Connection, run: str) -> list[VerdictRow]:
    """Rewards and outcomes of training by step."""
    return fetch(connection, VerdictRow, _VERDICTS, [run])


def ages(connection: Connection, run: str) -> list[AgeRow]:
    """Tokens of training by the age of the weights that sampled them."""
    return fetch(connection, AgeRow, _AGES, [run])


def loops(connection: Connection, run: str) -> LoopRow:
    """How many of the latest attempts repeat themselves."""
    return fetch(connection, LoopRow, _LOOPS, [run, run])[0]


def gaps(connection: Connection, run: str) -> list[GapRow]:
    """The longest times without an end of an attempt, the longest first."""
    return fetch(connection, GapRow, _GAPS, [run, run])


def axis(connection: Connection, run: str) -> list[AxisRow]:
    """What a run had taken at each training step."""
    return fetch(connection, AxisRow, _AXIS, [run])


def matrix(connection: Connection, run: str, most: int) -> list[MatrixRow]:
    """Up to ``most`` tasks of each split, by number, in every evaluation."""
    return fetch(connection, MatrixRow, _MATRIX, [run, most, run])


def episodes(connection: Connection, run: str) -> Iterator[tuple[object, ...]]:
    """Every scheduled episode that counts, as ``EPISODE_COLUMNS``, in blocks so that a large run fits in memory."""
    cursor = connection.execute(_EPISODES, [run])
    while block := cursor.fetchmany(_BLOCK):
        yield from block
    cursor.fetchall()
