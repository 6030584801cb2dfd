"""Jinja as transformers gives it to chat templates, with bounds.

Templates are programs of somebody else. They run in Jinja's immutable sandbox. Loops, macro calls and ranges spend a
budget of steps, output, products and powers are bounded, so that a template that does not end becomes an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range

MAX_STEPS = 500_000
MAX_CHARACTERS = 64 * 1024 * 1024
_MAX_POWER_BITS = 4096


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
    return environment.from_string(environment.counted(source))


def render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """Render a template of ``compile_template`` within its bounds.

    Raises:
        RefusedError: the template refuses what it was given.
        EndlessError: it does not end.
        Exception: whatever else goes wrong in it.
    """
    budget = _BUDGET.set(_Budget())
    pieces: list[str] = []
    length = 0
    try:
        for piece in template.generate(variables):
            length += len(piece)
            _check(length <= MAX_CHARACTERS, f"it writes more than {MAX_CHARACTERS} characters")
            pieces.append(piece)
    finally:
        _BUDGET.reset(budget)
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
    """Steps that one rendering may take."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise EndlessError(f"it takes more than {MAX_STEPS} steps")


_BUDGET: ContextVar[_Budget] = ContextVar("budget")


class _Steps(Extension):
    """Counts steps, and renders the body of ``{% generation %}``, which marks a span for training only."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def step(self) -> bool:
        _BUDGET.get().spend(1)
        return True

    def count(self, tree: nodes.Template) -> None:
        """Make every pass of a loop, every filtered element and every macro call take a step."""
        for loop in tree.find_all(nodes.For):
            loop.body.insert(0, nodes.ExprStmt(self.call_method("step")).set_lineno(loop.lineno))
            if loop.test is not None:
                loop.test = nodes.And(self.call_method("step"), loop.test).set_lineno(loop.lineno)
        for macro in tree.find_all(nodes.Macro):
            macro.body.insert(0, nodes.ExprStmt(self.call_method("step")).set_lineno(macro.lineno))
        for block in tree.find_all(nodes.CallBlock):
            block.body.insert(0, nodes.ExprStmt(self.call_method("step")).set_lineno(block.lineno))


class _Environment(ImmutableSandboxedEnvironment):
    """The environment transformers gives to chat templates, with bounds."""

    intercepted_binops = frozenset(["*", "**"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Steps, "jinja2.ext.loopcontrols"])
        self.filters["tojson"] = _tojson
        self.globals["raise_exception"] = _refuse
        self.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self.globals["range"] = _counted_range
        del self.globals["lipsum"]  # random text

    def counted(self, source: str) -> nodes.Template:
        """Parse ``source`` and count its steps."""
        tree = self.parse(source)
        steps = self.extensions[_Steps.identifier]
        assert isinstance(steps, _Steps)
        steps.count(tree)
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Bound what ``*`` and ``**`` can make."""
        if operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(sequence, str | list | tuple) and isinstance(times, int):
                    _check(len(sequence) * times <= MAX_CHARACTERS, "it repeats a value too often")
        elif isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() * right <= _MAX_POWER_BITS, "it computes a power that is too large")
        return super().call_binop(context, operator, left, right)


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
