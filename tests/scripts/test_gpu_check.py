"""What of the GPU check can be tried without a GPU: its refusal, its table, and that its workloads can be run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scripts.gpu.report import BEGIN, END, Measurement, table, written_into
from scripts.gpu.workloads import workloads
from tests.conftest import ROOT
from tests.plugins.device import SharedKernels, SharedMemory
from tests.plugins.emulated import Schedule, emulated_kernels
from tests.plugins.simulated_device import HostMemory


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
            Measurement("filter", "2 × 2048", 32_768, 0.008, 0.032),
            Measurement("accept_commit", "2 drafts", 1_000_000, 0.01, None),
        ]
    )
    assert rows[2:] == [
        "| filter | 2 × 2048 | 8.0 | 0.03 | 4 | 32.0 | 4.0 |",
        "| accept_commit | 2 drafts | 10.0 | 1.00 | 100 | – | – |",
    ]
    assert {row.count("|") for row in rows} == {8}


def test_the_table_replaces_the_one_in_the_document_and_names_device_and_date() -> None:
    document = f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n"
    one = [Measurement("draw", "1 × 8", 32, 1.0, None)]
    written = written_into(document, "A GPU, sm_90", "2031-02-03", one)
    assert written.startswith(f"Before.\n{BEGIN}\nA GPU, sm_90, 2031-02-03. Medians of graph replays.\n\n| operation |")
    assert written.endswith(f"\n{END}\nAfter.\n")
    assert "old" not in written
    assert written_into(written, "A GPU, sm_90", "2031-02-03", one) == written
    with pytest.raises(ValueError, match="lacks the lines"):
        written_into("nothing", "A GPU", "2031-02-03", one)


def test_the_measurements_of_the_kernels_have_a_place_for_the_table() -> None:
    document = (ROOT / "docs" / "measurements" / "kernels.md").read_text()
    assert document.count(BEGIN) == document.count(END) == 1


def test_every_workload_is_a_call_that_the_kernels_take() -> None:
    library, memory = emulated_kernels(Schedule(0, 256)).library, SharedMemory(HostMemory())
    names = set()
    for work in workloads(memory.copy_of):
        before = library.launches
        work.run(SharedKernels(library, memory))
        assert library.launches > before
        assert work.size_bytes > 1000
        names.add(work.name)
    assert names == {
        "filter", "draw", "argmax", "grouped_heads", "draft", "score", "draw_talker", "sample", "accept_commit",
        "sum_codec_embeddings",
    }  # fmt: skip
