"""The door: runs the command tree and turns failures into two lines and an exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from agentgym_cli.errors import AgentgymError, ExitCode, Interrupted


def main() -> None:
    """Run ``agentgym`` and exit with the code of design: 0, or that of the failure."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(_run(sys.argv[1:]))


def _run(argv: list[str]) -> int:
    try:
        from agentgym_cli.cli.commands import app

        app(args=argv, prog_name="agentgym")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(ExitCode.UNEXPECTED)
    except AgentgymError as failure:
        _explain(failure.message, failure.hint or failure.general_hint)
        return int(failure.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.OK)
    except Exception as bug:
        import traceback

        traceback.print_exc()
        _explain(f"unexpected {type(bug).__name__}: {bug}", "this is a fault of agentgym; the traceback above says where")
        return int(ExitCode.UNEXPECTED)
    return int(ExitCode.OK)


def _explain(message: str, hint: str | None) -> None:
    print(f"error: {_printable(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {_printable(hint)}", file=sys.stderr)


def _printable(text: str) -> str:
    """Messages can quote what a server or a file said: no control character of it reaches the terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(f"stopped by {signal.Signals(number).name}", "nothing was running that could be resumed")
