#!/usr/bin/env bash
# Everything that needs a GPU, in one command and within nine minutes: builds for the GPU at hand, runs the tests that
# need one, runs the small ones again under compute-sanitizer, and measures. Needs CMake, ninja, nvcc and a host
# compiler, and nothing from a network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: bench/gpu.sh [--googletest DIR] [--results DIR] [--mib N[,N...]]

  --googletest DIR  sources of GoogleTest, where no package of it is installed (Debian: /usr/src/googletest)
  --results DIR     where the figures go, as <gpu>-<date>.json (docs/results)
  --mib N[,N...]    sizes of the decoded outputs (8,64,512,2048)
TEXT
}

googletest=
results=docs/results
sizes=8,64,512,2048
while (($#)); do
  case $1 in
    --googletest) googletest=$2 && shift 2 ;;
    --results) results=$2 && shift 2 ;;
    --mib) sizes=$2 && shift 2 ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

PATH=$PATH:/usr/local/cuda/bin
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
date=$(date -u +%F)
say "$gpu, commit $commit"

build=build/gpu
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=native -DECQ_BUILD_CUDA=ON \
  -DECQ_BUILD_TESTS=OFF -DECQ_BUILD_EXAMPLES=OFF -DECQ_BUILD_BENCHMARKS=OFF \
  ${googletest:+-DECQ_GOOGLETEST_SOURCE="$googletest"} >/dev/null
cmake --build "$build"

failed=()
say "Tests"
"$build/bin/test_cuda" --gtest_brief=1 | tee "$build/tests.log" || failed+=(tests)
# Where there is a GPU nothing may be left out.
if grep -q SKIPPED "$build/tests.log"; then failed+=("tests, skipped"); fi

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    say "compute-sanitizer, $tool"
    # What is damaged on purpose reads words that nobody wrote, within the stream's own bytes.
    timeout 60 compute-sanitizer --tool "$tool" --error-exitcode 3 "$build/bin/test_cuda" --gtest_brief=1 \
      --gtest_filter='*one_value*:*table_of_each_chunk*:*index_where_it_lies*' >"$build/$tool.log" 2>&1 ||
      { failed+=("$tool") && tail -20 "$build/$tool.log"; }
  done
else
  say "compute-sanitizer not found: skipped"
fi

say "Decoding"
"$build/bin/bench_cuda" --mib "$sizes" --date "$date" --commit "$commit" --json >"$build/decode.json" ||
  failed+=(bench_cuda)
mkdir -p "$results"
name=$(tr -cs '[:alnum:]' - <<<"$gpu" | sed 's/-*$//')
cp "$build/decode.json" "$results/$name-$date.json"
sed -nE 's/.*"workload": "([^"]*)", "coder": "([^"]*)", "mib": ([0-9]+), "bits": ([0-9.]+), "gb_per_s": ([0-9.]+), "of_copy": ([0-9.]+).*/\1|\2|\3 MiB|\4 bits|\5 GB\/s|\6 of a copy/p' \
  "$build/decode.json" | column -t -s'|'
say "Written to $results/$name-$date.json"
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2 && exit 1; }
