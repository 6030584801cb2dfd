#!/usr/bin/env python3
"""Check the CUDA kernels on this machine's GPU: build, run the suite on the device, time every kernel.

    python scripts/gpu_check.py --write docs/measurements/kernels.md

Times are medians of CUDA graph replays, beside the same work in PyTorch where that is installed with CUDA. Without a
GPU the command says so and fails; with --allow-missing it then exits 0.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.gpu.driver import NoDevice, compute_capability  # noqa: E402
from scripts.gpu.report import Measurement, table, written_into  # noqa: E402
from scripts.gpu.suite import run_suite  # noqa: E402

REPLAYS, WARM_UP = 200, 20


def build(capability: int) -> Path:
    """The CUDA library for this device, with the tools that tests need."""
    command = ["make", "-C", str(ROOT / "plugins"), "cuda-checked", f"ARCHITECTURES={capability}"]
    subprocess.run([*command, f"BUILD={ROOT / 'build' / 'plugins'}", f"PYTHON={sys.executable}"], check=True)
    return ROOT / "build" / "plugins" / f"cuda-{capability}" / "libcpspec_cuda_checked.so"


def import_torch() -> Any:
    """PyTorch, or None where it is missing or has no CUDA."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def time_reference(torch: Any, work: Callable[[], object]) -> float:
    """Median milliseconds of a CUDA graph of PyTorch's work."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for _ in range(WARM_UP + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return float(sorted(times[WARM_UP:])[REPLAYS // 2])


def measure(library_path: Path) -> tuple[str, list[Measurement]]:
    """The device's name and the time of every workload."""
    import numpy as np

    from scripts.gpu.workloads import workloads
    from tests.plugins.device import DeviceLibrary, DeviceTools, SharedKernels, SharedMemory

    tools = DeviceTools(library_path)
    library = DeviceLibrary(library_path, tools)
    torch = import_torch()
    memory = SharedMemory(tools)
    measurements = []
    for work in workloads(memory.copy_of):
        work.run(SharedKernels(library, memory))
        for block in memory.blocks:
            tools.prefetch(*block)
        times = tools.graph_times(library.enqueue_last, WARM_UP + REPLAYS)[WARM_UP:]
        reference = None
        if torch is not None and work.reference is not None:
            reference = time_reference(torch, work.reference(torch))
        measurements.append(Measurement(work.name, work.size, work.size_bytes, float(np.median(times)), reference))
    return tools.name, measurements


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allow-missing", action="store_true", help="exit 0 where there is no GPU")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="replace the table of this document")
    arguments = parser.parse_args()
    try:
        capability = compute_capability()
    except NoDevice as missing:
        print(f"no GPU was checked: {missing}", file=sys.stderr)
        return 0 if arguments.allow_missing else 1
    library = build(capability)
    passed = run_suite(library).returncode == 0
    device, measurements = measure(library)
    print("\n".join([device, *table(measurements)]))
    if arguments.write and passed:
        today = datetime.date.today().isoformat()
        arguments.write.write_text(written_into(arguments.write.read_text(), device, today, measurements))
    print("the suite passed on the device" if passed else "the suite FAILED on the device")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
