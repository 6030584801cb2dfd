"""Specs of Qwen3-Omni refuse what no checkpoint can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.synthetic.omni_spec import TINY_OMNI


def test_a_code_predictor_with_another_codebook_is_refused() -> None:
    with pytest.raises(UsageError, match=r"code_predictor.vocab_size is 32, but talker.vocab_size leaves 64 codes"):
        replace(TINY_OMNI, code_predictor=replace(TINY_OMNI.code_predictor, vocab_size=32))


def test_a_code_predictor_of_another_width_is_refused() -> None:
    with pytest.raises(UsageError, match=r"code_predictor.hidden_size is 40, talker.hidden_size 48"):
        replace(TINY_OMNI, code_predictor=replace(TINY_OMNI.code_predictor, hidden_size=40))


@pytest.mark.parametrize("layer", [0, 3])
def test_a_hidden_state_that_no_inner_layer_gives_is_refused(layer: int) -> None:
    with pytest.raises(UsageError, match=f"accept_hidden_layer is {layer}; it must lie between"):
        replace(TINY_OMNI, accept_hidden_layer=layer)


def test_a_talker_with_a_dense_layer_is_refused() -> None:
    with pytest.raises(UsageError, match=r"talker: dense_layers is \(0,\); every layer has experts"):
        replace(TINY_OMNI, talker_moe=replace(TINY_OMNI.talker_moe, dense_layers=(0,)))


def test_mrope_sections_that_do_not_fill_the_head_are_refused() -> None:
    with pytest.raises(UsageError, match=r"mrope_section is \(4, 2, 2\); it must add up to half of talker.head_dim"):
        replace(TINY_OMNI, talker=replace(TINY_OMNI.talker, head_dim=32))


def test_more_experts_per_token_than_experts_are_refused() -> None:
    with pytest.raises(UsageError, match="thinker: 9 of 8 experts cannot be chosen"):
        replace(TINY_OMNI, thinker_moe=replace(TINY_OMNI.thinker_moe, num_experts_per_tok=9))
