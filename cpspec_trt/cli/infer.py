"""``cpspec-infer``: speak the requests of a file with built engines."""

from __future__ import annotations

from pathlib import Path

import click

from cpspec_trt.cli.reference_options import reference_options
from cpspec_trt.cli.run import Command, reports_errors
from cpspec_trt.files.compatibility import INFER

_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@reference_options(INFER)
@click.command(cls=Command, context_settings={"max_content_width": 110})
@click.option("--inputFile", "input_file", type=_FILE, required=True, help="Request file (JSON).")
@click.option(
    "--talkerEngineDir", "talker", type=_DIRECTORY, required=True, help="Talker engine; code_predictor is its sibling."
)
@click.option("--code2wavEngineDir", "code2wav", type=_DIRECTORY, help="Default: the talker's sibling code2wav.")
@click.option("--tokenizerDir", "tokenizer", type=_DIRECTORY, help="Default: the talker's directory, else its parent.")
@click.option("--outputFile", "output_file", type=_FILE, help="Output JSON.")
@click.option(
    "--outputAudioDir", "audio_dir", type=_DIRECTORY, help="Where wav and RVQ files go; without it, no audio."
)
@click.option("--batchSize", "batch_size", type=int, help="Overrides the file's batch_size (1 to 16).")
@click.option(
    "--cpSpecVerifySize", "window", type=int, default=0, show_default=True,
    help="Verify window of the CodePredictor: 2 to 8, 0 is the autoregressive loop.",
)  # fmt: skip
@click.option("--requireSpeculation", "required", is_flag=True, help="Fail where speculation would fall back.")
@click.option("--failOnLength", "fail_on_length", is_flag=True, help="Exit 3 if a request ends at its frame cap.")
@click.option("--strict", is_flag=True, help="Refuse unknown fields of the request file.")
@click.option("--dumpOutput", "dump_output", is_flag=True, help="Print every request and response.")
@click.option("--debug", is_flag=True, help="Log what is decided and why.")
@reports_errors
def main(
    input_file: Path,
    talker: Path,
    code2wav: Path | None,
    tokenizer: Path | None,
    output_file: Path | None,
    audio_dir: Path | None,
    batch_size: int | None,
    window: int,
    required: bool,
    fail_on_length: bool,
    strict: bool,
    dump_output: bool,
    debug: bool,
) -> int:
    """Speak every request of a file with Qwen3-TTS engines.

    Exit codes: 0 done, 1 a request or an engine failed, 2 usage or request file, 3 with --failOnLength,
    130 interrupted.
    """
    from cpspec_trt.cli.speaking import SpeakOptions, speak_file

    options = SpeakOptions(
        input_file, talker, code2wav, tokenizer, output_file, audio_dir, batch_size, window, required, fail_on_length,
        strict, dump_output, debug,
    )  # fmt: skip
    return speak_file(options)


if __name__ == "__main__":
    main()
