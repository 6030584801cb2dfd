"""What a round needs from the CodePredictor: rows for codes, and a logical length."""

from __future__ import annotations

from typing import Protocol

from cpspec_trt.kernels.protocol import F32, I64


class Predictor(Protocol):
    """Runs the CodePredictor's body over a batch of frames; heads are applied by the caller.

    Position 0 holds the Talker's hidden row, position 1 the embedding of c0, position p >= 2 that of c_(p-1).
    The row at position p is what head p-1 reads to predict c_p.

    Attributes:
        groups: G, code groups of a frame.
        codebook: V, codes of one group.
        hidden_size: H, width of a row.
    """

    @property
    def groups(self) -> int: ...

    @property
    def codebook(self) -> int: ...

    @property
    def hidden_size(self) -> int: ...

    def start_frame(self, talker_hidden: F32, first_codes: I64) -> F32:
        """Forget the previous frame, run positions 0 and 1, set every logical length to 2.

        Args:
            talker_hidden: float32 [B, T].
            first_codes: int64 [B], c0.

        Returns:
            float32 [B, H], the row that predicts c1. Valid until the next call.
        """

    def verify(self, codes: I64) -> F32:
        """Feed codes at the positions that follow each sequence's logical length, without committing them.

        Args:
            codes: int64 [B, S]. Slots beyond a sequence's own window, and all slots of a finished one, hold
                0 and may lie beyond position G-1; the rows that come out there are never read.

        Returns:
            float32 [B, S, H]. Valid until the next call.
        """

    def commit(self, counts: I64) -> None:
        """Add ``counts`` (int64 [B], 0 for a finished sequence) to the logical lengths.

        What a verify pass wrote beyond the new length is garbage that no later pass may read.
        """

    def verify_tree(self, codes: I64, depths: I64, parents: I64) -> F32:
        """Feed the nodes of a tree of codes behind each sequence's logical length, without committing them.

        Row s of a sequence stands at position length + ``depths[s]`` and sees the committed rows, itself and its
        ancestors. Several rows may stand at one position.

        Args:
            codes: int64 [B, S]; the root, which is each sequence's last committed code, is row 0.
            depths: int64 [B, S], distance from the root.
            parents: int64 [B, S], row of the parent, smaller than the node's own; -1 for a root. Rows that a
                sequence does not use hold code 0, depth 0 and parent -1.

        Returns:
            float32 [B, S, H]. Valid until the next call.
        """

    def commit_path(self, rows: I64, counts: I64, sources: I64) -> None:
        """Keep a path of the last ``verify_tree`` pass: its rows become the next of the sequence.

        Args:
            rows: int64 [A], sequences of the batch; the others keep nothing.
            counts: int64 [A], how many rows of each are kept; 0 keeps none.
            sources: int64 [sum(counts)], which of the pass, ascending from the root.
        """
