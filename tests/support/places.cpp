// Only this file is compiled with the paths of the build.

#include "support/places.hpp"

namespace ecq_test {

std::filesystem::path source_folder() { return ECQ_SOURCE_DIR; }
std::string ecq_program() { return ECQ_TOOL_PATH; }
std::string llama_program() { return ECQ_LLAMA_PATH; }
std::string mpi_program() { return ECQ_MPI_PATH; }
std::string mpi_starter() { return ECQ_MPIEXEC; }
std::string mpi_count_option() { return ECQ_MPIEXEC_COUNT; }

}  // namespace ecq_test
