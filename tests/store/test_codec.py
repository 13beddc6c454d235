"""A record survives its line exactly, and nothing else passes for a record."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.types import Outcome, StopReason
from agentgym_cli.store.codec import Malformed, decode, encode
from agentgym_cli.store.records import Record, SegmentRecord, TokensRecord
from tests.store.builders import make_attempt, make_metric, make_outcome, make_run, make_scheduled, make_turn
from tests.store.strategies import any_record

ATTEMPT = make_attempt(make_scheduled())


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_record())
def test_any_record_is_read_back_as_it_was_written(record: Record) -> None:
    line = encode(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == record


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -2.2250738585072014e-308])
def test_floats_keep_all_their_bits(value: float) -> None:
    read = decode(encode(make_metric("loss", value)))
    assert getattr(read, "value").hex() == value.hex()  # noqa: B009


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_and_named(value: float) -> None:
    with pytest.raises(Malformed, match=r"metric\.value: expected a finite number, got (nan|-?inf)"):
        encode(make_metric("loss", value))
    with pytest.raises(Malformed, match=r"attempt\.tokens\.logprobs\[\]: expected a finite number"):
        encode(replace(ATTEMPT, tokens=TokensRecord(token_ids=(1,), action_mask=(True,), logprobs=(value,))))
    with pytest.raises(Malformed, match=r"attempt\.turns\[\]\.reward: expected a finite number"):
        encode(replace(ATTEMPT, turns=(make_turn(reward=value),)))


@pytest.mark.parametrize(("field", "value"), [("seconds", -0.5), ("env_seconds", -1.0), ("turns_count", -1), ("action_tokens", -7)])
def test_what_counts_or_measures_is_never_negative(field: str, value: float) -> None:
    with pytest.raises(Malformed, match=rf"attempt\.{field}: expected a (number of 0 or more|whole number between 0 and .*), got -"):
        decode(orjson.dumps(orjson.loads(encode(ATTEMPT)) | {field: value}))


def test_a_segment_of_a_journal_from_before_drift_was_recorded_has_none() -> None:
    line = b'{"kind":"segment","run":"r1","segment":1,"resumed_from_step":null,"started":"then","ended":null,"status":null}\n'
    record = decode(line)
    assert isinstance(record, SegmentRecord)
    assert record.drift == ()


def test_whole_numbers_become_floats_and_enums_become_text() -> None:
    record = replace(ATTEMPT, reward=1, stop=StopReason.DONE, outcome=Outcome.SUCCESS)
    read = decode(encode(record))
    assert read == ATTEMPT
    assert orjson.loads(encode(record))["reward"].__class__ is float
    failed = replace(make_attempt(make_scheduled(), "infra_error"), cause=InfraCause.SERVER_5XX)
    assert orjson.loads(encode(failed))["cause"] == "server_5xx"


def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined() -> None:
    read = decode(encode(replace(ATTEMPT, final_observation="a\ud800b", detail="\ud83d\ude00")))
    assert (getattr(read, "final_observation"), getattr(read, "detail")) == ("a\ufffdb", "\U0001f600")  # noqa: B009


@pytest.mark.parametrize("outcome", ["infra_error", "missing"])
def test_promise_02_a_reward_on_an_unscored_outcome_is_refused(outcome: str) -> None:
    attempt = make_attempt(make_scheduled(), outcome)
    with pytest.raises(Malformed, match=rf"attempt\.reward: expected null with outcome {outcome}, got 0\.0"):
        encode(replace(attempt, reward=0.0))
    with pytest.raises(Malformed, match=rf"outcome\.reward: expected null with outcome {outcome}, got 0\.0"):
        encode(replace(make_outcome(attempt), reward=0.0))


def test_values_outside_their_words_are_refused() -> None:
    with pytest.raises(Malformed, match=r"attempt\.outcome: expected one of failure, infra_error, missing, success, got 'won'"):
        encode(replace(ATTEMPT, outcome="won"))
    with pytest.raises(Malformed, match=r"attempt\.cause: expected one of .*, got 'weather'"):
        encode(replace(ATTEMPT, cause="weather"))
    with pytest.raises(Malformed, match=r"run\.seed: expected a whole number between 0 and .*, got -1"):
        encode(make_run(seed=-1))
    with pytest.raises(Malformed, match=r"attempt\.truncated: expected true or false, got 1"):
        encode(replace(ATTEMPT, truncated=1))  # type: ignore[arg-type]
    with pytest.raises(Malformed, match=r"attempt\.attempt: expected a whole number .*, got True"):
        encode(replace(ATTEMPT, attempt=True))


def changed(**changes: object) -> bytes:
    return orjson.dumps(orjson.loads(encode(make_metric("loss", 1.0))) | changes)


@pytest.mark.parametrize(
    ("line", "claim"),
    [
        (b"{", "expected one JSON object"),
        (b"[]", "expected a JSON object"),
        (b"{}", "expected kind to be one of run, segment, .*, got None"),
        (b'{"kind":"dream"}', "expected kind to be one of .*, got 'dream'"),
        (b'{"kind":["run"]}', "expected kind to be one of"),
        (b'{"kind":"checkpoint"}', "checkpoint: expected a field 'digest', got none"),
        (changed(steps=1), "metric: expected the fields name, phase, run, segment, step, value, got the unknown 'steps'"),
        (changed(step="1"), r"metric\.step: expected a whole number .*, got '1'"),
        (changed(step=2**63), r"metric\.step: expected a whole number"),
        (changed(value="high"), r"metric\.value: expected a finite number, got 'high'"),
        (changed(name=None), r"metric\.name: expected text, got None"),
    ],
)
def test_promise_08_a_line_that_is_no_record_is_refused(line: bytes, claim: str) -> None:
    with pytest.raises(Malformed, match=claim):
        decode(line)
