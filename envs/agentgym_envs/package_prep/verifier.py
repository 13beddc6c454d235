"""Whether an order was fulfilled, read from the state. Knows no action, no observation and no reward: what was said has no part in it."""

from __future__ import annotations

from agentgym_envs.package_prep.orders import Order
from agentgym_envs.package_prep.state import State


def fulfilled(order: Order, state: State) -> bool:
    """The carrier took just the ordered things, each in what it calls for, out of a package that nothing had changed since it was checked."""
    wanted = {thing: order.findings[thing].material for thing in order.things}
    return state.shipped == wanted and state.checked_at is not None and state.checked_at == state.changes
