"""What a worker costs while it has nothing to do, over a Python that does nothing; and what importing tq costs.

    python -m tests.bench.idle [--n 5] [--repeats 3]

idle_cpu        percent of a core that an idle worker process uses, over n seconds
idle_rss, idle_pss, idle_uss
                memory in MB over bare Python: all of its pages; shared ones in parts; only those it has for itself
import_cpu      CPU milliseconds of `import tq`, over starting Python
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.measure import Figure, Figures, arguments, report
from tests.bench.processes import ROOT, WorkerProcess
from tests.bench.stores import STORES
from tests.bench.workload import TYPE, payload
from tq import TaskQueue

SQLITE = STORES["sqlite"]
MEMORY = {"rss": ("Rss",), "pss": ("Pss",), "uss": ("Private_Clean", "Private_Dirty")}


def memory_of(pid: int) -> dict[str, float]:
    """Megabytes by name, as the kernel adds them up."""
    fields = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    kilobytes = {name.rstrip(":"): int(value) for name, value, *_ in fields}
    return {name: sum(kilobytes[part] for part in parts) / 1024 for name, parts in MEMORY.items()}


def idle_worker(seconds: float) -> tuple[float, dict[str, float]]:
    """Percent of a core and memory of a worker process that has run a task and waits for the next."""
    with SQLITE.new_database() as address:
        queue = TaskQueue().init(address)
        with WorkerProcess("idle_worker", address) as worker:
            worker.say()
            queue(TYPE).add(payload(0))
            worker.hear()
            used = cpu_seconds(worker)
            began = time.monotonic()
            time.sleep(seconds)
            used = cpu_seconds(worker) - used
            memory = memory_of(worker.pid)
            percent = 100 * used / (time.monotonic() - began)
        queue.stop()
    return percent, memory


def cpu_seconds(worker: WorkerProcess) -> float:
    worker.say("cpu")
    return float(worker.hear())


def bare_python() -> dict[str, float]:
    program = "print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        memory = memory_of(process.pid)
        process.stdin.write(b"\n")
    return memory


def cpu_milliseconds(program: str) -> float:
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return 1000 * (usage.ru_utime + usage.ru_stime)


def measure(seconds: float, repeats: int) -> Figures:
    figures = {"idle_cpu": Figure("amount", "% of a core"), "import_cpu": Figure("difference", "ms")}
    figures |= {f"idle_{name}": Figure("difference", "MB") for name in MEMORY}
    cpu_milliseconds("import tq")  # so that the compiled files are there
    for _ in range(repeats):
        percent, memory = idle_worker(seconds)
        figures["idle_cpu"].add(percent)
        figures["import_cpu"].add(cpu_milliseconds("import tq"), cpu_milliseconds("pass"))
        bare = bare_python()
        for name in MEMORY:
            figures[f"idle_{name}"].add(memory[name], bare[name])
    return figures


def main() -> None:
    options = arguments(__doc__, n=5, repeats=3).parse_args()
    report("idle", options, SQLITE.about(), measure(options.n, options.repeats))


if __name__ == "__main__":
    main()
