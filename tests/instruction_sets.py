"""The instruction sets that this processor has, and the environment that keeps torch and oneDNN to each of them."""

from pathlib import Path

FORCED = {
    "SSE4.1": ("sse4_1", {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"}),
    "AVX2": ("avx2", {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}),
    "AVX-512": ("avx512bw", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "ATEN_CPU_CAPABILITY": "avx512"}),
    "as it comes": ("", {}),  # with bf16 or amx where there is one, or with what whoever runs the tests has forced
}


def instruction_sets() -> dict[str, dict[str, str]]:
    """Name → environment."""
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text().split() if cpu.exists() else []
    return {name: environment for name, (flag, environment) in FORCED.items() if not flag or flag in flags}
