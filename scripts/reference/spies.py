"""Watch a reference while it generates: how clear its choices are, and what passes between its parts.

At a near tie another correct program may choose the other code, or the other expert.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def greedy_margins() -> Iterator[list[float]]:
    """Watch ``torch.argmax``, through which transformers makes every greedy choice, on the first row of a batch.

    Yields a list that grows by one gap between the best and the second best logit per choice.
    """
    margins: list[float] = []
    argmax = torch.argmax

    def spy(values: torch.Tensor, *arguments: object, **keywords: object) -> torch.Tensor:
        if values.is_floating_point():
            best, second = values.topk(2).values[0].tolist()
            margins.append(best - second)
        return argmax(values, *arguments, **keywords)

    torch.argmax = spy
    try:
        yield margins
    finally:
        torch.argmax = argmax


@contextmanager
def routing_margins(model: torch.nn.Module) -> Iterator[list[float]]:
    """Watch every router of a model with experts.

    Yields a list that grows, per layer and pass, by the smallest gap of all rows between the router logits of the
    last expert chosen and of the best one left out.
    """
    margins: list[float] = []

    def spy(router: torch.nn.Module, _inputs: object, outputs: tuple[torch.Tensor, ...]) -> None:
        best = outputs[0].topk(router.top_k + 1).values
        margins.append(float((best[:, -2] - best[:, -1]).min()))

    routers = [module for module in model.modules() if type(module).__name__.endswith("TopKRouter")]
    hooks = [router.register_forward_hook(spy) for router in routers]
    try:
        yield margins
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def calls(owner: object, method: str) -> Iterator[list[tuple[tuple[Any, ...], Any]]]:
    """Collect the positional arguments and the result of every call of a method."""
    found: list[tuple[tuple[Any, ...], Any]] = []
    original = getattr(owner, method)

    def spy(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        found.append((arguments, result))
        return result

    setattr(owner, method, spy)
    try:
        yield found
    finally:
        delattr(owner, method)  # the class's own method shows again
