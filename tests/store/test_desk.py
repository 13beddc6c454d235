"""The writer that workers hand records in to: answered in order, asked again after a lost connection, closed to strangers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store.desk import Address, Visitor, open_desk, say_once


class Book:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def __call__(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message["do"] == "fail":
            raise StoreError("journal: the disk is full")
        self.lines.append(message.get("line"))
        return {"count": len(self.lines)}


def unheard(trouble: StoreError) -> None:
    raise AssertionError(trouble)


async def test_each_message_is_answered_once_it_is_written() -> None:
    book = Book()
    async with open_desk(book, broken=unheard) as address:
        visitors = [Visitor(address) for _ in range(3)]
        answers = await asyncio.gather(
            *(visitor.say("record", line=f"{number}-{each}") for number in range(4) for each, visitor in enumerate(visitors))
        )
        assert sorted(answer["count"] for answer in answers) == list(range(1, 13))
        assert sorted(book.lines) == sorted(f"{number}-{each}" for number in range(4) for each in range(3))
        # What one worker says arrives in the order in which it was said.
        assert [line for line in book.lines if line.endswith("-1")] == [f"{number}-1" for number in range(4)]
        for visitor in visitors:
            await visitor.close()


async def test_a_large_message_is_one_message() -> None:
    book = Book()
    async with open_desk(book, broken=unheard) as address:
        visitor = Visitor(address)
        await visitor.say("record", line="x" * 5_000_000)
        assert len(book.lines[0]) == 5_000_000
        await visitor.close()


async def test_who_does_not_know_the_secret_is_not_heard() -> None:
    book = Book()
    async with open_desk(book, broken=unheard) as address:
        stranger = Visitor(Address(host=address.host, port=address.port, secret="guess"), patience=0.1)
        with pytest.raises(StoreError, match=r"expected the run's writer at 127\.0\.0\.1"):
            await stranger.say("record", line="forged")
    assert book.lines == []


async def test_a_record_that_cannot_be_written_is_said_to_both_sides() -> None:
    heard: list[StoreError] = []
    async with open_desk(Book(), broken=heard.append) as address:
        visitor = Visitor(address)
        with pytest.raises(StoreError, match="the disk is full"):
            await visitor.say("fail")
        await visitor.close()
    assert [trouble.message for trouble in heard] == ["journal: the disk is full"]


async def test_a_lost_connection_is_made_again() -> None:
    book = Book()
    async with open_desk(book, broken=unheard) as address:
        visitor = Visitor(address)
        await visitor.say("record", line="a")
        await visitor.close()
        assert (await visitor.say("record", line="b"))["count"] == 2
        await visitor.close()


async def test_promise_03_a_message_whose_answer_was_lost_is_said_again_and_counts_once() -> None:
    book, lost = Book(), [True]
    async with open_desk(book, broken=unheard) as address:

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers, desk = await asyncio.open_connection(address.host, address.port)
            desk.write(await reader.readline())
            while line := await reader.readline():
                desk.write(line)
                answer = await answers.readline()
                if lost:
                    lost.clear()
                    break
                writer.write(answer)
            desk.close()
            writer.close()

        async with await asyncio.start_server(between, "127.0.0.1", 0) as proxy:
            visitor = Visitor(Address(host="127.0.0.1", port=proxy.sockets[0].getsockname()[1], secret=address.secret))
            assert [(await visitor.say("record", line=line))["count"] for line in "ab"] == [1, 2]
            await visitor.close()
    assert book.lines == ["a", "b"]


async def test_no_desk_is_an_error_after_the_patience() -> None:
    async with open_desk(Book(), broken=unheard) as address:
        pass
    with pytest.raises(StoreError, match="expected the run's writer"):
        await Visitor(address, patience=0.1).say("record", line="a")


async def test_code_without_an_event_loop_can_say_something() -> None:
    book = Book()
    async with open_desk(book, broken=unheard) as address:
        answer = await asyncio.to_thread(lambda: say_once(address, "record", line="a"))
    assert answer["count"] == 1
    assert book.lines == ["a"]


@pytest.mark.parametrize("err", [KeyError("phase"), ValueError("step"), ZeroDivisionError("by zero")])
async def test_a_failure_that_nobody_foresaw_is_heard_with_its_words(err: Exception) -> None:
    def failing(message: Mapping[str, Any]) -> dict[str, Any]:
        raise err

    heard: list[StoreError] = []
    async with open_desk(failing, broken=heard.append) as address:
        visitor = Visitor(address, patience=0.01)
        with pytest.raises(StoreError, match="expected the run's writer"):
            await visitor.say("record", line="x")
        await visitor.close()
    assert heard
    assert str(heard[0]) == f"records: expected to take in what a worker handed in, got {type(err).__name__}: {err}"
