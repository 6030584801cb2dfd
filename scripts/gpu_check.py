#!/usr/bin/env python3
"""Check this machine's GPU: the kernels' suite on it, a time for every kernel, the demo voice on TensorRT.

    python scripts/gpu_check.py --write docs/measurements/kernels.md

1. Builds the CUDA library for this GPU and runs every test that takes a device.
2. Times every kernel by graph replays, beside the same work in PyTorch where that is installed with CUDA.
3. With TensorRT installed: builds the engines of the demo voice in a temporary folder, compares their codes with ONNX
   Runtime's, and times a frame autoregressively and with verify windows of 2, 3, 4 and 8. A greedy code that a window
   changes is a fault in fp32; in fp16 and bf16 the table counts it.

Prints the tables; fails if anything did. Without a GPU it says so and fails; with --allow-missing it then exits 0.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.gpu.driver import NoDevice, compute_capability  # noqa: E402
from scripts.gpu.report import table, written_into  # noqa: E402

ENGINES_TITLE = "The demo voice, medians of a frame; greedy codes beside those of ONNX Runtime:"


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


def time_kernels(library_path: Path) -> tuple[str, list[str], list[str]]:
    """The device's name, the lines of the table, and what failed."""
    from scripts.gpu.timing import Device, measure
    from scripts.gpu.workloads import workloads
    from tests.plugins.device import DeviceLibrary, DeviceTools, SharedKernels, SharedMemory

    tools = DeviceTools(library_path)
    library, memory = DeviceLibrary(library_path, tools), SharedMemory(tools)
    device = Device(tools, memory, SharedKernels(library, memory), library.enqueue_last)
    torch = import_torch()
    if torch is None:
        print("PyTorch with CUDA is not installed here: its times are left out.", file=sys.stderr)
    measurements = measure(device, workloads(memory.copy_of), torch)
    failed = [f"{each.name}, {each.size}: {each.fault}" for each in measurements if each.fault]
    return tools.name, table(measurements), failed


def check_demo_engines(capability: int, library: Path) -> tuple[list[str], list[str]]:
    """The lines of the table of engines, and what failed; neither without TensorRT, which is said."""
    from cpspec_trt.kernels.device_library import VARIABLE
    from scripts.gpu.engines import check_engines, tensorrt_backend

    os.environ[VARIABLE] = str(library)  # the runtime's kernels are those that were just checked
    backend = tensorrt_backend(capability)
    if backend is None:
        print("TensorRT for this GPU is not installed here: no engine is built or timed.", file=sys.stderr)
        return [], []
    with tempfile.TemporaryDirectory(prefix="cpspec-engines-") as folder:
        lines, failed = check_engines(backend, Path(folder))
    return ["", ENGINES_TITLE, "", *lines] if lines else [], failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allow-missing", action="store_true", help="exit 0 where there is no GPU")
    parser.add_argument(
        "--write", type=Path, metavar="DOCUMENT", help="replace the tables of this document, if the suite passed"
    )
    arguments = parser.parse_args()
    try:
        capability = compute_capability()
    except NoDevice as missing:
        print(f"no GPU was checked: {missing}", file=sys.stderr)
        return 0 if arguments.allow_missing else 1
    from scripts.gpu.suite import run_suite

    library = build(capability)
    passed = run_suite(library).returncode == 0
    failed = [] if passed else ["the kernels' suite on the device"]
    device, lines, faults = time_kernels(library)
    engine_lines, engine_faults = check_demo_engines(capability, library)
    failed += faults + engine_faults
    lines += [*engine_lines, *(line for fault in engine_faults for line in ("", f"Failed: {fault}"))]
    print("\n".join([device, "", *lines]))
    if arguments.write and passed:
        today = datetime.date.today().isoformat()
        arguments.write.write_text(written_into(arguments.write.read_text(), device, today, lines))
    print("\n".join(["FAILED:", *failed]) if failed else "everything passed on the device")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
