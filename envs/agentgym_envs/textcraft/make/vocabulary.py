"""The laptop model's folder: a word-level tokenizer over everything the laptop world says, and a small Qwen2 configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from agentgym_envs.textcraft.book import Book
from agentgym_envs.textcraft.listing import first_observation, needed_recipes
from agentgym_envs.textcraft.plan import plan

SPECIAL = ("<pad>", "<unk>", "<obs>", "<act>", "<end>")
"""Ids 0 to 4. A turn is ``<obs> observation <act> action <end>``."""
_TOKEN = r"[A-Za-z]+ [0-9]+|, [0-9]+|\([0-9]+\)|[A-Za-z]+|[0-9]+|\n|[^\sA-Za-z0-9]"
_MOST_GOT = 6
_MOST_SHOWN = 20
"""Larger counts in an inventory become <unk>."""


def word_tokenizer(book: Book) -> Tokenizer:
    """Words, punctuation and newlines; a number is one token with the word, comma or bracket before it. Ids are sorted and fixed by the book."""
    splitter = pre_tokenizers.Split(Regex(_TOKEN), behavior="removed", invert=True)
    words = sorted({piece for text in _sayings(book) for piece, _ in splitter.pre_tokenize_str(text)})
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate((*SPECIAL, *words))}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = splitter
    # Joins with spaces, then closes up what is written without them, so that a decoded action or observation is the text itself.
    tight = [("\n", " \n"), ("\n", "\n "), ("[", "[ "), ("]", " ]"), (":", " :")]
    tokenizer.decoder = decoders.Sequence(
        [decoders.WordPiece(prefix="##", cleanup=True), decoders.Fuse(), *(decoders.Replace(loose, closed) for closed, loose in tight)]
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def tokenizer_json(book: Book) -> str:
    """``tokenizer.json``."""
    return json.dumps(json.loads(word_tokenizer(book).to_str()), indent=1) + "\n"


def tokenizer_config_json() -> str:
    """``tokenizer_config.json``: what names the special tokens to transformers."""
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<end>", "model_max_length": 512}
    return json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}, indent=1, sort_keys=True) + "\n"


def config_json(book: Book) -> str:
    """``config.json``: 2 layers, 128 wide, about three hundred thousand parameters."""
    shape = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32}
    rest = {"hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "initializer_range": 0.02}
    tokens = {"vocab_size": word_tokenizer(book).get_vocab_size(), "pad_token_id": 0, "eos_token_id": 4, "bos_token_id": None}
    kind = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": True, "attention_dropout": 0.0, "use_cache": True}
    return json.dumps({**kind, **shape, **rest, **tokens}, indent=1, sort_keys=True) + "\n"


def _sayings(book: Book) -> Iterator[str]:
    """Texts that hold every token which the world says, or which an action can make it say."""
    yield "Could not execute. Could not find that many. Could not find enough items to craft. Could not find a valid recipe for. Wrong item format:"
    yield "inventory Inventory: You are not carrying anything. []"
    yield from (f"({count})" for count in range(1, _MOST_SHOWN + 1))
    yield from (f"get {count} Got {count} " for count in range(1, _MOST_GOT + 1))
    for index in range(book.task_count):
        yield first_observation(book, index)
    for goal in book.goals:
        yield from _with_replies(plan(book, needed_recipes(book, goal), goal))


def _with_replies(actions: Iterable[str]) -> Iterator[str]:
    for action in actions:
        yield action
        if action.startswith("craft"):
            yield action.replace("craft", "Crafted").partition(" using ")[0]
            yield action.replace("craft", "recipe for").partition(" using ")[0]
    yield "recipe for 1"
