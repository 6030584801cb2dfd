"""What specs of both families refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.synthetic.omni_spec import TINY_OMNI
from cpspec_trt.synthetic.spec import TINY
from cpspec_trt.synthetic.spec_checks import ADDED_TOKENS
from cpspec_trt.synthetic.tokenizer import write_tokenizer

SPECS = pytest.mark.parametrize("spec", [TINY, TINY_OMNI], ids=["tts", "omni"])


@SPECS
@pytest.mark.parametrize("stack", ["talker", "code_predictor"])
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_hidden_layers", 0, "num_hidden_layers is 0; it must be at least 1"),
        ("intermediate_size", -4, "intermediate_size is -4; it must be at least 1"),
        ("num_key_value_heads", 0, "num_key_value_heads is 0; it must be at least 1"),
        ("num_attention_heads", 0, ": 2 KV heads do not divide the attention heads"),
        ("num_key_value_heads", 3, ": 3 KV heads do not divide the attention heads"),
    ],
)
def test_dimensions_that_attention_cannot_have_are_named(
    spec: Any, stack: str, field: str, value: int, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        replace(spec, **{stack: replace(getattr(spec, stack), **{field: value})})
    assert str(caught.value).startswith(stack)
    assert message in str(caught.value)


@SPECS
def test_one_code_group_is_none_to_predict(spec: Any) -> None:
    with pytest.raises(UsageError, match="num_code_groups is 1; it must be at least 2"):
        replace(spec, num_code_groups=1)


@SPECS
@pytest.mark.parametrize("base", [0, 256, 270])
def test_a_vocabulary_without_room_for_the_roles_is_refused(spec: Any, base: int) -> None:
    with pytest.raises(UsageError, match=f"text_base_vocab is {base}; bytes and roles take 271"):
        replace(spec, text_base_vocab=base)


@SPECS
def test_added_tokens_without_rows_are_refused(spec: Any) -> None:
    with pytest.raises(UsageError, match=r"has 448 rows; text_base_vocab 416 and the added tokens take 449"):
        replace(spec, text_base_vocab=416)


def test_the_smallest_vocabulary_that_passes_has_every_role_and_every_added_token(tmp_path: Path) -> None:
    ids = write_tokenizer(tmp_path, replace(TINY, text_base_vocab=271).text_base_vocab)
    assert {"user", "assistant", "system"} < ids.keys()
    assert len(ids) == 271 + ADDED_TOKENS
