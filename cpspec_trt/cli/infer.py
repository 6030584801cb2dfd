"""``cpspec-infer``: say one text, answer the requests of a file, or list voices, with built engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.paths import FullPath
from cpspec_trt.cli.reference_options import apply_flag, reference_options
from cpspec_trt.cli.run import Command, reports_errors
from cpspec_trt.cli.speculation_values import WidthValue, WindowValue
from cpspec_trt.cli.ways import chosen_way
from cpspec_trt.files.compatibility import INFER, OMNI, TTS, rows_for

_DIRECTORY = FullPath(file_okay=False, path_type=Path)
_FILE = FullPath(dir_okay=False, path_type=Path)
_TARGET = FullPath(dir_okay=False, readable=False, path_type=Path)


@reference_options(INFER)
@click.command(cls=Command, context_settings={"max_content_width": 110})
@click.option("--engines", type=_DIRECTORY, help="For one text: the directory that cpspec-build --checkpoint wrote.")
@click.option("--text", help="What to say, or what to ask Qwen3-Omni; - reads standard input.")
@click.option("--out", type=_TARGET, help="WAV file to write.")
@click.option("--speaker", help="Whose voice; see --listVoices.")
@click.option("--language", help="Qwen3-TTS: language of the text.  [default: auto]")
@click.option("--instruct", help="Qwen3-TTS: how to say it; the voice itself for VoiceDesign.")
@click.option("--listVoices", "list_voices", is_flag=True, help="List the speakers and languages of the engines.")
@click.option("--inputFile", "input_file", type=_FILE, help="For many: request file (JSON).")
@click.option("--engineDir", "engine_dir", type=_DIRECTORY, help="Thinker engine; selects Qwen3-Omni.")
@click.option("--talkerEngineDir", "talker", type=_DIRECTORY, help="Talker engine; code_predictor is its sibling.")
@click.option("--code2wavEngineDir", "code2wav", type=_DIRECTORY, help="Default: the talker's sibling code2wav.")
@click.option("--multimodalEngineDir", "multimodal", type=_DIRECTORY, help="Omni: code2wav is also looked for here.")
@click.option("--tokenizerDir", "tokenizer", type=_DIRECTORY, help="TTS; default: the talker's directory or parent.")
@click.option("--outputFile", "output_file", type=_TARGET, help="Output JSON; required for Omni.")
@click.option("--outputAudioDir", "audio_dir", type=_DIRECTORY, help="Where wav and RVQ files go; without it, none.")
@click.option("--enableAudioOutput", "audio", is_flag=True, help="Omni: speak the answers.")
@click.option("--batchSize", "batch_size", type=int, help="Overrides the file's batch_size (1 to 16).")
@click.option("--maxGenerateLength", "max_generate_length", type=int, help="Omni: token cap of every answer.")
@click.option(
    "--cpSpecVerifySize",
    "window",
    type=WindowValue(),
    default=0,
    show_default=True,
    help="Verify window of the CodePredictor: 2 to 8, or auto; 0 is the autoregressive loop.",
)
@click.option(
    "--cpSpecRule",
    "rule",
    type=click.Choice(["rejection", "block", "coupled"]),
    default="rejection",
    show_default=True,
    help="How sampled drafts are accepted; coupled gives the codes of the autoregressive loop.",
)
@click.option(
    "--cpSpecTreeWidth",
    "tree_width",
    type=WidthValue(),
    default=1,
    show_default=True,
    help="Candidates per drafted depth: K, or one per depth as 4,2; with --cpSpecRule coupled.",
)
@click.option(
    "--requireSpeculation", "require_speculation", is_flag=True, help="Fail where speculation would fall back."
)
@click.option("--failOnLength", "fail_on_length", is_flag=True, help="Exit 3 if a request ends at its cap.")
@click.option("--strict", is_flag=True, help="Refuse unknown fields of the request file.")
@click.option("--warmup", type=int, default=0, help="Omni: think the first request N times before the run.")
@click.option("--threads", type=int, help="CPU threads of one engine pass.  [default: every core]")
@click.option("--dumpProfile", "dump_profile", is_flag=True, help="Print the time of every stage.")
@click.option("--profileOutputFile", "profile_file", type=_TARGET, help="Write the profile as JSON.")
@click.option("--dumpOutput", "dump_output", is_flag=True, help="Print every response.")
@click.option("--debug", is_flag=True, help="Log what is decided and why.")
@click.pass_context
@reports_errors
def main(context: click.Context, /, **given: Any) -> int:
    """Say one text, or every request of a file, with Qwen3-TTS engines; or ask Qwen3-Omni engines.

    \b
    cpspec-infer --engines engines --text "Hello world." --speaker ryan --out hello.wav
    cpspec-infer --engines engines --listVoices
    cpspec-infer --inputFile in.json --talkerEngineDir engines/talker --outputAudioDir audio --cpSpecVerifySize 3
    cpspec-infer --inputFile in.json --engineDir engines/thinker --talkerEngineDir engines/talker
                 --enableAudioOutput --outputAudioDir audio --outputFile out.json --cpSpecVerifySize 3

    Exit codes: 0 done, 1 a request or an engine failed, 2 usage or request file, 3 with --failOnLength,
    130 interrupted.
    """
    options = InferOptions(**given)
    way = chosen_way(context)
    if way == "voices":
        from cpspec_trt.cli.listing import list_voices

        return list_voices(options)
    thinker = options.engine_dir if options.engines is None else options.engines / "thinker"
    omni = thinker is not None and (way == "file" or thinker.is_dir())
    _apply_flags_of(context, OMNI if omni else TTS)
    if way == "text":
        from cpspec_trt.cli.one_text import answer_text, speak_text

        return answer_text(options) if omni else speak_text(options)
    if omni:
        from cpspec_trt.cli.answering import answer_file

        return answer_file(options)
    from cpspec_trt.cli.speaking import speak_file

    return speak_file(options)


def _apply_flags_of(context: click.Context, tool: str) -> None:
    """Refuse or warn about flags of this command that have no meaning for the tool it stands in for."""
    rows = rows_for(tool, "flag")
    for parameter in context.command.params:
        row = rows.get(parameter.opts[0])
        if parameter.expose_value and row is not None:
            apply_flag(row, context, parameter, context.params[parameter.name or ""])


if __name__ == "__main__":
    main()
