"""What pages say: figures with both denominators, episodes, one episode whole, comparisons, exports."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from agentgym_cli.store.importing.conversations import agenttraj_conversations
from agentgym_cli.view import episodes
from tests.view.conftest import Reader
from tests.view.stories import LONG

TAG = re.compile(r"<[^>]*>")


def words(text: str) -> str:
    """What a reader sees of HTML, spaces put together."""
    return " ".join(unescape(TAG.sub(" ", text)).split())


def row_of(page: str, name: str) -> str:
    """The words of the row of a table that ``name`` stands in."""
    return next(words(row) for row in re.findall(r"<tr[ >].*?</tr>", page, re.DOTALL) if name in words(row))


@pytest.mark.slow
def test_promise_04_a_run_is_listed_with_both_denominators(read: Reader) -> None:
    found = row_of(read("").text, "a textcraft_grpo")
    # Of ten scheduled, eight are scored and four of these successes; one is an infra error, one is missing.
    assert "40.0% 4 of 10" in found and "50.0% 4 of 8" in found and "10.0% 1 of 10" in found and "40.0% to 60.0%" in found
    assert "finished" in found and "d" * 12 in found and "eval test step 0" in found


def test_promise_04_a_run_page_counts_every_scheduled_episode(read: Reader) -> None:
    page = read("run", "run=a").text
    found = row_of(page, "eval / test, step 0")
    assert found.startswith("eval / test, step 0 10 40.0% 4 of 10") and found.endswith("4 1 1")
    assert row_of(page, "server_5xx").startswith("1 infra error env_error server_5xx")
    assert "laptop result" in page


def test_a_training_says_how_far_it_is_and_draws_its_stages(read: Reader) -> None:
    page = read("run", "run=t").text
    assert "This run has not finished (in progress)" in page
    assert page.count('class="curve"') >= 1
    assert "horizon 6 from step 1; horizon 9 from step 4" in words(page)
    assert row_of(page, "step 4").startswith("2 in progress step 4")


def test_a_choice_with_a_long_name_is_counted_and_not_sent(read: Reader) -> None:
    page = read("episodes", "run=long")
    assert page.status == 200 and len(page.text) < 10_000
    assert re.search(r"<option [^>]*disabled[^>]*>(endless ){7}end… \(1\)</option>", page.text)
    assert '<option value="depth 1">depth 1 (2)</option>' in page.text
    chosen = read("episodes", "run=long&category=" + "endless+" * 1_000)
    assert words(chosen.text).count("1 to 1 of 1 episodes") == 1


@pytest.mark.parametrize("start", [126_001, 2**32, 10**14])
def test_a_place_behind_a_text_is_not_there(read: Reader, start: int) -> None:
    page = read("text", f"run=h+%3Cb%3E&episode=eval%2Ftest%2F0%2Ftextcraft_0%2F0&segment=1&attempt=1&part=observation&turn=2&start={start}")
    assert page.status == 404
    assert f"start {start:,}: expected a place in a text of 126,000 characters" in unescape(page.text)


def test_a_journal_that_is_ahead_of_the_store_is_said(read: Reader, database: Path) -> None:
    assert "ahead of the store" not in read("run", "run=t").text
    journal = database.parent / "runs" / "t" / "journal" / "0002.jsonl"
    before = journal.read_bytes()
    journal.write_bytes(before + b"x" * 1234)
    try:
        assert "1,234 bytes ahead of the store" in read("run", "run=t").text
    finally:
        journal.write_bytes(before)


def test_a_list_says_what_it_shows_and_links_keep_the_filter(read: Reader) -> None:
    page = read("episodes", "run=a&outcome=failure&sort=turns&order=down").text
    assert "1 to 4 of 4 episodes" in page
    places = [unescape(place) for place in re.findall(r'href="/secret-token/(episode\?[^"]*)"', page)]
    # The failures by their turns: those of tasks 9, 4, 3 and 1 took 10, 5, 3 and 2.
    assert places == [
        f"episode?run=a&outcome=failure&sort=turns&order=down&episode=eval%2Ftest%2F0%2Ftextcraft_{number}%2F0" for number in (9, 4, 3, 1)
    ]
    assert '<option value="failure" selected="">failure (4)</option>' in page


@pytest.mark.parametrize(("most", "kind"), [(2, "select"), (1, "input")])
def test_a_list_too_long_to_look_through_is_a_field_to_type_in(read: Reader, monkeypatch: pytest.MonkeyPatch, most: int, kind: str) -> None:
    monkeypatch.setattr(episodes, "_MOST_CHOICES", most)
    page = read("episodes", "run=a&category=depth+1").text
    assert re.findall(r'<(\w+)[^>]* name="category"', page) == [kind]
    assert 'value="depth 1"' in page and "1 to 5 of 5 episodes" in page


def test_an_empty_list_says_so(read: Reader) -> None:
    assert "No episode is like this." in read("episodes", "run=a&text=zzz").text


def test_an_episode_shows_its_turns_budgets_and_verdict(read: Reader) -> None:
    page = read("episode", "run=a&episode=eval/test/0/textcraft_3/0").text
    assert '<mark class="sent" title="action: sent to the world">take a</mark>' in page
    assert "turns 3 of 6" in words(page) and "goal 3" in page
    assert words(page).count("thought Thought: so action Action: take a") == 1
    assert "reward 0 · policy 0.1 s · world 0.01 s · 4 tokens sampled · 20 of context" in words(page)
    assert "outcome from reward" in words(page) and "122,000 characters left" in words(page)


def test_neighbours_go_by_the_filter_of_the_address(read: Reader) -> None:
    page = read("episode", "run=a&outcome=failure&episode=eval/test/0/textcraft_4/0").text
    links = {name: unescape(place) for place, name in re.findall(r'href="/secret-token/([^"]*)" data-key="\w"[^>]*>([^<]*)<', page)}
    assert links["next"] == links["next failure"] == "episode?run=a&outcome=failure&episode=eval%2Ftest%2F0%2Ftextcraft_9%2F0"
    assert links["previous"].endswith("textcraft_3%2F0") and "3 of 4" in words(page)


def test_every_attempt_is_there_and_the_one_that_counts_is_shown(read: Reader) -> None:
    query = "run=a&episode=eval/test/0/textcraft_2/0"
    page = read("episode", query).text
    assert row_of(page, "attempt 2").startswith("attempt 2, segment 1 shown success")
    assert "infra_error env_error (server_5xx)" in row_of(page, "attempt 1")
    assert "turns 3 of 6" in words(page)
    assert "POST /step: expected 200, got 503" in read("episode", f"{query}&attempt=1").text
    assert read("episode", f"{query}&attempt=3").status == 404


def test_an_episode_of_a_superseded_step_says_which_attempt_counts(read: Reader) -> None:
    page = read("episode", "run=t&episode=train/train/5/textcraft_5/0").text
    assert "superseded" in row_of(page, "attempt 1, segment 1") and "shown" in row_of(page, "attempt 1, segment 2")


def test_an_episode_that_was_never_played_counts_as_missing(read: Reader) -> None:
    assert "it counts as missing" in read("episode", "run=a&episode=eval/test/0/textcraft_7/0").text


def test_tokens_show_the_mask_and_the_log_probabilities(read: Reader) -> None:
    page = read("episode", "run=a&episode=eval/test/0/textcraft_3/0&view=tokens").text
    tokens = re.findall(r'<span class="(tok [^"]*)" title="([^"]*)">&lt;(\d)&gt;</span>', page)
    assert [(kind, token) for kind, _, token in tokens] == [
        ("tok f", "3"),
        ("tok f", "4"),
        ("tok a lp0", "5"),
        ("tok a lp3 d", "6"),
        ("tok a lp2 s", "7"),
    ]
    assert tokens[3][1] == "4: token 6, sampled, log-probability -2, probability 13.5%; its text would be encoded otherwise"
    assert "1 of 5 tokens would be others if the text were encoded again" in page
    assert tokens[0][1] == "1: token 3, fed"
    assert row_of(page, "5 7").endswith("-0.6931 50.0%") and row_of(page, "4 6").endswith("-2 13.5% other")


def test_tokens_whose_tokenizer_is_gone_are_numbers_and_it_is_said(read: Reader) -> None:
    page = read("episode", "run=b&episode=eval/test/0/textcraft_3/0&view=tokens").text
    assert "Shown as numbers: tokenizer.json: expected a file, got none" in page
    assert ">6 </span>" in page


def test_tokens_that_were_not_kept_are_said(read: Reader) -> None:
    assert "No tokens of this attempt were kept" in read("episode", "run=a&episode=eval/test/0/textcraft_0/0&view=tokens").text


def test_a_long_episode_comes_forty_turns_at_a_time(read: Reader) -> None:
    page, seen, asked = read("episode", "run=long&episode=eval/test/0/textcraft_0/0").text, 0, 0
    while True:
        seen += page.count("<article")
        found = re.search(r'class="more-turns"><a href="/secret-token/turns\?([^"]*)"', page)
        if found is None:
            break
        page, asked = read("turns", unescape(found[1])).text, asked + 1
    assert (seen, asked) == (100, 2)


def test_a_comparison_names_what_was_gained_and_lost(read: Reader) -> None:
    page = read("compare", "a=a&b=b").text
    for count in ("all 10", "gained 2", "lost 1", "both 3", "neither 4"):
        assert count in words(page)
    lost = read("compare", "a=a&b=b&kind=lost").text
    assert row_of(lost, "textcraft_5").startswith("textcraft_5 lost depth 2 test 1 of 1 0 of 1")
    assert len(re.findall(r'class="kind ', lost)) == 1
    assert "Paired by task" in page


def test_a_run_is_not_compared_with_itself(read: Reader) -> None:
    assert read("compare", "a=a&b=a").status == 400
    assert words(read("compare", "a=a").text).startswith("Compare - agentgym")


def test_the_links_of_a_comparison_keep_to_the_part_that_is_compared(read: Reader) -> None:
    page = read("compare", "a=t2&b=c").text
    row = next(row for row in re.findall(r"<tr[ >].*?</tr>", page, re.DOTALL) if "textcraft_5" in words(row))
    links = [unescape(place) for place in re.findall(r'href="/secret-token/([^"]*)"', row)]
    assert links == [
        "episodes?run=t2&phase=eval_after&split=test&step=6&task=textcraft_5",
        "episodes?run=c&phase=eval&split=test&step=0&task=textcraft_5",
        "beside?run=t2&episode=eval_after%2Ftest%2F6%2Ftextcraft_5%2F0&other_run=c&other=eval%2Ftest%2F0%2Ftextcraft_5%2F0",
    ]
    assert read(*links[0].split("?")).text.count("1 to 1 of 1 episodes") == 1


def test_a_task_that_was_not_played_in_both_offers_no_pair(read: Reader) -> None:
    assert row_of(read("compare", "a=a&b=b").text, "textcraft_7").endswith("0 of 1 0 of 1 not played in both")


@pytest.mark.parametrize(("kind", "episodes"), [("gained", ("1", "1")), ("lost", ("5", "5"))])
def test_a_pair_shows_why_a_task_is_gained_or_lost(read: Reader, kind: str, episodes: tuple[str, str]) -> None:
    page = read("compare", f"a=a&b=b&kind={kind}").text
    found = re.search(r'href="/secret-token/beside\?([^"]*)"', page)
    assert found is not None
    shown = read("beside", unescape(found[1])).text
    outcomes = re.findall(r'class="outcome o\d">(\w+)<', shown)
    assert outcomes == (["failure", "success"] if kind == "gained" else ["success", "failure"])


PAIR = "run=a&episode=eval/test/0/textcraft_3/0&other_run=b&other=eval/test/0/textcraft_3/0"


def test_two_episodes_part_where_they_first_differ(read: Reader) -> None:
    page = read("beside", PAIR).text
    assert "They part at turn 2" in page
    assert len(re.findall(r'<tr class="parting" id="d2">', page)) == 1
    assert page.count("<article") == 6
    assert "stopped by horizon after 3 turns, reward 0" in page
    assert read("beside", f"{PAIR}&turn=4").status == 404


def test_two_episodes_that_ended_differently_part_at_their_last_turn(read: Reader) -> None:
    page = read("beside", "run=a&episode=eval/test/0/textcraft_4/0&other_run=c&other=eval/test/0/textcraft_4/0").text
    assert "They were shown and did the same in all 5 turns, and ended differently." in page
    assert len(re.findall(r'<tr class="parting" id="d5">', page)) == 1


def test_an_export_is_a_page_that_needs_nothing_else(read: Reader) -> None:
    page = read("export.html", "run=a&episode=eval/test/0/textcraft_3/0")
    assert "script" not in re.sub("Content-Security-Policy.*?>", "", page.text) and "src=" not in page.text and "href=" not in page.text
    assert LONG in page.text and page.text.count("<article") == 3
    said = words(page.text)
    for part in (
        "reward 0 · policy 0.1 s · world 0.01 s · 4 tokens sampled · 20 of context",
        "reward 0 · done",
        "turns 3 of 6",
        "tokens of context 20, no limit known",
        "policy 0.8 s world 0.1 s",
        "stopped by horizon, truncated",
        "outcome from reward verifier said was not asked",
        "thought Thought: so action Action: take a",
        "attempt 1, segment 1 shown failure horizon 3",
    ):
        assert part in said
    assert page.headers["content-disposition"].startswith("attachment")


def test_an_export_of_a_retried_episode_lists_its_attempts(read: Reader) -> None:
    page = read("export.html", "run=a&episode=eval/test/0/textcraft_2/0").text
    assert row_of(page, "attempt 1, segment 1").endswith("infra_error env_error (server_5xx) 2 POST /step: expected 200, got 503")
    assert row_of(page, "attempt 2, segment 1").startswith("attempt 2, segment 1 shown success")


EPISODE = "run=a&episode=eval/test/0/textcraft_3/0"


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("turns", "run=zzz&episode=x&segment=1&attempt=1", 404),
        ("turns", f"{EPISODE}&segment=1&attempt=2", 404),
        ("turns", f"{EPISODE}&segment=1&attempt=1&first=4", 404),
        ("text", f"{EPISODE}&segment=1&attempt=1&part=text&turn=4", 404),
        ("text", f"{EPISODE}&segment=1&attempt=1&part=text&turn=1&start=-5", 400),
        ("text", f"{EPISODE}&segment=1&attempt=1&part=text&turn=1&start=999", 404),
        ("episode", f"{EPISODE}&turn=4", 404),
        ("episode", f"{EPISODE}&turn=0", 400),
        ("episode", f"{EPISODE}&view=tokens&token=6", 404),
        ("episode", f"{EPISODE}&segment=9", 404),
        ("export.html", f"{EPISODE}&attempt=2", 404),
        ("export.json", "run=a&episode=eval/test/0/textcraft_7/0", 404),
        ("beside", f"{EPISODE}&other_run=a&other=eval/test/0/textcraft_7/0", 404),
        ("compare", "a=zzz", 404),
        ("compare", "a=a&b=b&page=2", 404),
        ("", "page=2", 404),
        ("state.json", "x=1", 400),
        ("nothing", "", 404),
    ],
)
def test_what_is_not_there_or_cannot_be_meant_is_no_page(read: Reader, path: str, query: str, status: int) -> None:
    assert read(path, query).status == status


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("run=a&episode=eval/test/0/textcraft_3/0", [("seen 1", True), ("seen 2", True), ("seen 3", True)]),
        ("run=h+%3Cb%3E&episode=eval/test/0/textcraft_0/0", None),
    ],
)
def test_an_exported_conversation_is_read_back_as_agenttraj(read: Reader, tmp_path: Path, query: str, said: list[tuple[str, bool]] | None) -> None:
    file = tmp_path / "out.json"
    file.write_text(read("export.json", query).text, encoding="utf-8")
    (conversation,) = agenttraj_conversations(file, "textcraft")
    if said is None:
        assert [(len(turn.observation) > 10, turn.learned) for turn in conversation.turns] == [(True, True), (True, False)]
    else:
        assert [(turn.observation, turn.learned) for turn in conversation.turns] == said
        assert json.loads(file.read_text())[0]["conversations"][-1] == {"from": "human", "loss": None, "value": LONG}


def test_a_first_response_that_was_cut_is_kept_in_an_exported_conversation(read: Reader, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text(read("export.json", "run=long&episode=eval/test/0/textcraft_2/0").text, encoding="utf-8")
    (conversation,) = agenttraj_conversations(file, "textcraft")
    assert [(turn.text, turn.learned) for turn in conversation.turns] == [("cut sho", False), ("Action: get 1 log", True)]


def test_the_report_of_a_run_is_its_page(read: Reader) -> None:
    page = read("report", "run=a")
    assert page.status == 200 and "Denominators" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")


@pytest.mark.parametrize("path", ["run", "episodes", "episode", "compare", "report"])
def test_a_run_that_is_not_there_is_said(read: Reader, path: str) -> None:
    query = {"compare": "a=zzz&b=a", "episode": "run=zzz&episode=x"}.get(path, "run=zzz")
    page = read(path, query)
    assert page.status == 404 and "there is none in this store" in page.text
    assert 'data-live=""' in page.text, "it is asked for again when the store changes"


def test_pages_name_their_parts_for_screen_readers(read: Reader) -> None:
    page = read("episode", "run=a&episode=eval/test/0/textcraft_3/0").text
    for part in (
        '<html lang="en">',
        '<main id="main"',
        'aria-label="Way here"',
        'role="status"',
        "<progress",
        'aria-label="turn 1"',
        "Skip to content",
    ):
        assert part in page
    assert re.findall(r"<h1", page) == ["<h1"]


@pytest.mark.slow
def test_every_link_of_every_kind_of_page_leads_somewhere(read: Reader) -> None:
    asked: dict[str, list[str]] = {}
    long, hostile = "episode?run=long&episode=eval/test/0/textcraft_0/0", "episode?run=h+%3Cb%3E&episode=eval/test/0/textcraft_0/0"
    todo = ["", "compare?a=a&b=b", long, hostile]
    while todo:
        address = todo.pop(0)
        path, _, query = address.partition("?")
        if address in asked.setdefault(path, []) or len(asked[path]) == 6:
            continue
        asked[path].append(address)
        page = read(path, query) if not path.endswith(".png") else None
        assert page is None or page.status == 200, address
        found = re.findall(r'href="/secret-token/([^"#]*)', page.text) if page is not None and "export" not in path else []
        todo += sorted(map(unescape, found), key=lambda place: len(asked.get(place.partition("?")[0], [])))
    assert {"", "run", "episodes", "episode", "turns", "text", "compare", "beside", "report", "export.html", "export.json"} <= set(asked)


def test_an_episode_that_was_never_played_offers_no_file(read: Reader) -> None:
    assert "export HTML" not in read("episode", "run=a&episode=eval/test/0/textcraft_7/0").text
    assert "export HTML" in read("episode", "run=a&episode=eval/test/0/textcraft_6/0").text
