"""Jinja as transformers gives it to chat templates, with bounds.

Templates are programs of somebody else. They run in Jinja's immutable sandbox, on a budget:

* Loops, macro calls and ranges spend steps.
* Whatever a template makes (text, containers, the results of operators, methods and filters) spends characters when
  it is made. Nothing that was made can grow later. An operation whose result can be much larger than what it is made
  from is checked before it runs (see ``template_growth``).
* No value may be larger than the whole budget when it is written out, however often one part stands in it.

So a rendering ends, and holds no more than a few times ``MAX_CHARACTERS``. Time is bounded by steps only: a step may
search or compare a text of that size.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from cpspec_trt.text.template_growth import ELEMENT, of_filter, of_format, of_method, of_product, parts_of, size_of

MAX_STEPS = 500_000
MAX_CHARACTERS = 16 * 1024 * 1024
_MAX_BITS = 4096  # of a product or power


class RefusedError(jinja2.TemplateError):
    """The template called ``raise_exception``."""


class EndlessError(jinja2.TemplateError):
    """A bound was passed."""


def compile_template(source: str) -> jinja2.Template:
    """Compile a chat template.

    Raises:
        jinja2.TemplateSyntaxError: with the line.
        RecursionError: it is nested too deeply.
    """
    environment = _Environment()
    with _budget():  # constant parts are computed here
        return environment.from_string(environment.counted(source))


def render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """Render a template of ``compile_template`` within its bounds.

    Raises:
        RefusedError: the template refuses what it was given.
        EndlessError: it does not end.
        Exception: whatever else goes wrong in it.
    """
    pieces: list[str] = []
    written = 0
    with _budget():
        for piece in template.generate(variables):
            written += len(piece)
            _check(written <= MAX_CHARACTERS, _TOO_MUCH)
            pieces.append(piece)
    return "".join(pieces)


def line_of(fault: BaseException) -> int | None:
    """The innermost line of the template that a fault came through, which Jinja writes into the traceback."""
    line = None
    trace = fault.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class _Budget:
    """What one rendering may still spend."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._characters = MAX_CHARACTERS

    def spend(self, steps: int, characters: int = 0) -> None:
        self._steps -= steps
        self._characters -= characters
        _check(self._steps >= 0, f"it takes more than {MAX_STEPS} steps")
        _check(self._characters >= 0, _TOO_MUCH)

    def allow(self, size: int) -> None:
        """Refuse an operation that would make more than is left."""
        _check(size <= self._characters, _TOO_MUCH)

    def charge(self, value: Any) -> None:
        """Spend for a value that was made; its parts were paid for when they were made."""
        if isinstance(value, str | bytes):
            self.spend(0, len(value))
            return
        content = _content(value)
        parts = list(parts_of(content))
        if parts:
            _check(not any(isinstance(part, Namespace) for part in parts), "it puts a namespace into another value")
            size = size_of(content, MAX_CHARACTERS)
            _check(size <= MAX_CHARACTERS, _TOO_MUCH)
            self.spend(0, ELEMENT * len(parts) + size // ELEMENT)

    def watched(self, value: Any, between: int = 0) -> Any:
        """A generator spends for each value that is taken from it; anything else stays as it is."""
        return self._paying(value, between) if isinstance(value, Iterator) else value

    def _paying(self, values: Iterator[Any], between: int) -> Iterator[Any]:
        for value in values:
            self.spend(0, ELEMENT + between + size_of(_content(value), MAX_CHARACTERS))
            yield value


_BUDGET: ContextVar[_Budget] = ContextVar("budget")
_TOO_MUCH = f"it makes more than {MAX_CHARACTERS} characters"


@contextmanager
def _budget() -> Iterator[None]:
    token = _BUDGET.set(_Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def _content(value: Any) -> Any:
    """What is written out of a value: of a namespace, what it holds."""
    return object.__getattribute__(value, "_Namespace__attrs") if isinstance(value, Namespace) else value


class _Steps(Extension):
    """What rewritten templates call; renders the body of ``{% generation %}``, which marks a span for training only."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def step(self, literal: int) -> bool:
        """Pay for a step and the literal text in it."""
        _BUDGET.get().spend(1, literal)
        return True

    def made(self, value: Any) -> Any:
        """A value that was just made: the environment charges for what calls return."""
        return value

    def stored(self, value: Any) -> Any:
        """A value on its way into a namespace."""
        _check(not isinstance(value, Namespace), "it puts a namespace into another value")
        return value

    def joined(self, *values: Any) -> str:
        """The operator ``~``."""
        _BUDGET.get().allow(sum(size_of(_content(value), MAX_CHARACTERS) for value in values))
        return "".join(map(str, values))


class _Rewriter(NodeTransformer):
    """Makes loops and macros take steps, and sends what a template makes through calls, which are charged for."""

    def __init__(self, steps: _Steps) -> None:
        self._steps = steps

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        """The node to stand in the place of ``node``, whose parts are rewritten first."""
        self.generic_visit(node)
        match node:
            case nodes.For() | nodes.Macro() | nodes.CallBlock():
                node.body.insert(0, nodes.ExprStmt(self._step(node)).set_lineno(node.lineno))
                if isinstance(node, nodes.For) and node.test is not None:  # elements that are filtered out
                    node.test = nodes.And(self._step(None), node.test).set_lineno(node.lineno)
            case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load") | nodes.Getitem(arg=nodes.Slice()):
                return self._call("made", [node], node)
            case nodes.Concat():
                return self._call("joined", list(node.nodes), node)
            case nodes.Assign() if isinstance(node.target, nodes.NSRef) or node.target.find(nodes.NSRef):
                node.node = self._call("stored", [node.node], node)
        return node

    def _step(self, owner: nodes.Node | None) -> nodes.Call:
        literal = sum(len(data.data) for data in owner.find_all(nodes.TemplateData)) if owner is not None else 0
        return self._call("step", [nodes.Const(literal)], owner)

    def _call(self, name: str, arguments: list[Any], owner: nodes.Node | None) -> nodes.Call:
        return self._steps.call_method(name, arguments, lineno=owner.lineno if owner is not None else None)


class _Environment(ImmutableSandboxedEnvironment):
    """The environment transformers gives to chat templates, with bounds."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Steps, "jinja2.ext.loopcontrols"], finalize=_output
        )
        self.filters["tojson"] = _tojson
        del self.filters["pprint"]  # as large as the product of width and depth
        for name, function in self.filters.items():
            self.filters[name] = _bounded(name, function)
        self.globals["raise_exception"] = _refuse
        self.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self.globals["range"] = _counted_range
        del self.globals["lipsum"]  # random text

    def counted(self, source: str) -> nodes.Template:
        """Parse ``source`` and make it spend its budget."""
        steps = self.extensions[_Steps.identifier]
        assert isinstance(steps, _Steps)
        tree = _Rewriter(steps).visit(self.parse(source))
        assert isinstance(tree, nodes.Template)
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Bound what ``*``, ``**`` and ``%`` can make; charge for what all of them and ``+`` made."""
        budget = _BUDGET.get()
        if operator == "*":
            budget.allow(of_product(left, right))
        if operator == "%" and isinstance(left, str | bytes):
            budget.allow(of_format(left, right))
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            _check(bits <= _MAX_BITS, "it computes a number that is too large")
        result = super().call_binop(context, operator, left, right)
        budget.charge(result)
        return result

    def call(self, context: Any, function: Any, /, *arguments: Any, **named: Any) -> Any:
        """Bound what a method can make; charge for what any call made."""
        budget = _BUDGET.get()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str | bytes | int):
            given = {name: value for name, value in named.items() if not name.startswith("_")}  # Jinja's own
            budget.allow(of_method(function.__name__, owner, arguments, given))
        between = len(owner) if isinstance(owner, str | bytes) else 0
        result = super().call(context, function, *(budget.watched(value, between) for value in arguments), **named)
        budget.charge(result)
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Bound what ``str.format`` can make."""
        function = super().wrap_str_format(value)
        if function is None:
            return None

        @functools.wraps(function)
        def bounded(*arguments: Any, **named: Any) -> str:
            _BUDGET.get().allow(of_format(value.__self__, (arguments, named)))
            return function(*arguments, **named)

        return bounded


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is checked before it runs and charged for what it made."""
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0  # the context, say, comes before the value

    @functools.wraps(function)
    def bounded(*arguments: Any, **named: Any) -> Any:
        budget, (value, *rest) = _BUDGET.get(), arguments[skipped:]
        budget.allow(of_filter(name, (value, *rest), named))
        between = sum(len(part) for part in (*rest, *named.values()) if isinstance(part, str))
        result = function(*arguments[:skipped], budget.watched(value, between), *rest, **named)
        budget.charge(result)
        return result

    return bounded


@jinja2.pass_context
def _output(context: Any, value: Any) -> Any:
    """What ``{{ … }}`` writes is made there, unless it is text already."""
    _BUDGET.get().spend(0, size_of(_content(value), MAX_CHARACTERS))
    return value


def _check(holds: bool, fault: str) -> None:
    if not holds:
        raise EndlessError(fault)


def _counted_range(*bounds: int) -> range:
    found: range = safe_range(*bounds)
    _BUDGET.get().spend(len(found))
    return found


def _refuse(message: str) -> NoReturn:
    raise RefusedError(message)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON as it is: Jinja's own filter escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
