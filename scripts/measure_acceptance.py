#!/usr/bin/env python3
"""How much of what is drafted is accepted: the demo voice, and laws of a known overlap.

    python scripts/measure_acceptance.py --write docs/measurements/acceptance.md

Takes some minutes on one core. --write replaces the document's tables.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cpspec_trt.builder.build import build_checkpoint  # noqa: E402
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits  # noqa: E402
from cpspec_trt.kernels.protocol import FilterParameters  # noqa: E402
from scripts.acceptance.controlled import SETS, ControlledPredictor  # noqa: E402
from scripts.acceptance.expected import every_round  # noqa: E402
from scripts.acceptance.overlap import OFFSETS, Laws  # noqa: E402
from scripts.acceptance.recorded import Recording, record  # noqa: E402
from scripts.acceptance.rounds import HEADER, measure  # noqa: E402

DEMO = ROOT / "assets" / "demo-voice"
LIMITS = BuildLimits(max_input_len=256, max_batch_size=1, max_kv_cache_capacity=512, max_verify_rows=64)
OVERLAPS = (0.3, 0.5, 0.7)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the document whose tables are replaced")
    parser.add_argument("--sentences", type=int, default=24, help="held-out sentences that are spoken")
    parser.add_argument("--frames", type=int, default=600, help="frames of each controlled law")
    options = parser.parse_args()
    sections = {"demo": "\n".join(_demo(options.sentences))}
    sections |= {f"controlled {overlap}": "\n".join(_controlled(overlap, options.frames)) for overlap in OVERLAPS}
    for name, text in sections.items():
        print(f"## {name}\n\n{text}\n")
    if options.write:
        content = options.write.read_text(encoding="utf-8")
        for name, text in sections.items():
            begin, end = f"<!-- {name}: written by scripts/measure_acceptance.py -->", f"<!-- end of {name} -->"
            before, rest = content.split(begin)
            content = f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
        options.write.write_text(content, encoding="utf-8")


def _demo(sentences: int) -> Iterator[str]:
    lines = (DEMO / "heldout.txt").read_text(encoding="utf-8").split("\n")[:sentences]
    with tempfile.TemporaryDirectory() as engines:
        build_checkpoint(DEMO / "checkpoint", Path(engines), dict.fromkeys(COMPONENTS, LIMITS), "onnxruntime")
        recording = record(Path(engines), lines, ("vivian", "ryan"))
        laws = Laws(recording)
        filters = recording.filters
        yield (
            f"{len(lines)} held-out sentences, {len(recording.first)} frames, temperature {filters.temperature:g}, "
            f"top-k {filters.top_k}, top-p {filters.top_p:g}.\n"
        )
        yield from _overlaps(laws)
        yield from _warmths(laws)
        yield from _rounds(recording)


def _overlaps(laws: Laws) -> Iterator[str]:
    by_offset = [laws.overlap(offset) for offset in range(OFFSETS)]
    marginal, (bits, top) = laws.marginal_overlap(), laws.entropy()
    header = ["depth", "entropy, bits", "top-1", *(f"offset {t + 1}" for t in range(OFFSETS)), "marginal"]
    rows = [
        [str(s + 1), f"{bits[s]:.2f}", f"{top[s]:.2f}", *(_number(each[s]) for each in by_offset), f"{marginal[s]:.2f}"]
        for s in range(1, len(marginal))
    ]
    means = [_number(float(np.nanmean(each))) for each in by_offset]
    rows.append(["mean", f"{bits[1:].mean():.2f}", f"{top[1:].mean():.2f}", *means, f"{marginal[1:].mean():.2f}"])
    yield "Overlap Σ min(p, q) of target and draft, and of the target and the depth's plain marginal:\n"
    yield from _table(header, rows)


def _warmths(laws: Laws) -> Iterator[str]:
    found = [laws.best_warmth(offset) for offset in range(OFFSETS)]
    yield "\nDraft temperature per offset, chosen on the first half of the frames, overlaps of the other half:\n"
    header = ["offset", "factor", "overlap at the request's temperature", "overlap with the factor"]
    rows = [[str(t + 1), f"{best:g}", f"{own:.3f}", f"{warm:.3f}"] for t, (best, own, warm) in enumerate(found)]
    yield from _table(header, rows)


def _rounds(recording: Recording) -> Iterator[str]:
    yield "\nRounds over the same frames:\n"
    arrays = recording.hidden, recording.first, recording.seeds, recording.frames
    rows = [row.cells() for row in measure(recording.predictor, recording.heads, *arrays, recording.filters)]
    yield from _table(HEADER, rows)


def _controlled(overlap: float, count: int) -> Iterator[str]:
    predictor = ControlledPredictor(overlap)
    hidden = (np.arange(count) % SETS)[:, None].astype(np.float32)
    first, frames = np.zeros(count, np.int64), np.arange(count)
    arrays = hidden, first, np.full(count, 7, np.uint64), frames
    filters = FilterParameters(1.0, 0, 1.0)
    yield (
        f"{count} frames. Marginal baseline: {predictor.marginal_overlap():.2f}. With constant α a round of n drafts\n"
        f"commits (1 − α^(n+1)) / (1 − α) codes: {', '.join(_expected(overlap))} for windows 2, 3, 4, 8.\n"
    )
    yield from _enumerated(predictor)
    rows = [row.cells() for row in measure(predictor, predictor.heads, *arrays, filters) if row.rule != "greedy"]
    yield from _table(HEADER, rows)


def _enumerated(predictor: ControlledPredictor) -> Iterator[str]:
    yield "Codes of a whole round in expectation, by enumeration of the drafts:\n"
    rows = []
    for drafts in (1, 2, 3):
        pairs = every_round(predictor, drafts)
        lead = pairs[:, 1] - pairs[:, 0]
        means = [f"{value:.3f}" for value in pairs.mean(axis=0)]
        rows.append([str(drafts + 1), str(len(pairs)), *means, f"{lead.min() + 0:.3f}", f"{lead.max():.3f}"])
    yield from _table(["window", "pairs of laws", "rejection", "block", "least lead of block", "largest lead"], rows)
    yield "\nAnd counted:\n"


def _expected(overlap: float) -> list[str]:
    return [f"{(1 - overlap**window) / (1 - overlap):.2f}" for window in (2, 3, 4, 8)]


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'|'.join('---' for _ in header)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    main()
