"""``cpspec-infer --listVoices``."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import log, start_log
from cpspec_trt.errors import UnsupportedError, UsageError
from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig, read_component_config, read_config_of
from cpspec_trt.pipelines.engine_set import require_directory
from cpspec_trt.report.voice_table import print_voices
from cpspec_trt.text.voice_list import list_names
from cpspec_trt.text.voice_map import VoiceMap
from cpspec_trt.text.voices import BASE, VOICE_DESIGN


def list_voices(options: InferOptions) -> int:
    """Print every speaker and language of the Talker's engine; reads its ``config.json`` and ``voice_map.json`` alone.

    Raises:
        UsageError: no flag says where the Talker is.
        EngineError: there is no Talker, or its config is damaged.
        InputFileError: the map is damaged.
        UnsupportedError: a Base checkpoint.
    """
    start_log(options.debug)
    talker = require_directory(_talker(options), "talker")
    config = read_component_config(talker)
    if not isinstance(config, OmniTalkerConfig):
        config = read_config_of(talker, TalkerConfig)
        if config.model_type == BASE:
            raise UnsupportedError(
                f"{talker}: a Base checkpoint has no named speakers, it clones a recording, which is not supported; "
                "use a CustomVoice or VoiceDesign checkpoint"
            )
        if config.model_type == VOICE_DESIGN:
            log.info("a VoiceDesign checkpoint has no named speakers: describe the voice with --instruct")
    print_voices(list_names(config, VoiceMap.read(talker)))
    return 0


def _talker(options: InferOptions) -> Path:
    if options.engines is not None:
        return options.engines / "talker"
    if options.talker is None:
        raise UsageError("--listVoices needs the engines; add --engines, or --talkerEngineDir")
    return options.talker
