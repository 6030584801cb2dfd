"""The suite bites: a CPU library with one fault put into its source must fail it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.plugins.cpu.building import SUITE, build, run_suite


@dataclass(frozen=True, slots=True)
class Mutation:
    """A piece of source, found exactly once, what stands in its place, and the tests that must notice."""

    name: str
    file: str
    before: str
    after: str
    tests: str


MUTATIONS = [
    Mutation(
        "a slot is scored with the row after it",
        "cpu/decide.cpp",
        "keeps_draft(accept_uniform(chain, t), chain.target[at], chain.draft[at])",
        "keeps_draft(accept_uniform(chain, t), chain.target[at + chain.vocabulary], chain.draft[at])",
        "test_acceptance.py",
    ),
    Mutation(
        "a rejection draws from p and not from the residual",
        "cpu/decide.cpp",
        "level().residual(standing.joint, target, draft, chain.vocabulary, scratch)",
        "level().support(target, chain.vocabulary, scratch)",
        "test_acceptance.py",
    ),
    Mutation(
        "the token that crosses top_p is cut",
        "core/filter.h",
        "return (needed - before + each - 1) / each;",
        "return (needed - before) / each;",
        "test_filters.py",
    ),
]
MORE_MUTATIONS = [
    Mutation(
        "of equal logits the higher index survives top_k",
        "cpu/select.h",
        "kept |= tied & (0u - tied);\n                tied &= tied - 1;",
        "kept |= 1u << (31 - __builtin_clz(tied));\n                tied &= ~(1u << (31 - __builtin_clz(tied)));",
        "test_filters.py",
    ),
    Mutation(
        "of equal logits the lower index is cut by top_p",
        "cpu/row_filter.h",
        "for (int64_t i = n - 1; tied > cut.ties; --i) {",
        "for (int64_t i = 0; tied > cut.ties; ++i) {",
        "test_filters.py",
    ),
    Mutation(
        "the residual has the target's noise",
        "cpu/decide.cpp",
        "level().race(from, round_noise(chain, kResidualNoise, standing.count), scratch)",
        "level().race(from, target_noise(chain.seed, chain.frame, chain.last, standing.count), scratch)",
        "test_acceptance.py",
    ),
    Mutation(
        "the uniforms of a round do not depend on the round",
        "core/philox.h",
        "return (uint32_t(purpose) << 16) + (last << 8) + depth;",
        "return (uint32_t(purpose) << 16) + depth;",
        "test_acceptance.py",
    ),
    Mutation(
        "a token of a dense row takes its neighbour's noise",
        "cpu/row_draw.h",
        "words[4 * quad + 2] = four.w2;",
        "words[4 * quad + 2] = four.w3;",
        "test_sample.py",
    ),
    Mutation(
        "NaN is not noticed",
        "core/order.h",
        "if (highest_key >= kKeyOfInfinity || lowest_key < kKeyOfMinusInfinity) return 1;",
        "if (highest_key == kKeyOfInfinity) return 1;",
        "test_filters.py",
    ),
    Mutation(
        "a multiply-add without the instruction rounds twice",
        "core/fma.h",
        "bits = inexact ? odd : bits;",
        "",
        "test_elementary.py",
    ),
    Mutation(
        "the last elements of a dot product go to the next lane",
        "cpu/row_heads.h",
        "lanes[i - whole] = fma_(widen(weights[i]), widen(hidden[i]), lanes[i - whole]);",
        "lanes[(i - whole + 1) % kLanes] = fma_(widen(weights[i]), widen(hidden[i]), lanes[(i - whole + 1) % kLanes]);",
        "test_heads.py",
    ),
    Mutation(
        "rows beyond the first that share a head are not served",
        "cpu/row_heads.h",
        "dot_up_to<kMostRows>(rows, row, hidden + r, width, out + r);",
        "dot_rows<1>(row, hidden + r, width, out + r);",
        "test_heads.py",
    ),
    Mutation(
        "the context is the row of the code before",
        "cpu/accept.cpp",
        "hidden + size_t(committed - 1) * bytes",
        "hidden + size_t(committed > 1 ? committed - 2 : 0) * bytes",
        "test_rows.py",
    ),
    Mutation(
        "a draft is looked up in the table of the code before",
        "cpu/rows.cpp",
        "table_row(*tables, last + t, code)",
        "table_row(*tables, last + (t ? t - 1 : 0), code)",
        "test_rows.py",
    ),
    Mutation(
        "block draws what rejection leaves of p",
        "cpu/decide.cpp",
        "level().residual(standing.joint, target, draft, chain.vocabulary, scratch)",
        "level().residual(1.0f, target, draft, chain.vocabulary, scratch)",
        "test_rules.py",
    ),
    Mutation(
        "block stops at the first slot that does not stand",
        "cpu/decide.cpp",
        "standing = {t + 1, joint};",
        "standing = {t + 1, joint}; else break;",
        "test_rules.py",
    ),
    Mutation(
        "block forgets the mass that later drafts may reach",
        "core/accept.h",
        "return whole > 0.0f ? sum / whole : 1.0f;",
        "return joint;",
        "test_rules.py",
    ),
    Mutation(
        "the target's noise depends on the round",
        "cpu/decide.cpp",
        "return {seed, stream_word(kTargetNoise, uint32_t(last + 1 + offset)), frame};",
        "return {seed, round_stream_word(kTargetNoise, uint32_t(last + 1 + offset), uint32_t(last)), frame};",
        "test_rules.py",
    ),
    Mutation(
        "the guard comes after the match",
        "cpu/accept.cpp",
        "!guarded(first + kept) && draft[kept] == targets[first + kept]",
        "draft[kept] == targets[first + kept]",
        "test_guard.py",
    ),
    Mutation(
        "a tree emits its first child whatever the target draws",
        "cpu/trees.cpp",
        "codes[a * most + visited++] = code;",
        "codes[a * most + visited++] = code >= 0 && node == 0 && tree.nodes > 1 ? tree.codes[1] : code;",
        "test_trees.py",
    ),
    Mutation(
        "a node is looked up in the table of its number",
        "cpu/trees.cpp",
        "const int64_t depth = state->last[row] + depth_of(tree, node), slot",
        "const int64_t depth = state->last[row] + node, slot",
        "test_trees.py",
    ),
    Mutation(
        "the penalty multiplies every seen logit",
        "core/filter.h",
        "logit < 0.0f ? logit * penalty : logit / penalty",
        "logit * penalty",
        "test_talker.py",
    ),
]


def _assert_caught(mutation: Mutation, folder: Path) -> None:
    shutil.copytree(ROOT / "plugins", folder / "plugins")
    source = folder / "plugins" / mutation.file
    text = source.read_text(encoding="utf-8")
    assert text.count(mutation.before) == 1, f"{mutation.file} has changed: point the mutation at the new text"
    source.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
    library = build(folder / "plugins", folder / "build", "-O1")
    done = run_suite(library, "-x", str(SUITE / mutation.tests))
    assert done.returncode == 1, f"no test noticed that {mutation.name}:\n{done.stdout}"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_the_suite_fails_when(mutation: Mutation, tmp_path: Path) -> None:
    _assert_caught(mutation, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("mutation", MORE_MUTATIONS, ids=lambda each: each.name)
def test_the_suite_fails_too_when(mutation: Mutation, tmp_path: Path) -> None:
    _assert_caught(mutation, tmp_path)
