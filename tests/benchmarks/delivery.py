"""Delivery: the file sink's events a second, and from a hook's start to a receiver on loopback."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.courier import Courier
from sessionpipe.install import launcher
from sessionpipe.intake import Intake
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.benchmarks.intake import fill, payload
from tests.benchmarks.measure import show


def run() -> None:
    to_file()
    to_receiver()


def to_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "spool")
        spool.prepare()
        fill(spool, 10_000, 700)
        outbox = Outbox.open(Path(folder) / "outbox.db")
        Intake(outbox, spool, machine=lambda: "m", log=lambda _level, message: print(message)).run()
        sink = SinkConfig(name="f", kind="file", path=str(Path(folder) / "events.ndjson"), tier=3)
        outbox.add_sink("f", 0)
        courier = Courier(sink, outbox, stop=threading.Event(), log=lambda _level, message: print(message))
        events = outbox.count()[0]
        start = time.perf_counter()
        while courier.step(int(time.time() * 1000)).progress:
            continue
        taken = time.perf_counter() - start
        courier.close()
        show("file-sink", events / taken, "events/s", 10_000, at_most=False)
        outbox.close()


class Receiver(BaseHTTPRequestHandler):
    """Accepts everything and says when it came."""

    arrived = threading.Event()

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        events = json.loads(self.rfile.read(int(self.headers["content-length"])))["events"]
        self.arrived.set()
        body = json.dumps({"accepted": len(events), "duplicates": 0, "rejected": []}).encode()
        self.send_response(202)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return


def to_receiver() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        state, config = State(Path(folder) / "state"), Path(folder) / "config"
        env = {
            "HOME": folder,
            "PATH": os.environ["PATH"],
            "SESSIONPIPE_STATE_DIR": str(state.root),
            "SESSIONPIPE_CONFIG_DIR": str(config),
        }
        launcher.write(state, config, {})
        url = f"http://127.0.0.1:{server.server_port}/"
        add = [sys.executable, "-m", "sessionpipe", "sinks", "add", url, "--tier", "1", "--name", "bench"]
        subprocess.run(add, env=env, check=True, capture_output=True)
        command = ["/bin/sh", "-c", launcher.command(state.launcher, "claude-code", "PostToolUse")]

        def once(number: int) -> float:
            Receiver.arrived.clear()
            start = time.perf_counter()
            subprocess.run(command, input=payload(number, 2048), env=env, check=True)
            if not Receiver.arrived.wait(20):
                raise SystemExit("the event never arrived")
            return (time.perf_counter() - start) * 1000

        cold = []
        for number in range(5):
            from sessionpipe.liveness import worker_alive

            while worker_alive(state)[0]:
                time.sleep(0.05)
            cold.append(once(number))
        show("hook-to-receiver-cold-p50", statistics.median(cold), "ms", 500)
        live = [once(number) for number in range(10, 50)]
        show("hook-to-receiver-live-p50", statistics.median(live), "ms", 60)
        while worker_alive(state)[0]:
            time.sleep(0.05)
    server.shutdown()
