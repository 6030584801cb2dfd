"""Which machine speaks: that of the memory the engines work in."""

from __future__ import annotations

from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.pipelines.device_machine import DeviceSpeechMachine
from cpspec_trt.pipelines.engine_set import SpeechEngines
from cpspec_trt.pipelines.host_machine import HostSpeechMachine
from cpspec_trt.pipelines.machine import SpeechMachine, SpeechRules, Vocoder
from cpspec_trt.stages.code2wav import Code2WavStage
from cpspec_trt.stages.device_code2wav import DeviceCode2Wav

DECODE_CHUNK = 25  # frames; the fastest chunks keep activations in the cache, the samples do not depend on it


def open_machine(engines: SpeechEngines, rules: SpeechRules, kernels: RuleKernels | None = None) -> SpeechMachine:
    """The machine for a set of engines. code2wav may be of another backend than the others.

    Args:
        engines: the set.
        rules: of the family.
        kernels: what drafts, verifies and accepts on the CPU; None takes the library's. A device has its own.

    Raises:
        EngineError: Talker and CodePredictor are of different kinds, or a stage cannot be opened.
        UnsupportedError: a device cannot do what the checkpoint needs.
    """
    talker, predictor = engines.talker, engines.code_predictor
    tables = engines.talker_tables, engines.code_predictor_tables
    vocoder = _vocoder(engines)
    if isinstance(talker, TensorRTEngine) and isinstance(predictor, TensorRTEngine):
        return DeviceSpeechMachine(engines.configs, talker, predictor, vocoder, *tables, rules)
    if isinstance(talker, TensorRTEngine) or isinstance(predictor, TensorRTEngine):
        raise EngineError(
            f"the Talker was built for {talker.manifest.backend}, the CodePredictor for {predictor.manifest.backend}; "
            "build both with one --backend"
        )
    return HostSpeechMachine(engines.configs, talker, predictor, vocoder, *tables, rules, kernels)


def _vocoder(engines: SpeechEngines) -> Vocoder | None:
    engine, config = engines.code2wav, engines.configs.code2wav
    if engine is None or config is None:
        return None
    if isinstance(engine, TensorRTEngine):
        return DeviceCode2Wav(engine, config, DECODE_CHUNK)
    return Code2WavStage(engine, config)
