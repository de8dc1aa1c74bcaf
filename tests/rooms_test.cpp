// The rooms of the library stand on floors: a header includes only headers of its own floor or below.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/places.hpp"

namespace {

namespace fs = std::filesystem;

/// The floors from the ground up. Headers that are in no folder are named one by one.
constexpr std::array<std::string_view, 16> floors = {
    "base",                                                             // used by every room
    "format",                                                           // codes and their values
    "entropy",                                                          // symbols and words
    "stream",                                                           // chunks, index, header
    "analysis",                                                         // measurements
    "quantize",                                                         // weights to codes and scales
    "packed.hpp packed-inl.hpp packed_check.hpp packed_check-inl.hpp",  // results of compression
    "methods",                                                          // matrices to blocks
    "compressor.hpp lossless.hpp block_decoder.hpp block_decoder-inl.hpp decompress.hpp",  // matrices in memory
    "matmul",                                                                              // products with them
    "io",                                                                                  // file formats of others
    "container",                                                                           // the library's own files
    "checkpoint",                                                                          // whole models
    "calibrated",                                                                          // by the inputs of layers
    "cuda",                                                                                // devices
    "concepts.hpp ecq.hpp ecq.cuh version.hpp"};                                           // included by users

/// Returns the floor of a header below include/ecq; floors.size() if it has none.
std::size_t floor_of(const fs::path& header) {
  const std::string room = header.begin()->string();
  for (std::size_t floor = 0; floor < floors.size(); ++floor) {
    const std::string_view rooms = floors[floor];
    const std::size_t at = rooms.find(room);
    if (at != std::string_view::npos && (at == 0 || rooms[at - 1] == ' ') &&
        (at + room.size() == rooms.size() || rooms[at + room.size()] == ' ')) {
      return floor;
    }
  }
  return floors.size();
}

std::vector<fs::path> included_by(const fs::path& file) {
  constexpr std::string_view before = "#include \"ecq/";
  std::vector<fs::path> found;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(before)) continue;
    found.emplace_back(line.substr(before.size(), line.rfind('"') - before.size()));
  }
  return found;
}

std::map<fs::path, std::vector<fs::path>> all_headers() {
  const fs::path root = ecq_test::source_folder() / "include" / "ecq";
  std::map<fs::path, std::vector<fs::path>> found;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) found[fs::relative(entry.path(), root)] = included_by(entry.path());
  }
  return found;
}

TEST(Rooms, EveryHeaderHasAFloor) {
  const auto headers = all_headers();
  EXPECT_GT(headers.size(), 100U);
  for (const auto& [header, included] : headers) EXPECT_LT(floor_of(header), floors.size()) << header;
}

TEST(Rooms, NoIncludeLeadsUp) {
  for (const auto& [header, included] : all_headers()) {
    for (const fs::path& other : included) {
      if (other == "version.hpp") continue;  // a number that files carry
      EXPECT_GE(floor_of(header), floor_of(other)) << header << " includes " << other;
    }
  }
}

TEST(Rooms, EveryIncludeIsThere) {
  const auto headers = all_headers();
  for (const auto& [header, included] : headers) {
    for (const fs::path& other : included) EXPECT_TRUE(headers.contains(other)) << header << " includes " << other;
  }
}

/// Returns all headers that a header includes, directly or not, and the header itself.
std::set<fs::path> reached_from(const fs::path& header) {
  const auto headers = all_headers();
  std::set<fs::path> reached{header};
  for (std::vector<fs::path> open{header}; !open.empty();) {
    const fs::path at = open.back();
    open.pop_back();
    for (const fs::path& other : headers.at(at)) {
      if (reached.insert(other).second) open.push_back(other);
    }
  }
  return reached;
}

TEST(Rooms, ADecoderThatIsToldItsCodersIncludesNone) {
  for (const fs::path& header : reached_from("block_decoder.hpp")) {
    for (const char* const coder : {"rans", "tans", "huffman", "huffman_gaps", "bit_stack"}) {
      EXPECT_NE(header.parent_path(), fs::path("entropy") / coder) << header;
    }
  }
  EXPECT_TRUE(reached_from("decompress.hpp").contains("entropy/tans/tans.hpp"));
}

TEST(Rooms, KernelsOfAnInstructionSetSaySoByName) {
  for (const auto& [header, included] : all_headers()) {
    const std::string name = header.filename().string();
    std::ifstream file(ecq_test::source_folder() / "include" / "ecq" / header);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const bool has_intrinsics = text.find("#include <immintrin.h>") != std::string::npos ||
                                text.find("#include <arm_neon.h>") != std::string::npos;
    const bool says_so = name.find("avx2") != std::string::npos || name.find("avx512") != std::string::npos ||
                         name.find("amx") != std::string::npos || name.find("neon") != std::string::npos;
    EXPECT_TRUE(!has_intrinsics || says_so) << header;
  }
}

}  // namespace
