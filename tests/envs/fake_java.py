"""A program that stands for Java and the simulator: it speaks the gateway's protocol, and does what its actions and its classpath say."""

from __future__ import annotations

import os
import socket
import sys
import threading

SECRET = "secret="


class Simulator:
    """The simulator's object; names of methods are Java's."""

    def __init__(self) -> None:
        self.task = ""
        self.score = 0.0
        self.moves = 0
        self.gold = False

    def load(self, task: str, variation: str, _: str, gold: str) -> str:
        if task == "broken":
            os._exit(3)
        self.task, self.score, self.moves, self.gold = f"{task} {variation}", 0.0, 0, gold == "True"
        return "s"

    def step(self, action: str) -> str:
        word, _, number = action.partition(" ")
        if word == "die":
            os._exit(1)
        if word == "hang":
            threading.Event().wait()
        if word == "garbage":
            return "garbage"
        if word == "raise":
            return "!xro7"
        if word == "score":
            self.score = float(number)
        self.moves += int(number) if word == "move" else 0
        return f"sYou did '{action}' in {self.task}.\\nIt was \\\\new."

    def answer(self, method: str, arguments: list[str]) -> str:
        match method:
            case "load":
                return self.load(*arguments)
            case "step":
                return self.step(arguments[0])
            case "getScore":
                return f"d{self.score}"
            case "getCompleted":
                return f"b{str(self.score >= 1).lower()}"
            case "getNumMoves":
                return f"i{self.moves}"
            case "getTaskMaxVariations":
                return f"i{len(arguments[0])}"
            case "getGoldActionSequence" | "getPossibleActions" | "getPossibleObjects":
                return "lo5"
            case "join":
                return f"s{'score 1' if self.gold else 'no gold'}\\nwait"
            case "toString":
                return "sjava.lang.Error: as asked"
        return f"s{self.task}" if method.startswith("get") else "v"


def main() -> None:
    mode = sys.argv[sys.argv.index("-cp") + 1] if "-cp" in sys.argv else "version"
    if mode == "version" or mode == "broken":
        sys.stderr.write("Error: this Java is broken\n")
        sys.exit(1)
    if mode == "silent":
        sys.stdin.read()
        return
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n{'another' if mode == 'stranger' else SECRET}\n")
    sys.stdout.flush()
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    connection, _ = listening.accept()
    serve(connection.makefile("rw", encoding="utf-8", newline="\n"))


def serve(lines: object) -> None:
    """Answer commands until the connection ends."""
    simulator = Simulator()
    while first := lines.readline().rstrip("\n"):  # type: ignore[attr-defined]
        if first == "A":
            reply = "yv" if lines.readline().rstrip("\n") == SECRET else "x"  # type: ignore[attr-defined]
        else:
            parts = list(iter(lambda: lines.readline().rstrip("\n"), "e"))  # type: ignore[attr-defined]
            reply = "yro1" if first == "i" else "yv" if first == "m" else "y" + simulator.answer(parts[1], [part[1:] for part in parts[2:]])
        reply = reply.removeprefix("y") if reply.startswith(("y!", "ygarbage")) else f"!{reply}"
        lines.write(f"{reply}\n")  # type: ignore[attr-defined]
        lines.flush()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
