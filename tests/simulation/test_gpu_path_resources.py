"""What a request takes of the simulated GPU: so many launches and waits a frame, and no memory that it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS, Omni
from cpspec_trt.api.speech import Speech
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import MANIFEST_NAME, read_manifest
from cpspec_trt.pipelines.events import Silence
from tests.conftest import Maker
from tests.simulation.counts import Counts
from tests.simulation.simulation import Simulation, simulated

TEXT = "hello world"
FRAMES = 6
WINDOWS = (0, 2, 3, 4, 8)


@dataclass(frozen=True, slots=True)
class Held:
    """What is held of the device, of pinned memory and of graphs."""

    bytes: int
    allocations: int
    pinned: int
    graphs: int
    events: int

    @classmethod
    def by(cls, simulation: Simulation) -> Held:
        device = simulation.device
        return cls(
            simulation.live_bytes,
            simulation.live_allocations,
            simulation.pinned_bytes,
            len(device.executables),
            len(device.events),
        )


def spoken(tts: TTS, window: int, frames: int = FRAMES, seed: int = 1) -> Speech:
    return tts.speak(TEXT, speaker="ryan", speculate=window, max_frames=frames, seed=seed)


@pytest.fixture
def tts(simulation: Simulation, device_engines: Maker) -> Iterator[TTS]:
    with TTS(device_engines("tiny", 54)) as opened:
        yield opened


@pytest.mark.parametrize("window", WINDOWS)
def test_a_frame_takes_two_graphs_and_one_per_round_and_a_wait_per_round(
    simulation: Simulation, tts: TTS, window: int
) -> None:
    spoken(tts, window)  # captures, and whatever is made at first use
    before = simulation.counts.copy()
    speech = spoken(tts, window)
    used = simulation.counts - before
    frames = len(speech.codes)
    assert frames == FRAMES
    rounds = speech.statistics.passes
    # The Talker's step and the start of the frame; a round each; the last step only tells whether the speech ends.
    assert used.graph_launches <= 2 * frames + rounds + 1
    # A wait per round decides the next; beyond the frames: the prompt, the end, and code2wav.
    assert used.synchronisations <= rounds + 8
    # Outside graphs run the prompt, the draw of its c0, and code2wav.
    assert used.engine_runs == 2
    assert used.launches <= 4
    assert used.captured == used.allocations == 0


def test_the_product_counts_what_the_device_was_asked_for(simulation: Simulation, device_engines: Maker) -> None:
    with TTS(device_engines("tiny", 54), audio=False) as tts:
        spoken(tts, 3)
        before = simulation.counts.copy()
        speech = spoken(tts, 3)
        used = simulation.counts - before
    assert speech.work is not None
    submitted = speech.work.submitted
    assert submitted.graph_launches == used.graph_launches
    assert submitted.synchronisations == used.synchronisations
    assert submitted.direct == used.launches + used.engine_runs + used.copies + used.memsets
    whole = submitted.kernels + submitted.passes + submitted.copies
    assert whole == submitted.direct + used.replayed


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_hundred_requests_hold_no_more_than_one(simulation: Simulation, tts: TTS) -> None:
    for window in (0, 3):
        spoken(tts, window, frames=1)
    held = Held.by(simulation)
    middle = 0
    for request in range(200):
        spoken(tts, 3 * (request % 2), frames=1 + (request % 10 == 0), seed=request)
        assert Held.by(simulation) == held, f"after request {request}"
        middle = resident() if request == 99 else middle
    assert resident() - middle < 16 << 20


def test_two_hundred_answers_hold_no_more_than_one(simulation: Simulation, omni_device_engines: Maker) -> None:
    messages = [{"role": "user", "content": "hello"}]
    with Omni(omni_device_engines("tiny", 2)) as omni:
        held = None
        for request in range(200):
            omni.answer(messages, audio=False, max_new_tokens=1, seed=request)
            held = held or Held.by(simulation)
            assert Held.by(simulation) == held, f"after request {request}"


def test_everything_is_given_back_when_the_engines_close(simulation: Simulation, device_engines: Maker) -> None:
    tts = TTS(device_engines("tiny", 54))
    spoken(tts, 3)
    assert Held.by(simulation).bytes > 0
    tts.close()
    assert Held.by(simulation) == Held(0, 0, 0, 0, 0)
    assert not simulation.device.streams


class Interrupting(Silence):
    """Ctrl-C in the middle of a request."""

    def frame_finished(self, frames: int) -> None:
        if frames == 2:
            raise KeyboardInterrupt


def test_an_interrupted_request_leaves_nothing_to_the_next(tts: TTS) -> None:
    expected = spoken(tts, 3)
    with pytest.raises(KeyboardInterrupt):
        tts.speak("something else", speaker="ryan", speculate=8, max_frames=4, listener=Interrupting())
    again = spoken(tts, 3)
    np.testing.assert_array_equal(again.codes, expected.codes)
    np.testing.assert_array_equal(again.samples, expected.samples)


@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_a_device_without_room_is_told_in_one_line_and_left_clean(device_engines: Maker, share: float) -> None:
    engines = device_engines("tiny", 54)
    with simulated() as simulation, TTS(engines) as tts:
        spoken(tts, 3)
        needed = simulation.live_bytes
    with simulated(memory=int(share * needed)) as simulation:
        with pytest.raises(EngineError) as error, TTS(engines) as tts:
            spoken(tts, 3)
        assert "\n" not in str(error.value)
        assert simulation.live_bytes == 0


def sizes_of(root: Path) -> list[int]:
    """Bytes of each engine below ``root``."""
    return [sum(file.bytes for file in read_manifest(path.parent).files) for path in root.glob("*/" + MANIFEST_NAME)]


def test_a_set_that_does_not_fit_together_is_refused_before_anything_is_loaded(
    device_engines: Maker, omni_device_engines: Maker
) -> None:
    for engines, opened in ((device_engines("tiny", 54), TTS), (omni_device_engines("tiny", 2), Omni)):
        sizes = sizes_of(engines)
        assert max(sizes) < sum(sizes) - 1
        with (
            simulated(memory=sum(sizes) - 1) as simulation,
            pytest.raises(EngineError, match=r"together they take more than \d+ MB of device memory"),
        ):
            opened(engines)
        assert simulation.counts == Counts()


def test_counts_of_a_window_that_accepts_are_fewer_than_those_without(
    simulation: Simulation, device_engines: Maker
) -> None:
    """Of a checkpoint whose heads agree, a frame takes fewer passes."""
    used = {}
    with TTS(device_engines("tiny_square", 14)) as tts:
        for window in (0, 4):
            spoken(tts, window)
            before = simulation.counts.copy()
            speech = spoken(tts, window)
            used[window] = simulation.counts - before
            assert speech.statistics.passes > 0
    assert used[4].graph_launches < used[0].graph_launches
    assert isinstance(used[0], Counts)
