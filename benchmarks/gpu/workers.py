"""Processes for stages, each with a limit of seconds after which it is ended and replaced."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

__all__ = ["Worker", "Workers"]

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A process that answers requests; see `worker`.

    Parameters
    ----------
    log : Path
        File of the messages.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        path = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("a") as messages:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu.worker"], cwd=ROOT, stderr=messages,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        """Collect the lines of the process; an empty one stands for its end."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put("")

    @property
    def alive(self) -> bool:
        """Whether the process can take a request."""
        return self.process.poll() is None

    def run(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Return the record of a stage; a process that takes longer than the limit is ended."""
        stage, end, so_far = request["stage"], time.monotonic() + limit, {}
        assert self.process.stdin is not None
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            while True:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
                if not line:
                    raise BrokenPipeError
                record: dict[str, Any] = json.loads(line)
                if not record.pop("partial", False):
                    return record
                so_far = record
        except queue.Empty:
            error = f"more than {limit:.0f} s"
        except BrokenPipeError:
            said = self.log.read_text(errors="replace").strip().splitlines()
            error = f"the process ended: {' | '.join(said[-3:])}"[:500]
        self.stop()
        return {"stage": stage, **so_far, "ok": False, "error": error}

    def stop(self) -> None:
        """End the process and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.reader.join()


class Workers:
    """All processes of a benchmark, which end with it.

    Parameters
    ----------
    folder : Path
        For their messages.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock, self.ended = folder, threading.Lock(), False
        self.known: list[Worker] = []

    def start(self, name: str) -> Worker:
        """Start a process."""
        with self.lock:
            if self.ended:
                raise RuntimeError("the benchmark has ended")
            self.known.append(Worker(self.folder / f"{name}.log"))
            return self.known[-1]

    def once(self, name: str, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Run one stage in a process of its own."""
        worker = self.start(name)
        try:
            return worker.run(request, limit)
        finally:
            worker.stop()

    def stop(self) -> None:
        """End all processes."""
        with self.lock:
            self.ended = True
            for worker in self.known:
                worker.stop()
