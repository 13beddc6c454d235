"""Reports are tested on the same store in memory as the store itself."""

from __future__ import annotations

from tests.store.conftest import migrated, store

__all__ = ["migrated", "store"]
