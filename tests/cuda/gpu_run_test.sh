#!/usr/bin/env bash
# Runs bench/gpu.sh on the emulated device, interrupts each of its stages, and makes each kind of trouble.
# usage: gpu_run_test.sh <bench_cuda of the emulated device>
# shellcheck disable=SC2016  # what stands in quotes is for the scripts that are written here
set -euo pipefail
script=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../bench/gpu.sh")
bench=$(realpath "$1")
folder=$(mktemp -d)
export TMPDIR=$folder
trap 'rm -rf "$folder" || true' EXIT

# Tools and programs of a machine with a GPU.
mkdir "$folder/tools" "$folder/bin"
tool() { cat >"$folder/$1" && chmod +x "$folder/$1"; }
tool tools/nvidia-smi <<<'#!/bin/sh
echo "Emulated Device"'
tool tools/ncu <<<'#!/bin/sh
case $* in *--import*--page*) echo "\"SASS\"" ;; *--import*) echo "    Duration us 1" ;; *) sleep "${HOLD:-0.1}" ;; esac'
tool tools/compute-sanitizer <<<'#!/bin/sh
while [ "${1#--}" != "$1" ]; do case $1 in --tool | --error-exitcode) shift ;; esac; shift; done
case $2 in --gtest_filter=host.*) "$@" && echo "Target application terminated before first instrumented API call" && exit 255 ;; esac
exec "$@"'
ln -s "$bench" "$folder/bin/bench_cuda"
tool bin/test_cuda <<<'#!/bin/sh
case $1 in
  --gtest_list_tests) printf "Running main() from gtest_main.cc\nfirst.\n  test\ntyped/0.  # TypeParam = int\n  test\nhost.\n  test\n" ;;
  --gtest_filter="$FAULTY_SUITE"*) echo "a fault" && exit 1 ;;
  --gtest_filter=first.\*|--gtest_filter=typed/0.\*|--gtest_filter=host.\*) sleep "${HOLD:-0.1}" && echo "[  PASSED  ] 1 test." ;;
  *) exit 9 ;;
esac'
tool bin/example_decode_in_kernel <<<'#!/bin/sh
sleep "${HOLD:-0}" && echo decoded'
tool bin/example_layers <<<'#!/bin/sh
echo "{\"layers\": 4}"'
export PATH="$folder/tools:$PATH" FAULTY_SUITE=none

fail() { printf 'FAILED: %s\n' "$*" >&2 && cat "$folder/output" >&2 && exit 1; }
# run <results> <options>...: runs the script, and sets $status.
run() {
  local results=$1
  shift
  status=0
  "$script" --binaries "$folder/bin" --results "$results" --mib 1 --commit test "$@" >"$folder/output" 2>&1 || status=$?
}
has() { grep -qE "$2" "$1" || fail "$1 lacks: $2"; }
rows_of() { python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["rows"]))' "$1"; }

# All stages, with as many of the other rows as time allows.
run "$folder/whole" --seconds 100 headline profile tests layers
((status == 0)) || fail "the whole run: $status"
for seconds in 8 20 60; do  # on a busy machine the first may end before the first row
  run "$folder/whole" --seconds "$seconds" others
  if ((status == 0 && $(rows_of "$folder/whole/others.json") > 0)); then break; fi
  rm -f "$folder/whole/others.json"
done
((status == 0)) || fail "the other rows: $status"
has "$folder/whole/summary.txt" '^headline: complete'
has "$folder/whole/summary.txt" '^profile: complete'
has "$folder/whole/profile-instructions.csv" 'SASS'
has "$folder/whole/summary.txt" '^tests: 3 suites passed,'
has "$folder/whole/summary.txt" '^layers: complete'
has "$folder/whole/headline.json" '"commit": "test"'
(($(rows_of "$folder/whole/headline.json") == 10)) || fail "not ten rows"
(($(rows_of "$folder/whole/others.json") > 0)) || fail "no other rows"
has "$folder/whole/others.json" 'no time left'
(($(find "$folder/whole" -type f | wc -l) <= 8)) || fail "more files than can be brought back"

# Sanitizers, into the same folder, whose files stay. They report nothing for a suite that uses no device.
run "$folder/whole" --seconds 60 sanitizers
((status == 0)) || fail "sanitizers: $status"
has "$folder/whole/summary.txt" 'memcheck: 2 suites clean; .*synccheck: 2 suites clean'
has "$folder/whole/summary.txt" '^headline: complete'
run "$folder/whole" --seconds 60 tests
[[ -s $folder/whole/tests.log && -s $folder/whole/tests.log.before ]] || fail "an earlier log is gone"

# begin <results> <stage>: starts $process, a session of its own, which has begun the stage and does not end it soon.
begin() {
  rm -f "$1/summary.txt"
  HOLD=60 setsid "$script" --binaries "$folder/bin" --results "$1" --mib 1 --seconds 100 "$2" >"$folder/output" 2>&1 &
  process=$!
  for ((i = 0; i < 1200; ++i)); do
    ! grep -qs "^$2: begun" "$1/summary.txt" || return 0
    sleep 0.05
  done
  fail "$2 does not begin"
}
# Kills a session, whatever groups its processes are in.
kill_session() {
  local stat fields
  for stat in /proc/[0-9]*/stat; do
    read -ra fields < <(sed 's/.*) //' "$stat" 2>/dev/null) || continue
    [[ ${fields[3]} != "$1" ]] || kill -KILL "$(basename "${stat%/stat}")" 2>/dev/null || true
  done
}

# Killed in each stage: earlier results are there, and the summary says where the run ended.
for stage in headline profile tests layers others; do
  results=$folder/cut-$stage
  [[ $stage == headline ]] || cp -r "$folder/whole" "$results"
  begin "$results" "$stage"
  sleep 0.1
  kill_session "$process"
  wait "$process" 2>/dev/null || true
  tail -1 "$results/summary.txt" | grep -q "^$stage: begun" || fail "not cut in $stage"
  if [[ $stage != headline ]]; then (($(rows_of "$results/headline.json") == 10)) || fail "cut in $stage"; fi
  if [[ -e $results/$stage.json ]]; then python3 -m json.tool "$results/$stage.json" >/dev/null || fail "half a file"; fi
done
# Ended by a signal that it can handle.
begin "$folder/term" others
kill -TERM "$process"
wait "$process" 2>/dev/null || true
has "$folder/term/summary.txt" '^others: stopped'

# A kernel's fault costs its row, and is reported.
ECQ_EMULATED_FAULT=20 run "$folder/fault" --seconds 60 headline
((status != 0)) || fail "a fault was not told"
has "$folder/fault/headline.json" 'a fault was asked for'
(($(rows_of "$folder/fault/headline.json") >= 7)) || fail "a fault cost more than its row"
FAULTY_SUITE=first. run "$folder/fault" --seconds 60 tests
has "$folder/fault/summary.txt" '^tests: 2 suites passed, failed: first\. \(1\)'

# No profiler.
rm "$folder/tools/ncu"
run "$folder/no-ncu" --seconds 30 profile layers
has "$folder/no-ncu/summary.txt" '^profile: left out: ncu not found'
has "$folder/no-ncu/summary.txt" '^layers: complete'

# Binaries for another device, and nothing to build new ones with.
mkdir "$folder/other"
tool other/bench_cuda <<<'#!/bin/sh
echo "no kernel image is available" && exit 1'
tool tools/cmake <<<'#!/bin/sh
exit 1'
"$script" --binaries "$folder/other" --results "$folder/others" headline tests >"$folder/output" 2>&1 && fail "no error"
has "$folder/others/log.txt" 'do not run on this machine: building here'
has "$folder/others/summary.txt" '^headline: bench_cuda is not built'
has "$folder/others/summary.txt" '^tests: test_cuda is not built'
# A missing program costs its stage.
rm "$folder/bin/example_layers"
run "$folder/lacking" --seconds 30 layers tests
has "$folder/lacking/summary.txt" '^layers: example_layers is not built'
has "$folder/lacking/summary.txt" '^tests: 3 suites passed'

# Results that cannot be written: figures are shown all the same.
touch "$folder/file"
run "$folder/file/results" --seconds 30 headline
((status != 0)) || fail "results that are lost were not told"
has "$folder/output" 'quantise +BF16'

# No GPU.
tool tools/nvidia-smi <<<'#!/bin/sh
exit 9'
run "$folder/none" --seconds 30
((status == 1)) || fail "no GPU: $status"
has "$folder/output" 'no GPU'
echo "all as it should be"
