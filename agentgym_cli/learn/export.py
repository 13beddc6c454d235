"""A trained model as a folder that transformers loads: config, weights, tokenizer, chat template, generation config, card. Knows no run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from agentgym_cli.episode.layouts import Layout
from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.errors import PolicyError, TrainerError
from agentgym_cli.learn.model import WEIGHTS

TOKENIZER_CONFIG = "tokenizer_config.json"
_CONFIG = "config.json"
_TEMPLATE = "chat_template.jinja"
_COPIED = ("tokenizer.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model")
_PROBE = "Goal: craft 3 oak planks (1 log).\n\nYou don't have  any.\t[north, south] Über 12 %"
"""A text on whose pieces tokenizers differ."""
_LEFT_OUT = ("quantization_config", "torch_dtype", "transformers_version")
"""Of a config: true of the files that the model was read from, not of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporting:
    """What a folder is made of."""

    model: CausalModel
    """With adapters merged into its weights."""
    model_folder: Path
    tokenizer_folder: Path
    layout: Layout
    template: str
    """Chat template, Jinja."""
    stop: int
    """Token that ends an action."""
    generation: Mapping[str, object]
    """How the run samples: temperature and the like."""
    card: Callable[[str], str]
    """README.md, given the class of transformers that loads the tokenizer."""


def export_folder(folder: Path, what: Exporting) -> None:
    """Write the folder, whole or not at all; it must not be there.

    Raises:
        PolicyError: the model's or the tokenizer's own files cannot be read.
        TrainerError: the folder is there, or cannot be written.
    """
    if folder.exists():
        raise TrainerError(f"{folder}: expected a folder that is not there yet, got one that is", "name another one with -o DIR")
    config = _config(what)
    tokenizer_config = _tokenizer_config(what)
    pad = _token_id(what.tokenizer_folder, tokenizer_config["pad_token"])
    generation = {**what.generation, "eos_token_id": what.stop, "pad_token_id": pad}
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        for name in _COPIED:
            if (what.tokenizer_folder / name).is_file():
                shutil.copyfile(what.tokenizer_folder / name, aside / name)
        for name, value in ((_CONFIG, config), (TOKENIZER_CONFIG, tokenizer_config), ("generation_config.json", generation)):
            (aside / name).write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        (aside / _TEMPLATE).write_text(what.template, encoding="utf-8")
        _save(what.model, aside / WEIGHTS)
        (aside / "README.md").write_text(what.card(tokenizer_loader(aside)), encoding="utf-8")
        aside.rename(folder)
    except OSError as err:
        raise TrainerError(f"{folder}: cannot write the model: {err.strerror or err}", "free some space, or name another place: -o DIR") from err
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def tokenizer_loader(folder: Path) -> str:
    """The class of transformers that reads a folder's tokenizer as its tokenizer.json says.

    For some kinds of model, Qwen2 among them, ``AutoTokenizer`` of transformers 5 takes vocabulary and merges alone and the rest from its own code,
    which is another tokenizer where the file's is not a byte-level BPE.
    """
    exact, automatic = PreTrainedTokenizerFast.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    same = exact.encode(_PROBE) == automatic.encode(_PROBE)
    return "AutoTokenizer" if same else "PreTrainedTokenizerFast"


def template_of(layout: Layout) -> str:
    """A chat template that lays messages out as ``layout`` does: instructions, observations of the user, actions of the assistant."""
    text = {name: json.dumps(value, ensure_ascii=False) for name, value in _texts(layout).items()}
    return (
        "{%- set ns = namespace(said=false) -%}{%- for message in messages -%}"
        "{%- if message['role'] == 'system' -%}"
        f"{{{{- {text['before_instructions']} + message['content'] + {text['between']} -}}}}"
        "{%- elif message['role'] == 'user' -%}"
        f"{{{{- ({text['before_later']} if ns.said else ({text['before_first']} if loop.first else '')) + message['content'] -}}}}"
        f"{{%- if not loop.last or add_generation_prompt -%}}{{{{- {text['behind_later']} if ns.said else {text['behind_first']} -}}}}{{%- endif -%}}"
        f"{{%- else -%}}{{{{- message['content'] + {text['end']} -}}}}{{%- set ns.said = true -%}}"
        "{%- endif -%}{%- endfor -%}"
    )


def _texts(layout: Layout) -> dict[str, str]:
    return {
        "before_instructions": layout.before_instructions or "",
        "between": layout.between,
        "before_first": layout.before_first,
        "behind_first": layout.behind_first,
        "before_later": layout.before_later,
        "behind_later": layout.behind_later,
        "end": layout.end,
    }


def _save(model: CausalModel, path: Path) -> None:
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items() if name not in tied}
    save_file(weights, path, metadata={"format": "pt"})


def _config(what: Exporting) -> dict[str, object]:
    config = {key: value for key, value in _read(what.model_folder / _CONFIG).items() if key not in _LEFT_OUT}
    return config | {"architectures": [type(what.model).__name__], "dtype": "float32", "eos_token_id": what.stop}


def _tokenizer_config(what: Exporting) -> dict[str, object]:
    path = what.tokenizer_folder / TOKENIZER_CONFIG
    known = _read(path) if path.is_file() else {}
    known.pop("chat_template", None)
    known.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    known["eos_token"] = what.layout.end
    pad = known.get("pad_token")
    known["pad_token"] = pad["content"] if isinstance(pad, dict) else pad or what.layout.end
    return known


def _token_id(folder: Path, token: object) -> int | None:
    known = _read(folder / "tokenizer.json")
    added = known.get("added_tokens")
    found = [each["id"] for each in added if isinstance(each, dict) and each.get("content") == token] if isinstance(added, list) else []
    return int(found[0]) if found else None


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as err:
        raise PolicyError(f"{path}: expected a JSON object, got {type(err).__name__}: {str(err)[:200]}") from err
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: expected a JSON object, got another value")
    return value
