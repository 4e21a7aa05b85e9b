"""Delivery: events a second to a file and over HTTP, from a hook's start to a receiver on loopback,
and what other sinks that hang or fail do to that."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.courier import Courier
from sessionpipe.install import launcher
from sessionpipe.intake import Intake
from sessionpipe.liveness import worker_alive
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.benchmarks.intake import fill, payload
from tests.benchmarks.measure import show
from tests.benchmarks.receiver import receiver


def run() -> None:
    throughput()
    to_receiver()
    beside_others()


def throughput() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "spool")
        spool.prepare()
        fill(spool, 10_000, 700)
        outbox = Outbox.open(Path(folder) / "outbox.db")
        Intake(outbox, spool, machine=lambda: "m", log=lambda _level, message: print(message)).run()
        to_file = SinkConfig(name="file", kind="file", path=str(Path(folder) / "events.ndjson"), tier=3)
        show("file-sink", _delivered(to_file, outbox), "events/s", 10_000, at_most=False)
        for name, bounds, least in (("default", (50, 262_144), 4_000), ("large", (1_000, 4 << 20), 8_000)):
            with receiver(*bounds) as url:
                rate = _delivered(SinkConfig(name=name, kind="http", url=url, tier=3), outbox)
            show(f"http-sink-{name}-bounds", rate, "events/s", least, at_most=False)
        with receiver(1, 1) as url:
            rate = _delivered(SinkConfig(name="otlp", kind="otlp", url=url, tier=3), outbox)
        show("otlp-sink", rate, "events/s", 1_500, at_most=False)
        outbox.close()


def _delivered(sink: SinkConfig, outbox: Outbox) -> float:
    """Deliver everything recorded to ``sink``; how many events a second."""
    outbox.add_sink(sink.name, 0)
    courier = Courier(sink, outbox, stop=threading.Event(), log=lambda _level, message: print(message))
    start = time.perf_counter()
    while courier.step(int(time.time() * 1000)).progress:
        continue
    taken = time.perf_counter() - start
    courier.close()
    row = outbox.sink(sink.name)
    if row is None or row.position != outbox.last_position() or row.dropped:
        raise SystemExit(f"not everything was delivered: {row}")
    return row.sent / taken


class Receiver(BaseHTTPRequestHandler):
    """Accepts everything and says when it came; at ``/hang`` nothing is answered, at ``/fail`` 500."""

    arrived = threading.Event()
    ended = threading.Event()

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        events = json.loads(self.rfile.read(int(self.headers["content-length"])))["events"]
        if self.path == "/hang":
            self.ended.wait()
        if self.path == "/fail":
            self.send_error(500)
            return
        self.arrived.set()
        body = json.dumps({"accepted": len(events), "duplicates": 0, "rejected": []}).encode()
        self.send_response(202)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return


class Bench:
    """A state directory with sinks, and hooks that are fired into it."""

    def __init__(self, folder: Path, **sinks: str) -> None:
        self.state, config = State(folder / "state"), folder / "config"
        self.env = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "SESSIONPIPE_STATE_DIR": str(self.state.root),
            "SESSIONPIPE_CONFIG_DIR": str(config),
        }
        launcher.write(self.state, config, {})
        for name, url in sinks.items():
            add = [sys.executable, "-m", "sessionpipe", "sinks", "add", url, "--tier", "1", "--name", name]
            subprocess.run(add, env=self.env, check=True, capture_output=True)
        self._hook = ["/bin/sh", "-c", launcher.command(self.state.launcher, "claude-code", "PostToolUse")]

    def latency_ms(self, number: int) -> float:
        """From before a hook starts until its event is at the receiver."""
        Receiver.arrived.clear()
        start = time.perf_counter()
        subprocess.run(self._hook, input=payload(number, 2048), env=self.env, check=True)
        if not Receiver.arrived.wait(20):
            raise SystemExit("the event never arrived")
        return (time.perf_counter() - start) * 1000

    def rest(self) -> None:
        """Wait until no worker runs."""
        while worker_alive(self.state)[0]:
            time.sleep(0.05)


def to_receiver() -> None:
    with tempfile.TemporaryDirectory() as folder, _serving() as url:
        bench = Bench(Path(folder), bench=url)
        cold = []
        for number in range(5):
            bench.rest()
            cold.append(bench.latency_ms(number))
        show("hook-to-receiver-cold-p50", statistics.median(cold), "ms", 500)
        live = [bench.latency_ms(number) for number in range(10, 50)]
        show("hook-to-receiver-live-p50", statistics.median(live), "ms", 60)
        bench.rest()


def beside_others() -> None:
    """The same with two more sinks, one of which never answers and one of which answers 500."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, _serving() as url:
        alone = Bench(Path(one), bench=url)
        beside = Bench(Path(other), bench=url, hangs=f"{url}/hang", fails=f"{url}/fail")
        for bench in (alone, beside):
            bench.latency_ms(0)
        pairs = [(alone.latency_ms(n), beside.latency_ms(n)) for n in range(1, 31)]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        show("hook-to-receiver-beside-others", theirs / ours, "x", 1.25)
        Receiver.ended.set()
        for bench in (alone, beside):
            alive, pid = worker_alive(bench.state)
            if alive and pid is not None:
                os.kill(pid, signal.SIGTERM)  # It owes retries, and would stay.
            bench.rest()


@contextmanager
def _serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
