"""Views of a BabyAI agent, drawn by hand."""

from __future__ import annotations

from agentgym_envs.babyai.view import Place, Sight

CELLS = {
    " ": (1, 0, 0),
    "?": (0, 0, 0),
    "W": (2, 5, 0),
    "k": (5, 0, 0),
    "K": (5, 4, 0),
    "b": (6, 2, 0),
    "x": (7, 1, 0),
    "o": (4, 0, 0),
    "c": (4, 0, 1),
    "l": (4, 4, 2),
}
"""Empty, unseen, grey wall, red key, yellow key, blue ball, green box, red door that is open, red closed door, yellow locked door."""


def seen(*rows: str, place: Place = (10, 10), facing: int = 3, carrying: tuple[str, str] | None = None) -> Sight:
    """What lies before the agent: rows of seven characters, the nearest last with the agent at ``^`` in its middle; rows left out are empty."""
    drawn = [" " * 7] * (7 - len(rows)) + list(rows)
    assert drawn[6][3] == "^" and all(len(row) == 7 for row in drawn)
    own = CELLS[" "]
    return Sight(
        cells=[[own if character == "^" else CELLS[character] for character in (row[column] for row in drawn)] for column in range(7)],
        place=place,
        facing=facing,
        carrying=carrying,
    )
