"""The dialect of a run, once it is known to read what the run's policy will say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.parts import dialect_path
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed, nearest


def spoken_dialect(run: Run, *, beside: Sequence[Path]) -> Dialect:
    """Read the dialect that a run names. Raises RecipeError, also where it does not read the run's action format."""
    dialect = load_dialect(dialect_path(run.env.dialect, beside=beside))
    wanted, known = run.prompt.action_format, sorted(dialect.spec.actions)
    if wanted not in known:
        raise RecipeError(
            f"prompt.action_format: expected one that dialect {dialect.name} reads ({listed(known)}), got {wanted!r}",
            f"set prompt.action_format={nearest(wanted, known)}",
        )
    return dialect
