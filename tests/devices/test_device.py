"""Memory, copies and graphs of a device, over the simulated one, which refuses every misuse."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from cpspec_trt.devices.arrays import DeviceArray, dtype_named
from cpspec_trt.devices.cuda import DeviceFacts, probe
from cpspec_trt.devices.device import Device, Submissions
from cpspec_trt.devices.packed import DeviceBlock, Packed
from cpspec_trt.errors import EngineError, UsageError
from tests.simulation.simulation import Simulation, simulated

FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)


def values(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_the_probe_tells_what_the_gpu_is(simulation: Simulation) -> None:
    found = probe()
    assert isinstance(found, DeviceFacts)
    assert (found.name, found.compute_capability) == ("simulated GPU", "9.0")
    assert found.free_memory <= found.total_memory == 1 << 30


def test_an_array_begins_as_zeros_and_gives_back_what_was_written(simulation: Simulation) -> None:
    with Device() as device:
        array = device.array((2, 3), FLOAT32)
        np.testing.assert_array_equal(device.read(array), np.zeros((2, 3)))
        device.write(array, values(2, 3).astype(np.float64))
        np.testing.assert_array_equal(device.read(array), values(2, 3))
        assert device.read(array).dtype == FLOAT32


def test_an_upload_is_converted_to_the_dtype_asked_for(simulation: Simulation) -> None:
    with Device() as device:
        array = device.uploaded(values(5) / 3, dtype_named("bfloat16"))
        expected = (values(5) / 3).astype(dtype_named("bfloat16"))
        assert array.nbytes == 10
        np.testing.assert_array_equal(device.read(array), expected)


def test_what_is_written_lives_until_the_copy_is_done_and_no_longer(simulation: Simulation) -> None:
    with Device() as device:
        array, source = device.array((4,), FLOAT32), values(4)
        alive = weakref.ref(source)
        device.write(array, source)
        del source
        assert alive() is not None
        device.synchronise()
        assert alive() is None


def test_pinned_memory_is_copied_both_ways_in_the_order_of_the_stream(simulation: Simulation) -> None:
    with Device() as device:
        source, target = device.pinned((4,), FLOAT32), device.pinned((4,), FLOAT32)
        array = device.array((4,), FLOAT32)
        source.host[:] = 7
        device.upload(array, source)
        device.download(target, array)
        assert not (target.host == 7).any(), "nothing may have arrived before the wait"
        device.synchronise()
        np.testing.assert_array_equal(target.host, np.full(4, 7))


@pytest.mark.parametrize("column", [0, 2])
def test_a_column_is_copied_row_by_row_and_leaves_the_others(simulation: Simulation, column: int) -> None:
    with Device() as device:
        target, source = device.uploaded(values(2, 3, 4)), device.uploaded(-values(2, 4))
        device.copy_into_column(target, column, source)
        expected = values(2, 3, 4)
        expected[:, column] = -values(2, 4)
        np.testing.assert_array_equal(device.read(target), expected)


def test_rows_and_leading_parts_are_views_of_the_same_memory(simulation: Simulation) -> None:
    with Device() as device:
        array = device.uploaded(values(4, 3))
        np.testing.assert_array_equal(device.read(array.rows(1, 3)), values(4, 3)[1:3])
        np.testing.assert_array_equal(device.read(array.row(2)), values(4, 3)[2:3])
        np.testing.assert_array_equal(device.read(array.leading(2, 4)), values(4, 3).reshape(-1)[:8].reshape(2, 4))
        with pytest.raises(UsageError, match="rows 3 to 5 of 4"):
            array.rows(3, 5)
        with pytest.raises(UsageError, match="does not fit"):
            array.leading(13)


def test_a_copy_between_sizes_is_refused(simulation: Simulation) -> None:
    with Device() as device, pytest.raises(EngineError, match="a copy between arrays of 16 and 12 bytes"):
        device.copy(device.array((4,), FLOAT32), device.array((3,), FLOAT32))


def test_a_packed_block_moves_with_one_copy_and_aligns_what_it_holds(simulation: Simulation) -> None:
    with Device() as device:
        packed = Packed(device, {"one": ((3,), FLOAT32), "none": ((0, 4), FLOAT32), "two": ((2, 2), INT64)})
        packed.host["one"][:] = (1, 2, 3)
        packed.host["two"][:] = ((4, 5), (6, 7))
        before = device.submitted.copy()
        packed.upload()
        assert device.submitted.since(before).copies == 1
        np.testing.assert_array_equal(device.read(packed.device["two"]), ((4, 5), (6, 7)))
        assert not any(array.address % 256 for array in packed.device.values())
        device.clear(packed.device["one"])
        packed.download()
        device.synchronise()
        np.testing.assert_array_equal(packed.host["one"], np.zeros(3))
        np.testing.assert_array_equal(packed.host["two"], ((4, 5), (6, 7)))


def test_a_block_is_cleared_at_once(simulation: Simulation) -> None:
    with Device() as device:
        block = DeviceBlock(device, {"a": ((5,), FLOAT32), "b": ((300,), FLOAT32)})
        device.write(block.arrays["b"], values(300))
        device.clear(block.whole)
        np.testing.assert_array_equal(device.read(block.arrays["b"]), np.zeros(300))


def test_a_graph_runs_what_was_captured_each_time_it_is_launched(simulation: Simulation) -> None:
    with Device() as device:
        plan = Packed(device, {"x": ((2,), FLOAT32)})
        out = Packed(device, {"x": ((2,), FLOAT32)})

        def enqueue() -> None:
            plan.upload()
            device.copy(out.device["x"], plan.device["x"])
            out.download()

        graph = device.capture(enqueue)
        device.synchronise()
        np.testing.assert_array_equal(out.host["x"], np.zeros(2))
        for value in (3, 4):
            plan.host["x"].fill(value)
            graph.launch()
            device.synchronise()
            np.testing.assert_array_equal(out.host["x"], np.full(2, value))


def test_replayed_work_is_counted_and_captured_work_is_not(simulation: Simulation) -> None:
    with Device() as device:
        array = device.array((2,), FLOAT32)

        def enqueue() -> None:
            device.clear(array)
            device.count_kernels(3)
            device.count_pass()

        before = device.submitted.copy()
        graph = device.capture(enqueue)
        assert device.submitted.since(before) == Submissions()
        graph.launch()
        graph.launch()
        device.synchronise()
        expected = Submissions(kernels=6, passes=2, copies=2, graph_launches=2, direct=0, synchronisations=1)
        assert device.submitted.since(before) == expected


def test_a_fault_inside_a_capture_is_told_and_leaves_the_stream_usable(simulation: Simulation) -> None:
    def broken() -> None:
        raise EngineError("this one")

    with Device() as device:
        with pytest.raises(EngineError, match="this one"):
            device.capture(broken)
        array = device.array((2,), FLOAT32)
        np.testing.assert_array_equal(device.read(array), np.zeros(2))


def test_marks_tell_the_time_between_them(simulation: Simulation) -> None:
    with Device() as device:
        first, second = device.event(), device.event()
        first.record()
        device.array((1000,), FLOAT32)
        second.record()
        device.synchronise()
        assert second.seconds_since(first) >= 0


def test_without_room_the_error_says_how_much_there_was_and_what_to_do() -> None:
    with simulated(memory=1 << 20) as simulation:
        with Device() as device, pytest.raises(EngineError, match=r"no room for 4194304 bytes \(\d+ of 1048576 bytes"):
            device.array((1 << 20,), FLOAT32)
        assert simulation.live_allocations == 0


def test_a_failed_call_is_named_with_cudas_reason(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    with Device() as device:
        failed = simulation.runtime.cudaError_t.cudaErrorIllegalAddress
        monkeypatch.setattr(simulation.runtime, "cudaStreamSynchronize", lambda stream: (failed,))
        with pytest.raises(EngineError, match="CUDA: cudaStreamSynchronize failed: "):
            device.synchronise()
        monkeypatch.undo()


def test_an_array_freed_early_cannot_be_freed_again(simulation: Simulation) -> None:
    with Device() as device:
        array, pinned = device.array((4,), FLOAT32), device.pinned((4,), FLOAT32)
        device.synchronise()
        device.free(array)
        device.free(pinned)
        with pytest.raises(EngineError, match="a second time"):
            device.free(array)
        with pytest.raises(EngineError, match="does not own"):
            device.free(DeviceArray(12345, FLOAT32, (4,)))


def test_closing_frees_everything_once_what_uses_the_memory_is_gone(simulation: Simulation) -> None:
    order = []
    device = Device()
    device.array((4,), FLOAT32)
    device.on_close(lambda: order.append(("first", simulation.live_allocations)))
    device.on_close(lambda: order.append(("second", simulation.live_allocations)))
    device.close()
    assert order == [("second", 1), ("first", 1)]
    assert simulation.live_allocations == 0
    device.close()  # once more changes nothing


def test_a_device_that_nobody_closes_is_freed_with_its_last_user(simulation: Simulation) -> None:
    device = Device()
    device.array((4,), FLOAT32)
    graph = device.capture(lambda: None)
    del device, graph
    gc.collect()
    assert simulation.live_allocations == 0
