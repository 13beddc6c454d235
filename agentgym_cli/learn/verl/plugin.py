"""What verl loads in each of its processes: our trainer, and in a rehearsal the CPU as a platform (platform_cpu.py).

verl imports the modules that ``VERL_USE_EXTERNAL_MODULES`` names while it is being imported itself, so nothing of verl may be imported here at the
top: what needs more of it than its registries waits until verl has imported it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from agentgym_cli.recipe.resolve import whole_environment

LAUNCHER = "AGENTGYM_LAUNCHER"
"""Variable with the launcher's process id."""
LOOK_SECONDS = 1.0


class AfterImport(MetaPathFinder):
    """Calls ``then`` with a module once it has been imported; finds nothing itself."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name, self._then = name, then

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's own spec, with ``then`` behind it."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            self._then(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call ``then`` with module ``name`` now, or as soon as it is imported."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, AfterImport(name, then))


def end_with(launcher: int) -> None:
    """End this process, as Ctrl-C does, once the launcher that started it is gone: a launcher that is killed cannot end it."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="agentgym-launcher").start()


def _register_trainer(_: ModuleType) -> None:
    from agentgym_cli.learn.verl import trainer

    trainer.register()


if whole_environment().get(LAUNCHER) == str(os.getppid()):
    end_with(os.getppid())
after_import("verl.trainer.ppo.v1.trainer_sync", _register_trainer)
