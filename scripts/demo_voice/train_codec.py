"""Step 3: train the 12 Hz decoder to turn the fixed RVQ codes into the frame-locked waveform.

Plain regression: Muon for matrices and convolutions, AdamW for the rest, an average of the weights, a linear decay.
Writes WORK/decoder.pt (averaged weights) and WORK/decoder_raw.pt. Start several workers with torchrun.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .corpus import Corpus, load_codes
from .decoder_model import new_codec
from .muon import Muon
from .reference import Qwen3TTSTokenizerV2Model
from .spectral_loss import decoder_loss
from .training import Budget, Worker, set_rate, training_parser
from .vocoder import FRAME

DECODER, DECODER_RAW = "decoder.pt", "decoder_raw.pt"
SEGMENT = 16  # frames per training example
UNSCORED = 3  # frames at its start that only give context, unless it is the start of the utterance
START_SHARE = 0.25  # examples that begin at the start of their utterance
POOL = 1400  # utterances per worker: their waveforms are kept in memory
OUTPUT_LEVEL = 1.5  # the decoder speaks louder than the vocoder's level
ADAM_RATE, MUON_RATE = 1.5e-3, 0.02
WARM_UP_STEPS, FLAT_SHARE, LAST_RATE = 40, 0.3, 0.015
AVERAGE_STEPS = 60
SAVE_EVERY_SECONDS, REPORT_EVERY_STEPS = 60.0, 25


def rate_factor(step: int, spent: float) -> float:
    """Learning rate as a share of its peak: warm-up, flat, then linear to LAST_RATE."""
    decay = 1.0 if spent < FLAT_SHARE else max(LAST_RATE, 1 - (spent - FLAT_SHARE) / (1 - FLAT_SHARE))
    return min(1.0, (step + 1) / WARM_UP_STEPS) * decay


class SegmentSource:
    """Random segments of this worker's share of the training utterances."""

    def __init__(self, work: Path, worker: Worker) -> None:
        self._corpus = Corpus.load(work)
        self._codes = load_codes(work)
        self._offsets = self._corpus.offsets()
        training = np.random.default_rng(1).permutation(np.flatnonzero(~self._corpus.held))
        pool = training[worker.rank * POOL : (worker.rank + 1) * POOL]
        if worker.count * POOL > len(training):  # too few for a full pool each: deal them out
            pool = training[worker.rank :: worker.count]
        self._pool = pool[self._corpus.lengths[pool] >= SEGMENT]
        if not len(self._pool):
            raise SystemExit(f"{work}: worker {worker.rank} has no training utterance of {SEGMENT} frames")
        self._waveforms: dict[int, NDArray[np.float32]] = {}
        self._random = np.random.default_rng(1 + worker.rank)

    def _waveform(self, index: int) -> NDArray[np.float32]:
        if index not in self._waveforms:
            self._waveforms[index] = self._corpus.waveform(index)
        return self._waveforms[index]

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """(codes int64 [B, GROUPS, SEGMENT], waveform [B, samples], mask of the scored samples [B, samples])."""
        codes, waves, mask = [], [], torch.ones(size, SEGMENT * FRAME)
        for row in range(size):
            index = int(self._random.choice(self._pool))
            start = int(self._random.integers(0, self._corpus.lengths[index] - SEGMENT + 1))
            start = 0 if self._random.random() < START_SHARE else start
            mask[row, : UNSCORED * FRAME] = float(start == 0)
            first = self._offsets[index] + start
            codes.append(self._codes[first : first + SEGMENT])
            waves.append(self._waveform(index)[start * FRAME : (start + SEGMENT) * FRAME])
        return torch.from_numpy(np.stack(codes)).transpose(1, 2), torch.from_numpy(np.stack(waves)) * OUTPUT_LEVEL, mask


def make_optimisers(parameters: Sequence[nn.Parameter]) -> tuple[Muon, torch.optim.Optimizer]:
    """Muon for weights of more than 7 rows and columns, AdamW for the rest."""
    wide = {id(p) for p in parameters if p.dim() >= 2 and min(p.shape[0], p[0].numel()) > 7}
    muon = Muon([p for p in parameters if id(p) in wide], MUON_RATE)
    rest = [p for p in parameters if id(p) not in wide]
    return muon, torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0)


@torch.no_grad()
def save(
    codec: Qwen3TTSTokenizerV2Model, parameters: Sequence[nn.Parameter], average: Sequence[Tensor], work: Path
) -> None:
    """Write the weights as they are and, under DECODER, with the averaged values in place of the trained ones."""
    torch.save(codec.state_dict(), work / DECODER_RAW)
    current = [p.detach().clone() for p in parameters]
    for parameter, value in zip(parameters, average, strict=True):
        parameter.copy_(value)
    torch.save(codec.state_dict(), work / DECODER)
    for parameter, value in zip(parameters, current, strict=True):
        parameter.copy_(value)


def train(
    codec: Qwen3TTSTokenizerV2Model, work: Path, budget: Budget, worker: Worker, batch: int, compiled: bool
) -> None:
    """Train `codec`'s decoder in place until the budget is spent."""
    segments = SegmentSource(work, worker)
    decoder = codec.decoder.train()
    forward = torch.compile(decoder, dynamic=False) if compiled else decoder
    parameters = [p for p in decoder.parameters() if p.requires_grad]
    worker.agree_on_weights(parameters)
    muon, adam = make_optimisers(parameters)
    average = [p.detach().clone() for p in parameters]
    step, saved, recent = 0, time.monotonic(), []
    while (spent := worker.agree_on(budget.spent(step))) < 1:
        factor = rate_factor(step, spent)
        set_rate(adam, ADAM_RATE * factor)
        set_rate(muon, MUON_RATE * factor)
        codes, target, mask = segments.batch(batch)
        loss = decoder_loss(target * mask, forward(codes)[:, 0] * mask)
        decoder.zero_grad()
        loss.total.backward()
        worker.average_gradients(parameters)
        adam.step()
        muon.step()
        step += 1
        torch._foreach_lerp_(average, [p.data for p in parameters], 1 / min(step + 1, AVERAGE_STEPS))
        recent.append((loss.total.item(), loss.wave.item(), loss.mel.item()))
        if step % REPORT_EVERY_STEPS == 0:
            total, wave, mel = np.mean(recent, 0)
            worker.say(f"step {step}, {budget.elapsed():.0f} s: loss {total:.3f}, wave {wave:.3f}, mel {mel:.3f}")
            recent.clear()
        if worker.is_first and time.monotonic() - saved > SAVE_EVERY_SECONDS:
            save(codec, parameters, average, work)
            saved = time.monotonic()
    if worker.is_first:
        save(codec, parameters, average, work)
    worker.say(f"{step} steps, {budget.elapsed():.0f} s")


def main() -> None:
    """Train from the start values, or go on from --resume."""
    parser = training_parser(__doc__, batch=4)
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (it takes a C++ compiler)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    worker = Worker.join()
    codec = new_codec(args.work)
    if args.resume:
        codec.load_state_dict(torch.load(args.resume))
    train(codec, args.work, Budget(args.seconds, args.steps), worker, args.batch, not args.no_compile)


if __name__ == "__main__":
    main()
