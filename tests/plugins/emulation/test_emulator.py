"""What the emulation promises: kernels that keep CUDA's rules compute, and those that break one are told where."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from tests.plugins.building import make

SEEDS = range(6)
LANES = np.arange(64)


class Emulator:
    """The small kernels of plugins/emulation/tests/kernels.cu."""

    def __init__(self, library: str) -> None:
        self._run = ctypes.CDLL(str(make("emulator") / library)).emulation_run_case
        self._run.restype = ctypes.c_char_p
        self._run.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p]

    def run(self, case: str, seed: int, poison: bool = True) -> np.ndarray:
        out = np.full(64, -99, np.int32)
        fault = self._run(case.encode(), seed, poison, out.ctypes.data)
        assert fault is None, fault.decode()
        return out

    def fault(self, case: str, seed: int) -> str:
        fault: bytes | None = self._run(case.encode(), seed, True, np.zeros(64, np.int32).ctypes.data)
        assert fault is not None, f"{case} ran as if nothing were wrong"
        return fault.decode()


@pytest.fixture(scope="module", params=["libemulator_tests.so", "libemulator_tests_ucontext.so"])
def emulator(request: pytest.FixtureRequest) -> Emulator:
    return Emulator(request.param)


@pytest.mark.parametrize("seed", SEEDS)
def test_kernels_that_keep_the_rules_compute_what_cuda_defines(emulator: Emulator, seed: int) -> None:
    np.testing.assert_array_equal(emulator.run("reverse", seed), LANES[::-1])
    np.testing.assert_array_equal(emulator.run("reverse_dynamic", seed), LANES[::-1])
    np.testing.assert_array_equal(emulator.run("template_objects", seed), (LANES + 1) % 64 * 100 + (LANES + 2) % 64)
    np.testing.assert_array_equal(emulator.run("votes", seed), np.full(64, 22 * 10000 + 1000 + 10))
    sums = np.repeat(LANES.reshape(2, 32).sum(axis=1), 32)
    following = LANES + (LANES % 32 != 31)
    np.testing.assert_array_equal(
        emulator.run("warp_sums", seed), sums * 100000 + (LANES % 32 + 1) * 1000 + following * 10 + 1
    )
    np.testing.assert_array_equal(emulator.run("half_warps", seed), np.full(64, 16))


def test_a_missing_barrier_shows_as_poison(emulator: Emulator) -> None:
    wrong = [seed for seed in SEEDS if (emulator.run("reverse_without_barrier", seed) != LANES[::-1]).any()]
    assert wrong == list(SEEDS)
    assert (emulator.run("read_unwritten", 0) == -1).all()


def test_a_race_that_the_natural_order_hides_shows_under_shuffled_schedules(emulator: Emulator) -> None:
    assert (emulator.run("read_first_without_barrier", 0) == 7).all()
    assert any((emulator.run("read_first_without_barrier", seed) != 7).any() for seed in SEEDS)


def test_a_seed_repeats_its_schedule_and_another_seed_gives_another(emulator: Emulator) -> None:
    orders = [emulator.run("tickets", seed) for seed in SEEDS]
    for seed, order in zip(SEEDS, orders, strict=True):
        np.testing.assert_array_equal(np.sort(order), LANES)
        np.testing.assert_array_equal(emulator.run("tickets", seed), order)
    assert len({order.tobytes() for order in orders}) == len(orders)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("barrier_in_one_branch", "divergent barrier: "),
        ("two_barriers_for_one", "divergent barrier: "),
        ("different_shuffles", "mismatched warp operation: "),
        ("different_masks", "mismatched warp masks: "),
        ("caller_outside_mask", "leaves itself out"),
        ("source_outside_mask", "it reads lane 20, which its mask 0x0000ffff leaves out"),
        ("mask_beyond_the_block", "names lanes that the block does not have"),
        ("half_warp_waits_for_the_barrier", "deadlock: "),
        ("write_beside_dynamic", "a thread wrote beside an object in shared memory"),
        ("write_beside_object", "a thread wrote beside an object in shared memory"),
        ("too_much_shared", "more than 48 KiB of shared memory"),
        ("too_much_dynamic", "asks for 131072 bytes of dynamic shared memory"),
    ],
)
def test_a_kernel_that_breaks_a_rule_is_stopped_and_told(
    emulator: Emulator, case: str, message: str, seed: int
) -> None:
    assert message in emulator.fault(case, seed)


def test_a_lane_that_left_the_kernel_is_missed_by_those_that_name_it(emulator: Emulator) -> None:
    for seed in SEEDS:
        fault = emulator.fault("lane_leaves_early", seed)
        assert "mismatched warp operation" in fault or "deadlock" in fault
        assert "thread 3 has left the kernel" in fault


def test_a_fault_names_kernel_block_threads_and_source_lines(emulator: Emulator) -> None:
    assert emulator.fault("two_barriers_for_one", 0) == (
        "two_barriers_for_one: block (0, 0, 0): divergent barrier: thread 1 waits in __syncthreads at kernels.cu:74, "
        "thread 0 waits in __syncthreads at kernels.cu:76"
    )


def test_a_launch_after_a_fault_runs_as_if_nothing_had_happened(emulator: Emulator) -> None:
    for case in ("barrier_in_one_branch", "different_shuffles", "half_warp_waits_for_the_barrier"):
        emulator.fault(case, 3)
        np.testing.assert_array_equal(emulator.run("reverse", 3), LANES[::-1])


def test_a_stack_overflow_stops_the_process_instead_of_spoiling_a_neighbour() -> None:
    script = (
        "from tests.plugins.emulation.test_emulator import Emulator; "
        "Emulator('libemulator_tests.so').run('stack_overflow', 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert done.returncode < 0  # ended by a signal
