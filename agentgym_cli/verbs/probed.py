"""What a probe measured of the worlds, from the file that ``agentgym probe --level full --output FILE`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from agentgym_cli.capacity.measured import Probed
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import shown

_LARGEST = 16 * 1024 * 1024
_LONGEST_MS = 1e9
_HINT = "agentgym probe RECIPE --level full --output FILE writes one"


def read_probe(path: Path) -> Probed:
    """Time of one call from the rung with the fewest sessions, calls at once from the one with the most that had no failure.

    Raises:
        RecipeError: no such file, no probe's, or one whose check ``capacity`` measured nothing.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise RecipeError(f"--probe {path}: expected at most {_LARGEST // 1024**2} MiB, got more", _HINT)
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as err:
        raise RecipeError(f"--probe {path}: expected a probe's result as JSON, got {type(err).__name__}: {shown(str(err))}", _HINT) from err
    rungs = sorted(_rungs(document))
    if not rungs:
        raise RecipeError(f"--probe {path}: expected a check named capacity with rungs of calls that did not fail, got none", _HINT)
    _, alone = rungs[0]
    # By Little's law, sessions that wait for nothing but answers make sessions / seconds calls a second.
    places = max(sessions * alone / answered for sessions, answered in rungs)
    return Probed(source=f"probe {path.name}", env_seconds=alone, env_places=max(1.0, places))


def _rungs(document: object) -> Iterator[tuple[int, float]]:
    """Sessions and median seconds of every rung without a failure, of all servers."""
    servers = document.get("servers") if isinstance(document, dict) else None
    for server in servers if isinstance(servers, list) else []:
        checks = server.get("checks") if isinstance(server, dict) else None
        for check in checks if isinstance(checks, list) else []:
            if isinstance(check, dict) and check.get("name") == "capacity" and isinstance(check.get("rungs"), list):
                yield from filter(None, map(_rung, check["rungs"]))


def _rung(rung: object) -> tuple[int, float] | None:
    if not isinstance(rung, dict):
        return None
    sessions, milliseconds = rung.get("sessions"), rung.get("p50_ms")
    if type(sessions) is not int or sessions < 1 or rung.get("failed") != 0:
        return None
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not 0 < milliseconds < _LONGEST_MS:
        return None
    return sessions, milliseconds / 1000
