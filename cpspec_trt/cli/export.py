"""``cpspec-export``: a checkpoint becomes ONNX graphs, weights and sidecars."""

from __future__ import annotations

from pathlib import Path

import click

from cpspec_trt.cli.run import Command, reports_errors


@click.command(cls=Command)
@click.argument("checkpoint", metavar="CKPT", type=click.Path(path_type=Path))
@click.argument("onnx_dir", metavar="ONNX_DIR", type=click.Path(path_type=Path))
@click.option(
    "--components",
    default="talker,code_predictor,code2wav",
    show_default=True,
    help="Components to write, separated by commas; the others in ONNX_DIR stay as they are.",
)
@reports_errors
def main(checkpoint: Path, onnx_dir: Path, components: str) -> None:
    """Export the Qwen3-TTS checkpoint CKPT to ONNX_DIR/{llm,code_predictor,code2wav}.

    Each directory gets model.onnx, model.onnx.data, config.json and its tables; llm (the Talker) also the
    tokenizer's files and generation_config.json. Build engines from them with cpspec-build.
    """
    from cpspec_trt.graphs.export import export_checkpoint

    names = [name.strip() for name in components.split(",") if name.strip()]
    for component, directory in export_checkpoint(checkpoint, onnx_dir, names).items():
        size = sum(file.stat().st_size for file in directory.iterdir())
        click.echo(f"{component}: {directory} ({size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
