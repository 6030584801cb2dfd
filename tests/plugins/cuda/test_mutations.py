"""The suite bites: a library with one fault put into its source must fail it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernels.selection import suite
from tests.plugins.building import ROOT, make
from tests.plugins.emulated import LIBRARY_VARIABLE


@dataclass(frozen=True, slots=True)
class Mutation:
    """A piece of source, found exactly once, and what stands in its place."""

    name: str
    file: str
    before: str
    after: str
    tests: str


ACCEPTANCE = "acceptance_and_commit"
FILTERS = "filters_and_draws"
HEADS = "heads_drafts_and_scores"
RULES = "rules_and_guard"
TREES = "trees_are"

MUTATIONS = [
    Mutation(
        "a barrier is missing before the histogram is read",
        "cuda/select.cuh",
        "digit)], 1u);\n        __syncthreads();",
        "digit)], 1u);",
        FILTERS,
    ),
    Mutation(
        "a slot is scored with the row after it",
        "cuda/rules.cuh",
        "keeps_draft(chain.accept_uniform(slot), chain.target[at], chain.draft[at])",
        "keeps_draft(chain.accept_uniform(slot), chain.target[at + chain.vocabulary], chain.draft[at])",
        ACCEPTANCE,
    ),
    Mutation(
        "a rejection draws from p and not from the residual",
        "cuda/rules.cuh",
        "        law.draft = chain.draft + at;\n",
        "",
        ACCEPTANCE,
    ),
]
MORE_MUTATIONS = [
    Mutation(
        "a barrier is missing between a warp's sum and the block's",
        "cuda/block_ops.cuh",
        "scratch.warp[warp_index()] = value;\n    __syncthreads();\n    value = scratch.warp[0];",
        "scratch.warp[warp_index()] = value;\n    value = scratch.warp[0];",
        FILTERS,
    ),
    Mutation(
        "ties go to the higher index",
        "cuda/row.cuh",
        "return uint64_t(rising) << 32 | uint32_t(~token);",
        "return uint64_t(rising) << 32 | uint32_t(token);",
        FILTERS,
    ),
    Mutation(
        "the residual has the target's noise",
        "cuda/rules.cuh",
        "        noise = chain.round_noise(kResidualNoise, standing.count);\n",
        "",
        ACCEPTANCE,
    ),
    Mutation(
        "the context is the row of the code before",
        "cuda/accept.cuh",
        "source = verified.first[a] + committed - 1;",
        "source = verified.first[a] + (committed > 1 ? committed - 2 : 0);",
        ACCEPTANCE,
    ),
    Mutation(
        "a row is finished before its last tile is there",
        "cuda/heads.cuh",
        "== tiles - 1;",
        "== (tiles > 1 ? tiles - 2 : 0);",
        HEADS,
    ),
    Mutation(
        "a product is rounded before it is added",
        "cuda/heads.cuh",
        "sums[row][word] = fma_(w[word], h, sums[row][word]);",
        "sums[row][word] = w[word] * h + sums[row][word];",
        HEADS,
    ),
    Mutation(
        "block draws what rejection leaves of p",
        "cuda/rules.cuh",
        "FinalLaw law{chain.target + at, nullptr, standing.joint};",
        "FinalLaw law{chain.target + at, nullptr, 1.0f};",
        RULES,
    ),
    Mutation(
        "block stops at the first slot that does not stand",
        "cuda/rules.cuh",
        "standing = {slot + 1, joint};",
        "standing = {slot + 1, joint}; else break;",
        RULES,
    ),
    Mutation(
        "the target's noise depends on the round",
        "cuda/rules.cuh",
        "return {seed, stream_word(kTargetNoise, depth(slot)), frame};",
        "return {seed, round_stream_word(kTargetNoise, depth(slot), uint32_t(last)), frame};",
        RULES,
    ),
    Mutation(
        "a guarded row decides",
        "cuda/rules.cuh",
        "return is_guarded(top.gap(), tolerance) ? kGuarded : winner_of(top.best);",
        "return is_guarded(top.gap(), 0.0f * tolerance) ? kGuarded : winner_of(top.best);",
        RULES,
    ),
    Mutation(
        "a tree emits its first child whatever the target draws",
        "cuda/trees.cuh",
        "            codes[visited] = code;\n",
        "            codes[visited] = code >= 0 && node == 0 && nodes > 1 ? trees.codes[first + 1] : code;\n",
        TREES,
    ),
    Mutation(
        "a candidate may win twice",
        "cuda/trees.cuh",
        "        if (winner >= 0 && winner % blockDim.x == threadIdx.x) scores[winner] = 0;\n",
        "",
        TREES,
    ),
]


def _mutated_library(mutation: Mutation, folder: Path) -> Path:
    """Build the mutated library from copies of the sources and of the objects that the mutation does not touch."""
    built = make("emulated")
    shutil.copytree(ROOT / "plugins", folder / "plugins")
    shutil.copytree(built / "emulated", folder / "build" / "emulated")
    source = folder / "plugins" / mutation.file
    text = source.read_text()
    assert text.count(mutation.before) == 1, f"{mutation.file} has changed: point the mutation at the new text"
    source.write_text(text.replace(mutation.before, mutation.after))
    command = ["make", "-C", str(folder / "plugins"), f"BUILD={folder / 'build'}", "emulated"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "libcpspec_emulated.so"


def _assert_caught(mutation: Mutation, folder: Path, command: list[str]) -> None:
    library = _mutated_library(mutation, folder)
    done = subprocess.run(
        [*command, "-x"],
        env={**os.environ, LIBRARY_VARIABLE: str(library)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, f"no test noticed that {mutation.name}:\n{done.stdout}"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_the_suite_of_all_implementations_fails_when(mutation: Mutation, tmp_path: Path) -> None:
    _assert_caught(mutation, tmp_path, suite("emulated", "tests/kernels"))


@pytest.mark.long
@pytest.mark.parametrize("mutation", [*MUTATIONS, *MORE_MUTATIONS], ids=lambda each: each.name)
def test_the_comparison_with_the_cpu_library_fails_when(mutation: Mutation, tmp_path: Path) -> None:
    files = [f"tests/plugins/cuda/test_{name}.py" for name in ("same_bits", "rules_same_bits")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files]
    _assert_caught(mutation, tmp_path, [*command, "-k", mutation.tests])
