"""How every section of a recipe is declared: frozen, slotted, keyword-only, nothing unknown accepted, docstrings as descriptions."""

from __future__ import annotations

from typing import Annotated, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

T = TypeVar("T")
_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def section(cls: type[T]) -> type[T]:
    """Declare one section of a recipe."""
    return dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)(cls)  # type: ignore[return-value]


Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
