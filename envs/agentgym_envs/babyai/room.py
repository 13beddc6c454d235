"""One task in MiniGrid: its moves, and the text and the picture of its state. Knows no sessions and no scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

from agentgym_envs.babyai.actions import Actions, actions_in
from agentgym_envs.babyai.levels import LEVELS
from agentgym_envs.babyai.png import data_url, png
from agentgym_envs.babyai.view import Sight, describe, things_in


@dataclass(frozen=True, slots=True)
class Moved:
    """What the last of some moves led to."""

    ended: bool
    """MiniGrid ended its episode at it: the goal was reached, or can no longer be."""
    reward: float
    """MiniGrid's: 1 - 0.9 n / N after n of N moves where the goal was reached, else 0."""


class Room:
    """Task ``index``, from its start. 0 <= index."""

    def __init__(self, index: int) -> None:
        self.level: RoomGridLevel = LEVELS[index % len(LEVELS)].build()
        self._image = self.level.reset(seed=index // len(LEVELS))[0]["image"]
        self.goal: str = self.level.mission.replace("then", "and").replace("after you", "and")
        self._look()

    @property
    def most_moves(self) -> int:
        """N, the moves after which MiniGrid's own episode would end."""
        return int(self.level.max_steps)

    def act(self, moves: tuple[int, ...]) -> Moved:
        """Make the moves (at least one), up to the first that changes nothing in view."""
        ended, reward = False, 0.0
        for move in moves:
            view, paid, ended, _, _ = self.level.step(move)
            reward, before = float(paid), self._image
            self._image = view["image"]
            if np.array_equal(before, self._image):
                break
        self._look()
        return Moved(ended, reward)

    def picture(self) -> str:
        """The whole grid, what is in view lit, 32 pixels a cell, as a PNG in a ``data:`` URL."""
        frame = self.level.get_frame(highlight=True, tile_size=32)
        height, width, _ = frame.shape
        return data_url(png(frame.astype(np.uint8).tobytes(), width, height))

    def _look(self) -> None:
        level, held = self.level, self.level.carrying
        x, y = level.agent_pos
        sight = Sight(
            cells=self._image.tolist(),
            place=(int(x), int(y)),
            facing=int(level.agent_dir),
            carrying=None if held is None else (held.color, held.type),
        )
        things = things_in(sight)
        self.description = describe(sight, things)
        self.actions: Actions = actions_in(sight, things)
