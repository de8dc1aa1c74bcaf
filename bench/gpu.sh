#!/usr/bin/env bash
# Runs everything that needs a GPU, the most informative first: where a GPU is lent for minutes, the figures so far
# remain whatever ends the run. Needs no network, and nvcc, CMake and ninja only if binaries built elsewhere do not run.
# shellcheck disable=SC2317  # stages are called by their names
set -uo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

usage() {
  cat <<'TEXT'
usage: bench/gpu.sh [options] [stage...]

stages, in the order in which they are run by default:
  headline    ten figures, each compared with the CPU's bytes
  profile     seven kernels under Nsight Compute (ncu), as a whole and by instruction
  tests       the tests labelled gpu, one process per suite, some at a time
  layers      layers of a language model decoded ahead of cuBLAS, and a kernel of one's own
  others      all other figures
  peers       nvCOMP on the same bytes, where Python has the package nvidia-nvcomp
and those that have to be asked for:
  build       builds the programs that all of them run, for --arch; needs no GPU. To be carried to where one is
  sanitizers  the tests under compute-sanitizer: memcheck, racecheck, initcheck, synccheck

options:
  --results DIR     where everything goes (docs/results/<gpu>-<date>); what lies there stays
  --seconds N       limit for the whole run (540)
  --binaries DIR    programs built before (build/gpu/bin); those that are missing or do not run here are built here
  --arch N          compute capability to build for (build: 90; else that of the GPU at hand)
  --mib N[,N...]    sizes of the other figures (64,512)
  --googletest DIR  sources of GoogleTest, where no package of it is installed (Debian: /usr/src/googletest); without
                    either there are no tests
  --commit TEXT     what is measured, where git does not know (also: environment variable ECQ_COMMIT)
TEXT
}

results=
seconds=540
carried=$PWD/build/gpu/bin
arch=
sizes=64,512
googletest=
commit=${ECQ_COMMIT:-}
stages=()
path_of() { (cd "$called_from" && realpath -m -- "$1"); }
while (($#)); do
  case $1 in
    -h | --help) usage && exit ;;
    build | headline | profile | tests | layers | others | peers | sanitizers) stages+=("$1") && shift && continue ;;
  esac
  (($# > 1)) || { usage >&2 && exit 2; }
  case $1 in
    --results) results=$(path_of "$2") ;;
    --seconds) seconds=$2 ;;
    --binaries) carried=$(path_of "$2") ;;
    --arch) arch=$2 ;;
    --mib) sizes=$2 ;;
    --googletest) googletest=$(path_of "$2") ;;
    --commit) commit=$2 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done
[[ $seconds =~ ^[0-9]+$ ]] || { usage >&2 && exit 2; }
((${#stages[@]})) || stages=(headline profile tests layers others peers)

say() { printf '==> [%3d s] %s\n' "$SECONDS" "$*"; }
left() { echo $((seconds - SECONDS)); }
# within <seconds> <command>...: runs a command no longer than that, nor than the time left for all. It runs in the
# background, since bash hears no signal while it waits in the foreground.
child=
within() {
  local most=$1 status
  shift
  ((most <= $(left))) || most=$(left)
  timeout -k 5 $((most > 1 ? most : 1)) "$@" &
  child=$!
  wait "$child"
  status=$?
  child=
  return "$status"
}
ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -1; }

PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64
[[ -n $commit ]] || commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
date=$(date -u +%F)
programs=(bench_cuda test_cuda example_layers example_decode_in_kernel)

# ---- building

built_here=$PWD/build/gpu-here
# configure <folder> <architecture>: links so that programs also run on another machine, whose C++ library is older.
configure() {
  command -v nvcc >/dev/null || { echo "nvcc not found" && return 1; }
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES="$2" -DECQ_BUILD_CUDA=ON \
    -DECQ_BUILD_TESTS=OFF -DECQ_BUILD_TOOL=OFF -DECQ_BUILD_EXAMPLES=OFF -DECQ_BUILD_BENCHMARKS=OFF \
    -DECQ_USE_CCACHE=ON -DECQ_GOOGLETEST_SOURCE="${googletest:-OFF}" \
    -DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc -s" 2>&1
}

# find_program <name>: sets $program to one that runs here, or fails and says why in $outcome. It takes one that was
# carried here if it is for this device, and builds one otherwise.
probed=
configured=
find_program() {
  if [[ -z $probed ]]; then
    probed=no
    if [[ ! -x $carried/bench_cuda ]]; then
      say "No binaries in $carried: building here"
    elif within 60 "$carried/bench_cuda" --probe; then
      probed=yes
    else
      say "The binaries in $carried do not run on this machine: building here"
    fi
  fi
  program=$carried/$1
  if [[ $probed == yes && -x $program ]]; then return; fi
  program=$built_here/bin/$1
  if [[ -z $configured ]]; then
    configured=no
    rm -rf "${built_here:?}/bin"
    if configure "$built_here" "${arch:-native}"; then configured=yes; fi
  fi
  if [[ $configured == no ]]; then
    outcome="$1 is not built: could not be configured"
    return 1
  fi
  say "Building $1"
  within 400 cmake --build "$built_here" --target "$1" 2>&1 && [[ -x $program ]] && return
  outcome="$1 is not built"
  return 1
}

stage_build() {
  local name begun=$SECONDS
  seconds=1000000
  configure "$PWD/build/gpu" "${arch:-90}-real" || { outcome="not configured" && return 1; }
  # If one does not compile, the others remain. Stale programs would be measured for new ones.
  rm -rf build/gpu/bin
  cmake --build build/gpu --target "${programs[@]}" -- -k 0 2>&1
  for name in "${programs[@]}"; do
    [[ -x build/gpu/bin/$name ]] || outcome="without $name"
  done
  ls -l build/gpu/bin
  [[ -x build/gpu/bin/bench_cuda ]] || { outcome="bench_cuda is not built" && return 1; }
  say "$(du -sk build/gpu/bin | cut -f1) KiB in build/gpu/bin, built in $((SECONDS - begun)) s on $(nproc) cores"
  [[ $outcome == complete ]]
}

# ---- measuring

# bench <which rows> <most seconds>: measures them and writes <which rows>.json.
bench() {
  local rows=$1 most=$2
  shift 2
  find_program bench_cuda || return
  # The last row may take some seconds longer than the time in which it begins.
  ((most <= $(left) - 5)) || most=$(($(left) - 5))
  new_file "$rows.json"
  within $((most + 10)) "$program" --rows "$rows" --seconds "$most" --json "$results/$rows.json" \
    --note "date=$date" --note "commit=$commit" --note "driver=$driver" \
    --note "clocks=$clock multiprocessors, $memory_clock memory at most" "$@" ||
    { outcome="some rows failed, or its time was over" && return 1; }
}

stage_headline() { bench headline 120; }
stage_others() { bench others 1000 --mib "$sizes"; }

# A row of bench_cuda, and the kernel to profile, after launches that warm up.
profiles=(
  'dequantise int8, 3 bits, a layer tans, 2^13 a chunk|decode_kernel'
  'dequantise int8, 3 bits, a layer tans, narrow pairs, 2^13 a chunk|decode_kernel'
  'dequantise int8, 3 bits, a matrix tans, 2^13 a chunk|decode_kernel'
  'decode BF16 Gaussian rans_direct, pairs, 64 MiB|decode_kernel'
  'decode FP8 N(0, 1) tans, pairs, 64 MiB|decode_kernel'
  'encode bytes, 3 bits rans, 64 MiB|encode_kernel'
  'quantise BF16 N(0, 0.02) lambda 14.5, 64 MiB|quantize_kernel'
)
stage_profile() {
  local one missing=0
  command -v ncu >/dev/null || { outcome="left out: ncu not found" && return 1; }
  find_program bench_cuda || return
  new_file profile.txt
  new_file profile-instructions.csv
  for one in "${profiles[@]}"; do
    say "ncu: ${one%|*}"
    # The clocks stay as they are: they may be someone else's, too.
    within 40 ncu --set full --clock-control none --kernel-name "regex:${one#*|}" --launch-skip 2 --launch-count 1 \
      --kill yes --export "$scratch/report" --force-overwrite "$program" --in-process --only "${one%|*}" --mib 64 \
      >"$scratch/output" 2>&1
    within 20 ncu --import "$scratch/report.ncu-rep" --print-details all >"$scratch/profile" 2>&1
    grep -q Duration "$scratch/profile" || { missing=$((missing + 1)) && tail -5 "$scratch/output" "$scratch/profile"; }
    { printf '\n#### %s\n' "${one%|*}" && cat "$scratch/profile"; } >>"$results/profile.txt"
    { printf '\n#### %s\n' "${one%|*}" && within 20 ncu --import "$scratch/report.ncu-rep" --page source --csv; } \
      >>"$results/profile-instructions.csv" 2>&1
    rm -f "$scratch/report.ncu-rep"
  done
  ((missing == 0)) || { outcome="$missing of ${#profiles[@]} kernels without a profile" && return 1; }
}

# by_suite <log> <most seconds> <command>...: runs test_cuda by that command. Each suite has its own process, since a
# kernel's fault fails everything after it in a process. Some run at a time, since most of their time is the host's.
# Counts suites that pass in $passed, and names those that fail in $failures.
by_suite() {
  local log=$1 most=$2 suite status
  shift 2
  passed=0
  failures=()
  rm -rf "$scratch/suites"
  mkdir "$scratch/suites"
  "$program" --gtest_list_tests | sed -n 's/^\([^ ]*\.\)\( .*\)\?$/\1/p' >"$scratch/names"
  # shellcheck disable=SC2016  # for the shell that is started
  within "$most" xargs -a "$scratch/names" -P "$((($(nproc) + 1) / 2))" -I SUITE bash -c '
    log=$1/${2//\//_}
    timeout --foreground -k 5 60 "${@:3}" "--gtest_filter=$2*" >"$log" 2>&1
    echo $? >"$log.status"' bash "$scratch/suites" SUITE "$@" "$program"
  while read -r suite; do
    local one=$scratch/suites/${suite//\//_}
    status=$(cat "$one.status" 2>/dev/null || echo "no time left")
    cat "$one" >>"$results/$log" 2>/dev/null
    # With a GPU, nothing may be skipped. A sanitizer reports nothing for a suite that does not use it.
    if [[ $status == 0 ]] && ! grep -q 'SKIPPED' "$one"; then
      passed=$((passed + 1))
    elif grep -q '^\[  PASSED  \]' "$one" 2>/dev/null && grep -q 'before first instrumented API call' "$one"; then
      continue
    else
      failures+=("$suite ($status)")
      [[ ! -e $one ]] || tail -20 "$one"
    fi
  done <"$scratch/names"
}

stage_tests() {
  find_program test_cuda || return
  new_file tests.log
  by_suite tests.log 240 env
  outcome="$passed suites passed"
  ((${#failures[@]} == 0)) || { outcome+=", failed: ${failures[*]}" && return 1; }
  ((passed > 0)) || { outcome="no test was found" && return 1; }
}

stage_layers() {
  find_program example_decode_in_kernel || return
  within 30 "$program" || { outcome="example_decode_in_kernel failed" && return 1; }
  find_program example_layers || return
  new_file layers.json
  within 60 "$program" --json >"$scratch/layers" || { outcome="example_layers failed" && return 1; }
  tee "$results/layers.json" <"$scratch/layers" || { outcome="shown, but not written" && return 1; }
}

stage_peers() {
  python3 -c 'import nvidia.nvcomp' 2>/dev/null || { outcome="left out: Python has no nvidia-nvcomp" && return; }
  find_program bench_cuda || return
  within 30 "$program" --mib 256 --dump "$scratch" || { outcome="no data" && return 1; }
  new_file nvcomp.json
  within 60 python3 bench/cuda/nvcomp_peer.py --json "$results/nvcomp.json" "$scratch"/*.bytes ||
    { outcome="nvcomp_peer.py failed" && return 1; }
}

stage_sanitizers() {
  local tool said=() bad=0 each=$(($(left) / 4))
  command -v compute-sanitizer >/dev/null || { outcome="left out: compute-sanitizer not found" && return 1; }
  find_program test_cuda || return
  new_file sanitizers.log
  for tool in memcheck racecheck initcheck synccheck; do
    say "compute-sanitizer, $tool"
    # In some containers, compute-sanitizer refuses every device.
    by_suite sanitizers.log "$each" compute-sanitizer --tool "$tool" --error-exitcode 3
    said+=("$tool: $passed suites clean${failures[*]:+, not: ${failures[*]}}")
    bad=$((bad + ${#failures[@]}))
  done
  outcome=$(printf '%s; ' "${said[@]}")
  ((bad == 0))
}

# ---- the run

if [[ ${stages[*]} == build ]]; then
  outcome=complete
  stage_build || { echo "gpu.sh: build: $outcome" >&2 && exit 1; }
  exit
fi
gpu=$(ask name)
[[ -n $gpu ]] || { echo "gpu.sh: no GPU (nvidia-smi names none)" >&2 && exit 1; }
# Asked before a signal is trapped: Debian 12's bash aborts where a trap exits from a command substitution.
driver=$(ask driver_version)
clock=$(ask clocks.max.sm)
memory_clock=$(ask clocks.max.mem)
[[ -z $googletest || -e $googletest/CMakeLists.txt ]] ||
  { echo "gpu.sh: no sources of GoogleTest in $googletest" >&2 && exit 2; }
[[ -n $results ]] || results=$PWD/docs/results/$(tr -cs '[:alnum:]' - <<<"$gpu" | sed 's/-*$//')-$date
mkdir -p "$results" || echo "gpu.sh: what cannot be written to $results is shown here alone" >&2
scratch=$(mktemp -d)

# new_file <name>: renames what an earlier run left under that name.
new_file() { [[ ! -e $results/$1 ]] || mv --backup=numbered -- "$results/$1" "$results/$1.before"; }
# note <text>: adds a line to the summary, which remains whatever ends the run.
note() {
  echo "$*"
  echo "$*" >>"$results/summary.txt"
}

exec > >(trap '' TERM INT && exec tee -a "$results/log.txt") 2>&1
logging=$!
current=
finish() {
  trap - EXIT
  [[ -z $child ]] || kill "$child"
  [[ -z $current ]] || note "$current: stopped after $SECONDS s"
  rm -rf "$scratch"
  ls -l "$results"
  exec >&- 2>&-
  wait "$logging"
}
trap finish EXIT
trap 'exit 143' TERM INT

note "$gpu, commit $commit, $date, driver $driver, $clock at most"
failed=0
for current in "${stages[@]}"; do
  if (($(left) < 5)); then
    note "$current: no time left"
    failed=1
    continue
  fi
  say "$current"
  echo "$current: begun after $SECONDS s" >>"$results/summary.txt"
  outcome=complete
  "stage_$current" || failed=1
  note "$current: $outcome, after $SECONDS s"
done
current=
exit $failed
