"""What every code2wav graph must do, whatever its family: equal the reference, and be exact in any chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.graphs.decoding import Decoder, State, equal_chunks

TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Case:
    """A decoder, codes for it, the reference's waveform (every ``stride``-th sample) and our whole decode."""

    decoder: Decoder
    codes: np.ndarray
    reference: np.ndarray
    stride: int
    whole: np.ndarray

    @property
    def frames(self) -> int:
        return int(self.codes.shape[2])

    @property
    def first(self) -> np.ndarray:
        """One sequence."""
        return self.codes[:1]

    def after(self, frames: int) -> State:
        """The state of the first sequence after so many frames."""
        state = self.decoder.zero_state()
        return self.decoder.step(self.first[:, :, :frames], 0, state)[1] if frames else state


class StreamingContract:
    """Tests of ``case``, a fixture of the module that inherits them."""

    def test_the_whole_decode_is_that_of_the_reference(self, case: Case) -> None:
        assert case.frames >= 4 * case.decoder.config.sliding_window
        assert 0.3 < np.abs(case.reference).max() <= 1
        np.testing.assert_allclose(case.whole[:, :: case.stride], case.reference, rtol=0, atol=TOLERANCE)

    @pytest.mark.parametrize("size", [1, 2, 7, 25, 100])
    def test_equal_chunks_give_the_whole(self, case: Case, size: int) -> None:
        chunked = case.decoder.decode(case.codes, equal_chunks(case.frames, size))
        np.testing.assert_allclose(chunked, case.whole, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(chunked[:, :: case.stride], case.reference, rtol=0, atol=TOLERANCE)

    def test_chunks_of_any_lengths_give_the_whole(self, case: Case) -> None:
        codes, rng = case.first[:, :, :40], np.random.default_rng(8)
        frames = codes.shape[2]
        whole = case.decoder.decode(codes)
        for _ in range(10):
            borders = np.sort(rng.choice(np.arange(1, frames), size=rng.integers(1, 12), replace=False))
            lengths = np.diff([0, *borders, frames]).tolist()
            chunked = case.decoder.decode(codes, lengths)
            np.testing.assert_allclose(chunked, whole, rtol=0, atol=TOLERANCE, err_msg=f"{lengths}")

    def test_every_frame_gives_exactly_its_samples(self, case: Case) -> None:
        state, per_frame = case.decoder.zero_state(len(case.codes)), case.decoder.config.samples_per_frame
        for start, frames in ((0, 1), (1, 2), (3, 9)):
            waveform, state = case.decoder.step(case.codes[:, :, start : start + frames], start, state)
            assert waveform.shape == (len(case.codes), frames * per_frame)
        assert case.whole.shape[1] == case.frames * per_frame - case.decoder.absent

    @pytest.mark.parametrize("size", [1, 7])
    def test_chunk_borders_jump_no_more_than_the_whole_does_there(self, case: Case, size: int) -> None:
        chunked = case.decoder.decode(case.codes, equal_chunks(case.frames, size))
        per_chunk = size * case.decoder.config.samples_per_frame
        borders = np.arange(per_chunk - case.decoder.absent, case.whole.shape[1], per_chunk)
        jumps, allowed = (np.abs(wave[:, borders] - wave[:, borders - 1]) for wave in (chunked, case.whole))
        assert (jumps <= allowed + TOLERANCE).all()

    def test_a_sequence_decodes_in_a_batch_as_it_does_alone(self, case: Case) -> None:
        pair = np.concatenate([case.first, np.roll(case.first, 5, axis=2)])
        chunks = equal_chunks(case.frames, 25)
        together = case.decoder.decode(pair, chunks)
        for row, sequence in zip(together, pair, strict=True):
            np.testing.assert_allclose(row, case.decoder.decode(sequence[None], chunks)[0], rtol=0, atol=TOLERANCE)
        assert np.abs(together[0] - together[1]).max() > 0.1

    def test_sequences_in_one_pass_may_have_started_at_different_times(self, case: Case) -> None:
        starts, states = (0, 2, 20), [case.after(start) for start in (0, 2, 20)]
        rows = [case.first[:, :, start : start + 6] for start in starts]
        batched = {name: np.concatenate([state[name] for state in states]) for name in states[0]}
        together, after = case.decoder.step(np.concatenate(rows), starts, batched)
        for i, (row, start, state) in enumerate(zip(rows, starts, states, strict=True)):
            alone, after_alone = case.decoder.step(row, start, state)
            np.testing.assert_allclose(together[i], alone[0], rtol=0, atol=TOLERANCE)
            for name, value in after_alone.items():
                np.testing.assert_allclose(after[name][i], value[0], rtol=0, atol=1e-4, err_msg=name)

    def test_every_state_that_goes_in_comes_out_in_the_same_shape(self, case: Case) -> None:
        inputs = {i.name: i.shape for i in case.decoder.session.get_inputs() if i.name.startswith("state_")}
        outputs = {o.name: o.shape for o in case.decoder.session.get_outputs() if o.name != "waveform"}
        assert outputs == {f"next_{name}": shape for name, shape in inputs.items()}
        for shape in inputs.values():
            assert shape[0] == "batch"
            assert all(isinstance(size, int) for size in shape[1:])
        assert {name: list(array.shape[1:]) for name, array in case.after(3).items()} == {
            name: shape[1:] for name, shape in inputs.items()
        }

    def test_every_state_matters(self, case: Case) -> None:
        rest, state = case.first[:, :, 20:24], case.after(20)
        expected, _ = case.decoder.step(rest, 20, state)
        for name, array in state.items():
            forgetful, _ = case.decoder.step(rest, 20, state | {name: np.zeros_like(array)})
            assert np.abs(forgetful - expected).max() > 10 * TOLERANCE, name

    @pytest.mark.parametrize("frames_before", [0, 3])
    def test_keys_and_values_of_frames_that_do_not_exist_change_nothing(self, case: Case, frames_before: int) -> None:
        state = case.after(frames_before)
        missing = case.decoder.config.sliding_window - 1 - frames_before
        poison = np.random.default_rng(5).choice(np.array([-1e6, 1e6], np.float32), size=missing)[:, None]
        poisoned = {name: array.copy() for name, array in state.items()}
        for name, array in poisoned.items():
            if name.startswith(("state_key_", "state_value_")):
                array[:, :, :missing] = poison
        rest = case.first[:, :, frames_before : frames_before + 12]
        clean, _ = case.decoder.step(rest, frames_before, state)
        np.testing.assert_array_equal(case.decoder.step(rest, frames_before, poisoned)[0], clean)

    def test_later_frames_do_not_change_earlier_samples(self, case: Case) -> None:
        codes = case.first[:, :, :40]
        changed = codes.copy()
        changed[:, :, 30:] = (changed[:, :, 30:] + 1) % case.decoder.config.codebook_size
        difference = np.abs(case.decoder.decode(changed) - case.decoder.decode(codes))
        before, after = np.split(difference, [30 * case.decoder.config.samples_per_frame - case.decoder.absent], axis=1)
        assert before.max() == 0
        assert after.max() > 0.01
