"""The committed books, task lists and laptop model folder are what their generator makes, and the vocabulary holds everything that is said."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from agentgym_envs.textcraft.book import shipped_book
from agentgym_envs.textcraft.make.__main__ import made_files, main
from agentgym_envs.textcraft.make.vocabulary import SPECIAL
from agentgym_envs.textcraft.world import TextCraft

CHECKOUT = Path(__file__).parents[2]
MODEL = CHECKOUT / "recipes/models/textcraft_laptop"
UNKNOWN = SPECIAL.index("<unk>")
LAPTOP = shipped_book("laptop")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@pytest.mark.slow
def test_made_files_are_committed_as_they_are_made(tmp_path: Path) -> None:
    main(tmp_path)
    names = [name for name, _ in made_files()]
    assert len(names) == 7
    for name in names:
        assert (tmp_path / name).read_bytes() == (CHECKOUT / name).read_bytes(), name


def test_the_vocabulary_is_small_sorted_and_starts_with_the_special_tokens(tokenizer: Tokenizer) -> None:
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    assert words[:5] == ["<pad>", "<unk>", "<obs>", "<act>", "<end>"]
    assert words[5:] == sorted(words[5:])
    assert len(words) < 150
    assert json.loads((MODEL / "config.json").read_text())["vocab_size"] == len(words)


def test_a_number_is_one_token_with_the_word_or_comma_before_it(tokenizer: Tokenizer) -> None:
    action = "craft 1 alder frame using 2 alder board, 1 flax cord"
    assert tokenizer.encode(action).tokens == ["craft 1", "alder", "frame", "using 2", "alder", "board", ", 1", "flax", "cord"]
    assert tokenizer.encode("Inventory: [flax] (3) ").tokens == ["Inventory", ":", "[", "flax", "]", "(3)"]


def test_special_tokens_lay_out_a_turn(tokenizer: Tokenizer) -> None:
    turn = "<obs>Got 3 flax<act>inventory<end>"
    assert tokenizer.encode(turn).tokens == ["<obs>", "Got 3", "flax", "<act>", "inventory", "<end>"]
    assert tokenizer.decode(tokenizer.encode(turn).ids) == "Got 3 flax inventory"


@pytest.mark.slow
def test_everything_said_in_every_laptop_task_is_known_and_decodes_to_itself(tokenizer: Tokenizer) -> None:
    goals = len(LAPTOP.goals)
    session = TextCraft(book=LAPTOP).open()
    prompts = [session.reset(index).observation for index in range(LAPTOP.task_count)]
    episodes = []
    for rank in range(goals):
        session.reset(rank)
        episodes.append([text for action in session.oracle() for text in (action, session.step(action).observation)])
    prompt_tokens = lengths(tokenizer, prompts)
    turn_tokens = [sum(lengths(tokenizer, episode)) for episode in episodes]
    assert max(prompt_tokens) <= 90
    assert max(prompt + turn_tokens[index % goals] for index, prompt in enumerate(prompt_tokens)) <= 256


def lengths(tokenizer: Tokenizer, said: list[str]) -> list[int]:
    """Tokens of each text and the special token after it, once every text is found known and to decode to itself."""
    encoded = [one.ids for one in tokenizer.encode_batch(said)]
    assert [text for text, ids in zip(said, encoded, strict=True) if UNKNOWN in ids] == []
    assert tokenizer.decode_batch(encoded) == said
    return [len(ids) + 1 for ids in encoded]


@pytest.mark.slow
def test_what_known_words_make_the_world_say_is_known_but_for_bare_numbers_and_large_counts(tokenizer: Tokenizer) -> None:
    session = TextCraft(book=LAPTOP).open()
    rng = random.Random(3)
    kinds, unknown = set(), set()
    for turn in range(3_000):
        if turn % 6 == 0:
            session.reset(rng.randrange(LAPTOP.task_count))
        sampled = [rng.randrange(len(SPECIAL), tokenizer.get_vocab_size()) for _ in range(rng.randrange(1, 12))]
        opener = rng.choice(("", "", "get 3", "craft 1", "inventory"))
        reply = session.step(f"{opener} {tokenizer.decode(sampled)}".strip()).observation
        encoded = tokenizer.encode(reply)
        kinds.add(" ".join(reply.split()[:3]))
        unknown |= {reply[start:end] for number, (start, end) in zip(encoded.ids, encoded.offsets, strict=True) if number == UNKNOWN}
    assert {"Could not execute", "Could not find", "Wrong item format:"} <= kinds
    assert [piece for piece in unknown if not re.fullmatch(r"[0-9]+|\([0-9]{2,}\)", piece)] == []
