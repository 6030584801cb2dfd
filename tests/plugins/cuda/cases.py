"""Random calls of every operation: what goes in is drawn once, then any implementation can be run on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows

Case = Callable[[NativeKernels], list[np.ndarray]]
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)


def _float(random: np.random.Generator) -> np.dtype:
    return np.dtype(FLOATS[random.integers(len(FLOATS))])


def _seeds(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.integers(0, 2**64, rows, dtype=np.uint64)


def _frames(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.integers(0, 4096, rows).astype(np.uint32)


def _streams(random: np.random.Generator, rows: int) -> np.ndarray:
    return stream(Purpose.DRAFT, random.integers(2, 16, rows), random.integers(1, 14, rows))


def _filters(random: np.random.Generator, rows: int, vocabulary: int) -> FilterRows:
    """Greedy and sampled rows; top-k and top-p on, off and at their edges."""
    top_k = [0, 1, 50, 700, vocabulary, vocabulary + 5]
    return FilterRows.pack(
        [
            FilterParameters(
                float(random.choice([0.0, 0.2, 0.9, 3.0])),
                int(random.choice(top_k)),
                float(random.choice([1.0, 0.95, 0.8, 0.05])),
            )
            for _ in range(rows)
        ]
    )


def rows_of_logits(random: np.random.Generator, vocabulary: int) -> np.ndarray:
    """Flat, peaked, tied, masked and faulty rows, float32 [9, vocabulary]."""
    masked = np.where(random.random(vocabulary) < 0.7, -np.inf, random.normal(size=vocabulary))
    masked[vocabulary // 2] = 0.5
    broken = random.normal(size=vocabulary)
    broken[vocabulary // 3] = np.nan
    infinite = random.normal(size=vocabulary)
    infinite[vocabulary - 1] = np.inf
    rows = [
        random.normal(size=vocabulary),
        4 * random.normal(size=vocabulary),
        20 * random.normal(size=vocabulary),
        random.choice([-0.0, 0.0], vocabulary),
        random.integers(-2, 3, vocabulary),
        masked,
        broken,
        infinite,
        np.full(vocabulary, -np.inf),
    ]
    return np.array(rows, np.float32)


def logits_cases(random: np.random.Generator, vocabulary: int) -> dict[str, Case]:
    """Filter, argmax, draws, the Talker's draw and the draw over any vocabulary."""
    logits = rows_of_logits(random, vocabulary).astype(_float(random))
    rows = len(logits)
    filters = _filters(random, rows, vocabulary)
    seeds, streams, frames = _seeds(random, rows), _streams(random, rows), _frames(random, rows)
    law = random.dirichlet(np.full(vocabulary, 0.3), rows).astype(np.float32)
    seen = (random.random((rows, vocabulary)) < 0.3).astype(np.uint8)
    penalty = random.uniform(1, 2, rows).astype(np.float32)
    suppressed = (random.random(vocabulary) < 0.3).astype(np.uint8)
    ban_eos = random.integers(0, 2, rows).astype(np.uint8)

    def outputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        probabilities = np.full((rows, vocabulary), np.nan, np.float32)
        return probabilities, np.full(rows, -7, np.int64), np.full(rows, -7, np.int32)

    def run_filter(kernels: NativeKernels) -> list[np.ndarray]:
        probabilities, _, errors = outputs()
        kernels.filter(logits, filters, probabilities, errors)
        return [probabilities, errors]

    def run_argmax(kernels: NativeKernels) -> list[np.ndarray]:
        _, codes, errors = outputs()
        kernels.argmax(logits, codes, errors)
        return [codes, errors]

    def run_draw(kernels: NativeKernels) -> list[np.ndarray]:
        _, codes, _ = outputs()
        kernels.draw(law, seeds, streams, frames, codes)
        return [codes]

    def run_sample(kernels: NativeKernels) -> list[np.ndarray]:
        probabilities, codes, errors = outputs()
        kernels.sample(logits, filters, seeds, streams, frames, probabilities, codes, errors)
        return [probabilities, codes, errors]

    def run_talker(kernels: NativeKernels) -> list[np.ndarray]:
        probabilities, codes, errors = outputs()
        kernels.draw_talker(
            logits.copy(),
            seen,
            penalty,
            suppressed,
            vocabulary // 2,
            ban_eos,
            filters,
            seeds,
            frames,
            probabilities,
            codes,
            errors,
        )
        return [probabilities, codes, errors]

    return {
        "filter": run_filter,
        "argmax": run_argmax,
        "draw": run_draw,
        "sample": run_sample,
        "draw_talker": run_talker,
    }


def heads_cases(random: np.random.Generator, vocabulary: int, width: int) -> dict[str, Case]:
    """Grouped heads alone, with a draft and with a score; several rows share a head."""
    heads_count, hidden_count = 4, 5
    rows = int(random.integers(1, 12))
    heads = (2 * random.normal(size=(heads_count, vocabulary, width)) / np.sqrt(width)).astype(_float(random))
    hidden = random.normal(size=(hidden_count, width)).astype(_float(random))
    hidden_rows, head_rows = random.integers(0, hidden_count, rows), random.integers(0, heads_count, rows)
    filters = _filters(random, rows, vocabulary)
    seeds, streams, frames = _seeds(random, rows), _streams(random, rows), _frames(random, rows)

    def outputs() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        logits, probabilities = np.full((2, rows, vocabulary), np.nan, np.float32)
        return logits, probabilities, np.full(rows, -7, np.int64), np.full(rows, -7, np.int32)

    def run_heads(kernels: NativeKernels) -> list[np.ndarray]:
        logits, *_ = outputs()
        kernels.grouped_heads(hidden, hidden_rows, head_rows, heads, logits)
        return [logits]

    def run_draft(kernels: NativeKernels) -> list[np.ndarray]:
        logits, probabilities, codes, errors = outputs()
        kernels.draft(
            hidden, hidden_rows, head_rows, heads, filters, seeds, streams, frames, logits, probabilities, codes, errors
        )
        return [logits, probabilities, codes, errors]

    def run_score(kernels: NativeKernels) -> list[np.ndarray]:
        logits, probabilities, _, errors = outputs()
        kernels.score(hidden, hidden_rows, head_rows, heads, filters, logits, probabilities, errors)
        return [logits, probabilities, errors]

    return {"grouped_heads": run_heads, "draft": run_draft, "score": run_score}


@dataclass(frozen=True, slots=True)
class Round:
    """A ragged batch in the middle of its frames; some rows of the batch are in no sequence."""

    counts: np.ndarray
    rows: np.ndarray
    drafts: np.ndarray
    codes: np.ndarray
    last: np.ndarray


def random_round(random: np.random.Generator, vocabulary: int, groups: int = 20) -> Round:
    sequences = int(random.integers(1, 9))
    batch = sequences + 3
    counts = random.integers(0, 5, sequences)
    return Round(
        counts,
        random.permutation(batch)[:sequences],
        random.integers(0, vocabulary, counts.sum()),
        random.integers(0, vocabulary, (batch, groups)),
        random.integers(1, 12, batch),
    )


def acceptance_cases(random: np.random.Generator, vocabulary: int, width: int) -> dict[str, Case]:
    """Both rules, and the commit. A third of the drafts come from the target's own law, so several stand."""
    drawn = random_round(random, vocabulary)
    sequences, slots, batch = len(drawn.counts), len(drawn.drafts), len(drawn.codes)
    target = random.dirichlet(np.ones(vocabulary), slots + sequences).astype(np.float32)
    draft = random.dirichlet(np.ones(vocabulary), slots).astype(np.float32).reshape(slots, vocabulary)
    own = np.arange(slots) + np.repeat(np.arange(sequences), drawn.counts)  # each sequence has one target row more
    draft[: slots // 3] = target[own[: slots // 3]]
    seeds, frames = _seeds(random, sequences), _frames(random, sequences)
    few = random.integers(0, 3, slots + sequences), random.integers(0, 3, slots)
    dtype = _float(random)
    hidden = random.normal(size=(sequences * 6, width)).astype(dtype)
    first_hidden = np.arange(sequences) * 6
    context = random.normal(size=(batch, width)).astype(dtype)

    def outputs() -> tuple[np.ndarray, np.ndarray]:
        return np.full(sequences, -7, np.int64), np.full(sequences, -7, np.int64)

    def run_rejection(kernels: NativeKernels) -> list[np.ndarray]:
        accepted, codes = outputs()
        last = drawn.last[drawn.rows]
        kernels.accept_rejection(target, draft, drawn.drafts, drawn.counts, last, seeds, frames, accepted, codes)
        return [accepted, codes]

    def run_greedy(kernels: NativeKernels) -> list[np.ndarray]:
        accepted, codes = outputs()
        kernels.accept_greedy(few[0], few[1], drawn.counts, accepted, codes)
        return [accepted, codes]

    def run_commit(kernels: NativeKernels) -> list[np.ndarray]:
        accepted, _ = outputs()
        commits = np.full(batch, -7, np.int64)
        state = drawn.codes.copy(), drawn.last.copy(), context.copy()
        kernels.accept_commit(
            target,
            draft,
            drawn.drafts,
            drawn.rows,
            drawn.counts,
            seeds,
            frames,
            hidden,
            first_hidden,
            *state,
            accepted,
            commits,
        )
        return [*state, accepted, commits]

    return {"accept_rejection": run_rejection, "accept_greedy": run_greedy, "accept_commit": run_commit}


def copying_cases(random: np.random.Generator, vocabulary: int, width: int) -> dict[str, Case]:
    """Embeddings, the verify pass's input, and the KV rows of an accepted path."""
    drawn = random_round(random, vocabulary)
    batch, groups = drawn.codes.shape
    positions = int(drawn.counts.max()) + 2
    dtype = _float(random)
    tables = [random.normal(size=(vocabulary, width)).astype(dtype) for _ in range(groups)]
    caches = [random.normal(size=(batch, 2, 24, width)).astype(dtype) for _ in range(3)]
    first = random.integers(0, 4, len(drawn.counts))
    paths = [
        start + np.sort(random.choice(16, count, replace=False))
        for start, count in zip(first, drawn.counts, strict=True)
    ]
    sources = np.concatenate(paths).astype(np.int64)

    def run_verify(kernels: NativeKernels) -> list[np.ndarray]:
        fed = np.full((batch, positions), -7, np.int64)
        embeddings = np.full((batch, positions, width), 7, dtype)
        kernels.build_verify_input(
            tables, drawn.codes, drawn.last, drawn.rows, drawn.counts, drawn.drafts, fed, embeddings
        )
        return [fed, embeddings]

    def run_gather(kernels: NativeKernels) -> list[np.ndarray]:
        embeddings = np.full((batch, width), 7, dtype)
        kernels.gather_codec_embeddings(tables, drawn.last, np.ascontiguousarray(drawn.codes[:, 0]), embeddings)
        return [embeddings]

    def run_sum(kernels: NativeKernels) -> list[np.ndarray]:
        feedback = np.full((batch, width), 7, np.float32)
        kernels.sum_codec_embeddings(tables, drawn.codes, feedback)
        return [feedback]

    def run_copy(kernels: NativeKernels) -> list[np.ndarray]:
        moved = [cache.copy() for cache in caches]
        kernels.copy_accepted_rows(moved, drawn.rows, drawn.counts, first, sources)
        return moved

    return {
        "build_verify_input": run_verify,
        "gather_codec_embeddings": run_gather,
        "sum_codec_embeddings": run_sum,
        "copy_accepted_rows": run_copy,
    }
