"""Engines with random weights of a published configuration: what a model costs, before anybody has its checkpoint.

Only the components that are measured have their published size; where one of them is measured alone, the rest of its
checkpoint is tiny. Engines are built in a process of their own, so that peak memory is that of the run.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cpspec_trt.builder.build import build_checkpoint, build_engine
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from cpspec_trt.errors import UsageError
from cpspec_trt.files.atomic import scratch_directory
from cpspec_trt.files.json_io import read_json, write_json_atomic
from cpspec_trt.files.rebuild import ONNXRUNTIME
from cpspec_trt.graphs.export import export_checkpoint
from cpspec_trt.synthetic.omni import write_omni_checkpoint
from cpspec_trt.synthetic.omni_spec import PUBLISHED_30B, TINY_OMNI, OmniSpec
from cpspec_trt.synthetic.spec import PUBLISHED_0B6, SPECS, TINY, TtsSpec
from cpspec_trt.synthetic.tts import write_tts_checkpoint

Stage = Literal["all", "code_predictor", "code2wav"]
OMNI, SMALL = "Omni", "tiny"
CONFIGURATIONS: Mapping[str, TtsSpec | OmniSpec] = {
    "0.6B": PUBLISHED_0B6,
    "1.7B": SPECS["published_1b7"],
    OMNI: PUBLISHED_30B,
    SMALL: TINY,
}
INPUT_FILE = "input.json"
_MARK = "synthetic.json"
_MOST_FRAMES = 4000  # what the KV cache of a default build has room for, beside a prompt
_TEXT = "the mother is in the kitchen now and the children are in the garden with the dog"


def synthetic_engines(configuration: str, stage: Stage, directory: Path, verify_rows: int, seed: int) -> Path:
    """Build engines, unless the directory holds those that are wanted already.

    Args:
        configuration: of ``CONFIGURATIONS``.
        stage: what will be measured.
        directory: gets one directory per component, and for ``all`` a request file.
        verify_rows: rows that a pass of the CodePredictor must take.
        seed: of the weights.

    Returns:
        ``directory``.

    Raises:
        UsageError: Qwen3-Omni as a whole, whose 30 billion weights are not made up; or a directory that holds
            something else.
    """
    if configuration == OMNI and stage == "all":
        raise UsageError(f"--synthetic {OMNI} has no --stage all; use --stage code_predictor or code2wav")
    wanted = {"configuration": configuration, "stage": stage, "verify_rows": verify_rows, "seed": seed}
    mark = directory / _MARK
    if mark.exists():
        found = read_json(mark, UsageError, "note about synthetic engines")
        if found != wanted:
            raise UsageError(f"{directory}: holds other synthetic engines ({found}); give another --syntheticDir")
        return directory
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory}: is not empty; give a new directory for the synthetic engines")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(_build, configuration, stage, directory, verify_rows, seed).result()
    write_json_atomic(mark, wanted)
    return directory


def _build(configuration: str, stage: Stage, directory: Path, verify_rows: int, seed: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    limits = BuildLimits(max_batch_size=1, max_verify_rows=verify_rows)
    with scratch_directory(directory / "checkpoint") as scratch:
        checkpoint = scratch / "checkpoint"
        spec = _spec(CONFIGURATIONS[configuration], stage)
        if isinstance(spec, TtsSpec):
            write_tts_checkpoint(checkpoint, spec, seed)
        else:
            write_omni_checkpoint(checkpoint, spec, seed)
        if stage == "all":
            build_checkpoint(checkpoint, directory, dict.fromkeys(COMPONENTS, limits), ONNXRUNTIME)
            write_json_atomic(directory / INPUT_FILE, _requests(seed))
        else:
            exported = export_checkpoint(checkpoint, scratch / "onnx", [stage])[stage]
            build_engine(exported, directory / stage, limits, ONNXRUNTIME, link_weights=True)


def _requests(seed: int) -> dict[str, object]:
    request = {"messages": [{"role": "assistant", "content": _TEXT}]}
    voice = {"speaker": "ryan", "language": "english"}
    return {"sampling_seed": seed, **voice, "max_audio_length": _MOST_FRAMES, "requests": [request]}


def _spec(published: TtsSpec | OmniSpec, stage: Stage) -> TtsSpec | OmniSpec:
    """The published spec with everything tiny that is not measured; what is measured never ends by itself."""
    if isinstance(published, OmniSpec):
        return _omni_spec(published, stage)
    if stage == "all" or published is TINY:
        return replace(published, eos_gain=0.0)
    talker = replace(TINY.talker, vocab_size=published.talker.vocab_size)
    groups = published.num_code_groups
    if stage == "code2wav":
        predictor = replace(TINY.code_predictor, vocab_size=published.code_predictor.vocab_size)
        decoder = published.decoder
        return replace(TINY, talker=talker, code_predictor=predictor, decoder=decoder, num_code_groups=groups)
    talker, predictor = replace(talker, hidden_size=published.talker.hidden_size), published.code_predictor
    return replace(TINY, talker=talker, code_predictor=predictor, num_code_groups=groups, dtype=published.dtype)


def _omni_spec(published: OmniSpec, stage: Stage) -> OmniSpec:
    talker = replace(TINY_OMNI.talker, vocab_size=published.talker.vocab_size)
    groups = published.num_code_groups
    if stage == "code2wav":
        predictor = replace(TINY_OMNI.code_predictor, vocab_size=published.code_predictor.vocab_size)
        code2wav = published.code2wav
        return replace(TINY_OMNI, talker=talker, code_predictor=predictor, code2wav=code2wav, num_code_groups=groups)
    talker, predictor = replace(talker, hidden_size=published.talker.hidden_size), published.code_predictor
    return replace(TINY_OMNI, talker=talker, code_predictor=predictor, num_code_groups=groups, dtype=published.dtype)
