"""The forty levels that AgentGym serves, as classes of MiniGrid with their options. The only module but ``oracle`` that imports MiniGrid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minigrid.envs import babyai
from minigrid.envs.babyai.core import roomgrid_level
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel


def _nothing(*_: object) -> None:
    """In place of print."""


# MiniGrid prints each layout that it rejects on standard output, which is where the server says its address.
vars(roomgrid_level)["print"] = _nothing


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of task."""

    name: str
    """As AgentGym's table has it, without ``BabyAI-`` and ``-v0``."""
    made_by: type[RoomGridLevel]
    options: Mapping[str, object] = field(default_factory=dict)

    def build(self) -> RoomGridLevel:
        """The level, not reset yet."""
        return self.made_by(**self.options)


# The options are those that MiniGrid 2.3.1, the newest that AgentGym allows, registers under these names. MiniGrid 3 has taken
# GoToObjS6-v0, whose room is 4 cells wide, out of its register; its class is there.
LEVELS = (
    Level("GoToRedBallGrey", babyai.GoToRedBallGrey),
    Level("GoToRedBall", babyai.GoToRedBall),
    Level("GoToRedBallNoDists", babyai.GoToRedBallNoDists),
    Level("GoToObjS6", babyai.GoToObj, {"room_size": 4}),
    Level("GoToLocalS8N7", babyai.GoToLocal, {"room_size": 8, "num_dists": 7}),
    Level("GoToObjMazeS7", babyai.GoTo, {"num_dists": 1, "room_size": 7}),
    Level("GoToImpUnlock", babyai.GoToImpUnlock),
    Level("GoToSeqS5R2", babyai.GoToSeq, {"room_size": 5, "num_rows": 2, "num_cols": 2, "num_dists": 4}),
    Level("GoToRedBlueBall", babyai.GoToRedBlueBall),
    Level("GoToDoor", babyai.GoToDoor),
    Level("GoToObjDoor", babyai.GoToObjDoor),
    Level("Open", babyai.Open),
    Level("OpenRedDoor", babyai.OpenRedDoor),
    Level("OpenDoorLoc", babyai.OpenDoor, {"select_by": "loc"}),
    Level("OpenRedBlueDoorsDebug", babyai.OpenTwoDoors, {"first_color": "red", "second_color": "blue", "strict": True}),
    Level("OpenDoorsOrderN4Debug", babyai.OpenDoorsOrder, {"debug": True, "num_doors": 4}),
    Level("Pickup", babyai.Pickup),
    Level("UnblockPickup", babyai.UnblockPickup),
    Level("PickupLoc", babyai.PickupLoc),
    Level("PickupDistDebug", babyai.PickupDist, {"debug": True}),
    Level("PickupAbove", babyai.PickupAbove),
    Level("PutNextLocalS6N4", babyai.PutNextLocal, {"room_size": 6, "num_objs": 4}),
    Level("PutNextS7N4Carrying", babyai.PutNext, {"room_size": 7, "objs_per_room": 4, "start_carrying": True}),
    Level("Unlock", babyai.Unlock),
    Level("UnlockLocalDist", babyai.UnlockLocal, {"distractors": True}),
    Level("KeyInBox", babyai.KeyInBox),
    Level("UnlockPickupDist", babyai.UnlockPickup, {"distractors": True}),
    Level("BlockedUnlockPickup", babyai.BlockedUnlockPickup),
    Level("UnlockToUnlock", babyai.UnlockToUnlock),
    Level("ActionObjDoor", babyai.ActionObjDoor),
    Level("FindObjS7", babyai.FindObjS5, {"room_size": 7}),
    Level("KeyCorridorS6R3", babyai.KeyCorridor, {"room_size": 6, "num_rows": 3}),
    Level("OneRoomS20", babyai.OneRoomS8, {"room_size": 20}),
    Level("MoveTwoAcrossS8N9", babyai.MoveTwoAcross, {"room_size": 8, "objs_per_room": 9}),
    Level("SynthS5R2", babyai.Synth, {"room_size": 5, "num_rows": 2}),
    Level("SynthLoc", babyai.SynthLoc),
    Level("SynthSeq", babyai.SynthSeq),
    Level("MiniBossLevel", babyai.MiniBossLevel),
    Level("BossLevel", babyai.BossLevel),
    Level("BossLevelNoUnlock", babyai.BossLevelNoUnlock),
)
SEEDS = 100_000
"""Tasks of a level. AgentGym has no bound."""
