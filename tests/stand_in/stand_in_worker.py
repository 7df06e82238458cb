"""In place of `rollwise.verify.worker` in tests of the pool: does to its parent what the gold says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    if os.environ.get("VIRTUAL_ENV") == "does not start":
        sys.exit(3)
    print(json.dumps({"kind": "ready"}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        gold, answer = question["gold"], question["answer"]
        if gold == "die":
            os._exit(1)
        if gold == "die once" and not Path(answer).exists():
            Path(answer).write_text("died")
            os._exit(1)
        if gold == "hang":
            for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            while True:
                time.sleep(60)
        if gold == "flood":
            os.write(1, b"x" * 30_000)
        if gold == "garbage":
            print("not JSON", flush=True)
            continue
        if gold == "out of memory":
            print(json.dumps({"kind": "exhausted"}), flush=True)
            continue
        print(
            json.dumps({"kind": "said", "same": gold == answer or gold == "die once", "pid": os.getpid()}), flush=True
        )


main()
