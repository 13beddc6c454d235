"""What verl loads in each of its processes: our trainer, and in a rehearsal the CPU as a platform (platform_cpu.py).

verl imports the modules that ``VERL_USE_EXTERNAL_MODULES`` names while it is being imported itself, so nothing of verl may be imported here at the
top: what needs more of it than its registries waits until verl has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


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


def _register_trainer(_: ModuleType) -> None:
    from agentgym_cli.learn.verl import trainer

    trainer.register()


after_import("verl.trainer.ppo.v1.trainer_sync", _register_trainer)
