"""Under which conditions numbers were taken: without them nobody can repeat or compare a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import cpspec_trt
from cpspec_trt.devices.cuda import probe
from cpspec_trt.files.manifest import Manifest
from cpspec_trt.files.rebuild import ONNXRUNTIME
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.pipelines.speech import SpeechJob

_VERSIONS = ("onnxruntime", "tensorrt", "tensorrt-rtx-cu13", "cuda-bindings")


def contract_of(
    manifests: Mapping[str, Manifest],
    threads: int,
    run: Mapping[str, Any],
    jobs: Sequence[SpeechJob],
    texts: Sequence[str],
) -> dict[str, Any]:
    """Everything a reader must know.

    Args:
        manifests: of the engines that run, by component.
        threads: inside one engine pass.
        run: what was asked for (stage, frames, repetitions, synthetic configuration, acceptance …).
        jobs: the requests; none where frames are drawn at random.
        texts: what each of them says.
    """
    return {
        **run,
        "engines": {component: _engine(manifest) for component, manifest in manifests.items()},
        "threads": threads,
        "kernels": default_kernels().library.implementation,
        "requests": [
            {"text": text, "frames": job.max_frames, **job.sampling.to_json()}
            for job, text in zip(jobs, texts, strict=True)
        ],
        "versions": {"cpspec_trt": cpspec_trt.__version__, "python": platform.python_version(), **_versions()},
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": processor(),
            "cores": os.cpu_count(),
            "load_average": list(os.getloadavg()),
            "gpu": _gpu(manifests),
        },
    }


def processor() -> str:
    """The processor's name where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _engine(manifest: Manifest) -> dict[str, Any]:
    return {
        "model": manifest.model,
        "backend": manifest.backend,
        "backend_version": manifest.backend_version,
        "dtype": manifest.precision,
        "bytes": sum(file.bytes for file in manifest.files),
        "checkpoint": manifest.checkpoint_fingerprint,
    }


def _versions() -> dict[str, str]:
    found = {"numpy": np.__version__}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _gpu(manifests: Mapping[str, Manifest]) -> str | None:
    """The GPU's name, where an engine runs on one."""
    if all(manifest.backend == ONNXRUNTIME for manifest in manifests.values()):
        return None
    found = probe()
    return found if isinstance(found, str) else found.name
