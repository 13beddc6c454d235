"""``agentgym probe`` against what is no server, no address, no dialect, or too much of anything: a cause, an exit code, and an end in time."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from agentgym_cli.cli.main import main
from tests.e2e.commands import Ended, command, environment, run

pytestmark = pytest.mark.e2e

GREETING = b'"This is environment TextCraft."'
SHIPPED = Path(__file__).parents[2] / "agentgym_cli/env/dialects"
PROBE_SECONDS = 60
Talk = Callable[[socket.socket], None]


def reply(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole HTTP reply."""
    return f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def listening(talk: Talk, *, family: socket.AddressFamily = socket.AF_INET, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A loopback server that does ``talk`` with each connection once a request has come; its port, and the first lines of the requests."""
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection if tls is None else tls.wrap_socket(connection, server_side=True) as stream:
            while request := stream.recv(65536):
                seen.append(request.split(b"\r\n")[0])
                talk(stream)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], seen
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's side of TLS for 127.0.0.1, with a certificate that it signed itself."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, made = folder / "key.pem", folder / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


def says(answer: bytes) -> Talk:
    """Answers every request alike."""
    return lambda stream: stream.sendall(answer)


def probe(folder: Path, url: str, *more: str) -> Ended:
    """``agentgym probe`` of one running server."""
    return run(folder, "probe", "--url", url, "--dialect", "textcraft", *more, timeout=PROBE_SECONDS)


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str, str], Ended]:
    """How a probe ends that is refused before anything is asked; in this process, since no server and no signal has a part in it."""

    def told(url: str, dialect: str) -> Ended:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("signal.signal", lambda number, handler: None)
        monkeypatch.setattr("sys.argv", ["agentgym", "probe", "--url", url, "--dialect", dialect])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ended(code=int(ended.value.code or 0), out=said.out, err=said.err)

    return told


def failed(ended: Ended) -> dict[str, str]:
    """The failed checks of a report in JSON, with what they say."""
    (server,) = ended.json["servers"]
    return {check["name"]: check["detail"] for check in server["checks"] if check["result"] == "fail"}


def test_a_server_that_is_another_environment_is_named(tmp_path):
    with listening(says(reply(b'"This is environment BabyAI."'))) as (port, seen):
        ended = probe(tmp_path, f"http://127.0.0.1:{port}", "--json")
    assert ended.code == 4
    assert list(failed(ended)) == ["identity"]
    assert "'This is environment BabyAI.'" in ended.message[0]
    assert {line.split()[0] for line in seen} == {b"GET"}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1:36001",
        "127.0.0.1:36001",
        "localhost",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://me:secret@127.0.0.1:36001",
        "http://127.0.0.1:36001/?token=secret",
        "http://127.0.0.1:36001/#here",
        "http://127.0.0.1:36001/a b",
        "http://[::1:36001",
        "",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_before_anything_is_asked(refused, url):
    ended = refused(url, "textcraft")
    assert ended.code == 2, ended.err
    assert len(ended.message) == 2
    assert "expected http://HOST:PORT" in ended.message[0]
    assert ("credentials" if "@" in url else repr(url)) in ended.message[0]
    assert "me:secret" not in ended.err


def test_an_ipv6_server_is_probed(tmp_path):
    served = subprocess.Popen(
        command("serve", "textcraft", "--host", "::1", "--port", "0", "--book", "laptop"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout is not None
        url = json.loads(served.stdout.readline())["url"]
        assert url.startswith("http://[::1]:")
        ended = probe(tmp_path, url, "--json")
    finally:
        served.terminate()
        served.communicate(timeout=30)
    assert (ended.code, failed(ended)) == (0, {})


@pytest.mark.parametrize("status", ["302 Found", "308 Permanent Redirect"])
def test_a_redirect_is_not_followed(tmp_path, status):
    with listening(says(reply(GREETING))) as (elsewhere, asked):
        location = f"location: http://127.0.0.1:{elsewhere}/\r\n"
        with listening(says(reply(b"", status=status, headers=location))) as (port, _):
            ended = probe(tmp_path, f"http://127.0.0.1:{port}", "--json")
    assert ended.code == 4
    assert status[:3] in failed(ended)["health"]
    assert asked == []


def test_https_to_a_server_without_tls_is_named(tmp_path):
    with listening(says(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")) as (port, _):
        ended = probe(tmp_path, f"https://127.0.0.1:{port}", "--json")
    assert ended.code == 4
    assert "SSL" in failed(ended)["health"]


def test_http_to_a_server_with_tls_is_named(tmp_path, certificate):
    with listening(says(reply(GREETING)), tls=certificate) as (port, seen):
        ended = probe(tmp_path, f"http://127.0.0.1:{port}", "--json")
    assert ended.code == 4
    assert list(failed(ended)) == ["health"]
    assert seen == []


def test_a_certificate_that_nobody_signed_is_not_trusted(tmp_path, certificate):
    with listening(says(reply(GREETING)), tls=certificate) as (port, seen):
        ended = probe(tmp_path, f"https://127.0.0.1:{port}", "--json")
    assert ended.code == 4
    assert "certificate" in failed(ended)["health"]
    assert seen == []


def test_nobody_listening_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ended = probe(tmp_path, f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert ended.code == 4
    assert ended.message[0].startswith("error: probe of http://127.0.0.1:")
    assert "health: connect: " in ended.message[0]
    assert len(ended.message) == 2


def drips(stream: socket.socket) -> None:
    """Answers for ever, a byte at a time."""
    stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n")
    while True:
        stream.sendall(b" ")
        time.sleep(0.1)


def test_servers_that_never_end_their_answer_cost_one_deadline_together(tmp_path):
    with listening(lambda stream: None) as (silent, _), listening(drips) as (slow, _):
        ended = probe(tmp_path, f"http://127.0.0.1:{silent}", "--url", f"http://127.0.0.1:{slow}", "--json")
    assert ended.code == 4
    for server in ended.json["servers"]:
        (check,) = [check for check in server["checks"] if check["result"] == "fail"]
        assert check["detail"].startswith("timeout: GET ")
        assert check["seconds"] < 15


def huge(stream: socket.socket) -> None:
    """Answers with a hundred megabytes."""
    stream.sendall(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000002\r\n\r\n"')
    for _ in range(100):
        stream.sendall(b"x" * 1_000_000)
    stream.sendall(b'"')


def test_a_body_of_a_hundred_megabytes_is_refused_in_bounded_memory(tmp_path):
    def peak(talk: Talk) -> tuple[int, int, bytes]:
        with listening(talk) as (port, _):
            words = command("probe", "--url", f"http://127.0.0.1:{port}", "--dialect", "textcraft", "--json")
            process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert process.stdout is not None
            with process.stdout as out:
                said = out.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used.ru_maxrss, said

    code, usual, _ = peak(says(reply(b'"This is environment BabyAI."')))
    assert code == 4
    code, used, out = peak(huge)
    assert code == 4
    assert b"expected at most 8388608 bytes, got more" in out
    assert used - usual < 40_000, "kilobytes more than for a short body"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda dialect: dialect.update(sesion={}), "sesion"),
        (lambda dialect: dialect["routes"].update(setp={}), "routes.setp"),
        (lambda dialect: dialect["routes"].pop("step"), "routes.step"),
        (lambda dialect: dialect["routes"].pop("reset"), "routes.reset"),
        (lambda dialect: dialect["routes"]["step"].pop("reward"), "routes.step.reward"),
        (lambda dialect: dialect["routes"]["step"].update(reward="reward"), "routes.step.reward"),
        (lambda dialect: dialect["routes"]["step"].update(call="DELETE /step"), "routes.step.call"),
        (lambda dialect: dialect.update(prompt="../../secret"), "prompt"),
        (lambda dialect: dialect.update(prompt="absent.txt"), "absent.txt"),
        (lambda dialect: dialect.pop("probe_actions"), "probe_actions"),
    ],
)
def test_a_dialect_file_that_cannot_be_meant_is_refused_with_its_key(tmp_path, refused, change, named):
    dialect = yaml.safe_load((SHIPPED / "textcraft.yaml").read_text())
    (tmp_path / "textcraft.txt").write_text("You make things.\n")
    change(dialect)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(dialect))
    ended = refused("http://127.0.0.1:9", "mine.yaml")
    assert ended.code == 2, ended.err
    assert named in ended.message[0]
    assert "mine.yaml" in ended.message[0] or named == "absent.txt"


@pytest.mark.parametrize("text", ["", "- a\n- list\n", "name: [unclosed", "name: !!python/object/apply:os.system [id]\n", "\x00"])
def test_a_file_that_is_no_dialect_is_refused(tmp_path, refused, text):
    (tmp_path / "mine.yaml").write_text(text)
    ended = refused("http://127.0.0.1:9", "mine.yaml")
    assert ended.code == 2, ended.err
    assert "mine.yaml" in ended.message[0]


def test_a_dialect_that_is_not_there_names_the_nearest(refused):
    ended = refused("http://127.0.0.1:9", "textcarft")
    assert ended.code == 2
    assert "textcraft" in " ".join(ended.message)


def test_promise_11_text_of_a_server_reaches_no_terminal_raw(tmp_path):
    hostile = b'"\\u001b[2J\\u0007<script>alert(1)</script>' + b"x" * 100_000 + b'"'
    with listening(says(reply(hostile))) as (port, _):
        ended = probe(tmp_path, f"http://127.0.0.1:{port}")
    assert ended.code == 4
    assert "\x1b" not in ended.out + ended.err
    assert len(ended.out + ended.err) < 20_000
