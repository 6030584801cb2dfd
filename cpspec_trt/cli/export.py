"""``cpspec-export``: a checkpoint becomes ONNX graphs, weights and sidecars."""

from __future__ import annotations

from pathlib import Path

import click

from cpspec_trt.cli.paths import FullPath
from cpspec_trt.cli.run import Command, reports_errors
from cpspec_trt.cli.steps import show_step

_PATH = FullPath(path_type=Path)


@click.command(cls=Command, context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110})
@click.argument("checkpoint", metavar="CKPT", type=_PATH)
@click.argument("onnx_dir", metavar="ONNX_DIR", type=_PATH)
@click.option(
    "--components",
    help="Components to write, separated by commas, for example talker,code_predictor,code2wav; the others in ONNX_DIR "
    "stay as they are.  [default: all that the checkpoint has]",
)
@reports_errors
def main(checkpoint: Path, onnx_dir: Path, components: str | None) -> None:
    """Export the checkpoint CKPT: Qwen3-TTS to ONNX_DIR/{llm,code_predictor,code2wav} (llm is the Talker),
    Qwen3-Omni to ONNX_DIR/{thinker,talker,code_predictor,code2wav}.

    Files of yours in these directories are kept, those of an earlier export are replaced.

    Each directory gets model.onnx, model.onnx.data, config.json and its tables; the first one also the
    tokenizer's files and generation_config.json. Build engines from them with cpspec-build.
    """
    from cpspec_trt.graphs.export import export_checkpoint

    names = None if components is None else [name.strip() for name in components.split(",") if name.strip()]
    written = export_checkpoint(checkpoint, onnx_dir, names, show_step)
    for component, directory in written.items():
        size = sum(file.stat().st_size for file in directory.iterdir())
        click.echo(f"{component}: {directory} ({size / 1e6:.1f} MB)")
    if names is None and list(written) == ["thinker"]:
        click.echo("note: the checkpoint has no audio output: it consists of the Thinker alone", err=True)


if __name__ == "__main__":
    main()
