"""verl's replay buffer as our schedule needs it: the groups of a batch are those that are scheduled for its step, however many others are done."""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer


class StepBuffer(ReplayBuffer):
    """What ``trainer.v1.sampler.custom_sampler`` names. verl's own takes the first groups that are done, whatever step they are of."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> Any:
        """See verl; waits until all groups of the step are over."""
        self._step = global_steps
        return super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)

    def _sampleable_terminal_keys(self, partition_id: str, eviction_reasons: Any) -> set[str]:
        steps = self.prompt_global_steps[partition_id]
        return {uid for uid in super()._sampleable_terminal_keys(partition_id, eviction_reasons) if steps[uid] == self._step}
