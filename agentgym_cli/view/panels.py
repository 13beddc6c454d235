"""What stands around the turns of an attempt, on its page and in its exported file: budgets, what the verifier saw, the other attempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.face import settings
from agentgym_cli.report.frozen import at, number, read_document
from agentgym_cli.report.html_text import Child, Html, element
from agentgym_cli.store.db import Connection
from agentgym_cli.store.episode_queries import turns_from
from agentgym_cli.store.episode_rows import AttemptKey, EpisodeRow, TryRow
from agentgym_cli.store.rows import RunRow
from agentgym_cli.view.foreign import one_line
from agentgym_cli.view.frame import facts, table


def panels(connection: Connection, run: RunRow, row: EpisodeRow, key: AttemptKey, chosen: TryRow, *, last: Html) -> Html:
    """Budgets and verdict beside each other; ``last`` is what the world showed last."""
    parts = (_budgets(connection, run, row, key, chosen), _verdict(run, row, chosen, last))
    return element("div", *parts, attributes={"class": "panels"})


def _budgets(connection: Connection, run: RunRow, row: EpisodeRow, key: AttemptKey, chosen: TryRow) -> Html:
    document = read_document(run.frozen)
    last = turns_from(connection, key, first=max(1, chosen.turns), most=1, longest=0)
    context = last[0].context_tokens if last else None
    bars = [_bar("turns", chosen.turns, None if row.horizon is None else float(row.horizon), "")]
    bars += [_bar("tokens of context", context, number(at(document, "config", "budgets", "context_tokens")), "")] if context else []
    bars += [_bar("seconds", chosen.seconds, number(at(document, "config", "budgets", "episode_seconds")), " s")]
    spent: list[tuple[str, Child]] = [
        ("tokens sampled", phrases.number(chosen.action_tokens)),
        ("policy", f"{phrases.number(chosen.policy_seconds)} s"),
        ("world", f"{phrases.number(chosen.env_seconds)} s"),
        ("invalid actions", phrases.number(chosen.invalid_actions)),
        ("stopped by", f"{chosen.stop or phrases.NO_DATA}{f' ({chosen.cause})' if chosen.cause else ''}{', truncated' if chosen.truncated else ''}"),
        ("policy version", phrases.number(chosen.policy_version)),
    ]
    return element("section", element("h2", "Budgets"), *bars, facts(spent), attributes={"class": "panel"})


def _bar(name: str, spent: float | None, limit: float | None, unit: str) -> Html:
    words = f"{phrases.number(spent)}{unit} of {phrases.number(limit)}{unit}"
    if spent is None or not limit:
        return element("p", element("span", name), element("span", f"{phrases.number(spent)}{unit}, no limit known"), attributes={"class": "bar"})
    meter = element("progress", words, attributes={"value": f"{min(spent, limit):g}", "max": f"{limit:g}", "aria-label": name})
    return element("p", element("span", f"{name} "), meter, element("span", f" {words}"), attributes={"class": "bar"})


def _verdict(run: RunRow, row: EpisodeRow, chosen: TryRow, last: Html) -> Html:
    said = {True: "success", False: "no success", None: "was not asked, or there is none"}[chosen.verified]
    rules = [(item.key, one_line(item.value, 300)) for item in settings(run.frozen, run.verb) if item.about == "reward and success"]
    pairs: list[tuple[str, Child]] = [
        ("outcome from", "verifier" if row.by_verifier else "reward" if row.by_verifier is not None else phrases.NO_DATA),
        ("verifier said", said),
        ("reward", phrases.number(chosen.reward)),
        *([("message", one_line(chosen.detail, 2000))] if chosen.detail else []),
        *([("action induced", "the error came back on the same action")] if chosen.action_induced else []),
        ("the world showed last", last),
    ]
    folded = [element("details", element("summary", "Rules, as frozen"), facts(rules))] if rules else []
    return element("section", element("h2", "What the verifier saw"), facts(pairs), *folded, attributes={"class": "panel"})


def attempt_name(each: TryRow) -> str:
    """``attempt 2, segment 1``."""
    return f"attempt {each.attempt}, segment {each.segment}"


def attempts_table(tries: Sequence[TryRow], chosen: TryRow, name: Callable[[TryRow], Child]) -> Html:
    """All attempts at an episode, with what ``name`` calls each."""
    rows: list[list[Child]] = [
        [
            name(each),
            "superseded" if each.superseded else "shown" if each == chosen else "",
            each.outcome or "",
            f"{each.stop} ({each.cause})" if each.cause else each.stop or "",
            str(each.turns),
            one_line(each.detail),
        ]
        for each in tries
    ]
    return table("Attempts at this episode", ("attempt", "", "outcome", "stopped by", "turns", "message"), rows)
