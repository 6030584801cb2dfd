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
@click.option(
    "--maxVerifyRows",
    "max_verify_rows",
    type=int,
    help="Most rows of a CodePredictor's verify pass, 8 … 64; trees of drafts need more than 8.  [default: 8]",
)
@click.option("--minCodeLen", "min_code_len", type=int, help="Fewest frames of one code2wav pass.  [default: 1]")
@click.option("--optCodeLen", "opt_code_len", type=int, help="Usual frames of one code2wav pass.  [default: 300]")
@click.option("--maxCodeLen", "max_code_len", type=int, help="Most frames of one code2wav pass.  [default: 2000]")
@click.option(
    "--precision",
    help="TensorRT: fp32, fp16 or bf16.  [default: bf16 if all GPUs it is for have it, else fp16]  "
    "ONNX Runtime: fp32, or int8 for the weights of decoders.  [default: fp32]",
)
@click.option(
    "--optimizationLevel", "optimization_level", type=int, help="TensorRT: 0 … 5, more builds longer.  [default: 3]"
)
@click.option("--workspaceMiB", "workspace_mib", type=int, help="TensorRT: most scratch memory.  [default: no limit]")
@click.option(
    "--computeCapabilities",
    "compute_capabilities",
    help="tensorrt-rtx: GPUs to build for, as 8.6,8.9.  [default: all from 8.0]",
)
@click.option("--timingCache", "timing_cache", type=_PATH, help="tensorrt: file that keeps kernel times for later.")
@click.option(
    "--versionCompatible", "version_compatible", is_flag=True, help="tensorrt: later versions may open the engine."
)
@click.option(
    "--hardwareCompatible", "hardware_compatible", is_flag=True, help="tensorrt: every GPU from 8.0 may run the engine."
)
@click.option("--buildLog", "build_log", type=_PATH, help="TensorRT: append its whole, verbose log to this file.")
@click.option("--dryRun", "dry_run", is_flag=True, help="Print the build plan and stop; nothing is written.")
@click.option("--verify", is_flag=True, help="Build nothing: hash the engines in --engineDir and compare.")
@click.option(
    "--measureCosts",
    "measure_costs",
    is_flag=True,
    help="Build nothing: time the passes of the CodePredictor in --engineDir, for --cpSpecVerifySize auto.",
)
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
    measure_costs: bool,
    debug: bool,
    **sizes_and_options: Any,
) -> None:
    """Build engines with the flags of llm_build and audio_build.

    A CodePredictor is recognised by its config; its generation profile then takes up to 8 new
    positions, so that cpspec-infer can verify drafts. There is no flag for it.

    \b
    cpspec-build --checkpoint CKPT --engineDir engines
    cpspec-build --onnxDir onnx/code_predictor --engineDir engines/code_predictor --maxBatchSize 1
    cpspec-build --checkpoint CKPT --engineDir engines --backend tensorrt-rtx --precision bf16
    """
    from cpspec_trt.cli.building import BuildOptions, run_build

    if measure_costs:
        from cpspec_trt.cli.measuring import measure_engine

        others = (onnx_dir, checkpoint, preset, backend, dry_run, verify, debug, *sizes_and_options.values())
        measure_engine(engine_dir, alone=all(value is None or value is False for value in others))
        return
    given = {name: value for name, value in sizes_and_options.items() if value is not None and value is not False}
    run_build(BuildOptions(onnx_dir, engine_dir, checkpoint, preset, backend, given, dry_run, verify, debug))


if __name__ == "__main__":
    main()
