"""Step 1: every sentence, spoken by flite in two voices, becomes frame-locked features (WORLD analysis).

Writes WORK/features.npz. Needs the `flite` program with the voices slt and rms.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyworld
import soundfile
import soxr

from . import grammar
from .corpus import Corpus, Utterance
from .vocoder import FFT, FRAME, HOP, ROWS_PER_FRAME, SAMPLE_RATE, Array, envelope_to_mel, lock_pitch

LEAD_SECONDS, TAIL_SECONDS = 0.06, 0.14  # silence kept around the speech
SPEECH_THRESHOLD = 0.02  # of the loudest 20 ms
LEVEL = 0.08  # root mean square of an utterance
UNVOICED_F0 = 150.0  # an utterance without voicing still needs a pitch
F0_SMOOTHING, VOICING_SMOOTHING = 13, 3  # rows


@dataclass(frozen=True, slots=True)
class FliteVoice:
    """A flite voice and the factor by which it is slowed down."""

    name: str
    duration_stretch: float


# In the order of layout.SPEAKERS.
VOICES = (FliteVoice("slt", 1.18), FliteVoice("rms", 1.0))


def speak(text: str, voice: FliteVoice, program: str) -> tuple[Array, list[str], Array]:
    """Speech of flite at 24 kHz [samples], its phones, and each phone's end in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "speech.wav")
        stretch = f"duration_stretch={voice.duration_stretch}"
        command = [program, "-voice", voice.name, "--setf", stretch, "-psdur", "-t", text, "-o", str(path)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        samples, rate = soundfile.read(path)
    durations = [entry.rsplit(":", 1) for entry in printed.split() if ":" in entry]
    phones, ends = [name for name, _ in durations], np.array([float(end) for _, end in durations])
    return soxr.resample(samples, rate, SAMPLE_RATE), phones, ends


def trim(samples: Array) -> tuple[Array, float]:
    """The speech with a little silence around it, and the seconds cut off in front."""
    loudness = np.sqrt(np.convolve(samples**2, np.ones(480) / 480, "same"))
    loud = np.flatnonzero(loudness > SPEECH_THRESHOLD * loudness.max())
    start = max(0, loud[0] - int(LEAD_SECONDS * SAMPLE_RATE))
    end = min(len(samples), loud[-1] + int(TAIL_SECONDS * SAMPLE_RATE))
    return samples[start:end], start / SAMPLE_RATE


def world_analysis(samples: Array) -> tuple[Array, Array]:
    """WORLD: f0 in Hz (0 where unvoiced) and log mel power of the CheapTrick envelope, one row per 5 ms."""
    period = 1000.0 * HOP / SAMPLE_RATE
    f0, times = pyworld.dio(samples, SAMPLE_RATE, f0_floor=60, f0_ceil=320, frame_period=period)
    f0 = pyworld.stonemask(samples, f0, times, SAMPLE_RATE)
    return f0, envelope_to_mel(pyworld.cheaptrick(samples, f0, times, SAMPLE_RATE, fft_size=FFT))


def _smooth(track: Array, width: int) -> Array:
    return np.convolve(np.pad(track, (width // 2, width // 2), "edge"), np.ones(width) / width, "valid")


def analyse(text: str, held: bool, speaker: int, program: str) -> Utterance:
    """One utterance: speak, trim to whole frames, analyse, and lock its pitch to whole cycles per frame."""
    speech, phones, ends = speak(text, VOICES[speaker], program)
    speech, cut = trim(speech)
    frames = -(-len(speech) // FRAME)
    rows = frames * ROWS_PER_FRAME
    speech = np.pad(speech, (0, frames * FRAME - len(speech) + HOP))
    speech = speech / np.sqrt((speech**2).mean() + 1e-9) * LEVEL
    # Digital silence would send WORLD's envelope to minus infinity.
    dither = 1e-5 * np.random.default_rng(0).standard_normal(len(speech))
    f0, mel = world_analysis(speech + dither)
    f0, mel = f0[:rows], mel[:rows]
    voiced = f0 > 0
    pitch = np.full(rows, UNVOICED_F0)
    if voiced.sum() > 3:
        pitch = np.exp(np.interp(np.arange(rows), np.flatnonzero(voiced), np.log(f0[voiced])))
    cycles, locked = lock_pitch(np.exp(_smooth(np.log(pitch), F0_SMOOTHING)))
    voicing = _smooth(voiced.astype(float), VOICING_SMOOTHING)
    return Utterance(text, held, speaker, mel, voicing, locked, cycles, phones, ends - cut)


def main() -> None:
    """Analyse the corpus, or a few sentences of it, and write its features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of the intermediate files")
    parser.add_argument("--flite", default="flite", help="the flite program (default: %(default)s)")
    parser.add_argument("--training", type=int, default=grammar.TRAINING_SENTENCES, help="first N training sentences")
    parser.add_argument("--heldout", type=int, default=grammar.HELDOUT_SENTENCES, help="first N held-out sentences")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    args = parser.parse_args()

    training, heldout = grammar.sentences()
    chosen = [(text, True) for text in heldout[: args.heldout]] + [(text, False) for text in training[: args.training]]
    jobs = [(text, held, speaker) for text, held in chosen for speaker in range(len(VOICES))]
    started = time.monotonic()
    utterances: list[Utterance] = []
    with ProcessPoolExecutor(args.workers) as pool:
        work = partial(analyse, program=args.flite)
        for utterance in pool.map(work, *zip(*jobs, strict=True), chunksize=8):
            utterances.append(utterance)
            if len(utterances) % 400 == 0:
                print(f"{len(utterances)} of {len(jobs)} utterances, {time.monotonic() - started:.0f} s", flush=True)
    args.work.mkdir(parents=True, exist_ok=True)
    corpus = Corpus.of(utterances)
    corpus.save(args.work)
    print(f"{len(jobs)} utterances, {corpus.lengths.sum()} frames, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
