"""Step 2: residual vector quantisation of the features, without a trained encoder.

A frame's 16 rows of (40 mel bands, voicing, log f0) are projected on 64 principal components and quantised by 16
k-means codebooks of 256, each fitted on the residual of the one before. Writes WORK/codes.npz and WORK/rvq.pt.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .corpus import MEL_FLOOR, Corpus, save_codes
from .layout import CODE_DIM, CODEBOOK, GROUPS
from .vocoder import MELS, ROWS_PER_FRAME

QUANTISER = "rvq.pt"
VOICING_WEIGHT, PITCH_WEIGHT = 6.0, 20.0  # importance beside natural-log mel power
PCA_FRAMES, KMEANS_FRAMES, KMEANS_ROUNDS = 60_000, 50_000, 14
ASSIGNMENT_CHUNK = 20_000  # frames per distance matrix
FEATURES_PER_ROW = MELS + 2


def frame_vectors(corpus: Corpus) -> Tensor:
    """Weighted features of every frame [frames, 16 * 42], float32."""
    mel = np.maximum(corpus.mel.astype(np.float32), MEL_FLOOR)
    voicing = corpus.voicing.astype(np.float32)[:, None] * VOICING_WEIGHT
    pitch = np.log(corpus.f0.astype(np.float32))[:, None] * PITCH_WEIGHT
    rows = np.concatenate([mel, voicing, pitch], axis=1)
    return torch.from_numpy(rows.reshape(-1, ROWS_PER_FRAME * FEATURES_PER_ROW))


def random_rows(vectors: Tensor, count: int) -> Tensor:
    """At most `count` different rows."""
    return vectors[torch.randperm(len(vectors))[:count]]


def nearest(vectors: Tensor, centres: Tensor) -> Tensor:
    """Index of each vector's nearest centre, by ||c||² - 2 v·c."""
    squares = (centres**2).sum(1)
    return torch.cat([(squares - 2 * part @ centres.T).argmin(1) for part in vectors.split(ASSIGNMENT_CHUNK)])


def kmeans(vectors: Tensor) -> Tensor:
    """Lloyd's algorithm: CODEBOOK centres of the vectors; a centre without vectors moves to a random one."""
    centres = random_rows(vectors, CODEBOOK).clone()
    for _ in range(KMEANS_ROUNDS):
        owner = nearest(vectors, centres)
        sizes = torch.bincount(owner, minlength=CODEBOOK).float()[:, None]
        sums = torch.zeros_like(centres).index_add_(0, owner, vectors)
        strays = vectors[torch.randint(len(vectors), (CODEBOOK,))]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), strays)
    return centres


def principal_components(centred: Tensor) -> Tensor:
    """The first CODE_DIM principal directions as columns [features, CODE_DIM]."""
    sample = random_rows(centred, PCA_FRAMES)
    directions, _, _ = torch.linalg.svd(sample.T @ sample / len(sample))
    return directions[:, :CODE_DIM]


def quantise(latents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(codebooks [GROUPS, CODEBOOK, CODE_DIM], codes [frames, GROUPS], what remains [frames, CODE_DIM])."""
    residual = latents.clone()
    codebooks, codes = [], []
    for depth in range(GROUPS):
        centres = kmeans(random_rows(residual, KMEANS_FRAMES))
        code = nearest(residual, centres)
        residual = residual - centres[code]
        codebooks.append(centres)
        codes.append(code)
        share = (residual**2).sum() / (latents**2).sum()
        print(f"depth {depth}: {share:.4f} of the energy remains", flush=True)
    return torch.stack(codebooks), torch.stack(codes, 1), residual


def pitch_error(vectors: Tensor, decoded: Tensor) -> float:
    """Root mean square error of log f0 after quantisation, mean removed."""
    shape = (-1, ROWS_PER_FRAME, FEATURES_PER_ROW)
    return ((decoded.view(shape)[..., -1] - vectors.view(shape)[..., -1]) / PITCH_WEIGHT).std().item()


def main() -> None:
    """Fit the projection and the codebooks on all frames and write the codes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of the intermediate files")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    started = time.monotonic()

    vectors = frame_vectors(Corpus.load(args.work))
    if len(vectors) < CODEBOOK:
        raise SystemExit(f"{args.work}: {len(vectors)} frames cannot fill {CODEBOOK} codes; prepare more sentences")
    mean = vectors.mean(0)
    directions = principal_components(vectors - mean)
    latents = (vectors - mean) @ directions
    codebooks, codes, residual = quantise(latents)
    decoded = (latents - residual) @ directions.T + mean
    print(f"{len(vectors)} frames, log f0 error {pitch_error(vectors, decoded):.4f}")

    torch.save({"codebooks": codebooks, "directions": directions, "mean": mean}, args.work / QUANTISER)
    save_codes(args.work, codes.numpy().astype(np.uint8))
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
