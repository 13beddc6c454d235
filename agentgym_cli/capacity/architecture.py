"""How many numbers a decoder has, counted from its sizes. Reads no file; knows no bytes and no devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import listed, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder: grouped-query attention, gated MLP, two norms a layer and one at the end."""

    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    head_dim: int
    layers: int
    vocabulary: int
    tied: bool
    """Whether the output layer is the embedding."""
    biased: bool = True
    """Whether the query, key and value projections have biases, as Qwen2's do and Llama's do not."""
    output_biased: bool = False
    """Whether the output projection of attention has one too, as Llama's and Qwen3's do with ``attention_bias``."""
    mlp_biased: bool = False
    """Whether the three projections of the MLP have biases, as Llama's do with ``mlp_bias``."""
    head_norms: bool = False
    """Whether queries and keys are normed by head, as Qwen3's are: two gains of ``head_dim`` a layer."""
    positions: int | None = None
    """Tokens of context that it was made for (``max_position_embeddings``); None where nobody says."""
    stretch: float = 1.0
    """How many times that its rotary positions are stretched to, by an engine that honours ``rope_scaling``."""

    @property
    def width(self) -> int:
        """Numbers of one token's queries."""
        return self.heads * self.head_dim

    @property
    def narrow(self) -> int:
        """Numbers of one token's keys, or of its values."""
        return self.key_value_heads * self.head_dim

    @property
    def layer_matrices(self) -> int:
        """Numbers of one layer that tokens are multiplied by."""
        return self.hidden * (2 * self.width + 2 * self.narrow) + 3 * self.hidden * self.intermediate

    @property
    def layer_vectors(self) -> int:
        """Gains and biases of one layer."""
        attention = (self.width + 2 * self.narrow if self.biased else 0) + (self.hidden if self.output_biased else 0)
        mlp = 2 * self.intermediate + self.hidden if self.mlp_biased else 0
        return attention + mlp + 2 * self.hidden + (2 * self.head_dim if self.head_norms else 0)

    @property
    def layer_parameters(self) -> int:
        """Of one layer."""
        return self.layer_matrices + self.layer_vectors

    @property
    def embedding_parameters(self) -> int:
        """Of the embedding alone."""
        return self.vocabulary * self.hidden

    @property
    def vector_parameters(self) -> int:
        """Gains and biases: what ``train.parameters: gains`` trains."""
        return self.layers * self.layer_vectors + self.hidden

    @property
    def multiplied(self) -> int:
        """Numbers that each token is multiplied by, the head once; looking a token up in the embedding multiplies nothing."""
        return self.layers * self.layer_matrices + self.embedding_parameters

    @property
    def parameters(self) -> int:
        """Exact count of the numbers in the whole model."""
        embeddings = self.embedding_parameters * (1 if self.tied else 2)
        return embeddings + self.layers * self.layer_parameters + self.hidden

    def adapter_parameters(self, rank: int, targets: tuple[str, ...]) -> int:
        """Of low-rank adapters on every layer: ``rank`` times the inputs and outputs of each target. Raises RecipeError for an unknown target."""
        return self.layers * rank * sum(inputs + outputs for inputs, outputs in self._sides(targets))

    def target_parameters(self, targets: tuple[str, ...]) -> int:
        """Of the weights that adapters stand beside, on every layer. Raises RecipeError for an unknown target."""
        return self.layers * sum(inputs * outputs for inputs, outputs in self._sides(targets))

    def cache_bytes_per_token(self, bytes_per_number: int) -> int:
        """Key/value cache of one token of context."""
        return 2 * self.layers * self.narrow * bytes_per_number

    def _sides(self, targets: tuple[str, ...]) -> list[tuple[int, int]]:
        """Inputs and outputs of the linear layers of a block that are named."""
        sides: Mapping[str, tuple[int, int]] = {
            "q_proj": (self.hidden, self.width),
            "k_proj": (self.hidden, self.narrow),
            "v_proj": (self.hidden, self.narrow),
            "o_proj": (self.width, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }
        unknown = [name for name in targets if name not in sides]
        if unknown:
            raise RecipeError(
                f"train.lora.targets: expected names of {listed(tuple(sides))}, got {shown(unknown[0])}", "name linear layers of the model's blocks"
            )
        return [sides[name] for name in targets]
