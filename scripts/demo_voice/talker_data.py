"""Training sequences of the Talker: the non-streaming CustomVoice prefix, then the frames of the utterance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from . import grammar, layout
from .corpus import Corpus, load_codes
from .vocoder import FRAME, SAMPLE_RATE

NO_TARGET = -100  # ignored by the losses
NO_CODEC = -1  # a row without a codec term
FRAME_SECONDS = FRAME / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded sequences, int64 [B, S] unless noted: text ids; codec ids (NO_CODEC: none); frames [B, S, GROUPS], valid
    where is_frame (bool); next_code, what the Talker says after a position (NO_TARGET: not scored; CODEC_EOS after the
    last frame); next_frame [B, S, GROUPS]; next_phone (NO_TARGET where no frame follows)."""

    text: Tensor
    codec: Tensor
    frames: Tensor
    is_frame: Tensor
    next_code: Tensor
    next_frame: Tensor
    next_phone: Tensor

    def frame_follows(self) -> Tensor:
        """Positions after which a frame comes, bool [B, S]."""
        return (self.next_code >= 0) & (self.next_code != layout.CODEC_EOS)


class TalkerData:
    """The corpus as Talker sequences."""

    def __init__(self, work: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        self.corpus = Corpus.load(work)
        self.codes = load_codes(work)
        self.offsets = self.corpus.offsets()
        self.training = np.flatnonzero(~self.corpus.held)
        self.heldout = np.flatnonzero(self.corpus.held)
        self._tokenizer = tokenizer
        token = tokenizer.convert_tokens_to_ids
        self._pad, self._bos, self._eos = (token(t) for t in (layout.TTS_PAD, layout.TTS_BOS, layout.TTS_EOS))
        self._role = [token(layout.IM_START), token("assistant"), *self._ids("\n")]
        self.phones, self._phone_labels = self._label_phones()

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text)["input_ids"]

    def _label_phones(self) -> tuple[list[str], list[NDArray[np.int64]]]:
        """(phone inventory, phone spoken at the centre of each frame, per utterance)."""
        spoken = [str(phones).split() for phones in self.corpus.phones]
        inventory = sorted({phone for phones in spoken for phone in phones})
        label = {phone: index for index, phone in enumerate(inventory)}
        labels = []
        for phones, ends, frames in zip(spoken, self.corpus.phone_ends, self.corpus.lengths, strict=True):
            centres = (np.arange(frames) + 0.5) * FRAME_SECONDS
            ends_seconds = np.array([float(end) for end in str(ends).split()])
            at = np.minimum(np.searchsorted(ends_seconds, centres), len(phones) - 1)
            labels.append(np.array([label[phones[index]] for index in at]))
        return inventory, labels

    def frames_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Codes of some utterances, concatenated [frames, GROUPS]."""
        return np.concatenate([self.codes[self.offsets[i] : self.offsets[i + 1]] for i in indices])

    def sampling_weights(self) -> NDArray[np.float64]:
        """Probability of each training utterance: rare templates more often, by 1 / sqrt(count)."""
        templates = [grammar.template_of(str(self.corpus.text[i])) for i in self.training]
        counts = Counter(templates)
        weights = np.array([counts[template] ** -0.5 for template in templates])
        return weights / weights.sum()

    def prefix(self, index: int, as_written: bool, name_language: bool) -> tuple[list[int], list[int]]:
        """(text ids, codec ids) of the prefill rows; `as_written` adds capitals and a full stop."""
        text = str(self.corpus.text[index])
        ids = self._ids(grammar.written(text) if as_written else text)
        tags = [layout.NO_THINK, layout.THINK_BOS, layout.THINK_EOS]
        if name_language:
            tags = [layout.THINK, layout.THINK_BOS, layout.LANGUAGES["english"], layout.THINK_EOS]
        tags.append(list(layout.SPEAKERS.values())[self.corpus.speaker[index]])
        text_rows = [*self._role, *[self._pad] * len(tags), self._bos, *ids, self._eos, self._pad]
        codec_rows = [*[NO_CODEC] * len(self._role), *tags, *[layout.CODEC_PAD] * (len(ids) + 2), layout.CODEC_BOS]
        return text_rows, codec_rows

    def batch(self, indices: NDArray[np.int64], random: np.random.Generator) -> Batch:
        """Sequences of the utterances, each with a random way of writing and with or without its language."""
        prefixes = [self.prefix(i, random.random() < 0.5, random.random() < 0.5) for i in indices]
        lengths = [self.corpus.lengths[i] for i in indices]
        shape = (len(indices), max(len(text) + n for (text, _), n in zip(prefixes, lengths, strict=True)))
        text, codec = np.full(shape, self._pad), np.full(shape, NO_CODEC)
        frames, next_frame = (np.zeros((*shape, layout.GROUPS), np.int64) for _ in range(2))
        is_frame = np.zeros(shape, bool)
        next_code, next_phone = np.full(shape, NO_TARGET), np.full(shape, NO_TARGET)
        for row, (index, (text_ids, codec_ids)) in enumerate(zip(indices, prefixes, strict=True)):
            start, end = len(text_ids), len(text_ids) + lengths[row]
            codes = self.codes[self.offsets[index] : self.offsets[index + 1]]
            text[row, :start], codec[row, :start] = text_ids, codec_ids
            frames[row, start:end], is_frame[row, start:end] = codes, True
            next_frame[row, start - 1 : end - 1] = codes
            next_code[row, start - 1 : end - 1], next_code[row, end - 1] = codes[:, 0], layout.CODEC_EOS
            next_phone[row, start - 1 : end - 1] = self._phone_labels[index]
        arrays = (text, codec, frames, is_frame, next_code, next_frame, next_phone)
        return Batch(*(torch.from_numpy(array) for array in arrays))
