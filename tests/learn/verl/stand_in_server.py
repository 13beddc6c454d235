"""A process in the place of vLLM's server, with its arguments and the part of its protocol that an evaluation uses; real HTTP on loopback."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PARSER = argparse.ArgumentParser()
for NAME in ("host", "served-model-name", "dtype", "logprobs-mode", "generation-config", "gpu-memory-utilization"):
    PARSER.add_argument(f"--{NAME}")
for NAME in ("port", "max-model-len", "max-num-seqs", "tensor-parallel-size", "data-parallel-size", "seed"):
    PARSER.add_argument(f"--{NAME}", type=int)
PARSER.add_argument("--model", required=True)
PARSER.add_argument("--enforce-eager", action="store_true")
PARSER.add_argument("--disable-uvicorn-access-log", action="store_true")
GIVEN = PARSER.parse_args() if __name__ == "__main__" else argparse.Namespace()
SAID = [int(word) for word in os.environ.get("STAND_IN_SAYS", "1 2").split()]
LAST = int(os.environ.get("STAND_IN_LAST", "1000000"))
"""Completions after which it ends."""


class Answers(BaseHTTPRequestHandler):
    """The list of models, the version, completions."""

    protocol_version = "HTTP/1.1"
    served = 0

    def do_GET(self) -> None:
        self._reply({"version": "0.0.1", "data": [{"id": GIVEN.served_model_name}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Answers.served += 1
        if Answers.served > LAST:
            sys.stdout.write("(EngineCore pid=7) ERROR 11-30 14:00:00 [core.py:10] RuntimeError: a card fell off\n")
            sys.stdout.flush()
            os._exit(1)
        ids = SAID[: asked["max_tokens"]]
        said = {"text": "", "finish_reason": "stop", "token_ids": ids, "prompt_token_ids": asked["prompt"]}
        self._reply({"choices": [{"index": 0, **said, "logprobs": {"token_logprobs": [-0.5] * len(ids)}}]})

    def _reply(self, body: Any) -> None:
        if self.headers.get("authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.send_error(401)
            return
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until told to end."""
    sys.stdout.write(" ".join(sys.argv[1:]) + "\n")
    sys.stdout.flush()
    server = ThreadingHTTPServer((GIVEN.host, GIVEN.port), Answers)
    threading.Thread(target=server.serve_forever, daemon=False).start()


if __name__ == "__main__":
    main()
