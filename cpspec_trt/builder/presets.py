"""Build presets: a YAML file with the limits of each component and the options of TensorRT, checked by pydantic."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cpspec_trt.builder.profiles import MAX_EXTENT
from cpspec_trt.errors import UsageError

_Size = Field(default=None, ge=1, le=MAX_EXTENT)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LanguageModelPreset(_Strict):
    """Limits of a Thinker or Talker; names as in ``BuildLimits``, an absent one keeps its default."""

    max_batch_size: int | None = _Size
    max_input_len: int | None = _Size
    opt_input_len: int | None = _Size
    max_kv_cache_capacity: int | None = _Size


class CodePredictorPreset(_Strict):
    """Limits of a CodePredictor. Its KV capacity follows from the number of code groups."""

    max_batch_size: int | None = _Size
    max_input_len: int | None = _Size
    opt_input_len: int | None = _Size
    max_verify_rows: int | None = _Size


class Code2WavPreset(_Strict):
    """Limits of code2wav, in frames."""

    max_batch_size: int | None = _Size
    min_code_len: int | None = _Size
    opt_code_len: int | None = _Size
    max_code_len: int | None = _Size


class TensorRTPreset(_Strict):
    """Options of TensorRT, either flavour; names as in ``EngineOptions``. They rest where ONNX Runtime builds."""

    precision: str | None = None
    optimization_level: int | None = None
    workspace_mib: int | None = None
    compute_capabilities: list[str] | None = None
    timing_cache: str | None = None
    version_compatible: bool | None = None
    hardware_compatible: bool | None = None
    build_log: str | None = None


class Preset(_Strict):
    """A whole preset file."""

    backend: str | None = None
    tensorrt: TensorRTPreset = TensorRTPreset()
    thinker: LanguageModelPreset = LanguageModelPreset()
    talker: LanguageModelPreset = LanguageModelPreset()
    code_predictor: CodePredictorPreset = CodePredictorPreset()
    code2wav: Code2WavPreset = Code2WavPreset()

    def limits(self, component: str) -> dict[str, int]:
        """The limits this preset sets for ``thinker``, ``talker``, ``code_predictor`` or ``code2wav``."""
        section: BaseModel = getattr(self, component)
        return section.model_dump(exclude_none=True)

    def engine_options(self) -> dict[str, Any]:
        """The options this preset sets for TensorRT, with the types of ``EngineOptions``."""
        kinds: dict[str, Callable[[Any], Any]] = {
            "compute_capabilities": tuple,
            "timing_cache": Path,
            "build_log": Path,
        }
        given = self.tensorrt.model_dump(exclude_none=True)
        return {name: kinds[name](value) if name in kinds else value for name, value in given.items()}


def read_preset(path: Path) -> Preset:
    """Read a preset.

    Raises:
        UsageError: no such file, not YAML, an unknown key (with the nearest known one), or a bad value.
    """
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except OSError as fault:
        raise UsageError(f"--config {path}: cannot be read: {fault.strerror}") from None
    except RecursionError:
        raise UsageError(f"--config {path}: is nested too deeply; see configs/ for examples") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise UsageError(f"--config {path}: not YAML: {' '.join(str(fault).split())}") from None
    if not isinstance(value, dict):
        raise UsageError(f"--config {path}: must map component names to limits; see configs/ for examples")
    try:
        return Preset.model_validate(value)
    except ValidationError as fault:
        raise UsageError(f"--config {path}: {_describe(fault.errors()[0])}") from None


class _UniqueKeys(yaml.SafeLoader):
    """A key that stands twice would silently lose its first value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _describe(error: Any) -> str:
    where, value = ".".join(str(part) for part in error["loc"]), error["input"]
    if error["type"] != "extra_forbidden":
        return f"{where} is {value!r:.40}: {error['msg'][0].lower()}{error['msg'][1:]}"
    section, name = error["loc"][:-1], str(error["loc"][-1])
    model: Any = Preset.model_fields[section[0]].annotation if section else Preset
    known = list(model.model_fields)
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"unknown key {where!r}; " + (f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}")
