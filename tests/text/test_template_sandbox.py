"""Bounds of the template sandbox: what does not end becomes an error, what ends is left alone."""

from __future__ import annotations

import tracemalloc
from datetime import datetime

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

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


# Each makes something far larger than itself, in one operation or by doubling. ``big`` is a text of 200,000 letters.
DOUBLE = "{% set ns = namespace(x='ab') %}{% for a in r %}{% set ns.x = DOUBLED %}{% endfor %}{{ ns.x|length }}"
GROWING = {
    "product of a text": "{{ 'ab' * 10**12 }}",
    "product of a list": "{{ (10**12 * [1, 2])|length }}",
    "product of bytes": "{{ ('ab'.encode() * 10**12)|length }}",
    "padded format": "{{ '%150000000s' % 'x' }}",
    "padded format of bytes": "{{ 'x%150000000d'.encode() % 7 }}",
    "precise format": "{{ '%.150000000f' % 1.5 }}",
    "format padded by an argument": "{{ '%*s' % (150000000, 'x') }}",
    "format padded behind a nested name": "{{ '%(a(b))150000000s' % {'a(b)': 1} }}",
    "format that repeats a name": "{{ ('%(a)s' * 1000) % {'a': big} }}",
    "format method": "{{ '{:150000000}'.format('x') }}",
    "format method padded by an argument": "{{ '{:{}}'.format('x', 150000000) }}",
    "format method padded by a hidden argument": "{{ '{0:{1[w]}}'.format('x', {'w': 150000000}) }}",
    "format_map": "{{ '{a:150000000}'.format_map({'a': 1}) }}",
    "format method by a variable": "{% set f = '{:150000000}'.format %}{{ f('x') }}",
    "format filter": "{{ '%150000000s'|format('x') }}",
    "ljust": "{{ 'x'.ljust(150000000) }}",
    "rjust": "{{ 'x'.rjust(150000000) }}",
    "center": "{{ 'x'.center(150000000) }}",
    "zfill": "{{ 'x'.zfill(150000000) }}",
    "center of bytes": "{{ 'x'.encode().center(150000000)|length }}",
    "bytes of a number": "{{ (7).to_bytes(150000000, 'big')|length }}",
    "expandtabs": "{{ '\t'.expandtabs(150000000) }}",
    "translate": "{{ big.translate({97: big}) }}",
    "replace": "{{ big.replace('a', big) }}",
    "replace nothing": "{{ big.replace('', big) }}",
    "join": "{{ big.join(r) }}",
    "join of a generator": "{{ ''.join(r|map(attribute='none', default=big)) }}",
    "join of a long separator and a generator": "{{ big.join(r|map('string')) }}",
    "split": "{{ ('a ' * 10**5).split()|length }}{{ ('a ' * 10**6 ~ '')[:10**6].split('a')|length }}",
    "center filter": "{{ 'x'|center(150000000) }}",
    "indent filter": "{{ big.replace('a', '\n')|indent(150000) }}",
    "indent filter with a text": "{{ ('\nx' * 10**5)|indent(big) }}",
    "replace filter": "{{ big|replace('a', big) }}",
    "join filter": "{{ r|join(big) }}",
    "join filter of a generator": "{{ r|map('string')|join(big) }}",
    "join filter of a default": "{{ r|map(attribute='none', default=big)|join }}",
    "list of letters": "{{ (big ~ big ~ big)|list|length }}",
    "list of a generator": "{{ r|map(attribute='none', default=big)|list|length }}",
    "wordwrap filter": "{{ ('a ' * 10**4)|wordwrap(1, wrapstring=big) }}",
    "batch filter": "{{ r|batch(150000000, 'x')|first|length }}",
    "slice filter": "{{ r|slice(150000000)|list|length }}",
    "tojson filter": "{{ [1]|tojson(indent=150000000) }}",
    "tojson filter with separators": "{{ r|tojson(separators=(big, big)) }}",
    "urlize filter": "{{ ('http://a.de ' * 1000)|urlize(rel=big) }}",
    "doubling by +": DOUBLE.replace("DOUBLED", "ns.x + ns.x"),
    "doubling by ~": DOUBLE.replace("DOUBLED", "ns.x ~ ns.x"),
    "doubling by *": DOUBLE.replace("DOUBLED", "ns.x * 2"),
    "doubling by a format": DOUBLE.replace("DOUBLED", "'%s%s' % (ns.x, ns.x)"),
    "doubling by join": DOUBLE.replace("DOUBLED", "[ns.x, ns.x]|join"),
    "doubling by replace": DOUBLE.replace("DOUBLED", "ns.x.replace('a', 'aa')"),
    "doubling by a list": DOUBLE.replace("DOUBLED", "[ns.x, ns.x]"),
    "doubling by a tuple": DOUBLE.replace("DOUBLED", "(ns.x, ns.x)"),
    "doubling by an object": DOUBLE.replace("DOUBLED", "{'a': ns.x, 'b': ns.x}"),
    "doubling by dict": DOUBLE.replace("DOUBLED", "dict(a=ns.x, b=ns.x)"),
    "doubling by +, of lists": DOUBLE.replace("'ab'", "[1]").replace("DOUBLED", "ns.x + ns.x"),
    "doubling by a macro": "{% macro d(s) %}{{ s }}{{ s }}{% endmacro %}" + DOUBLE.replace("DOUBLED", "d(ns.x)"),
    "doubling by a block": "{% set ns = namespace(x='ab') %}{% for a in r %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}"
    "{% set ns.x = y %}{% endfor %}",
    "doubling by a call block": "{% macro twice() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call twice() %}" * 14
    + "x" * 1000
    + "{% endcall %}" * 14,
    "slices that are kept": DOUBLE.replace("'ab'", "[]").replace("DOUBLED", "ns.x + [big[1:]]"),
    "literal text in a block": "{% set x %}{% for a in r %}" + "x" * 10_000 + "{% endfor %}{% endset %}",
    "literal text in a macro": "{% macro m() %}" + "x" * 10_000 + "{% endmacro %}{% set x %}"
    "{% for a in r %}{{ m() }}{% endfor %}{% endset %}",
    "output": "{% for a in r %}{{ big }}{% endfor %}",
    "output of a list": "{% set x = [big] * 3 %}{{ x }}{{ x }}",
}


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_sandbox, "MAX_CHARACTERS", 1_000_000)


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("source", GROWING.values(), ids=GROWING.keys())
def test_what_grows_without_bound_is_stopped_before_it_takes_memory(source: str) -> None:
    variables = {"big": "a" * 200_000, "r": list(range(1000))}
    tracemalloc.start()
    try:
        with pytest.raises(EndlessError, match="it makes more than"):
            rendered(source, **variables)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.parametrize(
    "source", ["{{ 10 ** (10 ** 9) }}", DOUBLE.replace("'ab'", "3").replace("DOUBLED", "ns.x * ns.x")]
)
def test_numbers_stay_small(source: str) -> None:
    with pytest.raises(EndlessError, match="it computes a number that is too large"):
        rendered(source, r=list(range(100)))


@pytest.mark.parametrize(
    "source",
    [
        "{% set a = namespace() %}{% set a.x = a %}",
        "{% set a = namespace() %}{% set b = [a] %}",
        "{% set a = namespace() %}{% set b = {'x': a} %}",
        "{% set a = namespace() %}{% set b = dict(x=a) %}",
        "{% set a = namespace() %}{% set b = namespace(x=a) %}",
    ],
)
def test_what_can_change_stands_in_no_other_value(source: str) -> None:
    with pytest.raises(EndlessError, match="it puts a namespace into another value"):
        rendered(source)


def test_a_long_conversation_is_within_the_bounds() -> None:
    source = (
        "{% set ns = namespace(seen=[], text='') %}{% for m in messages %}"
        "{% set ns.seen = ns.seen + [m.role] %}{% set content = m.content|trim %}"
        "{% if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\n' ~ content.replace('\r', '') + '<|im_end|>\n' }}"
        "{{ messages|selectattr('role', 'equalto', 'user')|list|length if loop.last }}{% endfor %}"
    )
    messages = [{"role": "user", "content": "x" * 16_000} for _ in range(64)]  # a million letters
    assert len(rendered(source, messages=messages)) > 64 * 16_000


ORDINARY = [
    "{{ [1, 'a', (2, 3)] }} {{ {'a': [1]} }} {{ (1, 2)[0] }} {{ [1, 2, 3][1:] }} {{ 'abc'[::-1] }}",
    "{{ 'a' ~ 1 ~ none ~ [2] }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 1 + 2.5 }}",
    "{{ '%5.2f|%-4s|%%' % (1.5, 'x') }} {{ '%(a)s' % {'a': 1} }} {{ '%*d' % (5, 1) }} {{ 7 % 4 }}",
    "{{ '{:>5}|{a!r}'.format(1, a='b') }} {{ '{:{}}'.format('x', 3) }} {{ '%s-%s'|format('a', 'b') }}",
    "{{ 'x'.center(5, '-') }} {{ 'a\tb'.expandtabs(4) }} {{ 'aXbX'.replace('X', 'yy') }} {{ '7'.zfill(3) }}",
    "{{ 'a b c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a\nb'.splitlines() }} {{ ', '.join(['a', 'b']) }}",
    "{{ ' x '.strip() }} {{ 'ab'.startswith('a') }} {{ 'a-b'.partition('-') }} {{ 'é'.encode() }} {{ 'A'.lower() }}",
    "{{ 'x'|center(5) }} {{ 'a\nb'|indent(2) }} {{ 'a\nb'|indent(width='> ', first=true) }}",
    "{{ 'aa'|replace('a', 'b', 1) }} {{ 'x & y'|e }} {{ 'a'|upper|lower|title }} {{ ' x '|trim }}",
    "{{ [1, 2]|join('-') }} {{ [{'a': 1}, {'a': 2}]|join(', ', attribute='a') }} {{ [1, 2]|map('string')|join('+') }}",
    "{{ [3, 1]|sort }} {{ 'cab'|list }} {{ [1, 2, 3]|batch(2, 'x')|list }} {{ [1, 2, 3]|slice(2)|list }}",
    "{{ messages|map(attribute='role')|unique|list }} {{ messages|groupby('role')|length }}",
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ undefined|default('d') }}",
    "{{ 'a long line of words'|wordwrap(6) }} {{ 'text'|truncate(3, true, '') }} {{ 'http://a.de'|urlize }}",
    "{{ {'b': 1, 'a': 2}|dictsort }} {{ {'a': 1}.items()|list }} {{ dict(a=1) }} {{ 5|string }} {{ '5'|int + 1 }}",
    "{% set ns = namespace(x=1, y=[]) %}{% for a in [1, 2] %}{% set ns.x = ns.x + a %}{% endfor %}{{ ns.x }}{{ ns.y }}",
    "{% macro m(a, b='z') %}<{{ a }}{{ b }}{{ caller() if caller }}>{% endmacro %}"
    "{{ m(1) }}{% call m(2) %}c{% endcall %}",
    "{% set x %}{% for a, b in [(1, 2), (3, 4)] if a > 1 %}{{ loop.index }}{{ a }}{% endfor %}{% endset %}{{ x }}",
    "{% set a, b = 1, [2] %}{{ a }}{{ b }}{% filter upper %}x{{ a }}{% endfilter %}{{ undefined }}{{ none }}",
    "{% for m in messages %}{{ m['role'] }}{{ m.content[:3] }}{{ loop.nextitem is defined }}{% endfor %}",
    "{{ namespace(a=1) }} {{ cycler('a', 'b').next() }} {% set j = joiner(', ') %}{{ j() }}{{ j() }}{{ range(3)|sum }}",
]


@pytest.mark.parametrize("source", ORDINARY)
def test_ordinary_templates_render_as_in_the_plain_sandbox(source: str) -> None:
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    assert rendered(source, messages=messages) == plain.from_string(source).render(messages=messages)


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
