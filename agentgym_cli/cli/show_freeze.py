"""What ``agentgym freeze`` found, on stdout: digests by item, differences, drift. 80 columns, piped or not."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.errors import RecipeError

if TYPE_CHECKING:
    from agentgym_cli.recipe.drift import Difference
    from agentgym_cli.recipe.freeze import Frozen
    from agentgym_cli.verbs.freeze import Checked


_EFFECTS = {"can change results": True, "cannot change results": False, "beside the digest: other servers, or other words of the same": None}


def show_frozen(frozen: Frozen, *, as_json: bool) -> None:
    """Print the digest of each item and the one over all, warnings, and what the servers say they are."""
    if as_json:
        sys.stdout.write(frozen.to_json() + "\n")
        return
    console = stdout_console()
    console.print(Text(f"{frozen.run.name}, profile {frozen.run.profile}: {frozen.run.profile_reason}"))
    _columns(console, [], [[item, digest[:32]] for item, digest in sorted(frozen.items.items())])
    _print_observed(console, frozen.observed)
    for warning in frozen.warnings:
        console.print(Text(f"warning: {_clean(warning)}"), soft_wrap=True)
    console.print(f"digest {frozen.digest}", soft_wrap=True)


def show_diff(differences: Sequence[Difference], *, as_json: bool) -> None:
    """Print what differs between two frozen runs, what can change a result apart from what cannot."""
    if as_json:
        print_json([_values(each) for each in differences])
        return
    console = stdout_console()
    if not differences:
        console.print("no difference")
        return
    for title, affects in _EFFECTS.items():
        if found := [each for each in differences if each.affects_results is affects]:
            console.print(f"{title}:")
            _columns(console, ["key", "a", "b"], [_row(each, "-", "-") for each in found])


def show_check(checked: Checked, *, as_json: bool) -> None:
    """Print item by item what has drifted since a run was frozen. Raises RecipeError when something has."""
    if as_json:
        items = {item: [_values(each) for each in differences] for item, differences in checked.items.items()}
        print_json({"digest": checked.frozen.digest, "drifted": checked.drifted, "items": items, "observed": dict(checked.frozen.observed)})
    else:
        _print_check(checked)
    if checked.drifted:
        raise RecipeError(
            f"{checked.name}: expected the files that it was frozen with, got drift in {', '.join(checked.drifted)}",
            "go back to those files, or let train or eval go on with --allow-drift, which every report of the run then says",
        )


def _print_check(checked: Checked) -> None:
    console = stdout_console()
    console.print(Text(f"{checked.frozen.run.name}, profile {checked.frozen.run.profile}"))
    console.print(f"digest {checked.frozen.digest}", soft_wrap=True)
    rows: list[list[str]] = []
    for item, differences in checked.items.items():
        rows += [_row(each, "-", "gone") for each in differences] or [[item, "same", ""]]
    _columns(console, ["item", "was", "is"], rows)
    _print_observed(console, checked.frozen.observed)


def _row(difference: Difference, was: str, now: str) -> list[str]:
    from agentgym_cli.recipe.drift import brief

    key = f"{difference.key} (same tasks, another order)" if difference.reordered else difference.key
    return [key, brief(difference.a, nothing=was), brief(difference.b, nothing=now)]


def _values(difference: Difference) -> dict[str, object]:
    return {
        "item": difference.item,
        "key": difference.key,
        "a": difference.a,
        "b": difference.b,
        "affects_results": difference.affects_results,
        "reordered": difference.reordered,
    }


def _print_observed(console: Console, observed: Mapping[str, str]) -> None:
    for where, said in observed.items():
        console.print(Text(_clean(f"observed at {where}: {said}")), soft_wrap=True)


def _columns(console: Console, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table without lines; nothing in it is read as markup."""
    table = Table(box=None, padding=(0, 1), show_header=bool(names))
    rows = list(rows)
    for number in range(len(rows[0])):
        table.add_column(names[number] if names else "", overflow="fold", min_width=12 if number else None)
    for row in rows:
        table.add_row(*(Text(_clean(cell)) for cell in row))
    console.print(table)


def _clean(text: str) -> str:
    from agentgym_cli.report.text import for_terminal

    return for_terminal(text, limit=1000)
