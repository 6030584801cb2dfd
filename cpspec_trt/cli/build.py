"""``cpspec-build``: engines from an exported component, or from a checkpoint in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cpspec_trt.cli.paths import FullPath
from cpspec_trt.cli.reference_options import reference_options
from cpspec_trt.cli.run import Command, reports_errors
from cpspec_trt.files.compatibility import BUILD

_PATH = FullPath(path_type=Path)


@reference_options(BUILD)
@click.command(cls=Command, context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110})
@click.option(
    "--onnxDir", "-o", "onnx_dir", type=_PATH, help="One exported component; with --checkpoint, where to export."
)
@click.option(
    "--engineDir", "-e", "engine_dir", type=_PATH, help="Engine directory; with --checkpoint, the root of all."
)
@click.option("--checkpoint", type=_PATH, help="Checkpoint to export and build as a whole.")
@click.option("--config", "preset", type=_PATH, help="Build preset (YAML); flags given here win over it.")
@click.option("--backend", help="auto, onnxruntime, tensorrt or tensorrt-rtx.  [default: auto]")
@click.option("--maxInputLen", "max_input_len", type=int, help="Most new positions under context.  [default: 1024]")
@click.option("--optInputLen", "opt_input_len", type=int, help="Usual ones; 0: half of --maxInputLen.  [default: 0]")
@click.option("--maxBatchSize", "max_batch_size", type=int, help="Most sequences of one pass.  [default: 4]")
@click.option(
    "--maxKVCacheCapacity",
    "max_kv_cache_capacity",
    type=int,
    help="Most positions of a Thinker or Talker sequence; a CodePredictor's follows from its code groups.  "
    "[default: 4096]",
)
@click.option("--minCodeLen", "min_code_len", type=int, help="Fewest frames of one code2wav pass.  [default: 1]")
@click.option("--optCodeLen", "opt_code_len", type=int, help="Usual frames of one code2wav pass.  [default: 300]")
@click.option("--maxCodeLen", "max_code_len", type=int, help="Most frames of one code2wav pass.  [default: 2000]")
@click.option("--dryRun", "dry_run", is_flag=True, help="Print the build plan and stop; nothing is written.")
@click.option("--verify", is_flag=True, help="Build nothing: hash the engines in --engineDir and compare.")
@click.option("--debug", "-d", is_flag=True, help="Also print the build plan before building.")
@reports_errors
def main(
    onnx_dir: Path | None,
    engine_dir: Path | None,
    checkpoint: Path | None,
    preset: Path | None,
    backend: str | None,
    dry_run: bool,
    verify: bool,
    debug: bool,
    **limits: Any,
) -> None:
    """Build engines with the flags of llm_build and audio_build.

    A CodePredictor is recognised by its config; its generation profile then takes up to 8 new
    positions, so that cpspec-infer can verify drafts. There is no flag for it.

    \b
    cpspec-build --checkpoint CKPT --engineDir engines
    cpspec-build --onnxDir onnx/code_predictor --engineDir engines/code_predictor --maxBatchSize 1
    """
    from cpspec_trt.cli.building import BuildOptions, run_build

    given = {name: value for name, value in limits.items() if value is not None}
    run_build(BuildOptions(onnx_dir, engine_dir, checkpoint, preset, backend, given, dry_run, verify, debug))


if __name__ == "__main__":
    main()
