"""Step 6: measure a saved checkpoint, through the qwen-tts classes only.

Parts: flite (the originals), resynthesis (the decoder's target), codec (the decoder on the true codes), teacher-forced,
sample and greedy (free running). flite, resynthesis, sample and greedy need features.npz of the held-out sentences
(`prepare --training 0`); codec and teacher-forced also need the codes this checkpoint was trained on.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from . import grammar
from .asr import Recogniser, Score
from .corpus import Corpus, load_codes
from .layout import SPEAKERS
from .prepare import VOICES, speak
from .reference import Qwen3TTSModel
from .talker_data import TalkerData
from .teacher_forced import teacher_forced_figures
from .vocoder import FRAME, SAMPLE_RATE

PARTS = ("flite", "resynthesis", "codec", "teacher-forced", "sample", "greedy")
FRAME_LIMIT = 110
SEED = 1234
SAVED_WAVES = 6
GREEDY = {"do_sample": False, "subtalker_dosample": False}

Spoken = list[tuple[str, NDArray[np.floating]]]


@dataclass(slots=True)
class Evaluation:
    """One checkpoint, the held-out sentences (each in one of the two voices, in turn) and the results so far."""

    model: Qwen3TTSModel
    recogniser: Recogniser
    work: Path
    out: Path
    flite: str
    sentences: list[str]
    corpus: Corpus
    results: dict[str, Any] = field(default_factory=dict)

    def _utterance(self, number: int) -> int:
        """Index in the corpus of a held-out sentence in its voice."""
        speaker = number % len(SPEAKERS)
        matches = (self.corpus.text == self.sentences[number]) & (self.corpus.speaker == speaker) & self.corpus.held
        if not matches.any():
            raise SystemExit(f"{self.work}: no features of {self.sentences[number]!r}; prepare all held-out sentences")
        return int(np.flatnonzero(matches)[0])

    def _record(self, part: str, spoken: Spoken, extra: dict[str, Any]) -> None:
        """Score the sentences, voice by voice and together, and write the results file."""
        names = list(SPEAKERS)
        scores = {name: self.recogniser.score(spoken[i :: len(names)]) for i, name in enumerate(names)}
        every = Score(
            sum(score.errors for score in scores.values()),
            sum(score.words for score in scores.values()),
            sum(score.exact for score in scores.values()),
            [line for score in scores.values() for line in score.transcripts],
        )
        figures = {
            name: {
                "word_error_rate": score.word_error_rate,
                "exact_sentences": score.exact_share,
                "words": score.words,
                "transcripts": score.transcripts,
            }
            for name, score in (*scores.items(), ("both", every))
        }
        self.results[part] = {**figures, **extra}
        self._save()
        rates = ", ".join(f"{name} {figures[name]['word_error_rate']:.3f}" for name in figures)
        print(f"{part}: word error rate {rates}; exact {every.exact_share:.3f} {extra or ''}", flush=True)

    def _save(self) -> None:
        self.out.write_text(json.dumps(self.results, indent=1))

    def originals(self) -> None:
        """What flite itself speaks."""
        voices = [VOICES[number % len(SPEAKERS)] for number in range(len(self.sentences))]
        pairs = zip(self.sentences, voices, strict=True)
        self._record("flite", [(text, speak(text, voice, self.flite)[0]) for text, voice in pairs], {})

    def resynthesis(self) -> None:
        """The frame-locked target."""
        waves = [(text, self.corpus.waveform(self._utterance(i))) for i, text in enumerate(self.sentences)]
        self._record("resynthesis", waves, {})

    def codec(self) -> None:
        """The decoder on the true codes."""
        codes, offsets = load_codes(self.work), self.corpus.offsets()
        waves = []
        for number, text in enumerate(self.sentences):
            first, last = offsets[self._utterance(number)], offsets[self._utterance(number) + 1]
            frames = torch.from_numpy(codes[first:last])
            waves.append((text, self.model.model.speech_tokenizer.decode([{"audio_codes": frames}])[0][0]))
        self._record("codec", waves, {})

    def teacher_forced(self) -> None:
        """Cross-entropies and acceptance on true frames, in float32."""
        data = TalkerData(self.work, self.model.processor.tokenizer)
        dtype = next(self.model.model.parameters()).dtype
        figures = teacher_forced_figures(self.model.model.float().talker, data)
        self.model.model.to(dtype)
        self.results["teacher-forced"] = figures
        self._save()
        print(f"teacher-forced: {json.dumps({key: figures[key] for key in ('frames', 'code_0', 'codes_1_to_15')})}")

    def free_running(self, part: str) -> None:
        """Speak with the wrapper's defaults or greedily: half of the texts as written, a third without a language."""
        options: dict[str, Any] = {"max_new_tokens": FRAME_LIMIT, **(GREEDY if part == "greedy" else {})}
        names = list(SPEAKERS)
        torch.manual_seed(SEED)
        started, spoken, frames = time.monotonic(), [], []
        for number, sentence in enumerate(self.sentences):
            speaker = names[number % len(names)]
            text = grammar.written(sentence) if number % 4 < 2 else sentence
            language = "Auto" if number % 3 == 0 else "English"
            waves, _ = self.model.generate_custom_voice(text=text, speaker=speaker, language=language, **options)
            spoken.append((sentence, waves[0]))
            frames.append(len(waves[0]) // FRAME)
            if number < SAVED_WAVES:
                target = self.out.with_name(f"{self.out.stem}_{part}{number}_{speaker}.wav")
                soundfile.write(target, waves[0], SAMPLE_RATE)
        wanted = [int(self.corpus.lengths[self._utterance(number)]) for number in range(len(self.sentences))]
        extra = {
            "mean_frames": float(np.mean(frames)),
            "mean_flite_frames": float(np.mean(wanted)),
            "stopped_by_eos": float(np.mean([count < FRAME_LIMIT - 2 for count in frames])),
            "seconds": round(time.monotonic() - started, 1),
        }
        self._record(part, spoken, extra)

    def run(self, part: str) -> None:
        """Measure one part."""
        if part in ("sample", "greedy"):
            self.free_running(part)
            return
        steps = {
            "flite": self.originals,
            "resynthesis": self.resynthesis,
            "codec": self.codec,
            "teacher-forced": self.teacher_forced,
        }
        steps[part]()


def main() -> None:
    """Measure the chosen parts and write them to --out as JSON, after each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--work", type=Path, required=True, help="folder of the intermediate files")
    parser.add_argument("--out", type=Path, required=True, help="results, JSON; samples are written beside it")
    parser.add_argument("--whisper", required=True, help="a CTranslate2 Whisper folder, or a name such as small.en")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--sentences", type=int, default=grammar.HELDOUT_SENTENCES, help="first N held-out sentences")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="weights are loaded as")
    parser.add_argument("--flite", default="flite", help="the flite program (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    evaluation = Evaluation(
        model=Qwen3TTSModel.from_pretrained(str(args.checkpoint), dtype=getattr(torch, args.dtype)),
        recogniser=Recogniser(args.whisper, args.threads),
        work=args.work,
        out=args.out,
        flite=args.flite,
        sentences=grammar.sentences()[1][: args.sentences],
        corpus=Corpus.load(args.work),
    )
    for part in args.parts:
        evaluation.run(part)


if __name__ == "__main__":
    main()
