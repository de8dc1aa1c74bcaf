#pragma once
/// \file
/// Where the sources and the built programs lie. What other files are compiled to does not depend on it, so that
/// compiler caches know them again in another checkout.

#include <filesystem>
#include <string>

namespace ecq_test {

/// The folder of README.md.
std::filesystem::path source_folder();

/// What is run as the ecq tool, ecq-llama or ecq-mpi: itself, or a script that starts it in an emulator. Empty where it
/// was not built.
std::string ecq_program();
std::string llama_program();
std::string mpi_program();

/// What starts several processes, and its option for their number. Empty without ecq-mpi.
std::string mpi_starter();
std::string mpi_count_option();

}  // namespace ecq_test
