// Models in folders: every file becomes a container of the same name and comes back byte for byte, and nothing else is
// lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/limits.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::entquant;
using ecq::errc;
using ecq::lossless_weights;
using ecq_test::bytes_of;
using ecq_test::read_file;
using ecq_test::tensor;
using ecq_test::write_file;
using ecq_test::write_model;

/// Returns the contents of all files below `folder`, by name.
std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) all[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  }
  return all;
}

class ModelFolder : public testing::Test {
 protected:
  /// Writes two shards that share a layer, an index, and other files that such folders contain.
  void SetUp() override {
    std::filesystem::create_directories(in / "tokenizer");
    std::filesystem::create_directories(in / ".cache");
    const auto weights = [](std::uint64_t seed) {
      return bytes_of<ecq::bf16>(ecq_test::gaussian(96, 128, seed, 0.02F));
    };
    write_model(in / "model-1.safetensors",
                {{"embed_tokens.weight", "BF16", {96, 128}, weights(1)},
                 {"layers.0.up.weight", "BF16", {96, 128}, weights(2)},
                 {"layers.0.norm.weight", "BF16", {5}, std::string(10, 'n')}},
                {{"format", "pt"}, {"of", "one"}});
    write_model(in / "model-2.safetensors",
                {{"layers.0.down.weight", "BF16", {96, 128}, weights(3)},
                 {"layers.1.up.weight", "BF16", {96, 128}, weights(4)},
                 {"odd", "U8", {3}, "abc"}},
                {{"of", "two"}});
    write_file(in / "model.safetensors.index.json",
               R"({ "metadata": {"total_size": 98317}, "weight_map": {
                 "layers.1.up.weight": "model-2.safetensors", "layers.0.down.weight": "model-2.safetensors",
                 "odd": "model-2.safetensors", "embed_tokens.weight": "model-1.safetensors",
                 "layers.0.up.weight": "model-1.safetensors", "layers.0.norm.weight": "model-1.safetensors"}})");
    write_file(in / "config.json", "{\"a\": 1}\n");
    write_file(in / "tokenizer" / "vocab.txt", "the\nof\n");
    write_file(in / "empty", "");
    write_file(in / ".cache" / "hidden", "x");
  }

  ecq::result<ecq::compress_report> compress(const ecq::compress_options& how) {
    return ecq::compress_folder(cpu{.threads = 2}, in, packed, how);
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path in = folder / "model", packed = folder / "packed", restored = folder / "restored";
};

TEST_F(ModelFolder, ComesBackFileByFile) {
  const auto report = compress({.method = lossless_weights{}});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->tensors.size(), 4U);
  EXPECT_EQ(report->passed_through, 2U);
  EXPECT_LT(report->file_bytes, report->input_bytes);
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_TRUE(verified->same_file);
  EXPECT_EQ(verified->tensors.size(), 6U);
  const auto decoded = ecq::decompress_folder(cpu{}, packed, restored);
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_TRUE(decoded->same_header);
  EXPECT_EQ(decoded->tensors, 4U);
  auto expected = files_of(in);
  expected.erase(".cache/hidden");
  EXPECT_TRUE(files_of(restored) == expected);
}

TEST_F(ModelFolder, OneRateHoldsForAllFilesTogether) {
  const ecq::compress_options how{.method = entquant{.target_bits = 3.0}};
  const auto report = compress(how);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_NEAR(report->bits_per_weight, 3.0, 0.02);
  const auto seen = ecq::inspect_checkpoint(cpu{}, packed);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_TRUE(seen->container);
  EXPECT_EQ(seen->bits_per_weight, report->bits_per_weight);
  EXPECT_EQ(seen->file_bytes, report->file_bytes);
  EXPECT_EQ(seen->tensors.size(), 6U);
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_FALSE(verified->same_file);
  EXPECT_GT(verified->total.sqnr_db(), 10.0);
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed / "model.safetensors.index.json", restored));
  const auto before = ecq::checkpoint::open(in), after = ecq::checkpoint::open(restored);
  ASSERT_TRUE(before && after) << after.error().to_string();
  for (std::size_t i = 0; i < before->tensors().size(); ++i) {
    EXPECT_EQ(after->tensors()[i].name, before->tensors()[i].name);
    EXPECT_EQ(after->tensors()[i].begin, before->tensors()[i].begin);
  }
  // The bytes do not depend on threads.
  const auto first = files_of(packed);
  ASSERT_TRUE(ecq::compress_folder(cpu{.threads = 1}, in, packed, how));
  EXPECT_TRUE(files_of(packed) == first);
}

TEST_F(ModelFolder, OfOneFileNeedsNoIndex) {
  std::filesystem::remove(in / "model.safetensors.index.json");
  std::filesystem::remove(in / "model-1.safetensors");
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed, in)->same_file);
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  EXPECT_EQ(read_file(restored / "model-2.safetensors"), read_file(in / "model-2.safetensors"));
  EXPECT_EQ(read_file(restored / "tokenizer" / "vocab.txt"), "the\nof\n");
  EXPECT_NE(read_file(packed / "config.json").find("{\"format\": \"ecq\"}"), std::string::npos);
  EXPECT_EQ(read_file(restored / "config.json"), read_file(in / "config.json"));
}

TEST_F(ModelFolder, ScalesThatWereAppliedLeaveIndexAndConfiguration) {
  const auto codes = bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 96, 7, 40.0F));
  write_model(in / "model-1.safetensors", {{"layers.0.up.weight", "F8_E4M3", {64, 96}, codes}});
  write_model(in / "model-2.safetensors", {{"layers.0.up.weight_scale_inv", "F32", {1, 1}, bytes_of<float>({0.001F})},
                                           {"layers.0.norm.weight", "BF16", {5}, std::string(10, 'n')}});
  write_file(in / "model.safetensors.index.json", R"({"weight_map": {"layers.0.up.weight": "model-1.safetensors",
    "layers.0.up.weight_scale_inv": "model-2.safetensors", "layers.0.norm.weight": "model-2.safetensors"}})");
  write_file(in / "config.json", R"({"b": [1.5], "quantization_config": {"quant_method": "fp8"}, "c": "}"})");
  const auto report = compress({.method = entquant{.target_bits = 4.0}});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->unpacked, 1U);
  EXPECT_EQ(read_file(packed / "config.json"),
            "{\"b\": [1.5], \"c\": \"}\",\n  \"quantization_config\": {\"format\": \"ecq\"}}");
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_LT(verified->total.relative_l1(), 0.2);
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  const auto after = ecq::checkpoint::open(restored);
  ASSERT_TRUE(after) << after.error().to_string();
  EXPECT_EQ(after->tensors().size(), 2U);
  EXPECT_EQ(after->find("layers.0.up.weight")->dtype, "BF16");
}

// Machines that each compress a part at one lambda write the same files as a single machine that compresses the folder.
TEST_F(ModelFolder, PartsAddUpToTheWhole) {
  const auto lambda = ecq::find_lambda_of(cpu{}, in, {.method = entquant{.target_bits = 3.0}});
  ASSERT_TRUE(lambda) << lambda.error().to_string();
  ecq::compress_options how{.method = entquant{.lambda = *lambda}};
  const auto whole = compress(how);
  ASSERT_TRUE(whole) << whole.error().to_string();
  // The cost of streams of 12,288 weights besides their codes is only estimated.
  EXPECT_NEAR(whole->bits_per_weight, 3.0, 0.2);
  for (const std::size_t count : {1U, 2U, 3U}) {
    std::filesystem::remove_all(restored);
    std::uint64_t weights = 0;
    for (std::size_t index = count; index-- > 0;) {
      how.part = {index, count};
      const auto part = ecq::compress_folder(cpu{}, in, restored, how);
      ASSERT_TRUE(part) << part.error().to_string();
      weights += part->weights;
    }
    EXPECT_EQ(weights, whole->weights);
    EXPECT_TRUE(files_of(restored) == files_of(packed)) << count;
  }
  how.part = {2, 2};
  EXPECT_EQ(compress(how).error().code(), errc::invalid_argument);
  // One code for the whole model is the same in all parts.
  how.method = {ecq::dtype::uint4, ecq::entrollm{}};
  how.part = {};
  ASSERT_TRUE(compress(how));
  std::filesystem::remove_all(restored);
  for (const std::size_t index : {0U, 1U}) {
    how.part = {index, 2};
    ASSERT_TRUE(ecq::compress_folder(cpu{}, in, restored, how));
  }
  EXPECT_TRUE(files_of(restored) == files_of(packed));
  how.part = {0, 2};
  how.method = entquant{.target_bits = 3.0};
  EXPECT_EQ(compress(how).error().code(), errc::invalid_argument);
  EXPECT_EQ(*ecq::find_lambda_of(cpu{}, in, {.method = lossless_weights{}}), 0.0);
}

/// Threads that agree as processes on many machines would.
class agreeing_threads {
 public:
  explicit agreeing_threads(std::size_t count) : count_(count) {}

  ecq::result<ecq::part_size> agree(const ecq::result<ecq::part_size>& mine) {
    std::unique_lock lock(mutex_);
    if (!mine) {
      sum_ = mine.error();
    } else if (sum_) {
      sum_ = ecq::part_size{sum_->bytes + mine->bytes, sum_->weights + mine->weights};
    }
    const std::size_t round = round_;
    if (++arrived_ == count_) {
      arrived_ = 0;
      ++round_;
      agreed_ = std::exchange(sum_, ecq::part_size{});
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return round_ != round; });
    }
    return agreed_;
  }

 private:
  const std::size_t count_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t arrived_ = 0, round_ = 0;
  ecq::result<ecq::part_size> sum_ = ecq::part_size{}, agreed_ = ecq::part_size{};
};

/// Runs `compress_part(part, agree)` in a thread for each of `count` parts.
template <class Compress>
std::vector<ecq::result<ecq::compress_report>> in_parts(std::size_t count, Compress&& compress_part) {
  agreeing_threads together(count);
  std::vector<ecq::result<ecq::compress_report>> reports(count, ecq::error(errc::not_found, "not run"));
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      reports[index] = compress_part(ecq::folder_part{index, count},
                                     [&](const ecq::result<ecq::part_size>& mine) { return together.agree(mine); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

// Parts that agree meet a rate together, and write the same bytes as a single process.
TEST_F(ModelFolder, PartsThatAgreeMeetARate) {
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{20000}}) {
    // A rate that the sample misses at first: streams of so few weights cost more than the search expects.
    ecq::compress_options how{.method = entquant{.target_bits = 2.5}};
    how.max_file_bytes = limit;
    std::filesystem::remove_all(packed);
    const auto whole = compress(how);
    ASSERT_TRUE(whole) << whole.error().to_string();
    for (const std::size_t count : {1U, 2U, 4U, 7U}) {
      std::filesystem::remove_all(restored);
      const auto reports = in_parts(count, [&](const ecq::folder_part& part, const ecq::part_agreement& agree) {
        auto mine = how;
        mine.part = part;
        mine.agree = agree;
        return ecq::compress_folder(cpu{.threads = 1}, in, restored, mine);
      });
      std::uint64_t weights = 0, bytes = 0;
      for (const auto& report : reports) {
        ASSERT_TRUE(report) << report.error().to_string();
        EXPECT_EQ(report->lambda, whole->lambda);
        weights += report->weights;
        bytes += report->file_bytes;
      }
      EXPECT_EQ(weights, whole->weights);
      EXPECT_EQ(bytes, whole->file_bytes);
      EXPECT_TRUE(files_of(restored) == files_of(packed)) << count;
    }
  }
}

TEST_F(ModelFolder, NothingIsNamedIfOnePartFails) {
  for (const std::size_t failing : {0U, 1U, 2U}) {
    for (const bool early : {false, true}) {
      const auto reports = in_parts(3, [&](const ecq::folder_part& part, const ecq::part_agreement& agree) {
        ecq::compress_options how{.method = entquant{.target_bits = 3.0}};
        how.part = part;
        how.agree = agree;
        const bool fails = part.index == failing;
        const auto interrupt = [=](const ecq::progress& step) {
          return !fails || early || step.stage != "compressing";
        };
        return ecq::compress_folder(cpu{.threads = 1}, fails && early ? folder / "nothing" : in, packed, how,
                                    interrupt);
      });
      for (const auto& report : reports) {
        ASSERT_FALSE(report);
        EXPECT_EQ(report.error().code(), early ? errc::not_found : errc::invalid_argument)
            << report.error().to_string();
      }
      EXPECT_TRUE(!std::filesystem::exists(packed) || files_of(packed).empty());
    }
  }
}

// Files of a given size: neighbouring tensors stay together, an index says where, and no file exceeds the size.
TEST_F(ModelFolder, IsDealtOutToFilesOfAGivenSize) {
  for (const bool lossless : {false, true}) {
    ecq::compress_options how;
    if (lossless) {
      how.method = lossless_weights{};
    } else {
      how.method = entquant{.target_bits = 3.0};
    }
    how.max_file_bytes = lossless ? 60000 : 40000;
    std::filesystem::remove_all(packed);
    const auto report = compress(how);
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->tensors.size(), lossless ? 4U : 3U);
    const auto made = files_of(packed);
    for (const char* name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                             "model.safetensors.index.json", "config.json", "tokenizer/vocab.txt", "empty"}) {
      EXPECT_TRUE(made.contains(name)) << name;
    }
    EXPECT_EQ(made.size(), 6U);
    EXPECT_NE(made.at("model.safetensors.index.json").find("\"total_size\":98317"), std::string::npos);
    const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
    ASSERT_TRUE(verified) << verified.error().to_string();
    EXPECT_EQ(verified->identical(), lossless);
    EXPECT_FALSE(verified->same_file);
    std::filesystem::remove_all(restored);
    ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
    const auto before = ecq::checkpoint::open(in), after = ecq::checkpoint::open(restored);
    ASSERT_TRUE(before && after) << after.error().to_string();
    ASSERT_EQ(after->tensors().size(), before->tensors().size());
    EXPECT_EQ(after->shards().size(), 2U);
    for (std::size_t i = 0; i < before->tensors().size(); ++i) {
      const auto& left = before->tensors()[i];
      const auto& right = after->tensors()[i];
      EXPECT_EQ(right.name, left.name);
      EXPECT_TRUE(!lossless || std::ranges::equal(after->bytes(right), before->bytes(left))) << left.name;
    }
  }
  // A tensor that exceeds the size of a file has a file of its own.
  ecq::compress_options how{.method = lossless_weights{}};
  how.max_file_bytes = 1;
  ASSERT_TRUE(ecq::compress_folder(cpu{}, in, folder / "one_each", how));
  const auto containers = ecq::open_containers(folder / "one_each");
  ASSERT_TRUE(containers) << containers.error().to_string();
  EXPECT_EQ(containers->size(), 6U);
  const auto verified = ecq::verify_checkpoint(cpu{}, folder / "one_each", in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_TRUE(verified->identical());
}

// An index is JSON, whose strings are UTF-8, but names of files may be any bytes.
TEST_F(ModelFolder, OfAnyNameGetsAnIndexThatCanBeRead) {
  const auto odd = folder / "odd";
  std::filesystem::create_directories(odd);
  write_model(odd / "mod\xff.safetensors", {{"layers.0.up.weight", "BF16", {8, 8}, std::string(128, 'w')},
                                            {"layers.1.up.weight", "BF16", {8, 8}, std::string(128, 'v')}});
  ecq::compress_options how{.method = lossless_weights{}};
  how.max_file_bytes = 1;
  const auto compressed = ecq::compress_folder(cpu{}, odd, packed, how);
  ASSERT_TRUE(compressed) << compressed.error().to_string();
  EXPECT_TRUE(std::filesystem::exists(packed / "model-00002-of-00002.safetensors"));
  const auto files = ecq::model_files::of(packed);
  ASSERT_TRUE(files) << files.error().to_string();
  EXPECT_EQ(files->shards.size(), 2U);
}

// A file that an earlier sharding left and no index names is copied like any other, but must not replace a new file.
TEST_F(ModelFolder, IsNotReplacedByAFileBesideIt) {
  write_file(in / "model-00001-of-00002.safetensors", "left over");
  ecq::compress_options how{.method = lossless_weights{}};
  how.max_file_bytes = 60000;
  const auto refused = compress(how);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().message().find("model-00001-of-00002.safetensors"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(packed));
}

// Readers accept no more than file_limits::shards files.
TEST_F(ModelFolder, OfTooManyFilesIsNotMade) {
  std::filesystem::create_directories(folder / "many");
  std::vector<tensor> tensors;
  for (std::size_t i = 0; i <= ecq::file_limits::shards; ++i) tensors.push_back({std::to_string(i), "U8", {1}, "x"});
  tensors.push_back({"layers.0.up.weight", "BF16", {8, 8}, std::string(128, 'w')});
  write_model(folder / "many" / "model.safetensors", tensors);
  ecq::compress_options how{.method = lossless_weights{}};
  how.max_file_bytes = 1;
  const auto refused = ecq::compress_folder(cpu{}, folder / "many", packed, how);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::limit_exceeded) << refused.error().to_string();
  EXPECT_FALSE(std::filesystem::exists(packed));
}

// Decompression may be interrupted at every call of the progress function, even the last.
TEST_F(ModelFolder, LeavesNothingWhereDecompressionIsInterrupted) {
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  int calls = 0;
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored, {}, [&](const ecq::progress&) {
    ++calls;
    return true;
  }));
  std::filesystem::remove_all(restored);
  for (int last = 1; last <= calls; ++last) {
    int call = 0;
    const auto done =
        ecq::decompress_folder(cpu{}, packed, restored, {}, [&](const ecq::progress&) { return ++call < last; });
    ASSERT_FALSE(done) << last;
    EXPECT_EQ(done.error().message(), "interrupted");
    EXPECT_FALSE(std::filesystem::exists(restored)) << last;
  }
}

// One container of many files gives tensors back in the order of the index, wide elements first.
TEST_F(ModelFolder, KeepsTheOrderInOneContainer) {
  const auto one = folder / "one.safetensors", back = folder / "back.safetensors";
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, in, one, {.method = lossless_weights{}}));
  const auto decoded = ecq::decompress_checkpoint(cpu{}, one, back);
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  const auto restored_file = ecq::checkpoint::open(back);
  ASSERT_TRUE(restored_file);
  std::vector<std::string> names;
  for (const auto& entry : restored_file->tensors()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.1.up.weight", "layers.0.down.weight", "embed_tokens.weight",
                                             "layers.0.up.weight", "layers.0.norm.weight", "odd"}));
}

TEST(ModelParts, HaveAboutAsManyBytesEach) {
  const std::vector<std::uint64_t> bytes = {5, 50, 7, 30, 1, 9, 22, 0, 8};
  for (const std::size_t count : {1U, 2U, 3U, 9U, 20U}) {
    const auto part_of = ecq::detail::deal_files(bytes, count);
    std::vector<std::uint64_t> load(count);
    for (std::size_t file = 0; file < bytes.size(); ++file) load.at(part_of[file]) += bytes[file];
    const std::uint64_t most = *std::ranges::max_element(load);
    // Moving a file from the fullest part to the emptiest would make that part at least as full.
    EXPECT_LE(most, std::max<std::uint64_t>(50, (132 + count - 1) / count + 30)) << count;
    EXPECT_TRUE(count != 2 || most == 66) << most;
    EXPECT_TRUE(count != 3 || most == 50) << most;
  }
  EXPECT_TRUE(ecq::detail::deal_files({}, 3).empty());
}

TEST_F(ModelFolder, FoldersThatLieInOneAnotherAreRefused) {
  const ecq::compress_options how{.method = lossless_weights{}};
  const auto before = files_of(folder.path());
  for (const auto& out : {in, in / "packed", in / "." / "x" / "..", folder.path(), in / "tokenizer"}) {
    const auto refused = ecq::compress_folder(cpu{}, in, out, how);
    ASSERT_FALSE(refused) << out;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument) << refused.error().to_string();
  }
  EXPECT_TRUE(files_of(folder.path()) == before);
  ASSERT_TRUE(compress(how));
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, packed, packed / "out"));
  EXPECT_FALSE(ecq::compress_folder(cpu{}, packed, restored, how));  // compressed already
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, in, restored));         // no containers
}

// Files of an earlier run would be read instead of the new ones: an index takes precedence over a file beside it.
TEST_F(ModelFolder, FoldersWithFilesOfAnotherModelAreRefused) {
  const ecq::compress_options how{.method = lossless_weights{}};
  ASSERT_TRUE(compress(how));
  ASSERT_TRUE(compress(how)) << "the same files are replaced";
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  ecq::compress_options dealt = how;
  dealt.max_file_bytes = 30000;
  const auto refused = compress(dealt);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().message().find("packed/model-"), std::string::npos) << refused.error().to_string();

  const auto one = folder / "one";
  std::filesystem::create_directories(one);
  write_model(one / "model.safetensors", {{"layers.0.up.weight", "BF16", {8, 16}, std::string(256, 'x')}});
  for (const char* const other : {"model.safetensors.index.json", "model-00001-of-00002.safetensors"}) {
    for (const auto& out : {folder / "from", folder / "to"}) {
      std::filesystem::remove_all(out);
      std::filesystem::create_directories(out);
      write_file(out / "._model.safetensors", "hidden");
      write_file(out / "notes.txt", "may stay");
    }
    ASSERT_TRUE(ecq::compress_folder(cpu{}, one, folder / "from", how));
    ASSERT_TRUE(ecq::decompress_folder(cpu{}, folder / "from", folder / "to"));
    write_file(folder / "to" / other, "{}");
    EXPECT_FALSE(ecq::decompress_folder(cpu{}, folder / "from", folder / "to")) << other;
    write_file(folder / "from" / other, "{}");
    const auto before = files_of(folder / "from");
    EXPECT_FALSE(ecq::compress_folder(cpu{}, one, folder / "from", how)) << other;
    EXPECT_TRUE(files_of(folder / "from") == before);
  }
}

// A folder that is given by mistake often has files of the same names.
TEST_F(ModelFolder, OnlyResultsOfTheSameModelAreReplaced) {
  const ecq::compress_options how{.method = lossless_weights{}};
  ASSERT_TRUE(compress(how));
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  const std::string whole_packed = read_file(packed / "model-2.safetensors");
  const auto other = folder / "other", other_packed = folder / "other.packed";
  std::filesystem::create_directories(other);
  write_model(other / "model-2.safetensors", {{"layers.7.up.weight", "BF16", {8, 16}, std::string(256, 'x')}});
  ASSERT_TRUE(ecq::compress_folder(cpu{}, other, other_packed, how));

  const auto expect_refusal = [](const auto& made, const std::string& why) {
    ASSERT_FALSE(made) << why;
    EXPECT_EQ(made.error().code(), errc::invalid_argument);
    EXPECT_NE(made.error().message().find("model-2.safetensors"), std::string::npos) << made.error().to_string();
    EXPECT_NE(made.error().message().find(why), std::string::npos) << made.error().to_string();
  };
  for (const auto& [there, why] :
       {std::pair(read_file(other_packed / "model-2.safetensors"), "layers.7.up.weight"),
        std::pair(read_file(in / "model-2.safetensors"), "not compressed"),
        std::pair(whole_packed.substr(0, whole_packed.size() - 1), "cannot be read"),
        std::pair(whole_packed.substr(0, 100), "cannot be read"), std::pair(std::string("notes"), "cannot be read")}) {
    write_file(packed / "model-2.safetensors", there);
    const auto before = files_of(packed);
    expect_refusal(compress(how), why);
    EXPECT_TRUE(files_of(packed) == before) << why;
  }
  write_file(packed / "model-2.safetensors", whole_packed);
  for (const auto& [there, why] :
       {std::pair(read_file(other / "model-2.safetensors"), "layers.7.up.weight"),
        std::pair(whole_packed, "compressed weights"), std::pair(std::string("notes"), "cannot be read")}) {
    write_file(restored / "model-2.safetensors", there);
    const auto before = files_of(restored);
    expect_refusal(ecq::decompress_folder(cpu{}, packed, restored), why);
    EXPECT_TRUE(files_of(restored) == before) << why;
  }
  std::filesystem::remove(restored / "model-2.safetensors");
  EXPECT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
}

// An original that was compressed with loss is not replaced by its decompressed copy.
TEST_F(ModelFolder, TheOriginalIsNotReplacedByALossyCopy) {
  ASSERT_TRUE(compress({.method = entquant{.target_bits = 3.0}}));
  const auto before = files_of(in);
  const auto refused = ecq::decompress_folder(cpu{}, packed, in);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().message().find("weights other than those of"), std::string::npos)
      << refused.error().to_string();
  EXPECT_TRUE(files_of(in) == before);
  // An earlier result is replaced, unless it has another type.
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  EXPECT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, packed, restored, {.type = ecq::dtype::fp32}));
  // Without loss, the copy equals the original.
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  EXPECT_TRUE(ecq::decompress_folder(cpu{}, packed, in));
  EXPECT_TRUE(files_of(in) == before);
}

TEST_F(ModelFolder, IsRefusedOnceItIsCompressed) {
  ASSERT_TRUE(compress({.method = entquant{.target_bits = 3.0}}));
  for (const auto& path : {packed, packed / "model.safetensors.index.json", packed / "model-2.safetensors"}) {
    const auto again = ecq::compress_folder(cpu{}, path, folder / "again", {.method = lossless_weights{}});
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message().find("already compressed"), std::string::npos) << again.error().to_string();
  }
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, packed);
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message().find("already compressed"), std::string::npos);
}

#if ECQ_POSIX
TEST_F(ModelFolder, OtherFilesKeepTheirPermissions) {
  using std::filesystem::perms;
  const perms secret = perms::owner_read | perms::owner_write, program = perms::owner_all | perms::group_exec;
  write_file(in / "run.sh", "x");
  std::filesystem::permissions(in / "config.json", secret);
  std::filesystem::permissions(in / "run.sh", program);
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  EXPECT_EQ(std::filesystem::status(packed / "config.json").permissions(), secret);
  EXPECT_EQ(std::filesystem::status(packed / "run.sh").permissions(), program);
}
#endif

TEST_F(ModelFolder, NoOtherInputIsReplaced) {
  ecq::compress_options how{.method = lossless_weights{}};
  std::filesystem::create_directories(packed);
  for (const char* const name : {"config.json", "model-2.safetensors", "model.safetensors.index.json"}) {
    write_file(packed / name, "was read before");
    how.other_inputs = {folder / "elsewhere", packed / name};
    const auto refused = compress(how);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    EXPECT_EQ(read_file(packed / name), "was read before");
    EXPECT_FALSE(ecq::compress_checkpoint(cpu{}, in, packed / name, how));
    EXPECT_EQ(read_file(packed / name), "was read before");
    std::filesystem::remove(packed / name);
  }
  EXPECT_TRUE(compress(how));
  EXPECT_FALSE(ecq::compress_checkpoint(cpu{}, in, in / "config.json", {.method = lossless_weights{}}));
  EXPECT_EQ(read_file(in / "config.json"), "{\"a\": 1}\n");
}

TEST_F(ModelFolder, HiddenFilesAreNoModels) {
  write_file(in / "._model-1.safetensors", "junk");
  write_file(in / "._model.safetensors.index.json", "junk");
  EXPECT_TRUE(ecq::checkpoint::open(in));
  std::filesystem::create_directories(folder / "hidden");
  std::filesystem::copy_file(in / "model-1.safetensors", folder / "hidden" / ".model.safetensors");
  EXPECT_FALSE(ecq::checkpoint::open(folder / "hidden"));
}

TEST_F(ModelFolder, NoEmptyFolderIsLeftWhereNothingWasWritten) {
  const ecq::compress_options how{.method = lossless_weights{}};
  const auto stop = [](const ecq::progress& step) { return step.stage != "compressing"; };
  EXPECT_FALSE(ecq::compress_folder(cpu{}, in, packed, how, stop));
  EXPECT_FALSE(std::filesystem::exists(packed));
  std::filesystem::create_directories(packed);
  EXPECT_FALSE(ecq::compress_folder(cpu{}, in, packed, how, stop));
  EXPECT_TRUE(std::filesystem::exists(packed)) << "it was there before";
  ASSERT_TRUE(compress(how));
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, packed, restored, {}, [](const ecq::progress&) { return false; }));
  EXPECT_FALSE(std::filesystem::exists(restored));
}

TEST_F(ModelFolder, AMissingOrDamagedFileIsNamed) {
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  std::string bytes = read_file(packed / "model-2.safetensors");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(packed / "model-2.safetensors", bytes);
  EXPECT_FALSE(ecq::verify_checkpoint(cpu{}, packed));
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, packed, restored));
  std::filesystem::remove(packed / "model-2.safetensors");
  const auto missing = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("model-2"), std::string::npos);
  std::filesystem::remove_all(packed);
  std::filesystem::remove(in / "model-1.safetensors");
  EXPECT_EQ(compress({.method = lossless_weights{}}).error().code(), errc::not_found);
}

}  // namespace
