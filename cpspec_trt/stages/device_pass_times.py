"""What a CodePredictor's rounds take on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_plans import RowParameters
from cpspec_trt.stages.device_verify import VerifyRound

_WARM, _TIMED = 3, 20


def measure_rounds(predictor: DeviceCodePredictor, rounds: Sequence[VerifyRound]) -> PassCosts:
    """Time each round's graph, all it holds: heads and draws are part of the pass's time, so a head takes none.

    The state of the frames and the cache hold garbage afterwards.

    Args:
        predictor: the CodePredictor.
        rounds: of 0, 1, 2, … drafts.
    """
    device, batch = predictor.device, predictor.batch
    first, last = device.event(), device.event()
    seconds = []
    for drafts, each in enumerate(rounds):
        device.synchronise()  # the plan may be written again
        each.plan(np.zeros(batch, np.int64), np.full(batch, drafts), RowParameters(batch))
        for number in range(_WARM + _TIMED):
            if number == _WARM:
                first.record()
            device.clear(predictor.state.last)  # so that every round has room for what it commits
            each.launch()
        last.record()
        device.synchronise()
        seconds.append(last.seconds_since(first) / _TIMED)
    rising = np.maximum.accumulate(seconds)  # more rows never take less: what says otherwise is noise
    return PassCosts(tuple(each.planned.rows for each in rounds), tuple(map(float, rising)), 0.0)
