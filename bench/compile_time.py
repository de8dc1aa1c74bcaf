#!/usr/bin/env python3
"""Measures the cost of compiling programs that use ecq: user seconds, and the size of their code.

Each program is compiled alone, and in the same run a program of twelve lines that uses <regex>: seconds depend on the
machine, so only the ratio counts. Programs that compile in a few seconds are compiled three times, and the least time
counts. Programs that need nvcc are left out where there is none.
"""
import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

YARDSTICK = """\
#include <iostream>
#include <regex>
#include <string>

int main(int count, char** values) {
  const std::regex word("([a-z]+)-([0-9]+)");
  for (int i = 1; i < count; ++i) {
    const std::string text = values[i];
    std::smatch found;
    if (std::regex_search(text, found, word)) std::cout << found[1] << ' ' << found[2] << '\\n';
  }
}
"""

COMPRESS = """\
#include <ecq/ecq.hpp>
#include <vector>

int main() {
  std::vector<float> weights(64 * 64, 0.5F);
  const ecq::matrix_view<const float> view(weights.data(), 64, 64);
  const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>{{.target_bits = 3.0}}.compress(view);
  return packed ? 0 : 1;
}
"""

DECOMPRESS = """\
#include <ecq/decompress.hpp>
#include <vector>

int main() {
  const ecq::packed_block packed;
  std::vector<float> weights(64 * 64);
  return ecq::decompress(ecq::cpu{}, packed, 0, ecq::matrix_view<float>(weights.data(), 64, 64)) ? 0 : 1;
}
"""

NAMED = """\
#include <ecq/block_decoder.hpp>
#include <ecq/entropy/rans/rans.hpp>
#include <vector>

int main() {
  const ecq::packed_block packed;
  std::vector<float> weights(64 * 64);
  const ecq::matrix_view<float> view(weights.data(), 64, 64);
  return ecq::decompress(ecq::cpu{}, packed, 0, view, ecq::coders<ecq::rans>) ? 0 : 1;
}
"""

BOTH = """\
#include <ecq/ecq.hpp>
#include <vector>

int main() {
  std::vector<float> weights(64 * 64, 0.5F);
  const ecq::matrix_view<float> view(weights.data(), 64, 64);
  const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>{{.target_bits = 3.0}}.compress(view);
  return packed && ecq::decompress(ecq::cpu{}, *packed, view) ? 0 : 1;
}
"""

BOTH_NAMED = BOTH.replace("*packed, view)", "*packed, view, ecq::coders<ecq::rans>)")

LOSSLESS = """\
#include <ecq/lossless.hpp>
#include <vector>

int main() {
  std::vector<ecq::bf16> weights(64 * 64);
  const ecq::matrix_view<ecq::bf16> view(weights.data(), 64, 64);
  const auto packed = ecq::lossless<ecq::bf16>{}.compress(ecq::cpu{}, view);
  return packed && ecq::decompress(ecq::cpu{}, *packed, view) ? 0 : 1;
}
"""

CHECKPOINT = """\
#include <ecq/checkpoint/compress_checkpoint.hpp>
#include <ecq/checkpoint/decompress_checkpoint.hpp>

int main() {
  const bool made = ecq::compress_checkpoint(ecq::cpu{}, "in", "packed", {}).has_value();
  return made && ecq::decompress_checkpoint(ecq::cpu{}, "packed", "out", {}).has_value() ? 0 : 1;
}
"""

DEVICE = """\
#include <ecq/cuda/decompress.cuh>

ecq::result<void> decode(const ecq::device_block& block, std::span<std::byte> out, const ecq::device_verdict& verdict) {
  return ecq::decompress<ecq::bf16>(ecq::cuda{}, block, out, verdict);
}
"""

DEVICE_NAMED = DEVICE.replace("out, verdict)", "out, verdict, ecq::coders<ecq::rans>)")

# Definitions that come with linking the CMake targets ecq::compiled and ecq::compiled_cuda.
COMPILED = "-DECQ_COMPILED"
COMPILED_CUDA = "-DECQ_COMPILED_CUDA"

PROGRAMS = [
    ("twelve lines with <regex>", YARDSTICK, ".cpp", ["-O2"]),
    ("#include <ecq/ecq.hpp>, and nothing else", "#include <ecq/ecq.hpp>\n", ".cpp", ["-O2"]),
    ("compress a matrix", COMPRESS, ".cpp", ["-O2"]),
    ("decompress a matrix", DECOMPRESS, ".cpp", ["-O2"]),
    ("decompress a matrix, its coder named", NAMED, ".cpp", ["-O2"]),
    ("compress and decompress, -O2", BOTH, ".cpp", ["-O2"]),
    ("compress and decompress, coder named", BOTH_NAMED, ".cpp", ["-O2"]),
    ("compress and decompress, -O3", BOTH, ".cpp", ["-O3"]),
    ("compress and decompress, -O0", BOTH, ".cpp", ["-O0"]),
    ("lossless BF16, both ways", LOSSLESS, ".cpp", ["-O2"]),
    ("checkpoints, both ways", CHECKPOINT, ".cpp", ["-O2"]),
    ("one verb on a device, sm_90", DEVICE, ".cu", ["-O2", "-arch=sm_90"]),
    ("one verb on a device, its coder named", DEVICE_NAMED, ".cu", ["-O2", "-arch=sm_90"]),
    ("compiled: #include <ecq/ecq.hpp>", "#include <ecq/ecq.hpp>\n", ".cpp", ["-O2", COMPILED]),
    ("compiled: compress a matrix", COMPRESS, ".cpp", ["-O2", COMPILED]),
    ("compiled: decompress a matrix", DECOMPRESS, ".cpp", ["-O2", COMPILED]),
    ("compiled: compress and decompress, -O2", BOTH, ".cpp", ["-O2", COMPILED]),
    ("compiled: lossless BF16, both ways", LOSSLESS, ".cpp", ["-O2", COMPILED]),
    ("compiled: checkpoints, both ways", CHECKPOINT, ".cpp", ["-O2", COMPILED]),
    ("compiled: one verb on a device", DEVICE, ".cu", ["-O2", "-arch=sm_90", COMPILED, COMPILED_CUDA]),
    ("compiled: one verb on a device, coder named", DEVICE_NAMED, ".cu", ["-O2", "-arch=sm_90", COMPILED]),
]


FEW_SECONDS = 5


def compiled(compiler, source, flags, include):
    """Returns user seconds and bytes of code."""
    made = source + ".o"

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([compiler, "-std=c++20", *flags, "-I" + include, "-c", source, "-o", made], check=True)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    seconds = once()
    if seconds < FEW_SECONDS:
        seconds = min(seconds, once(), once())
    if not shutil.which("size"):
        return seconds, None
    text = subprocess.run(["size", made], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()[0]
    return seconds, int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"), help="the host's compiler (c++)")
    parser.add_argument("--include", default=os.path.join(ROOT, "include"), help="the headers to measure")
    parser.add_argument("--only", default="", help="programs whose name this pattern finds")
    parser.add_argument("--json", help="where the figures go, for programs")
    options = parser.parse_args()
    os.environ["CCACHE_DISABLE"] = "1"
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    rows, yardstick = [], None
    print(f"{'program':44} {'user s':>7} {'ratio':>6} {'code KB':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, text, ending, flags) in enumerate(PROGRAMS):
            if number and not re.search(options.only, name):
                continue
            compiler = options.compiler if ending == ".cpp" else nvcc
            if compiler is None:
                print(f"{name:44} no nvcc: left out")
                continue
            source = os.path.join(folder, f"program{number}{ending}")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            seconds, code = compiled(compiler, source, flags, options.include)
            yardstick = yardstick or seconds
            row = {"program": name, "user_seconds": round(seconds, 2), "ratio": round(seconds / yardstick, 2), "code": code}
            rows.append(row)
            print(f"{name:44} {seconds:7.1f} {row['ratio']:6.2f} {'-' if code is None else round(code / 1000):>8}",
                  flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"compiler": options.compiler, "programs": rows}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
