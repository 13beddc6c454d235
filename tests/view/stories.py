"""Runs as their journals would tell them: an evaluation, another one of the same tasks, a training that was resumed, and a hostile one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentgym_cli.store.records import AttemptRecord, Record, ScheduledRecord, TokensRecord
from tests.report.runs import FROZEN
from tests.store.builders import NOW, make_attempt, make_metric, make_outcome, make_run, make_scheduled, make_segment, make_turn, settled

LONG = "".join(f"{number:06d}|" for number in range(18_000))
"""Text of 126,000 characters in which every place can be told from every other."""
HOSTILE = '<script>document.title="run"</script><img src=x onerror=alert(1)>\x1b[31m\u202eexe\x00 & \'"</main>'
TOKENS = TokensRecord(token_ids=(3, 4, 5, 6, 7), action_mask=(False, False, True, True, True), logprobs=(0.0, 0.0, -0.01, -2.0, -0.693147))


def with_turns(scheduled: ScheduledRecord, outcome: str, actions: Sequence[str], **changes: object) -> AttemptRecord:
    """An attempt that did these things, one a turn."""
    turns = tuple(
        make_turn(number, observation=f"seen {number}", text=f"Thought: so\nAction: {action}", action=action, done=number == len(actions))
        for number, action in enumerate(actions, start=1)
    )
    return replace(make_attempt(scheduled, outcome, turns=len(turns), **changes), turns=turns)  # type: ignore[arg-type]


def _evaluation(run: str, outcomes: Sequence[str]) -> list[Record]:
    """Ten tasks of two categories; the third has an infra error first, and a retry."""
    records: list[Record] = [make_run(run, verb="eval", frozen=FROZEN), make_segment(run=run)]
    for number, outcome in enumerate(outcomes):
        scheduled = make_scheduled(number, run=run, category=f"depth {1 + number % 2}", goal=f"goal {number}", horizon=6)
        if number == 2:
            records += _retried(scheduled)
        elif number == 3:
            attempt = with_turns(scheduled, outcome, ["look", f"take {run}", "drop"])
            records += [scheduled, replace(attempt, tokens=TOKENS, final_observation=LONG), make_outcome(attempt)]
        else:
            records += settled(scheduled, outcome, turns=1 + number)
    return [*records, make_segment(run=run, ended=NOW, status="finished")]


def _retried(scheduled: ScheduledRecord) -> list[Record]:
    first, second = make_attempt(scheduled, "infra_error"), make_attempt(scheduled, "success", 2, turns=3)
    return [scheduled, first, second, make_outcome(second, attempts=2, first="infra_error")]


def _resumed() -> list[list[Record]]:
    """Training of six steps with horizons 6 and 9; the last two steps were done again. It is not over."""

    def step(number: int, segment: int) -> list[Record]:
        scheduled = make_scheduled(number, run="t", segment=segment, phase="train", split="train", step=number, horizon=6 if number < 4 else 9)
        metrics = [
            make_metric(name, value, number, segment=segment, run="t")
            for name, value in (("success", 0.1 * number), ("horizon", 6.0 if number < 4 else 9.0))
        ]
        return [*settled(scheduled, "success" if number % 2 else "failure"), *metrics]

    first = [make_run("t", frozen=FROZEN), make_segment(run="t"), *(record for number in range(1, 7) for record in step(number, 1))]
    again = [make_segment(2, 4, run="t"), *(record for number in (5, 6) for record in step(number, 2))]
    return [first, again]


def _hostile() -> list[Record]:
    """Everything that models and worlds may write is hostile; the second turn was shown a long text."""
    scheduled = make_scheduled(0, run="h <b>", goal=HOSTILE, category="<i>c</i>", horizon=6)
    turns = (
        make_turn(1, observation=HOSTILE, text=f"Thought: {HOSTILE}\nAction: </div>", action="</div>"),
        make_turn(2, observation=LONG, text="x", action=HOSTILE, valid=False, cut=True),
    )
    attempt = replace(make_attempt(scheduled, "failure"), turns=turns, final_observation=HOSTILE, detail=HOSTILE, replica=HOSTILE)
    return [make_run("h <b>", name="<u>r</u>", policy="<s>p</s>"), make_segment(run="h <b>"), scheduled, attempt, make_outcome(attempt)]


def _long() -> list[Record]:
    """An episode of 100 turns, one that was never played, and one of a category with a long name, whose first response was cut."""
    scheduled = make_scheduled(0, run="long", horizon=100)
    attempt = make_attempt(scheduled, "success", turns=100)
    cut = make_scheduled(2, run="long", category="endless " * 1_000)
    short = replace(make_attempt(cut, "failure"), turns=(make_turn(1, text="cut sho", cut=True), make_turn(2)))
    ends = [cut, short, make_outcome(short)]
    return [make_run("long"), make_segment(run="long"), scheduled, attempt, make_outcome(attempt), make_scheduled(1, run="long"), *ends]


def _judged() -> list[Record]:
    """A training whose evaluation has a success of task 5, which it failed in training later by number."""
    outcomes = [("eval_after", 6, "success"), ("train", 7, "failure")]
    records: list[Record] = [make_run("t2", frozen=FROZEN), make_segment(run="t2")]
    for phase, step, outcome in outcomes:
        records += settled(make_scheduled(5, run="t2", phase=phase, step=step, horizon=6), outcome)
    return [*records, make_segment(run="t2", ended=NOW, status="finished")]


def _other_end() -> list[Record]:
    """Tasks 4 and 5 as in run ``a``, but task 4 ended in another place."""
    fifth = make_scheduled(5, run="c", horizon=6)
    fourth = make_scheduled(4, run="c", horizon=6)
    attempt = replace(make_attempt(fourth, "failure", turns=5), final_observation="elsewhere")
    return [make_run("c"), make_segment(run="c"), *settled(fifth, "failure"), fourth, attempt, make_outcome(attempt)]


_A = ("success", "failure", "success", "failure", "failure", "success", "infra_error", "missing", "success", "failure")
_B = ("success", "success", "success", "failure", "failure", "failure", "infra_error", "missing", "success", "success")
RUNS: Mapping[str, list[list[Record]]] = {
    "a": [_evaluation("a", _A)],
    "b": [_evaluation("b", _B)],
    "t": _resumed(),
    "t2": [_judged()],
    "c": [_other_end()],
    "h <b>": [_hostile()],
    "long": [_long()],
}
