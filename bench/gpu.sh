#!/usr/bin/env bash
# Everything that needs a GPU, in one command and within nine minutes: builds for the GPU at hand, runs the tests that
# need one, runs the small ones again under compute-sanitizer, and measures. Needs CMake, ninja, nvcc and a host
# compiler, and nothing from a network.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: bench/gpu.sh [options]

  --googletest DIR  sources of GoogleTest, where no package of it is installed (Debian: /usr/src/googletest); without
                    either nothing is tested, but all is measured
  --results DIR     where the figures go, as <gpu>-<date>.json and .txt (docs/results)
  --mib N[,N...]    sizes of the weights (8,64,512,2048)
  --seconds N       that all may take (540): tests and sanitizers first, then figures, the largest sizes last
  --quick           sizes 8,64, and of the sanitizers memcheck alone
  --commit TEXT     what is measured, where git does not know (also: environment variable ECQ_COMMIT)
TEXT
}

googletest=
results=docs/results
sizes=8,64,512,2048
seconds=540
tools=(memcheck racecheck initcheck synccheck)
commit=${ECQ_COMMIT:-}
while (($#)); do
  case $1 in
    --quick)
      sizes=8,64
      tools=(memcheck)
      shift
      continue
      ;;
    -h | --help) usage && exit ;;
  esac
  (($# > 1)) || { usage >&2 && exit 2; }
  case $1 in
    --googletest) googletest=$(cd "$called_from" && realpath -m -- "$2") ;;
    --results) results=$(cd "$called_from" && realpath -m -- "$2") ;;
    --mib) sizes=$2 ;;
    --seconds) seconds=$2 ;;
    --commit) commit=$2 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done

say() { printf '\033[1m==> [%3d s] %s\033[0m\n' "$SECONDS" "$*"; }
# within <seconds> <command>...: no longer than that, nor than what is left of all.
within() {
  local most=$((seconds - SECONDS > $1 ? $1 : seconds - SECONDS))
  shift
  timeout -k 5 $((most > 1 ? most : 1)) "$@"
}
# Whether a log of compute-sanitizer has a finding, whose details are set in, or a test that failed.
has_finding() { grep -qE '^=========  +[^ ]|: Failure$' "$1"; }
ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -1 || true; }

PATH=$PATH:/usr/local/cuda/bin
gpu=$(ask name)
[[ -n $gpu ]] || { echo "gpu.sh: no GPU (nvidia-smi names none)" >&2 && exit 1; }
[[ -z $googletest || -e $googletest/CMakeLists.txt ]] ||
  { echo "gpu.sh: no sources of GoogleTest in $googletest" >&2 && exit 2; }
[[ -n $commit ]] || commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
date=$(date -u +%F)
say "$gpu, commit $commit"

build=build/gpu
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=native -DECQ_BUILD_CUDA=ON \
  -DECQ_BUILD_TESTS=OFF -DECQ_BUILD_EXAMPLES=OFF -DECQ_BUILD_BENCHMARKS=OFF \
  -DECQ_GOOGLETEST_SOURCE="${googletest:-OFF}" >"$build/configure.log" ||
  { cat "$build/configure.log" >&2 && exit 1; }
# What does not build must not keep the rest from being measured, nor be measured as it was before.
failed=()
rm -f "$build"/bin/*
within $((seconds > 240 ? seconds - 120 : seconds)) cmake --build "$build" -- -k 0 || failed+=(build)

declare -A outcome
if [[ ! -x $build/bin/test_cuda ]]; then
  outcome[tests]="not built"
  failed+=("tests not built")
else
  say "Tests"
  outcome[tests]=passed
  within 120 "$build/bin/test_cuda" 2>&1 | tee "$build/tests.log" || outcome[tests]=failed
  # Where there is a GPU nothing may be left out.
  if grep -q SKIPPED "$build/tests.log"; then outcome[tests]=skipped; fi
  [[ ${outcome[tests]} == passed ]] || failed+=("tests ${outcome[tests]}")

  # However long building took, figures get half of what is left.
  each=$(((seconds - SECONDS) / 2 / ${#tools[@]}))
  for tool in "${tools[@]}"; do
    if ! command -v compute-sanitizer >/dev/null; then
      say "compute-sanitizer not found: skipped"
      break
    fi
    say "compute-sanitizer, $tool"
    # Tests that launch thousands of kernels would take minutes; what is damaged on purpose reads words that nobody
    # wrote, within the stream's own bytes.
    status=0
    within $((each < 40 ? each : 40)) compute-sanitizer --tool "$tool" --error-exitcode 3 "$build/bin/test_cuda" \
      --gtest_filter='-*rejects_what_the_host_rejects*' >"$build/$tool.log" 2>&1 || status=$?
    # In some containers it refuses every device.
    if grep -q 'Device not supported' "$build/$tool.log"; then
      outcome[$tool]="skipped: device not supported"
    elif ((status == 0)); then
      outcome[$tool]=clean
    elif ((status == 124 || status == 137)) && ! has_finding "$build/$tool.log"; then
      outcome[$tool]="clean as far as it came: out of time"
    else
      outcome[$tool]=failed && failed+=("$tool") && tail -20 "$build/$tool.log"
    fi
    echo "${outcome[$tool]}"
  done
fi

if [[ -x $build/bin/example_decode_in_kernel ]]; then
  say "Example: decoding in a kernel of one's own"
  within 30 "$build/bin/example_decode_in_kernel" || failed+=(example_decode_in_kernel)
fi

# A program of NVIDIA's own as a peer, on the same bytes, where Python has its package.
nvcomp=no
if python3 -c 'import nvidia.nvcomp' 2>/dev/null; then nvcomp=yes; fi

name=$(tr -cs '[:alnum:]' - <<<"$gpu" | sed 's/-*$//')
mkdir -p "$results"
if [[ -x $build/bin/bench_cuda ]]; then
  budget=$((seconds - SECONDS - 5))
  if [[ $nvcomp == yes ]]; then budget=$((budget - 30)); fi
  if [[ -x $build/bin/example_layers ]]; then budget=$((budget - 20)); fi
  say "Measuring, $budget seconds at most"
  notes=(--note "date=$date" --note "commit=$commit" --note "driver=$(ask driver_version)"
    --note "clocks=$(ask clocks.max.sm) multiprocessors, $(ask clocks.max.mem) memory at most")
  for key in "${!outcome[@]}"; do notes+=(--note "$key=${outcome[$key]}"); done
  within $((budget + 5)) "$build/bin/bench_cuda" --mib "$sizes" --seconds "$budget" --json "$results/$name-$date.json" \
    "${notes[@]}" | tee "$results/$name-$date.txt" || failed+=(bench_cuda)
else
  failed+=("figures: bench_cuda not built")
fi
if [[ -x $build/bin/example_layers ]]; then
  say "Layers decoded ahead of cuBLAS"
  within 60 "$build/bin/example_layers" --json >"$build/layers.json" || failed+=(example_layers)
  if [[ -s $build/layers.json ]]; then tee "$results/$name-$date-layers.json" <"$build/layers.json"; fi
fi
if [[ $nvcomp == no ]]; then
  say "nvCOMP not found (Python package nvidia-nvcomp): skipped"
elif [[ -x $build/bin/bench_cuda ]]; then
  say "nvCOMP's ANS on the same bytes"
  rm -f "$build"/*.bytes
  within 15 "$build/bin/bench_cuda" --mib 256 --dump "$build" || failed+=("dumping data")
  within 60 python3 bench/cuda/nvcomp_peer.py --json "$results/$name-$date-nvcomp.json" "$build"/*.bytes |
    tee -a "$results/$name-$date.txt" || failed+=(nvcomp_peer.py)
  rm -f "$build"/*.bytes
fi
say "Results:"
compgen -G "$results/$name-$date*" || failed+=("no results")
((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2 && exit 1; }
