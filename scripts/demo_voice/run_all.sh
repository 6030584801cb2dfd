#!/usr/bin/env bash
# All steps in one pass: from the grammar to a measured checkpoint. About an hour on two cores.
#
#   WHISPER=/path/to/whisper scripts/demo_voice/run_all.sh
#
# Variables: WORK (intermediate files), OUT (the checkpoint), WHISPER (a CTranslate2 Whisper folder, or a model name that
# faster-whisper downloads), PYTHON, WORKERS (processes); for a small trial TRAINING, HELDOUT (sentences), CODEC_ARGS and
# TTS_ARGS (options of the training steps).
set -euo pipefail
cd "$(dirname "$0")/../.."

PYTHON=${PYTHON:-python3}
WORK=${WORK:-build/demo-voice}
OUT=${OUT:-$WORK/checkpoint}
WHISPER=${WHISPER:?set WHISPER to a Whisper model for the last step}
WORKERS=${WORKERS:-2}
TRAINING=${TRAINING:-3200}
HELDOUT=${HELDOUT:-48}
CODEC_ARGS=${CODEC_ARGS:---seconds 1300 --batch 4}
TTS_ARGS=${TTS_ARGS:---seconds 1300 --batch 32}
export OMP_NUM_THREADS=1

step() { "$PYTHON" -m "scripts.demo_voice.$1" --work "$WORK" "${@:2}"; }
parallel_step() {
    "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$WORKERS" \
        -m "scripts.demo_voice.$1" --work "$WORK" "${@:2}"
}

step prepare --training "$TRAINING" --heldout "$HELDOUT" --workers "$WORKERS"
step rvq --threads "$WORKERS"
# The options are words, on purpose unquoted.
# shellcheck disable=SC2086
parallel_step train_codec $CODEC_ARGS
# shellcheck disable=SC2086
parallel_step train_tts $TTS_ARGS
step build --out "$OUT"
step evaluate --checkpoint "$OUT" --out "$WORK/measurements.json" --whisper "$WHISPER" --sentences "$HELDOUT"
