"""From what a request asks for and what its checkpoint recommends to the values that are used.

Order: the request file, else the checkpoint's ``generation_config.json``, else the constants of the
PyTorch reference (qwen-tts 0.1.1). A 0 in a ``talker_*`` or ``subtalker_*`` value of the request file
means the default, as in TensorRT Edge-LLM, and leaves a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cpspec_trt.errors import EngineError
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.request_schema import FLOAT32_MAX, FLOAT32_TINY
from cpspec_trt.files.requests import SamplingSettings, shown
from cpspec_trt.kernels.protocol import FilterParameters

FILE_NAME = "generation_config.json"

# The wrapper's own defaults, used for whatever generation_config.json leaves out.
REFERENCE_CONSTANTS: dict[str, Any] = {
    "do_sample": True,
    "temperature": 0.9,
    "top_k": 50,
    "top_p": 1.0,
    "repetition_penalty": 1.05,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
    "max_new_tokens": 2048,
}

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """The checkpoint's recommended values, completed by the reference's constants.

    Attributes:
        talker: the Talker's filter.
        code_predictor: the CodePredictor's filter.
        repetition_penalty: of the Talker; the CodePredictor never has one.
        max_new_tokens: Talker tokens, the last of which never becomes a frame.
        from_file: names that ``generation_config.json`` gave.
    """

    talker: FilterParameters
    code_predictor: FilterParameters
    repetition_penalty: float
    max_new_tokens: int
    from_file: frozenset[str]

    @classmethod
    def read(cls, directory: Path) -> GenerationDefaults:
        """Read ``generation_config.json`` of an engine directory; without the file all constants apply.

        Raises:
            EngineError: the file is damaged, or a field has a wrong type or an impossible value.
        """
        path = directory / FILE_NAME
        found = read_json(path, EngineError, "generation config") if path.exists() else {}
        reader = _Reader(path, found)
        return cls(
            talker=reader.filter("", "do_sample"),
            code_predictor=reader.filter("subtalker_", "subtalker_dosample"),
            repetition_penalty=reader.number(
                "repetition_penalty", FLOAT32_TINY, FLOAT32_MAX, "a finite fp32 number above 0"
            ),
            max_new_tokens=reader.whole("max_new_tokens", 2),  # EOS is banned for two tokens
            from_file=frozenset(found) & frozenset(REFERENCE_CONSTANTS),
        )


@dataclass(frozen=True, slots=True)
class EffectiveSampling:
    """The values one request runs with.

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

    def to_json(self) -> dict[str, Any]:
        """The response's ``sampling``. The keys are request fields: pasted into a request they repeat it."""
        return {
            "sampling_seed": self.seed,
            "do_sample": self.talker.do_sample,
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

    def pick(field: str, default_name: str, given: T | None, default: T) -> T:
        if given:
            return given
        if given is not None:
            source = FILE_NAME if default_name in defaults.from_file else "the reference's constant"
            notes.append(f"{field} 0 means the default: {default} ({source})")
        return default

    talker, predictor = defaults.talker, defaults.code_predictor
    return EffectiveSampling(
        talker=FilterParameters(
            pick("talker_temperature", "temperature", settings.talker_temperature, talker.temperature),
            pick("talker_top_k", "top_k", settings.talker_top_k, talker.top_k),
            pick("talker_top_p", "top_p", settings.talker_top_p, talker.top_p),
            talker.do_sample if settings.do_sample is None else settings.do_sample,
        ),
        code_predictor=FilterParameters(
            pick(
                "subtalker_temperature",
                "subtalker_temperature",
                settings.subtalker_temperature,
                predictor.temperature,
            ),
            pick("subtalker_top_k", "subtalker_top_k", settings.subtalker_top_k, predictor.top_k),
            pick("subtalker_top_p", "subtalker_top_p", settings.subtalker_top_p, predictor.top_p),
            predictor.do_sample if settings.subtalker_do_sample is None else settings.subtalker_do_sample,
        ),
        repetition_penalty=settings.repetition_penalty or defaults.repetition_penalty,
        max_frames=settings.max_audio_length or defaults.max_new_tokens - 1,
        max_frames_explicit=settings.max_audio_length is not None,
        seed=settings.seed,
        notes=tuple(notes),
    )


class _Reader:
    """Typed access to one generation config, completed by the reference's constants."""

    def __init__(self, path: Path, found: dict[str, Any]) -> None:
        self._path = path
        self._values = REFERENCE_CONSTANTS | found

    def filter(self, prefix: str, do_sample: str) -> FilterParameters:
        return FilterParameters(
            temperature=self.number(f"{prefix}temperature", 0, FLOAT32_MAX, "a finite fp32 number of at least 0"),
            top_k=self.whole(f"{prefix}top_k", 0),
            top_p=self.number(f"{prefix}top_p", FLOAT32_TINY, FLOAT32_MAX, "a finite number above 0 (1 or more keeps all)"),
            do_sample=self.boolean(do_sample),
        )

    def boolean(self, name: str) -> bool:
        value = self._values[name]
        if not isinstance(value, bool):
            self._refuse(name, "true or false")
        return bool(value)

    def whole(self, name: str, lowest: int) -> int:
        value = self._values[name]
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value < 2**31:
            self._refuse(name, f"a whole number of at least {lowest}")
        return int(value)

    def number(self, name: str, lowest: float, highest: float, expected: str) -> float:
        value = self._values[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not lowest <= value <= highest:
            self._refuse(name, expected)
        return float(value)

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise EngineError(
            f"{self._path}: field {name!r} is {shown(self._values[name])}; write {expected}, or remove the field"
        )
