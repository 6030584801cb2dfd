"""From what a request asks for and what its checkpoint recommends to the values that are used.

Order: the request file, else the checkpoint's ``generation_config.json``, else the constants of the
PyTorch references (qwen-tts 0.1.1 for Qwen3-TTS; transformers' ``qwen3_omni_moe`` for Talker and CodePredictor of
Qwen3-Omni). A 0 in a ``talker_*`` or ``subtalker_*`` value of the request file means the default, as in TensorRT
Edge-LLM, and leaves a note.

The two families name these values differently in ``generation_config.json``, and Qwen3-Omni's says nothing of the
CodePredictor. It says nothing of the Thinker either: see ``omni``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cpspec_trt.errors import EngineError
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.request_reading import shown
from cpspec_trt.files.request_schema import FLOAT32_MAX, FLOAT32_TINY, LEAST_PENALTY, MOST_PENALTY, PENALTY
from cpspec_trt.files.requests import SamplingSettings
from cpspec_trt.kernels.protocol import FilterParameters

FILE_NAME = "generation_config.json"

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class Family:
    """Where one family of checkpoints keeps each default, and what holds without it.

    Attributes:
        names: field of the defaults below -> its name in ``generation_config.json``; others are never there.
        constants: the reference's own default of every field.
    """

    names: Mapping[str, str]
    constants: Mapping[str, Any]


TTS_FAMILY = Family(
    names={
        "talker_do_sample": "do_sample",
        "talker_temperature": "temperature",
        "talker_top_k": "top_k",
        "talker_top_p": "top_p",
        "repetition_penalty": "repetition_penalty",
        "subtalker_do_sample": "subtalker_dosample",
        "subtalker_temperature": "subtalker_temperature",
        "subtalker_top_k": "subtalker_top_k",
        "subtalker_top_p": "subtalker_top_p",
        "max_new_tokens": "max_new_tokens",
    },
    constants={
        "talker_do_sample": True,
        "talker_temperature": 0.9,
        "talker_top_k": 50,
        "talker_top_p": 1.0,
        "repetition_penalty": 1.05,
        "subtalker_do_sample": True,
        "subtalker_temperature": 0.9,
        "subtalker_top_k": 50,
        "subtalker_top_p": 1.0,
        "max_new_tokens": 2048,
    },
)
OMNI_FAMILY = Family(
    names={
        "talker_do_sample": "talker_do_sample",
        "talker_temperature": "talker_temperature",
        "talker_top_k": "talker_top_k",
        "talker_top_p": "talker_top_p",
        "repetition_penalty": "talker_repetition_penalty",
        "max_new_tokens": "talker_max_new_tokens",
    },
    constants={**TTS_FAMILY.constants, "subtalker_temperature": 1.0, "subtalker_top_p": 0.8, "max_new_tokens": 4096},
)


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """The checkpoint's recommended values, completed by the reference's constants.

    Attributes:
        talker: the Talker's filter.
        code_predictor: the CodePredictor's filter.
        repetition_penalty: of the Talker; the CodePredictor never has one.
        max_new_tokens: Talker tokens, the last of which never becomes a frame.
        from_file: request fields (``talker_top_k``, …) whose default ``generation_config.json`` gave.
    """

    talker: FilterParameters
    code_predictor: FilterParameters
    repetition_penalty: float
    max_new_tokens: int
    from_file: frozenset[str]

    @classmethod
    def read(cls, directory: Path, family: Family = TTS_FAMILY) -> GenerationDefaults:
        """Read ``generation_config.json`` of an engine directory; without the file all constants apply.

        Raises:
            EngineError: the file is damaged, or a field has a wrong type or an impossible value.
        """
        path = directory / FILE_NAME
        found = read_json(path, EngineError, "generation config") if path.exists() else {}
        reader = _Reader(path, found, family)
        return cls(
            talker=reader.filter("talker"),
            code_predictor=reader.filter("subtalker"),
            repetition_penalty=reader.number("repetition_penalty", LEAST_PENALTY, MOST_PENALTY, PENALTY),
            max_new_tokens=reader.whole("max_new_tokens", 2),  # EOS is banned for two tokens
            from_file=frozenset(field for field, name in family.names.items() if name in found),
        )


@dataclass(frozen=True, slots=True)
class EffectiveSampling:
    """The values one request speaks with.

    Attributes:
        talker: the Talker's filter.
        code_predictor: the CodePredictor's filter.
        repetition_penalty: of the Talker.
        max_frames: frame cap.
        max_frames_explicit: whether the request file gave the cap.
        seed: effective seed, in [0, 2**64).
        notes: one line per value of 0 that was replaced by the default.
    """

    talker: FilterParameters
    code_predictor: FilterParameters
    repetition_penalty: float
    max_frames: int
    max_frames_explicit: bool
    seed: int
    notes: tuple[str, ...]

    def to_json(self, talker_do_sample: str = "do_sample") -> dict[str, Any]:
        """The response's ``sampling``. The keys are request fields: pasted into a request they repeat it.

        Args:
            talker_do_sample: the request field that makes the Talker greedy.
        """
        return {
            "sampling_seed": self.seed,
            talker_do_sample: self.talker.do_sample,
            "talker_temperature": self.talker.temperature,
            "talker_top_k": self.talker.top_k,
            "talker_top_p": self.talker.top_p,
            "repetition_penalty": self.repetition_penalty,
            "subtalker_do_sample": self.code_predictor.do_sample,
            "subtalker_temperature": self.code_predictor.temperature,
            "subtalker_top_k": self.code_predictor.top_k,
            "subtalker_top_p": self.code_predictor.top_p,
            "max_audio_length": self.max_frames,
        }


def effective_sampling(settings: SamplingSettings, defaults: GenerationDefaults) -> EffectiveSampling:
    """Complete a request's settings.

    The default frame cap is ``max_new_tokens - 1``: the reference generates that many tokens, and the
    residual codes of the last one are never computed.
    """
    notes: list[str] = []

    def pick(field: str, default: T) -> T:
        given: T | None = getattr(settings, field)
        if given:
            return given
        if given is not None:
            source = FILE_NAME if field in defaults.from_file else "the reference's constant"
            notes.append(f"{field} 0 means the default: {default} ({source})")
        return default

    def complete(prefix: str, default: FilterParameters, do_sample: bool | None) -> FilterParameters:
        return FilterParameters(
            pick(f"{prefix}_temperature", default.temperature),
            pick(f"{prefix}_top_k", default.top_k),
            pick(f"{prefix}_top_p", default.top_p),
            default.do_sample if do_sample is None else do_sample,
        )

    return EffectiveSampling(
        talker=complete("talker", defaults.talker, settings.do_sample),
        code_predictor=complete("subtalker", defaults.code_predictor, settings.subtalker_do_sample),
        repetition_penalty=settings.repetition_penalty or defaults.repetition_penalty,
        max_frames=settings.max_audio_length or defaults.max_new_tokens - 1,
        max_frames_explicit=settings.max_audio_length is not None,
        seed=settings.seed,
        notes=tuple(notes),
    )


class _Reader:
    """Typed access to one generation config, completed by the reference's constants."""

    def __init__(self, path: Path, found: dict[str, Any], family: Family) -> None:
        self._path = path
        self._names = family.names
        given = {field: found[name] for field, name in family.names.items() if name in found}
        self._values = {**family.constants, **given}

    def filter(self, prefix: str) -> FilterParameters:
        return FilterParameters(
            temperature=self.number(f"{prefix}_temperature", 0, FLOAT32_MAX, "a finite fp32 number of at least 0"),
            top_k=self.whole(f"{prefix}_top_k", 0),
            top_p=self.number(
                f"{prefix}_top_p", FLOAT32_TINY, FLOAT32_MAX, "a finite number above 0 (1 or more keeps all)"
            ),
            do_sample=self.boolean(f"{prefix}_do_sample"),
        )

    def boolean(self, field: str) -> bool:
        value = self._values[field]
        if not isinstance(value, bool):
            self._refuse(field, "true or false")
        return bool(value)

    def whole(self, field: str, lowest: int) -> int:
        value = self._values[field]
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value < 2**31:
            self._refuse(field, f"a whole number of at least {lowest}")
        return int(value)

    def number(self, field: str, lowest: float, highest: float, expected: str) -> float:
        value = self._values[field]
        if not isinstance(value, int | float) or isinstance(value, bool) or not lowest <= value <= highest:
            self._refuse(field, expected)
        return float(value)

    def _refuse(self, field: str, expected: str) -> NoReturn:
        raise EngineError(
            f"{self._path}: field {self._names[field]!r} is {shown(self._values[field])}; "
            f"write {expected}, or remove the field"
        )
