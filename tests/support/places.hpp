#pragma once
/// \file
/// Paths of the sources and of the built programs. No other file is compiled with them, so that compiler caches
/// recognise the others in another checkout.

#include <filesystem>
#include <string>

namespace ecq_test {

/// Returns the folder of README.md.
std::filesystem::path source_folder();

/// Return the program to run as ecq, ecq-llama or ecq-mpi: the tool itself, or a script that starts it in an emulator.
/// Empty if it was not built.
std::string ecq_program();
std::string llama_program();
std::string mpi_program();

/// Return the program that starts several processes, and its option for their number. Empty without ecq-mpi.
std::string mpi_starter();
std::string mpi_count_option();

}  // namespace ecq_test
