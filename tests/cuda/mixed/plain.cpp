#include "round_trip.hpp"

bool host_compiler_has_x86_kernels() { return has_x86_kernels; }

std::vector<std::byte> round_trip_of_the_host_compiler(ecq::instruction_set isa) { return round_trip(isa); }
