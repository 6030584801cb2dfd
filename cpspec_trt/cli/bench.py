"""``cpspec-bench``: the autoregressive loop and speculation settings side by side, on the same engines and requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cpspec_trt.cli.paths import FullPath
from cpspec_trt.cli.run import Command, reports_errors
from cpspec_trt.cli.speculation_values import WidthValue, WindowList

_DIRECTORY = FullPath(file_okay=False, path_type=Path)
_FILE = FullPath(dir_okay=False, path_type=Path)
_TARGET = FullPath(dir_okay=False, readable=False, path_type=Path)


@click.command(cls=Command, context_settings={"max_content_width": 110})
@click.argument("engines", metavar="[ENGINES]", type=_DIRECTORY, required=False)
@click.option("--inputFile", "input_file", type=_FILE, help="Requests to speak, as for cpspec-infer (JSON).")
@click.option("--outputFile", "output_file", type=_TARGET, help="Write the result as JSON.")
@click.option("--plotFile", "plot_file", type=_TARGET, help="Draw the result as PNG; needs matplotlib.")
@click.option(
    "--stage",
    type=click.Choice(["all", "code_predictor", "code2wav"]),
    default="all",
    show_default=True,
    help="Whole requests, the CodePredictor's frame loop alone, or code2wav alone.",
)
@click.option(
    "--cpSpecVerifySize",
    "windows",
    type=WindowList(),
    default="2,3,4",
    show_default=True,
    help="Verify windows to measure beside the autoregressive loop: 2 to 8, or auto, with commas between them.",
)
@click.option(
    "--cpSpecRule",
    "rules",
    type=click.Choice(["rejection", "block", "coupled"]),
    multiple=True,
    default=["rejection"],
    show_default=True,
    help="Acceptance rule; give the flag again for each further rule.",
)
@click.option(
    "--cpSpecTreeWidth",
    "tree_width",
    type=WidthValue(),
    default=1,
    show_default=True,
    help="Measure trees too, with this many candidates per drafted depth: K, or one per depth as 4,2; rule coupled.",
)
@click.option("--frames", type=int, default=25, show_default=True, help="Most frames per request.")
@click.option("--repetitions", type=int, default=3, show_default=True, help="How often everything is measured.")
@click.option("--threads", type=int, help="Threads inside one engine pass.  [default: every core]")
@click.option("--synthetic", metavar="CONFIG", help="Random weights of 0.6B, 1.7B, Omni or tiny instead of ENGINES.")
@click.option(
    "--syntheticDir",
    "synthetic_directory",
    type=_DIRECTORY,
    help="Keep the engines of --synthetic here, for the next run.  [default: they are removed]",
)
@click.option("--acceptance", type=float, help="With --synthetic: how likely a draft that is reached is accepted.")
@click.option("--seed", type=int, default=42, show_default=True, help="Of random weights, frames and codes.")
@reports_errors
def main(**given: Any) -> None:
    """Measure the engines below ENGINES (talker, code_predictor, code2wav; with a thinker it is Qwen3-Omni).

    \b
    cpspec-bench engines --inputFile in.json --cpSpecVerifySize 2,3,4 --outputFile bench.json --plotFile bench.png
    cpspec-bench --synthetic 0.6B --stage code_predictor --acceptance 0.5 --frames 10

    The autoregressive loop and every setting take turns in one process, so that ratios hold on a busy machine.
    Stages are timed in the runs themselves; acceptance laws and bandwidth come from passes of their own.
    """
    from cpspec_trt.cli.benching import bench

    bench(**given)


if __name__ == "__main__":
    main()
