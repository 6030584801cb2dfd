"""The 12 Hz decoder, made ready for training: its start values, and a snake activation that keeps less for backward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .configs import codec_config
from .layout import CODE_DIM
from .reference import Qwen3TTSTokenizerV2Model
from .rvq import QUANTISER

CODE_LENGTH = 8.0  # root mean square length of a first-depth code vector
LAYER_GAIN = 0.3  # start value of the ConvNeXt gammas and of the residual branches
OUTPUT_GAIN = 0.05


class SnakeFunction(torch.autograd.Function):
    """x + sin²(a x) / b with a, b [1, C, 1]; recomputes the sine in backward instead of keeping it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]
        """x [B, C, T]."""
        ctx.save_for_backward(x, a, b)
        sine = torch.sin(x * a)
        return x.addcmul(sine, sine / b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """d/dx = 1 + a/b sin(2ax), d/da = x sin(2ax) / b, d/db = -sin²(ax) / b²."""
        x, a, b = ctx.saved_tensors
        angle = x * a
        sine, double = torch.sin(angle), torch.sin(2 * angle)
        grad_x = grad * (1 + a / b * double)
        grad_a = (grad * x * double).sum((0, 2), keepdim=True) / b
        grad_b = -(grad * sine * sine).sum((0, 2), keepdim=True) / (b * b)
        return grad_x, grad_a, grad_b


class Snake(nn.Module):
    """SnakeBeta with the same parameters (names included), through SnakeFunction."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.alpha, self.beta = original.alpha, original.beta

    def forward(self, x: Tensor) -> Tensor:
        """x [B, C, T] to the same shape."""
        return SnakeFunction.apply(x, self.alpha.exp()[None, :, None], self.beta.exp()[None, :, None] + 1e-9)


def _is(module: nn.Module, ending: str) -> bool:
    return type(module).__name__.endswith(ending)


def use_fast_snake(module: nn.Module) -> None:
    """Replace every SnakeBeta below `module`."""
    for name, child in list(module.named_children()):
        if _is(child, "SnakeBeta"):
            setattr(module, name, Snake(child))
        else:
            use_fast_snake(child)


def _scale_to_fan_in(module: nn.Module) -> None:
    """Normal weights of variance 1 / fan-in for an ungrouped convolution, zero bias; other modules stay."""
    if not isinstance(module, (nn.Conv1d, nn.ConvTranspose1d)) or module.groups != 1:
        return
    fan_in = module.in_channels * module.kernel_size[0]
    if isinstance(module, nn.ConvTranspose1d):
        fan_in /= module.stride[0]
    nn.init.normal_(module.weight, std=fan_in**-0.5)
    if module.bias is not None:
        nn.init.zeros_(module.bias)


def _set_codebooks(decoder: nn.Module, codebooks: Tensor) -> None:
    """Fix the k-means codebooks [GROUPS, CODEBOOK, CODE_DIM], scaled, and give both halves one output projection."""
    scale = CODE_LENGTH / codebooks[0].pow(2).sum(1).mean().sqrt()
    quantizer = decoder.quantizer
    layers = [quantizer.rvq_first.vq.layers[0], *quantizer.rvq_rest.vq.layers]
    for layer, codebook in zip(layers, codebooks, strict=True):
        layer._codebook.cluster_usage.fill_(1.0)
        layer._codebook.embedding_sum.copy_(codebook * scale)
        layer._codebook.requires_grad_(False)
    orthonormal = torch.linalg.qr(torch.randn(2 * CODE_DIM, CODE_DIM))[0]
    for half in (quantizer.rvq_first, quantizer.rvq_rest):
        half.output_proj.weight.copy_(orthonormal[:, :, None])


def _set_convolutions(decoder: nn.Module) -> None:
    """Variance-preserving convolutions, small residual branches, spread snake frequencies, quiet output."""
    _scale_to_fan_in(decoder.pre_conv.conv)
    for transposed, convnext in decoder.upsample:
        _scale_to_fan_in(transposed.conv)
        convnext.gamma.fill_(LAYER_GAIN)
    for module in decoder.decoder.modules():
        _scale_to_fan_in(module)
    for module in decoder.decoder.modules():
        if _is(module, "ResidualUnit"):
            module.conv2.conv.weight.mul_(LAYER_GAIN)
        if _is(module, "SnakeBeta"):
            module.alpha.copy_(torch.randn(module.alpha.shape) * 0.3 - 0.3)
    decoder.decoder[-1].conv.weight.mul_(OUTPUT_GAIN)


def new_codec(work: Path) -> Qwen3TTSTokenizerV2Model:
    """An untrained codec around the codebooks of WORK/rvq.pt, the same at every call."""
    torch.manual_seed(0)
    codec = Qwen3TTSTokenizerV2Model(codec_config())
    codec.decoder.config._attn_implementation = "eager"
    with torch.no_grad():
        _set_codebooks(codec.decoder, torch.load(work / QUANTISER)["codebooks"])
        _set_convolutions(codec.decoder)
    use_fast_snake(codec.decoder)
    return codec
