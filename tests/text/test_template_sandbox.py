"""Bounds of the template sandbox: what does not end becomes an error, what ends is left alone."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from cpspec_trt.text import template_sandbox
from cpspec_trt.text.template_sandbox import EndlessError, RefusedError, compile_template, line_of, render


def rendered(source: str, **variables: object) -> str:
    return render(compile_template(source), variables)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_sandbox, "MAX_STEPS", 1000)


ENDLESS = {
    "nested loops": "{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
    "loops that filter everything out": "{% for a in r %}{% for b in r if false %}{% endfor %}{% endfor %}",
    "branching macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    "call blocks": "{% macro twice() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    "{% call twice() %}{% call twice() %}{% for a in r %}{% endfor %}{% endcall %}{% endcall %}" * 3,
    "recursive loops": "{% for a in r recursive %}{{ loop(r) if loop.depth < 9 }}{% endfor %}",
    "many ranges": "{% for a in r %}{{ range(100)|list|length }}{% endfor %}",
}


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_template_that_takes_too_many_steps_is_stopped(source: str) -> None:
    with pytest.raises(EndlessError, match="it takes more than 1000 steps"):
        rendered(source, r=list(range(100)))


@pytest.mark.usefixtures("few_steps")
def test_the_steps_of_one_rendering_do_not_count_for_the_next() -> None:
    template = compile_template("{% for a in r %}{{ a }}{% endfor %}")
    for _ in range(5):
        assert len(render(template, {"r": ["x"] * 900})) == 900


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ 'ab' * 10**12 }}", "it repeats a value too often"),
        ("{{ 10**12 * [1, 2] }}", "it repeats a value too often"),
        ("{{ 10 ** (10 ** 9) }}", "it computes a power that is too large"),
        ("{% for a in range(90) %}{{ 'x' * 10**6 }}{% endfor %}", "it writes more than 67108864 characters"),
    ],
)
def test_a_value_or_an_output_that_grows_without_bound_is_stopped(source: str, message: str) -> None:
    with pytest.raises(EndlessError, match=re.escape(message)):
        rendered(source)


def test_a_macro_that_calls_itself_forever_is_an_error() -> None:
    with pytest.raises(RecursionError):
        rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")


def test_ordinary_products_powers_and_ranges_are_unchanged() -> None:
    assert rendered(
        "{{ 6 * 7 }} {{ 2 ** 10 }} {{ 2.5 ** 2 }} {{ 3 * 'ab' }} {{ 2 ** -1 }} {{ range(2, 9, 3)|list }}"
    ) == ("42 1024 6.25 ababab 0.5 [2, 5, 8]")


def test_the_functions_and_filters_of_transformers_are_there() -> None:
    assert rendered("{{ {'b': '<ü>', 'a': 1}|tojson }}") == '{"b": "<ü>", "a": 1}'
    assert rendered("{{ strftime_now('%Y') }}") in (str(datetime.now().year), str(datetime.now().year + 1))
    assert rendered("{% generation %}{{ 1 }}{% endgeneration %}") == "1"
    assert rendered("{% for a in 'abc' %}{% if a == 'b' %}{% break %}{% endif %}{{ a }}{% endfor %}") == "a"
    with pytest.raises(RefusedError, match="no"):
        rendered("{{ raise_exception('no') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__name__ }}",
        "{{ r.append(1) }}",
        "{{ lipsum(n=1000000000) }}",
        "{% include 'x' %}",
        "{{ range(10**6) }}",
    ],
)
def test_what_the_sandbox_does_not_allow_fails(source: str) -> None:
    with pytest.raises(Exception, match=r"unsafe|undefined|no loader|Range too big"):
        rendered(source, r=[])


def test_the_line_of_a_fault_is_the_innermost_line_of_the_template() -> None:
    with pytest.raises(TypeError) as caught:
        rendered("{% macro f(x) %}\n\n{{ x + 1 }}\n{% endmacro %}\n\n\n{{ f('a') }}")
    assert line_of(caught.value) == 3
    assert line_of(ValueError()) is None
