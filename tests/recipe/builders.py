"""A small recipe on disk, whole enough to resolve and freeze."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentgym_cli.recipe.profiles import GpuSurvey

RECIPE = """\
name: toy
seed: 1
env:
  dialect: textcraft
  world: textcraft
tasks:
  manifest: tasks.csv
  train: {name: train}
  evaluation: [{name: test}]
prompt: {}
budgets: {}
retry: {}
policy:
  model: {path: model}
horizon: {kind: stages, turns: [2, 4], steps: [10]}
train:
  steps: 20
  tasks_per_step: 2
  learning_rate: 1e-3
  algorithm: {kind: grpo, group_size: 2}
evaluation: {horizon: 4}
engine: {kind: local, stack: cpu}
"""

MANIFEST = """\
index,split,category,goal,digest
0,train,depth 1,cord,0000000000000000
1,train,depth 1,board,1111111111111111
2,test,depth 2,door,2222222222222222
3,,depth 2,gate,
"""


def write_recipe(folder: Path, text: str = RECIPE, *, name: str = "toy.yaml", manifest: str = MANIFEST) -> str:
    """Write a recipe, its manifest and its model folder; gives the recipe's path."""
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / "config.json").write_text('{"layers": 3}')
    (folder / "model" / "tokenizer.json").write_text("{}")
    (folder / "tasks.csv").write_text(manifest)
    (folder / name).write_text(text)
    return str(folder / name)


def has(*memory_mib: int) -> Callable[[], GpuSurvey]:
    """A survey of a machine with these GPUs."""
    return lambda: GpuSurvey(memory_mib=memory_mib, why_none="" if memory_mib else "nvidia-smi not found")
