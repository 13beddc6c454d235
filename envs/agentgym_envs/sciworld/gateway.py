"""The text protocol of a py4j gateway over one socket: authenticate, make an object, call its methods. Never sends a command twice."""

from __future__ import annotations

import socket
import time

Argument = str | int | bool | None
Value = str | int | float | bool | None

_MOST_REPLY_BYTES = 64 * 1024 * 1024


class GatewayError(Exception):
    """The other side is gone, too slow, or says something that is no reply. Nothing more can be asked of it."""


class Late(GatewayError):
    """Nothing came before the deadline."""


class JavaError(Exception):
    """The call raised in Java; the gateway itself is well. The message is the exception's class and text."""


class Reference(str):
    """The name of an object that the gateway keeps."""


class Gateway:
    """One connection. Each call has a deadline in monotonic seconds, past which the connection is useless."""

    def __init__(self, port: int, secret: str, *, deadline: float) -> None:
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=_left(deadline))
        except OSError as err:
            raise GatewayError(f"no connection: {err}") from err
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        try:
            self._value(self._ask(f"A\n{secret}\n", deadline), deadline)
        except (GatewayError, JavaError):
            self.close()
            raise

    def make(self, class_name: str, *arguments: Argument, deadline: float) -> Reference:
        """A new object of a class."""
        parts = "".join(_written(argument) for argument in arguments)
        return _reference(self._value(self._ask(f"i\n{class_name}\n{parts}e\n", deadline), deadline))

    def call(self, target: str, method: str, *arguments: Argument | Reference, deadline: float) -> Value | Reference:
        """What the method returns.

        Raises:
            GatewayError: nothing came before the deadline, or nothing that is a reply.
            JavaError: the method raised.
        """
        parts = "".join(_written(argument) for argument in arguments)
        return self._value(self._ask(f"c\n{target}\n{method}\n{parts}e\n", deadline), deadline)

    def lines(self, target: str, method: str, *, deadline: float) -> tuple[str, ...]:
        """What a method returns that answers a list of strings, none of which holds a line break."""
        listed = _reference(self.call(target, method, deadline=deadline))
        try:
            joined = self.call("z:java.lang.String", "join", "\n", listed, deadline=deadline)
        finally:
            self.forget(listed, deadline=deadline)
        return tuple(str(joined).split("\n")) if joined else ()

    def forget(self, reference: Reference, *, deadline: float) -> None:
        """Let the gateway drop an object."""
        self._value(self._ask(f"m\nd\n{reference}\ne\n", deadline), deadline)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def _ask(self, command: str, deadline: float) -> str:
        """The line that answers a command."""
        try:
            # A lone surrogate has no UTF-8; callers clean what models say, and this never fails on what they missed.
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(command.encode("utf-8", "replace"))
            return self._line(deadline).decode("utf-8", "replace")
        except TimeoutError as err:
            raise Late("no reply in time") from err
        except OSError as err:
            raise GatewayError(f"connection lost: {err}") from err

    def _line(self, deadline: float) -> bytes:
        parts = [self._unread]
        read = len(self._unread)
        while b"\n" not in parts[-1]:
            self._socket.settimeout(_left(deadline))
            part = self._socket.recv(65_536)
            if not part:
                raise GatewayError("the other side closed the connection")
            parts.append(part)
            read += len(part)
            if read > _MOST_REPLY_BYTES:
                raise GatewayError(f"a reply of more than {_MOST_REPLY_BYTES} bytes")
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line

    def _value(self, line: str, deadline: float) -> Value | Reference:
        """The value of a reply line: ``!y`` and a letter for the type, or ``!x`` for what was raised."""
        status, kind, text = line[:2], line[2:3], line[3:]
        if status == "!x":
            raise JavaError(self._raised(kind, text, deadline))
        if status != "!y":
            raise GatewayError(f"expected a reply, got {line[:80]!r}")
        try:
            return _read(kind, text)
        except ValueError as err:
            raise GatewayError(f"expected a value, got {line[:80]!r}") from err

    def _raised(self, kind: str, text: str, deadline: float) -> str:
        if kind != "r":
            return _unescaped(text)[:500]
        raised = Reference(text)
        try:
            return str(self.call(raised, "toString", deadline=deadline))[:500]
        finally:
            self.forget(raised, deadline=deadline)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late("no reply in time")
    return left


def _written(argument: Argument | Reference) -> str:
    match argument:
        case Reference():
            return f"r{argument}\n"
        case str():
            return "s" + argument.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n") + "\n"
        case bool():
            return f"b{argument}\n"
        case int():
            return f"i{argument}\n"
        case None:
            return "n\n"


def _read(kind: str, text: str) -> Value | Reference:
    """ValueError for a kind or text that is not understood."""
    match kind:
        case "s":
            return _unescaped(text)
        case "i" | "L":
            return int(text)
        case "d":
            return float(text)
        case "b":
            return text == "true"
        case "v" | "n" | "":
            return None
        case "r" | "l" | "t" | "a" | "h" | "g":
            return Reference(text)
    raise ValueError(kind)


def _unescaped(text: str) -> str:
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in text.split("\\\\"))


def _reference(value: Value | Reference) -> Reference:
    if not isinstance(value, Reference):
        raise GatewayError(f"expected an object, got {str(value)[:80]!r}")
    return value
