"""A gate says what it expected and what it got, rule by rule; what cannot be judged is not met; what cannot be meant is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.errors import GateFailed, RecipeError
from agentgym_cli.report.compare import Side
from agentgym_cli.report.gate import Decision, GateCheck, judge
from agentgym_cli.report.gate_file import KEYS, Gate, keys_table, read_gate
from agentgym_cli.report.held_out import Shared, Training
from tests.report.sides import CONDITIONS, make_side, make_task

GATE = Gate(
    file="gate.yaml",
    digest="f" * 64,
    split="test",
    minimum_end_to_end=None,
    minimum_lower_bound=None,
    maximum_infra_share=None,
    baseline=None,
    no_regression=(),
    same_tasks=False,
    held_out=False,
    trained_by=None,
    allow_different=(),
    allow_drift=False,
    allow_degraded=False,
)
OWN = Training(run="r1", why="the run itself", itself=True, frozen=1200, played=900, shared=0)
WRITER = Training(run="r0", why="wrote the weights of step 6 that acted", itself=False, frozen=1200, played=900, shared=0)
APART = Shared(trainings=(OWN,), unknown=None, allowed=())
NINE_OF_TEN = [make_task(number, number < 9) for number in range(10)]


def checks(decision: Decision) -> Mapping[str, GateCheck]:
    return {check.rule: check for check in decision.checks}


def judged(gate: Gate, side: Side, baseline: Side | None = None, shared: Shared = APART) -> Decision:
    return judge(gate, side, shared, baseline, "2025-01-01T00:00:00+00:00")


@pytest.mark.parametrize(("least", "met"), [(0.9, True), (0.91, False)])
def test_end_to_end_success_at_its_minimum_is_enough(least: float, met: bool) -> None:
    decision = judged(replace(GATE, minimum_end_to_end=least), make_side("r1", NINE_OF_TEN))
    check = checks(decision)["minimum_end_to_end"]
    assert (check.passed, decision.passed) == (met, met)
    assert (check.expected, check.got) == (f"at least {100 * least:.1f}%", "90.0% (9 of 10; 95% 59.6 to 98.2%)")


@pytest.mark.parametrize(("least", "met"), [(0.59, True), (0.6, False)])
def test_the_lower_end_of_the_interval_counts_and_not_the_share(least: float, met: bool) -> None:
    # Wilson for 9 of 10: 59.58 to 98.21%.
    check = checks(judged(replace(GATE, minimum_lower_bound=least), make_side("r1", NINE_OF_TEN)))["minimum_lower_bound"]
    assert check.passed == met


@pytest.mark.parametrize(("most", "met"), [(0.1, True), (0.09, False)])
def test_the_infra_share_is_of_scheduled_episodes(most: float, met: bool) -> None:
    tasks = [*NINE_OF_TEN[:9], make_task(9, 0, infra=1)]
    assert checks(judged(replace(GATE, maximum_infra_share=most), make_side("r1", tasks)))["maximum_infra_share"].passed == met


def test_a_run_that_has_not_finished_is_not_promoted() -> None:
    decision = judged(replace(GATE, minimum_end_to_end=0.1), make_side("r1", NINE_OF_TEN, status="in progress"))
    assert [check.rule for check in decision.checks if not check.passed] == ["finished"]


DRIFT = "segment 1 ran with tasks.train: the file is not what it was frozen with"
DEGRADED = "infra share: expected at most 5% of scheduled episodes, got eval 10.0% (1 of 10)"


@pytest.mark.parametrize(
    ("rule", "key", "fault"), [("no drift", "allow_drift", {"drift": (DRIFT,)}), ("not degraded", "allow_degraded", {"degraded": DEGRADED})]
)
def test_a_run_or_a_baseline_that_drifted_or_is_degraded_passes_only_where_the_gate_allows_it_and_says_so(
    rule: str, key: str, fault: dict[str, object]
) -> None:
    gate = replace(GATE, baseline="base", no_regression=("all",))
    sound, faulty = make_side("r1", NINE_OF_TEN), make_side("r1", NINE_OF_TEN, **fault)
    said = DRIFT if rule == "no drift" else DEGRADED
    for name, decision in {rule: judged(gate, faulty, sound), f"baseline {rule}": judged(gate, sound, faulty)}.items():
        assert [(check.rule, check.got) for check in decision.checks if not check.passed] == [(name, said)]
    allowed = judged(replace(gate, **{key: True}), faulty, sound)  # type: ignore[arg-type]
    assert allowed.passed
    assert checks(allowed)[rule].got == f"allowed by the gate: {said}"


def test_a_baseline_that_has_not_finished_sets_no_mark() -> None:
    baseline = make_side("base", NINE_OF_TEN[:2], status="in progress")
    decision = judged(replace(GATE, baseline="base", no_regression=("all",), allow_different=("tasks",)), make_side("r1", NINE_OF_TEN), baseline)
    assert [check.rule for check in decision.checks if not check.passed] == ["baseline finished"]


OTHER_CONDITIONS = {
    "environment": {"env": "sciworld"},
    "dialect": {"dialect": "e"},
    "protocol": {"protocol": "agenteval"},
    "success rule": {"success": "t"},
    "prompt": {"prompt": "q"},
    "horizon": {"horizon": 30},
    "samples": {"samples": 4},
    "temperature": {"temperature": "0"},
    "chosen tasks": {"chosen": "the first 10"},
    "attempts": {"attempts": None},
}


@pytest.mark.parametrize("what", OTHER_CONDITIONS)
def test_a_baseline_under_other_conditions_sets_no_mark_unless_the_gate_allows_it(what: str) -> None:
    gate = replace(GATE, baseline="base", no_regression=("all",), same_tasks=True)
    baseline = make_side("base", NINE_OF_TEN, conditions=replace(CONDITIONS, **OTHER_CONDITIONS[what]))  # type: ignore[arg-type]
    strict = judged(gate, make_side("r1", NINE_OF_TEN), baseline)
    assert [check.rule for check in strict.checks if not check.passed] == [f"comparable: {what}"]
    other = next(each for each in OTHER_CONDITIONS if each != what)
    assert not judged(replace(gate, allow_different=(other,)), make_side("r1", NINE_OF_TEN), baseline).passed
    allowed = judged(replace(gate, allow_different=(what,)), make_side("r1", NINE_OF_TEN), baseline)
    assert allowed.passed
    assert checks(allowed)[f"comparable: {what}"].got.startswith("allowed by the gate: ")


def test_a_difference_from_the_baseline_is_said_from_the_side_of_the_run() -> None:
    baseline = make_side("base", NINE_OF_TEN, conditions=replace(CONDITIONS, horizon=30))
    decision = judged(replace(GATE, baseline="base", no_regression=("all",)), make_side("r1", NINE_OF_TEN), baseline)
    assert checks(decision)["comparable: horizon"].got == "12 here, 30 in the baseline; more turns allow more successes"


def test_the_same_conditions_are_said_to_be_the_same() -> None:
    decision = judged(replace(GATE, baseline="base", no_regression=("all",)), make_side("r1", NINE_OF_TEN), make_side("base", NINE_OF_TEN))
    assert checks(decision)["comparable"].passed


def test_tasks_that_the_baseline_lacks_or_has_with_other_content_keep_the_two_from_being_compared() -> None:
    gate = replace(GATE, baseline="base", no_regression=("all",))
    baseline = make_side("base", [*NINE_OF_TEN[:8], make_task(8, 1, digest="y")])
    check = checks(judged(gate, make_side("r1", NINE_OF_TEN), baseline))["comparable: tasks"]
    assert not check.passed
    assert "their contents differ" in check.got
    assert "only tasks that both have are compared" in check.got
    assert judged(replace(gate, allow_different=("tasks",)), make_side("r1", NINE_OF_TEN), baseline).passed


def test_a_run_that_was_never_judged_on_the_split_is_not_promoted() -> None:
    decision = judged(replace(GATE, split="other", minimum_end_to_end=0.1), make_side("r1", NINE_OF_TEN))
    assert not decision.passed
    assert checks(decision)["split"].got == "evaluations of test"


def test_no_data_meets_nothing() -> None:
    gate = replace(GATE, minimum_end_to_end=0.0, minimum_lower_bound=0.0, maximum_infra_share=1.0)
    decision = judged(gate, make_side("r1", []))
    assert [check.rule for check in decision.checks if not check.passed] == ["minimum_end_to_end", "minimum_lower_bound", "maximum_infra_share"]


def regressed(lost: int) -> tuple[Side, Side]:
    """Twenty tasks that the baseline solves all, of which the other run loses some, and twenty that neither solves."""
    base = [make_task(number, int(number < 20), category="easy" if number < 20 else "hard") for number in range(40)]
    other = [make_task(number, int(lost <= number < 20), category="easy" if number < 20 else "hard") for number in range(40)]
    return make_side("r1", other), make_side("base", base)


@pytest.mark.parametrize(("lost", "met"), [(5, True), (6, False)])
def test_a_regression_counts_once_it_is_significant(lost: int, met: bool) -> None:
    # Exact McNemar: five losses and no win have p = 2 / 2**5 = 0.0625, six 2 / 2**6 = 0.03125.
    side, baseline = regressed(lost)
    check = checks(judged(replace(GATE, baseline="base", no_regression=("all",)), side, baseline))["no_regression all"]
    assert check.passed == met
    assert f"p {2 / 2**lost:.3g} (exact McNemar, Holm over 1)" in check.got


def test_holm_goes_over_the_categories_that_the_gate_names() -> None:
    # Six losses: p = 0.03125 alone, doubled to 0.0625 beside another category with a test of its own.
    side, baseline = regressed(6)
    alone = judged(replace(GATE, baseline="base", no_regression=("easy",)), side, baseline)
    both = judged(replace(GATE, baseline="base", no_regression=("easy", "all")), side, baseline)
    assert not checks(alone)["no_regression easy"].passed
    assert checks(both)["no_regression easy"].passed


def test_a_category_that_came_out_the_same_is_no_regression_and_one_that_is_not_there_is_not_met() -> None:
    side, baseline = regressed(6)
    found = checks(judged(replace(GATE, baseline="base", no_regression=("hard", "harder")), side, baseline))
    assert found["no_regression hard"].passed
    assert not found["no_regression harder"].passed
    assert found["no_regression harder"].got == "there are easy, hard, all"


def test_a_run_that_is_better_is_no_regression() -> None:
    side, baseline = regressed(10)
    assert checks(judged(replace(GATE, baseline="base", no_regression=("all",)), baseline, side))["no_regression all"].passed


def test_same_tasks_looks_at_content_names_and_lists() -> None:
    gate = replace(GATE, baseline="base", same_tasks=True)
    side = make_side("r1", NINE_OF_TEN)
    assert checks(judged(gate, side, make_side("base", NINE_OF_TEN)))["same_tasks"].passed
    fewer = make_side("base", NINE_OF_TEN[:9])
    other = make_side("base", [*NINE_OF_TEN[:9], make_task(9, 1, digest="y")])
    lists = make_side("base", NINE_OF_TEN, conditions=replace(CONDITIONS, tasks={"test": "u"}))
    unknown = make_side("base", NINE_OF_TEN, conditions=replace(CONDITIONS, tasks={}))
    got = [checks(judged(gate, side, baseline))["same_tasks"] for baseline in (fewer, other, lists, unknown)]
    assert [check.passed for check in got] == [False] * 4
    assert "1 in one run only" in got[0].got
    assert "1 with other content" in got[1].got
    assert "digests of the task lists different" in got[2].got
    assert "digests of the task lists not known" in got[3].got


@pytest.mark.parametrize(
    ("shared", "met"),
    [
        (APART, True),
        (replace(APART, trainings=(replace(OWN, played=0),)), True),
        (replace(APART, trainings=(replace(OWN, shared=1),)), False),
        (replace(APART, trainings=(WRITER,)), True),
        (replace(APART, trainings=(replace(WRITER, shared=1),)), False),
        (replace(APART, trainings=(WRITER, replace(WRITER, played=0))), False),
        (replace(APART, trainings=(replace(WRITER, frozen=None),)), True),
        (replace(APART, allowed=("tasks.allow_overlap: split test shares 2 of 10 tasks with training",)), False),
        (replace(APART, trainings=(replace(OWN, frozen=None),)), False),
        (Shared(trainings=(), unknown="nobody knows", allowed=()), False),
    ],
)
def test_a_split_is_held_out_when_nothing_speaks_against_it_and_training_is_known(shared: Shared, met: bool) -> None:
    assert checks(judged(replace(GATE, held_out=True), make_side("r1", NINE_OF_TEN), shared=shared))["held_out"].passed == met


def written(folder: Path, text: str) -> Path:
    path = folder / "gate.yaml"
    path.write_text(text)
    return path


def test_a_gate_is_read_with_all_its_keys(tmp_path: Path) -> None:
    text = (
        "split: test\nminimum_end_to_end: 0.8\nminimum_lower_bound: 0.7\nmaximum_infra_share: 0\nbaseline: base\n"
        "no_regression: [all, depth 1]\nsame_tasks: true\nheld_out: true\ntrained_by: first\n"
        "allow_different: [horizon, success rule]\nallow_drift: true\nallow_degraded: false\n"
    )
    gate = read_gate(written(tmp_path, text))
    assert (gate.minimum_end_to_end, gate.minimum_lower_bound, gate.maximum_infra_share) == (0.8, 0.7, 0.0)
    assert (gate.baseline, gate.no_regression, gate.same_tasks, gate.held_out) == ("base", ("all", "depth 1"), True, True)
    assert (gate.allow_different, gate.allow_drift, gate.allow_degraded) == (("horizon", "success rule"), True, False)
    assert (gate.trained_by, len(gate.digest)) == ("first", 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("split: test\nminimum_end_to_ent: 1\nheld_out: true\n", "gate.yaml:2: .*'minimum_end_to_ent'; did you mean minimum_end_to_end?"),
        ("split: test\nmaximum_infra_share: 5\n", "gate.yaml:2: maximum_infra_share: expected a number from 0 to 1, got 5"),
        ("split: test\nminimum_end_to_end: true\n", "gate.yaml:2: minimum_end_to_end: expected a number from 0 to 1, got true"),
        ("split: test\nheld_out: yes\n", "gate.yaml:2: held_out: expected true or false, got 'yes'"),
        ("held_out: true\n", "gate.yaml:1: split: expected a name, got nothing"),
        ("split: test\n", "gate.yaml:1: expected at least one rule of"),
        ("split: test\nsame_tasks: true\n", "gate.yaml:2: same_tasks: expected a baseline to compare with, got none"),
        ("split: test\nbaseline: b\nheld_out: true\n", "gate.yaml:2: baseline: expected a rule that compares with it"),
        ("split: test\nbaseline: b\nno_regression: [all, all]\n", "gate.yaml:3: no_regression: expected a list of categories without repeats"),
        ("split: test\nbaseline: b\nsame_tasks: true\nallow_different: [horison]\n", "gate.yaml:4: allow_different: expected a list without repeats"),
        ("split: test\nheld_out: true\nallow_different: [horizon]\n", "gate.yaml:3: allow_different: expected a baseline to differ from, got none"),
        ("split: test\nminimum_end_to_end: 1\ntrained_by: r\n", "gate.yaml:3: trained_by: expected held_out: true, which reads it, got none"),
        ("split: !!python/object:os.system x\nheld_out: true\n", "gate.yaml:1: expected plain values, got the tag"),
    ],
)  # fmt: skip
def test_a_gate_that_cannot_be_meant_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message.replace("?", r"\?")):
        read_gate(written(tmp_path, text))


def test_all_mistakes_of_a_gate_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        read_gate(written(tmp_path, "minimum_end_to_end: 90\nmaximum_infra_share: low\n"))
    assert caught.value.message.count("gate.yaml:") == 3


@pytest.mark.parametrize("rule", ["maximum_infra_share", "minimum_end_to_end", "minimum_lower_bound"])
def test_a_limit_of_zero_is_a_rule(tmp_path: Path, rule: str) -> None:
    assert getattr(read_gate(written(tmp_path, f"split: test\n{rule}: 0\n")), rule) == 0.0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("split: test\nmaximum_infra_shar: 0.1\n", "maximum_infra_shar"),
        ("splt: test\nheld_out: true\n", "splt"),
        ("split: test\nbasline: b\nsame_tasks: true\n", "basline"),
        ("split: test\nbaseline: b\nsame_task: true\n", "same_task"),
    ],
)
def test_a_mistyped_key_is_one_mistake_and_not_also_a_missing_one(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_gate(written(tmp_path, text))
    assert caught.value.message.count("gate.yaml:") == 1
    assert f"got the unknown key '{named}'" in caught.value.message


def test_the_page_of_gates_has_every_key() -> None:
    assert [line.split("`")[1] for line in keys_table().splitlines()[2:]] == list(KEYS)


def test_promise_12_evidence_survives_as_json_and_names_its_rows() -> None:
    decision = judged(replace(GATE, minimum_end_to_end=0.5), make_side("it's", NINE_OF_TEN))
    check = checks(decision)["minimum_end_to_end"]
    assert check.rows == "select episode, outcome from episodes_final where run = 'it''s' and phase = 'eval' and split = 'test' and step = 0"
    assert json.loads(json.dumps({"got": check.got})) == {"got": check.got}
    assert GateFailed.exit_code == 8


def test_the_example_on_the_page_of_gates_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/gate.md").read_text(encoding="utf-8")
    gate = read_gate(written(tmp_path, page.split("```yaml\n")[1].split("```")[0]))
    assert (gate.split, gate.no_regression, gate.held_out) == ("unseen_tasks", ("all", "depth 1", "depth 2"), True)
