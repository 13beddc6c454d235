"""verl asks for a platform when it is imported; these tests have a CPU."""

from __future__ import annotations

import os

os.environ.update(
    VERL_PLATFORM="cpu",
    VERL_USE_EXTERNAL_MODULES="agentgym_cli.learn.verl.plugin,agentgym_cli.learn.verl.platform_cpu",
    VERL_USE_EXTERNAL_PLUGINS="none",
    TORCHDYNAMO_DISABLE="1",
)
