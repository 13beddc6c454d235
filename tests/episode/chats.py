"""A small byte-level tokenizer and chat templates of every behaviour, all made here."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from agentgym_cli.episode.template_layout import TemplateFacts, derive_layout
from agentgym_cli.episode.templates import ChatTemplate
from agentgym_cli.episode.tokens import TurnTokens

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ORDINARY = ["<think>", "</think>"]
_LOOP = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ CONTENT }}<|im_end|>\n{% endfor %}"
_ASK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHATML = _LOOP.replace("CONTENT", "m.content") + _ASK
STRIPPING = _LOOP.replace("CONTENT", "m.content | trim") + _ASK
FORGETFUL = _LOOP.replace("CONTENT", "m.content.split('</think>')[-1] if m.role == 'assistant' else m.content") + _ASK
POLITE = "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}" + CHATML
THINKING = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
WITHOUT_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + CHATML
COUNTING = CHATML.replace("<|im_start|>{{", "<|im_start|>{{ loop.index }}{{")
ENDLESS = CHATML.replace("<|im_end|>", "")
SHOUTING = _LOOP.replace("CONTENT", "m.content | upper") + _ASK
DATED = "{{ strftime_now('%Y') }}" + CHATML


def byte_tokenizer() -> Tokenizer:
    """Byte-level pieces, three special tokens and two ordinary added ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(["the user and the assistant and the system go north to the key\n\n"] * 4, trainer)
    tokenizer.add_tokens([AddedToken(token, special=token in SPECIAL, normalized=False) for token in (*SPECIAL, *ORDINARY)])
    return tokenizer


BYTES = byte_tokenizer()


def chat_template(source: str) -> ChatTemplate:
    return ChatTemplate(source, tokens={"eos_token": "<|im_end|>"}, where="chat.jinja")


def laid_out(source: str) -> tuple[TurnTokens, TemplateFacts]:
    """The tokens of a template's turns, and its facts."""
    layout, facts = derive_layout(chat_template(source), [*SPECIAL, *ORDINARY])
    return TurnTokens(BYTES, layout), facts
