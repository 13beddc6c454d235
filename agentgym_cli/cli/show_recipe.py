"""Recipes on stdout: the list of those that ship, one of them resolved, the schema."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentgym_cli.cli.show import print_json, stdout_console

if TYPE_CHECKING:
    from agentgym_cli.recipe.schema.run import Run
    from agentgym_cli.verbs.recipes import ListedRecipe, Shown


def show_recipes(recipes: Sequence[ListedRecipe], *, as_json: bool) -> None:
    """Print one row for each shipped recipe."""
    if as_json:
        print_json([_listed_values(each) for each in recipes])
        return
    console = stdout_console()
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("recipe", overflow="fold", min_width=20)
    for name in ("turns", "n", "steps", "expected"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("n", "steps") else "left")
    for each in recipes:
        train = each.run.train
        group = str(train.algorithm.group_size) if train else "-"
        steps = f"{train.steps:,}" if train else "-"
        table.add_row(escape(each.recipe.removeprefix("recipes/")), each.turns, group, steps, _expected(each.run))
    console.print(table)
    console.print(
        "turns: of training by stage, else of evaluation; n: episodes of one task a step; expected: success that the source reports, of how many "
        "tasks. agentgym train recipes/RECIPE --show prints one in full.",
        style="dim",
    )


def _expected(run: Run) -> str:
    """The last result that the source reports: the trained policy's."""
    results = run.about.expected
    return f"{results[-1].percent:g}% of {results[-1].tasks}" if results else "-"


def _listed_values(each: ListedRecipe) -> dict[str, object]:
    run = each.run
    return {
        "recipe": each.recipe,
        "name": run.name,
        "description": run.description,
        "env": run.env.dialect,
        "turns": each.turns,
        "group_size": run.train.algorithm.group_size if run.train else None,
        "steps": run.train.steps if run.train else None,
        "profiles": list(each.profiles),
        "about": dataclasses.asdict(run.about),
    }


def show_resolved(shown: Shown, *, as_json: bool) -> None:
    """Print a resolved run, the stages of its horizon against steps and context, and what resumes make of it."""
    from agentgym_cli.recipe.freeze import config_of
    from agentgym_cli.recipe.yaml import dump_yaml

    if as_json:
        print_json(
            {
                "config": config_of(shown.run),
                "digest": shown.digest,
                "why_no_digest": shown.why_no_digest,
                "plan": dataclasses.asdict(shown.plan),
                "warnings": list(shown.warnings),
            }
        )
        return
    console = stdout_console()
    sys.stdout.write(dump_yaml(config_of(shown.run)))
    _print_stages(console, shown)
    for warning in shown.warnings:
        console.print(f"warning: {escape(warning)}")
    said = shown.digest or f"none yet: {shown.why_no_digest}"
    console.print(f"digest {escape(said)}")


def _print_stages(console: Console, shown: Shown) -> None:
    plan, budgets = shown.plan, shown.run.budgets
    if shown.run.train is None:
        return
    console.print(f"\nhorizon over {shown.run.train.steps} steps, {budgets.context_tokens} tokens of context, {budgets.response_tokens} a response:")
    table = Table(box=None, padding=(0, 1))
    for name in ("steps", "turns", "tokens a turn", "turns at full responses"):
        table.add_column(name, justify="right")
    for stage in plan.stages:
        table.add_row(f"{stage.first}-{stage.last}", str(stage.turns), str(stage.tokens_per_turn), str(stage.full_turns))
    console.print(table)
    if plan.more_stages:
        console.print(f"and {plan.more_stages} more stages")
    console.print("interrupted and resumed:")
    table = Table(box=None, padding=(0, 1))
    for name in ("after step", "goes on with", "as uninterrupted"):
        table.add_column(name, overflow="fold")
    for row in plan.resumes:
        more = [f"and {row.more} more"] if row.more else []
        spans = ", ".join([*(f"{first}-{last}: {turns}" for first, last, turns in row.spans), *more])
        table.add_row(str(row.after), spans, "yes" if row.same else "NO")
    console.print(table)


def show_schema(*, as_json: bool) -> None:
    """Print the JSON Schema of a recipe, or its keys as a table for people."""
    if as_json:
        from agentgym_cli.recipe.json_schema import recipe_schema

        print_json(recipe_schema())
        return
    from agentgym_cli.recipe.reference import keys

    console = stdout_console()
    for title, rows in keys():
        console.print(f"\n{escape(title)}", style="bold")
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        for name, width in (("key", 14), ("expects", 22), ("default", 8), ("meaning", 24)):
            table.add_column(name, overflow="fold", min_width=width)
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
