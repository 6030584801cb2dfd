"""Step 4: train the Talker and the CodePredictor on the codes.

Cross-entropy on all 16 codes, plus auxiliary losses (phones, quantised features) whose heads are not shipped. Writes
WORK/talker.pt. Start several workers with torchrun.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configs import tts_config
from .history_noise import HistoryNoise
from .layout import CODE_DIM, CODEBOOK, GROUPS, TALKER_HIDDEN
from .reference import Qwen3TTSForConditionalGeneration
from .rvq import QUANTISER
from .talker_data import Batch, TalkerData
from .talker_forward import predictor_logits, predictor_states, talker_states
from .talker_init import initialise, unit_power
from .text_tokenizer import build_tokenizer
from .training import Budget, Worker, set_rate, split_by_shape, training_parser

TALKER = "talker.pt"
RATE, WARM_UP_STEPS, LEAST_RATE = 1.5e-3, 80, 0.02
FLAT_SHARE = 0.15  # of the budget before the cosine decay; none when training is resumed
PREDICTOR_WEIGHT, PHONE_WEIGHT, FEATURE_WEIGHT = 1.5, 0.15, 0.3
EARLY_PHONE_LAYER = 1  # phones are also read after this layer
FIRST_GROUP_WEIGHT, LAST_GROUP_WEIGHT = 1.6, 0.4
VALIDATION_BATCH = 16
REPORT_EVERY_STEPS, VALIDATE_EVERY_STEPS = 25, 200


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of a batch: first code (EOS included), codes 1 … 15 (plain and weighted by group), phones, features."""

    first_code: Tensor
    predictor: Tensor
    weighted_predictor: Tensor
    phones: Tensor
    features: Tensor

    def total(self, auxiliary: float) -> Tensor:
        """What is minimised; `auxiliary` scales the losses of the heads that are not shipped."""
        codes = self.first_code + PREDICTOR_WEIGHT * self.weighted_predictor
        return codes + auxiliary * (PHONE_WEIGHT * self.phones + FEATURE_WEIGHT * self.features)


class Objective(nn.Module):
    """The Talker with its auxiliary heads, and the losses over a batch."""

    def __init__(self, talker: nn.Module, codebooks: Tensor, phones: int, predictor_frames: int) -> None:
        super().__init__()
        self.talker = talker
        self.phone_head = nn.Linear(TALKER_HIDDEN, phones)
        self.early_phone_head = nn.Linear(TALKER_HIDDEN, phones)
        self.feature_head = nn.Linear(TALKER_HIDDEN, CODE_DIM)
        self._codebooks = codebooks
        self._predictor_frames = predictor_frames
        self._group_weights = torch.linspace(FIRST_GROUP_WEIGHT, LAST_GROUP_WEIGHT, GROUPS - 1)

    def _predictor_losses(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Mean cross-entropy of each group 1 … 15 [GROUPS - 1] over frames: hidden [N, H], codes [N, GROUPS]."""
        logits = predictor_logits(self.talker, predictor_states(self.talker, hidden, codes)).float()
        losses = F.cross_entropy(logits.reshape(-1, CODEBOOK), codes[:, 1:].reshape(-1), reduction="none")
        return losses.view(-1, GROUPS - 1).mean(0)

    def training_losses(self, batch: Batch, history: Tensor) -> Losses:
        """Losses with `history` [B, S, GROUPS] in place of the true past frames."""
        with torch.autocast("cpu", torch.bfloat16):
            states = talker_states(self.talker, batch.text, batch.codec, history, batch.is_frame)
            scored, follows = batch.next_code >= 0, batch.frame_follows()
            first = F.cross_entropy(self.talker.codec_head(states.final[scored]).float(), batch.next_code[scored])
            hidden, codes = states.final[follows], batch.next_frame[follows]
            phones, early = batch.next_phone[follows], states.layers[EARLY_PHONE_LAYER][follows]
            phone_loss = F.cross_entropy(self.phone_head(hidden).float(), phones)
            phone_loss = phone_loss + F.cross_entropy(self.early_phone_head(early).float(), phones)
            features = self._codebooks[torch.arange(GROUPS)[None], codes].sum(1)
            feature_loss = F.mse_loss(self.feature_head(hidden).float(), features)
            some = torch.randperm(len(hidden))[: self._predictor_frames]
            groups = self._predictor_losses(hidden[some], codes[some])
        return Losses(first, groups.mean(), (groups * self._group_weights).mean(), phone_loss, feature_loss)

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, float, float]:
        """(first-code cross-entropy, CodePredictor cross-entropy, first-code accuracy) on true frames."""
        with torch.autocast("cpu", torch.bfloat16):
            states = talker_states(self.talker, batch.text, batch.codec, batch.frames, batch.is_frame)
            scored, follows = batch.next_code >= 0, batch.frame_follows()
            logits, wanted = self.talker.codec_head(states.final[scored]).float(), batch.next_code[scored]
            predictor = self._predictor_losses(states.final[follows], batch.next_frame[follows]).mean()
        accuracy = (logits.argmax(-1) == wanted).float().mean()
        return F.cross_entropy(logits, wanted).item(), predictor.item(), accuracy.item()


def rate_factor(step: int, spent: float, flat: float) -> float:
    """Learning rate as a share of its peak: warm-up, flat, then half a cosine down to LEAST_RATE."""
    decay = 0.5 * (1 + math.cos(math.pi * max(0.0, (spent - flat) / (1 - flat))))
    return min(1.0, (step + 1) / WARM_UP_STEPS) * max(LEAST_RATE, decay)


def endless_batches(data: TalkerData, size: int, random: np.random.Generator) -> Iterator[Batch]:
    """Batches of training utterances, epoch after epoch."""
    if len(data.training) < size:
        raise SystemExit(f"{len(data.training)} training utterances do not fill a batch of {size}; lower --batch")
    weights = data.sampling_weights()
    while True:
        order = random.choice(data.training, len(data.training), p=weights)
        for start in range(0, len(order) - size + 1, size):
            yield data.batch(order[start : start + size], random)


def validate(objective: Objective, data: TalkerData, random: np.random.Generator) -> str:
    """One line about the held-out utterances."""
    chunks = [data.heldout[i : i + VALIDATION_BATCH] for i in range(0, len(data.heldout), VALIDATION_BATCH)]
    if not chunks:
        return "no held-out utterances to validate on"
    first, predictor, accuracy = np.mean([objective.validation(data.batch(chunk, random)) for chunk in chunks], 0)
    return f"held out: code 0 {first:.3f} (accuracy {accuracy:.3f}), codes 1-15 {predictor:.3f}"


@dataclass(frozen=True, slots=True)
class Training:
    """Everything one run needs."""

    model: Qwen3TTSForConditionalGeneration
    objective: Objective
    data: TalkerData
    noise: HistoryNoise
    worker: Worker
    budget: Budget
    batch: int
    resumed: bool

    def run(self, target: Path) -> None:
        """Train until the budget is spent and write the weights to `target`."""
        random = np.random.default_rng(2 + self.worker.rank)
        parameters = list(self.objective.parameters())
        self.worker.agree_on_weights(parameters)
        matrices, vectors = split_by_shape(parameters)
        groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.97))
        batches = endless_batches(self.data, self.batch, random)
        # The auxiliary heads are not saved, so a resumed run starts without them and without the flat part.
        flat, auxiliary = (0.0, 0.0) if self.resumed else (FLAT_SHARE, 1.0)
        step, recent = 0, []
        while (spent := self.worker.agree_on(self.budget.spent(step))) < 1:
            set_rate(optimiser, RATE * rate_factor(step, spent, flat))
            batch = next(batches)
            losses = self.objective.training_losses(batch, self.noise(batch.frames, batch.is_frame))
            optimiser.zero_grad()
            losses.total(auxiliary).backward()
            self.worker.average_gradients(parameters)
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            step += 1
            parts = (losses.first_code, losses.predictor, losses.phones, losses.features)
            recent.append([part.item() for part in parts])
            if step % REPORT_EVERY_STEPS == 0:
                first, predictor, phones, features = np.mean(recent, 0)
                shown = f"code 0 {first:.3f}, codes 1-15 {predictor:.3f}, phones {phones:.3f}, features {features:.3f}"
                self.worker.say(f"step {step}, {self.budget.elapsed():.0f} s: {shown}")
                recent.clear()
            if step % VALIDATE_EVERY_STEPS == 0 and self.worker.is_first:
                self.worker.say(validate(self.objective, self.data, random))
                torch.save(self.model.state_dict(), target)
        if self.worker.is_first:
            self.worker.say(
                f"{step} steps, {self.budget.elapsed():.0f} s; {validate(self.objective, self.data, random)}"
            )
            torch.save(self.model.state_dict(), target)


def main() -> None:
    """Train from the start values, or go on from --resume."""
    parser = training_parser(__doc__, batch=32)
    parser.add_argument(
        "--predictor-frames",
        type=int,
        default=160,
        help="frames per worker and step for the CodePredictor (default: 160)",
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    worker = Worker.join()
    torch.manual_seed(worker.rank)
    np.random.seed(worker.rank)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = build_tokenizer(Path(folder))
    model = Qwen3TTSForConditionalGeneration(tts_config(tokenizer))
    codebooks = unit_power(torch.load(args.work / QUANTISER)["codebooks"])
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    else:
        initialise(model.talker, codebooks)
    data = TalkerData(args.work, tokenizer)
    objective = Objective(model.talker, codebooks, len(data.phones), args.predictor_frames)
    noise = HistoryNoise(data.frames_of(data.training), codebooks[0])
    budget = Budget(args.seconds, args.steps)
    training = Training(model, objective, data, noise, worker, budget, args.batch, args.resume is not None)
    training.run(args.work / TALKER)


if __name__ == "__main__":
    main()
