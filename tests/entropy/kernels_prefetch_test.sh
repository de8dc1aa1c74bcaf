#!/usr/bin/env bash
# usage: kernels_prefetch_test.sh <objdump> <library>
# Every AVX-512 kernel that decodes must prefetch: a compiler that sees no effect in prefetching removes it without a
# word.
set -euo pipefail

"$1" -d --no-show-raw-insn -C "$2" | awk '
  /^[0-9a-f]+ <.*>:$/ { kernel = $0 }
  /vpexpandw/ { decodes[kernel] = 1 }
  /prefetcht0/ { prefetches[kernel] = 1 }
  END {
    for (kernel in decodes) {
      ++count
      if (!(kernel in prefetches)) { print "prefetches nothing: " kernel; failed = 1 }
    }
    print count + 0 " kernels"
    exit failed || count == 0
  }'
