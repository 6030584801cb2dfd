"""Specs refuse what no checkpoint can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.synthetic.spec import TINY


def test_a_code_predictor_with_another_codebook_is_refused() -> None:
    with pytest.raises(UsageError, match=r"code_predictor.vocab_size is 32, but talker.vocab_size leaves 64 codes"):
        replace(TINY, code_predictor=replace(TINY.code_predictor, vocab_size=32))


def test_mrope_sections_that_do_not_fill_the_head_are_refused() -> None:
    with pytest.raises(UsageError, match=r"mrope_section is \(4, 2, 1\)"):
        replace(TINY, mrope_section=(4, 2, 1))


def test_kv_heads_that_do_not_divide_the_heads_are_refused() -> None:
    with pytest.raises(UsageError, match="talker: 3 KV heads"):
        replace(TINY, talker=replace(TINY.talker, num_key_value_heads=3))
