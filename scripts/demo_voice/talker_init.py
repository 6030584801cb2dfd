"""Start values of the Talker and the CodePredictor: code embeddings and heads come from the RVQ codebooks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layout import CODE_DIM, CODEBOOK, GROUPS, PREDICTOR_HIDDEN, TALKER_HIDDEN, TEXT_HIDDEN

MATRIX_GAIN, OUTPUT_MATRIX_GAIN = 0.5, 0.2  # of 1 / sqrt(fan-in); the smaller one ends a residual branch
DEEPEST_BOOST = 2.5
LEAST_LENGTH = 1e-6  # a corpus of few sentences leaves nothing for the deepest codebooks


def unit_power(codebooks: Tensor) -> Tensor:
    """Codebooks [GROUPS, CODEBOOK, CODE_DIM] scaled so that the first one's entries have mean square one."""
    return codebooks / codebooks[0].pow(2).mean().sqrt()


def _orthonormal_rows(width: int, generator: torch.Generator) -> Tensor:
    """Random [CODE_DIM, width] with orthonormal rows."""
    return torch.linalg.qr(torch.randn(width, CODE_DIM, generator=generator))[0].T


def _head(codebook: Tensor, basis: Tensor) -> Tensor:
    """Codebook vectors at unit root mean square length, in the directions of `basis`."""
    length = codebook.pow(2).sum(1).mean().sqrt()
    return codebook / length.clamp(min=LEAST_LENGTH) @ basis


@torch.no_grad()
def initialise(talker: nn.Module, codebooks: Tensor) -> None:
    """Set all weights in place; `codebooks` [GROUPS, CODEBOOK, CODE_DIM] as `unit_power` gives them."""
    generator = torch.Generator().manual_seed(1)
    widths = (TALKER_HIDDEN, TALKER_HIDDEN, PREDICTOR_HIDDEN)
    lift, talker_basis, predictor_basis = (_orthonormal_rows(width, generator) for width in widths)
    for name, parameter in talker.named_parameters():
        if parameter.dim() == 2 and "embedding" not in name:
            ends_branch = name.endswith(("o_proj.weight", "down_proj.weight"))
            gain = OUTPUT_MATRIX_GAIN if ends_branch else MATRIX_GAIN
            nn.init.normal_(parameter, std=gain / parameter.shape[1] ** 0.5)
    nn.init.normal_(talker.model.text_embedding.weight)
    nn.init.normal_(talker.model.codec_embedding.weight, std=0.3)
    nn.init.normal_(talker.text_projection.linear_fc1.weight, std=TEXT_HIDDEN**-0.5)
    nn.init.normal_(talker.text_projection.linear_fc2.weight, std=TEXT_HIDDEN**-0.5)

    talker.model.codec_embedding.weight[:CODEBOOK] = codebooks[0] @ lift
    nn.init.normal_(talker.codec_head.weight, std=0.02)
    talker.codec_head.weight[:CODEBOOK] = _head(codebooks[0], talker_basis)
    predictor = talker.code_predictor
    for depth in range(1, GROUPS):
        # Deep codebooks are small: lift them a little so that the CodePredictor can read them.
        boost = (codebooks[0].pow(2).mean() / codebooks[depth].pow(2).mean()).item() ** 0.25
        predictor.model.codec_embedding[depth - 1].weight.copy_(codebooks[depth] @ lift * min(DEEPEST_BOOST, boost))
        predictor.lm_head[depth - 1].weight.copy_(_head(codebooks[depth], predictor_basis))
