"""package_prep: prepare a package and ship it. Knows no HTTP. What counts is the state, never what the policy says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym_envs.package_prep.orders import MATERIALS, TASK_COUNT, THINGS, Order, order_of
from agentgym_envs.package_prep.state import State
from agentgym_envs.package_prep.verifier import fulfilled
from agentgym_envs.protocol import JSON, Start, Step, WorldError

_NAMES = "|".join((*THINGS, *MATERIALS))
_INSPECT = re.compile(rf"inspect (?:the )?({_NAMES})", re.IGNORECASE)
_TAKE = re.compile(rf"take (?:the )?({_NAMES})", re.IGNORECASE)
_PACK = re.compile(rf"pack (?:the )?({'|'.join(THINGS)}) in (?:the |a )?({'|'.join(MATERIALS)})", re.IGNORECASE)
_QUOTED_CHARACTERS = 100
_RULES = (
    "What breaks is packed in bubble wrap, what bends in cardboard, anything else in paper; how a thing is made, an inspection shows.\n"
    "Only what is ordered goes into the package. Verify the package before it is dispatched; a change after that makes the verification stale."
)
_USES = {
    "bubble wrap": "A roll of it, for what breaks.",
    "cardboard": "Stiff sheets of it, for what bends.",
    "paper": "Brown paper, for what neither breaks nor bends.",
}


class _Refused(Exception):
    """The action has no effect; the message says why."""


@dataclass(frozen=True, slots=True)
class PackagePrep:
    """The world: its tasks are the same everywhere."""

    name: str = "package_prep"
    wire: str = "package_prep"
    greeting: str = "package_prep"
    blocking: bool = False
    task_count: int = TASK_COUNT

    def open(self) -> PackagePrepSession:
        """A session that has not been reset yet."""
        return PackagePrepSession()

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class PackagePrepSession:
    """One order and what has become of it."""

    state: State = field(default_factory=State)
    _order: Order | None = None

    def reset(self, index: int) -> Start:
        """Put everything back on the shelf and take order ``index``."""
        if not 0 <= index < TASK_COUNT:
            raise WorldError(f"The task {str(index)[:40]} is out of range: expected 0 to {TASK_COUNT - 1}.")
        self._order, self.state = order_of(index), State()
        shelf = ", ".join(self._order.looks.get(name, name) for name in self._order.shelf)
        return Start(f"On the shelf: {shelf}.\n{_RULES}\nOrder: {self._order.goal}.")

    def step(self, action: str) -> Step:
        """Execute one action; done when the package is dispatched, with reward 1 when it was right and had been verified as it is."""
        order = self._asked()
        if self.state.shipped is not None:
            raise WorldError("The task has finished. Reset the session to start a task.")
        try:
            observation = self._execute(order, action.strip().removesuffix("."))
        except _Refused as refused:
            return Step(f"Nothing happens: {refused}", 0, False)
        shipped = self.state.shipped is not None
        return Step(observation, int(shipped and self.state.checked and self.state.package == order.packed), shipped)

    def look(self, name: str) -> JSON:
        """The ``goal``."""
        if name != "goal":
            raise WorldError(f"The world shows a goal, not {name[:_QUOTED_CHARACTERS]}.")
        return self._asked().goal

    def oracle(self) -> tuple[str, ...]:
        """Actions that fulfil the order from its start."""
        packed = self._asked().packed
        materials = tuple(dict.fromkeys(packed.values()))
        inspect = [f"inspect {thing}" for thing in packed]
        take = [f"take {name}" for name in (*packed, *materials)]
        return (*inspect, *take, *(f"pack {thing} in {material}" for thing, material in packed.items()), "verify", "dispatch")

    def verify(self) -> bool:
        """Whether the order was fulfilled, read from the state."""
        return fulfilled(self._asked(), self.state)

    def close(self) -> None:
        """Nothing is held."""

    def _asked(self) -> Order:
        if self._order is None:
            raise WorldError("The session has no task. Reset it first.")
        return self._order

    def _execute(self, order: Order, action: str) -> str:
        if match := _INSPECT.fullmatch(action):
            return self._inspect(order, match[1].lower())
        if match := _TAKE.fullmatch(action):
            return self._take(match[1].lower())
        if match := _PACK.fullmatch(action):
            return self._pack(match[1].lower(), match[2].lower())
        match action.lower():
            case "verify":
                return self._verify(order)
            case "dispatch":
                return self._dispatch(order)
        raise _Refused(f"{action[:_QUOTED_CHARACTERS]!r} is no action (inspect, take, pack, verify, dispatch).")

    def _inspect(self, order: Order, name: str) -> str:
        if name in MATERIALS:
            return _USES[name]
        looks = order.looks[name]
        return f"{looks[0].upper()}{looks[1:]}. {order.findings[name].text}"

    def _take(self, name: str) -> str:
        if name in self.state.hands:
            raise _Refused(f"you hold the {name}.")
        origin = "out of the package" if name in self.state.package else "from the shelf"
        self.state.take(name)
        return f"You take the {name} {origin}."

    def _pack(self, thing: str, material: str) -> str:
        if missing := [name for name in (thing, material) if name not in self.state.hands]:
            raise _Refused(f"you do not hold the {' and the '.join(missing)}.")
        self.state.pack(thing, material)
        return f"The {thing} is in the package, in {material}."

    def _verify(self, order: Order) -> str:
        if not self.state.package:
            raise _Refused("there is no package yet.")
        held = ", ".join(f"the {thing} in {material}" for thing, material in self.state.package.items())
        if self.state.package != order.packed:
            return f"The package holds {held}. That does not fit the order and the rules; it is not verified."
        self.state.check()
        return f"The package holds {held}. It fits the order and the rules; it is verified."

    def _dispatch(self, order: Order) -> str:
        if not self.state.package:
            raise _Refused("there is no package yet.")
        verified = self.state.checked
        self.state.ship()
        return f"The carrier takes the package to {order.town}{'' if verified else ', unverified'}."
