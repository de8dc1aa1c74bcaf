// A program of two units, one compiled by nvcc and one by the host's compiler: the linker keeps one copy of each inline
// function.

#include <cstdio>
#include <ecq/ecq.cuh>

#include "round_trip.hpp"

int main() {
  if (has_x86_kernels != host_compiler_has_x86_kernels()) {
    std::fprintf(stderr, "inline functions have two bodies\n");
    return 1;
  }
  for (const auto isa : {ecq::instruction_set::automatic, ecq::instruction_set::scalar}) {
    const auto made = round_trip(isa);
    if (made.empty() || made != round_trip_of_the_host_compiler(isa)) {
      std::fprintf(stderr, "other bytes, or none, by the kernels of %d\n", static_cast<int>(isa));
      return 1;
    }
  }
  return 0;
}
