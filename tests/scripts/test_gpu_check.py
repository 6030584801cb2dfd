"""What of the GPU check can be tried without a GPU: its refusal, its tables, and that its workloads can be run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.native_library import OPERATIONS
from scripts.gpu.report import BEGIN, END, Measurement, Reference, table, written_into
from scripts.gpu.workloads import workloads
from tests.conftest import ROOT
from tests.plugins.device import SharedKernels, SharedMemory
from tests.plugins.emulated import Schedule, emulated_kernels
from tests.plugins.simulated_device import HostMemory

FOR_TESTS = {"philox", "token_words", "noise", "evaluate"}


def _check(*arguments: str) -> subprocess.CompletedProcess[str]:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}  # a machine that has a GPU hides it here
    command = [sys.executable, "scripts/gpu_check.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True)


def test_without_a_gpu_the_check_says_so_and_fails_unless_that_is_allowed() -> None:
    for arguments, status in (((), 1), (("--allow-missing",), 0)):
        done = _check(*arguments)
        assert done.returncode == status
        assert done.stderr.startswith("no GPU was checked: the NVIDIA driver ")
        assert done.stdout == ""


def test_the_table_gives_times_bytes_bandwidth_and_the_ratio_to_pytorch() -> None:
    rows = table(
        [
            Measurement("filter", "2 × 2048", 32_768, 0.008, reference=Reference(0.032, "graph")),
            Measurement("accept_commit", "2 drafts", 1_000_000, 0.01),
        ]
    )
    assert rows[2:] == [
        "| filter | 2 × 2048 | 8.0 | 0.03 | 4 | 32.0 | 4.0 |",
        "| accept_commit | 2 drafts | 10.0 | 1.00 | 100 | – | – |",
    ]
    assert {row.count("|") for row in rows} == {8}


def test_the_table_says_what_failed_and_what_pytorch_ran_without_a_graph() -> None:
    rows = table(
        [
            Measurement("draw", "2 × 8", 64, 0.01, reference=Reference(0.05, "calls", uncaptured="it synchronises")),
            Measurement("filter", "2 × 8", 64, fault="no memory", reference=Reference(0.05, "graph")),
            Measurement("argmax", "2 × 8", 64, 0.01, reference=Reference(fault="no kernel")),
        ]
    )
    assert rows[2:] == [
        "| draw | 2 × 8 | 10.0 | 0.00 | 0 | 50.0 ¹ | 5.0 |",
        "| filter | 2 × 8 | – | 0.00 | – | 50.0 | – |",
        "| argmax | 2 × 8 | 10.0 | 0.00 | 0 | – | – |",
        "",
        "filter, 2 × 8: failed: no memory",
        "",
        "argmax, 2 × 8: PyTorch failed: no kernel",
        "",
        "¹ call after call, not as a graph, which PyTorch could not capture: it synchronises",
    ]


def test_the_tables_replace_those_in_the_document_and_name_device_and_date() -> None:
    document = f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n"
    written = written_into(document, "A GPU, sm_90", "2031-02-03", ["| new |"])
    assert written == f"Before.\n{BEGIN}\nA GPU, sm_90, 2031-02-03.\n\n| new |\n{END}\nAfter.\n"
    assert written_into(written, "A GPU, sm_90", "2031-02-03", ["| new |"]) == written
    with pytest.raises(ValueError, match="lacks the lines"):
        written_into("nothing", "A GPU", "2031-02-03", [])


def test_the_measurements_of_the_kernels_have_a_place_for_the_tables() -> None:
    document = (ROOT / "docs" / "measurements" / "kernels.md").read_text()
    assert document.count(BEGIN) == document.count(END) == 1


def test_every_operation_has_a_workload_that_the_kernels_take_as_often_as_it_says() -> None:
    library, memory = emulated_kernels(Schedule(0, 256)).library, SharedMemory(HostMemory())
    kernels = SharedKernels(library, memory)
    names = set()
    for work in workloads(memory.copy_of):
        assert work.size_bytes > 0
        names.add(work.name)
        before = library.launches
        work.run(kernels)
        assert library.launches > before
        if work.reset is not None:
            work.reset()
            for _ in range(work.calls):
                work.run(kernels)  # a commit without room would raise
            with pytest.raises(NumericError):
                work.run(kernels)
            work.reset()
            work.run(kernels)
    assert names == set(OPERATIONS) - FOR_TESTS
