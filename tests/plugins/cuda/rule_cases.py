"""Random calls of every acceptance rule, of the guard and of trees; see ``cases``."""

from __future__ import annotations

import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.rules_protocol import AcceptanceRule
from tests.kernels.test_acceptance import Rounds
from tests.plugins.cuda.cases import Case

WIDTH = 6  # of hidden rows and tables


def rule_cases(random: np.random.Generator, vocabulary: int) -> dict[str, Case]:
    """Margins, guarded greedy acceptance, block, coupled, and the commit under each rule."""
    sequences = int(random.integers(1, 64))
    drawn = Rounds.random(sequences, vocabulary, int(random.integers(1000)))
    batch = sequences + 3
    rows, codes = random.permutation(batch)[:sequences], random.integers(0, vocabulary, (batch, 20))
    last = np.full(batch, 19)
    last[rows] = drawn.last
    own = np.arange(len(drawn.drafts)) + np.repeat(np.arange(sequences), drawn.counts)  # a slot's target row
    greedy = random.random(len(own)) < 0.3
    drawn.target[own[greedy]] = np.eye(vocabulary, dtype=np.float32)[drawn.drafts[greedy]]
    _spread_residuals(random, drawn, own)
    margins = random.random(len(drawn.target)).astype(np.float32)
    hidden = random.normal(size=(sequences * 8, WIDTH)).astype(np.float32)
    context = random.normal(size=(batch, WIDTH)).astype(np.float32)
    few = random.integers(0, 2, len(drawn.target)), random.integers(0, 2, len(drawn.drafts))

    def outputs() -> tuple[np.ndarray, np.ndarray]:
        return np.full(sequences, -7, np.int64), np.full(sequences, -7, np.int64)

    def run_margins(kernels: NativeKernels) -> list[np.ndarray]:
        best, errors = np.full(len(drawn.target), -7), np.full(len(drawn.target), -7, np.int32)
        gaps = np.full(len(drawn.target), np.nan, np.float32)
        kernels.argmax(drawn.target, best, errors, gaps)
        return [best, errors, gaps]

    def run_greedy(kernels: NativeKernels) -> list[np.ndarray]:
        accepted, following = outputs()
        kernels.accept_greedy(few[0], few[1], drawn.counts, accepted, following, margins, 0.2)
        return [accepted, following]

    def run_block(kernels: NativeKernels) -> list[np.ndarray]:
        accepted, following = outputs()
        noise = drawn.last, drawn.seeds, drawn.frames
        kernels.accept_block(drawn.target, drawn.draft, drawn.drafts, drawn.counts, *noise, accepted, following)
        return [accepted, following]

    def run_coupled(kernels: NativeKernels) -> list[np.ndarray]:
        accepted, following = outputs()
        noise = drawn.last, drawn.seeds, drawn.frames
        kernels.accept_coupled(drawn.target, drawn.drafts, drawn.counts, *noise, accepted, following, 0.2)
        return [accepted, following]

    def commit_under(rule: AcceptanceRule) -> Case:
        def run(kernels: NativeKernels) -> list[np.ndarray]:
            accepted, _ = outputs()
            commits = np.full(batch, -7)
            state = codes.copy(), last.copy(), context.copy()
            kernels.accept_commit(
                drawn.target,
                drawn.draft,
                drawn.drafts,
                rows,
                drawn.counts,
                drawn.seeds,
                drawn.frames,
                hidden,
                np.arange(sequences) * 8,
                *state,
                accepted,
                commits,
                rule,
                0.2,
                margins,
            )
            return [*state, accepted, commits]

        return run

    return {
        "argmax with margins": run_margins,
        "accept_greedy under guard": run_greedy,
        "accept_block": run_block,
        "accept_coupled": run_coupled,
        **{f"accept_commit {rule.name}": commit_under(rule) for rule in AcceptanceRule},
    }


def _spread_residuals(random: np.random.Generator, drawn: Rounds, own: np.ndarray) -> None:
    """Lets some drafts leave half of p, and the next draft be impossible: max(p / 2 - q, 0) is not max(p - q, 0)."""
    follows = np.flatnonzero(own[1:] == own[:-1] + 1)  # slots that are followed by one of their sequence
    vocabulary = drawn.target.shape[1]
    for slot in random.permutation(follows)[: len(follows) // 3]:
        code, other = drawn.drafts[slot], (drawn.drafts[slot + 1] + 1) % vocabulary
        drawn.draft[slot, code] = 2 * drawn.target[own[slot], code] + np.float32(0.01)
        law = drawn.target[own[slot] + 1]
        law[other] += np.float32(0.5)
        law[drawn.drafts[slot + 1]] = 0
        drawn.draft[slot + 1] = law / 3
        drawn.draft[slot + 1, other] = 0.9 * law[other]


def tree_cases(random: np.random.Generator, vocabulary: int) -> dict[str, Case]:
    """Candidates, what a verify pass of trees is fed, the walk, and its commit."""
    sequences = int(random.integers(1, 6))
    batch, groups, most = sequences + 2, 20, 5
    trees = [_tree(random, vocabulary) for _ in range(sequences)]
    nodes = np.array([len(parents) for parents, _ in trees])
    parents, node_codes = (np.concatenate([tree[part] for tree in trees]) for part in (0, 1))
    rows = random.permutation(batch)[:sequences]
    codes, last = random.integers(0, vocabulary, (batch, groups)), random.integers(1, 12, batch)
    target = random.dirichlet(np.full(vocabulary, 0.3), len(parents)).astype(np.float32)
    margins = random.random(len(parents)).astype(np.float32)
    seeds = random.integers(0, 2**64, len(parents), dtype=np.uint64)
    frames = random.integers(0, 4096, len(parents)).astype(np.uint32)
    streams = stream(Purpose.TARGET, random.integers(1, 16, len(parents)))
    widths = random.integers(1, most + 1, len(parents))
    hidden = random.normal(size=(len(parents) + batch, WIDTH)).astype(np.float32)
    first, tolerances = random.integers(0, 9, sequences), random.choice([0, 0.1, 0.3], sequences).astype(np.float32)
    tables = [random.normal(size=(vocabulary, WIDTH)).astype(np.float16) for _ in range(groups)]

    def run_candidates(kernels: NativeKernels) -> list[np.ndarray]:
        found = np.full((len(parents), most), -7)
        kernels.draw_candidates(target, widths, seeds, streams, frames, found)
        return [found]

    def run_input(kernels: NativeKernels) -> list[np.ndarray]:
        fed = np.full((batch, int(nodes.max()) + 1), -7)
        embeddings = np.full((*fed.shape, WIDTH), 7, np.float16)
        kernels.build_tree_input(tables, codes, last, rows, parents, node_codes, nodes, fed, embeddings)
        return [fed, embeddings]

    def run_walk(kernels: NativeKernels) -> list[np.ndarray]:
        path, decided, lengths = (np.full(shape, -7) for shape in ((sequences, most), (sequences, most), sequences))
        noise = last[rows], seeds[:sequences], frames[:sequences]
        kernels.accept_tree(target, parents, node_codes, nodes, *noise, path, lengths, decided, 0.1, margins)
        return [path, lengths, decided]

    def run_commit(kernels: NativeKernels) -> list[np.ndarray]:
        # Codes lie in another order than the nodes.
        order = np.argsort(seeds)
        places = np.where(node_codes < 0, -1, np.argsort(order))
        state = codes.copy(), last.copy(), hidden[:batch].copy()
        accepted, commits, sources = (np.full(shape, -7) for shape in (sequences, batch, (sequences, most)))
        kernels.accept_commit_tree(
            target,
            rows,
            parents,
            node_codes[order],
            nodes,
            seeds[:sequences],
            frames[:sequences],
            hidden,
            np.cumsum(nodes) - nodes,
            *state,
            first,
            accepted,
            commits,
            sources,
            tolerances,
            margins,
            places,
        )
        return [*state, accepted, commits, sources]

    return {
        "draw_candidates": run_candidates,
        "build_tree_input": run_input,
        "accept_tree": run_walk,
        "accept_commit_tree": run_commit,
    }


def _tree(random: np.random.Generator, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Parents and codes of a product tree whose children hold common codes; some do not exist."""
    parents, codes, level = [-9], [-9], [0]
    for _ in range(int(random.integers(0, 4))):
        width = int(random.integers(1, min(3, vocabulary) + 1))
        children = random.choice(vocabulary, width, replace=False).tolist()
        if random.random() < 0.2:
            children[-1] = -1
        begin = len(parents)
        parents += [parent for parent in level for _ in children]
        codes += [code for _ in level for code in children]
        level = list(range(begin, len(parents)))
    return np.array(parents), np.array(codes)
