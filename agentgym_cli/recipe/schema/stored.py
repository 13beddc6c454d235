"""Where learning from stored data gets it: demonstrations, and pairs of a better and a worse episode. Reads none of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, section

Place = Annotated[str, Field(min_length=1, max_length=1000)]


@section
class OracleSource:
    """Episodes of the world's oracle, played before the first step."""

    kind: Literal["oracle"] = "oracle"
    count: Count
    """Tasks of the training split, in drawing order, that are demonstrated once each."""


@section
class AgentTrajSource:
    """A file of AgentTraj: a JSON list of ``{item_id, conversations: [{from, value, loss}]}``. Only replies with ``loss: true`` are learned."""

    kind: Literal["agenttraj"] = "agenttraj"
    path: Place
    """The file; looked for like every file that a recipe names."""


@section
class EpisodesSource:
    """Successful episodes of an earlier run of the same environment and action format, as its journal has them."""

    kind: Literal["run"] = "run"
    path: Place
    """The run's folder."""
    at_least: float | None = None
    """Least return of an episode that is learned; None takes the successes."""


DemonstrationSource = Annotated[OracleSource | AgentTrajSource | EpisodesSource, Field(discriminator="kind")]


@section
class PairsFileSource:
    """A file of pairs, one JSON object a line: ``{task, chosen: [{role, content}], rejected: [{role, content}]}``."""

    kind: Literal["file"] = "file"
    path: Place
    """The file; looked for like every file that a recipe names."""


@section
class EpisodePairsSource:
    """Pairs of episodes of one task from an earlier run of the same environment and action format, as its journal has them."""

    kind: Literal["run"] = "run"
    path: Place
    """The run's folder."""


@section
class ExploredPairsSource:
    """Pairs of episodes that the policy plays itself before the first step."""

    kind: Literal["explore"] = "explore"
    tasks: Count
    """Tasks of the training split, in drawing order."""
    samples_per_task: Annotated[int, Field(ge=2)]
    """Episodes of each task; one alone makes no pair."""


PairSource = Annotated[PairsFileSource | EpisodePairsSource | ExploredPairsSource, Field(discriminator="kind")]
