// The main job from end to end, with all answers: generate, compress, verify, decompress, inspect, compare.

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "support/files.hpp"
#include "tool/tool.hpp"

namespace {

using tool_test::f32_bytes;
using tool_test::json;
using tool_test::outcome;
using tool_test::read_text;
using tool_test::read_values;
using tool_test::Tool;
using tool_test::write_safetensors;

void expect_keys(const json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in " << object.dump();
}

/// Returns `count` numbers that look like weights: sums of four uniform numbers.
std::vector<float> some_weights(std::size_t count, std::uint64_t seed) {
  std::vector<float> weights(count);
  for (float& weight : weights) {
    float sum = 0;
    for (int part = 0; part < 4; ++part) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<float>(seed >> 40) / 16777216.0F - 0.5F;
    }
    weight = 0.02F * sum;
  }
  return weights;
}

// Weights that a file names, and weights that stand out.
TEST_F(Tool, KeepsWeightsExact) {
  const std::string model = path("model.safetensors"), packed = path("packed.safetensors"), names = path("names.json");
  auto weights = some_weights(64 * 300, 5);
  weights[300 * 7 + 11] = -3.25F;
  write_safetensors(model, {{"layers.0.weight", "F32", {64, 300}, f32_bytes(weights)}});
  ecq_test::write_file(names, R"({"layers.0.weight": [[63, 299], [0, 0]]})");
  const json named = ask({"compress", model, "-o", packed, "--bits", "4", "--exact", names});
  EXPECT_EQ(named["totals"]["exact"], 2);
  EXPECT_EQ(named["tensors"][0]["exact"], 2);
  EXPECT_NEAR(named["totals"]["bits_per_weight"].get<double>(), 4, 0.02);
  const auto both = run({"compress", model, "-o", packed, "--bits", "4", "--exact", names, "--outliers", "64"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_NE(both.out.find("exact weights    3 "), std::string::npos) << both.out;
  ask({"verify", packed, "--against", model});
  ask({"decompress", packed, "-o", path("back.safetensors")});
  const auto back = read_values(path("back.safetensors"), "layers.0.weight");
  ASSERT_EQ(back.size(), weights.size());
  for (const std::size_t at : {std::size_t{0}, std::size_t{300 * 7 + 11}, weights.size() - 1}) {
    EXPECT_EQ(back[at], weights[at]);
  }
  ecq_test::write_file(names, R"({"layers.0.weight": [[64, 0]]})");
  const auto beyond = run({"compress", model, "-o", packed, "--exact", names});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_NE(beyond.err.find("row 64"), std::string::npos) << beyond.err;
  EXPECT_EQ(run({"compress", model, "-o", packed, "--exact", path("nothing.json")}).exit_code, 2);
  EXPECT_EQ(run({"compress", model, "-o", packed, "--outliers", "1"}).exit_code, 2);
  EXPECT_EQ(run({"compress", model, "-o", packed, "--lossless", "--outliers", "64"}).exit_code, 2);
}

TEST_F(Tool, CompressesWithoutLoss) {
  const std::string model = generated(), packed = path("packed.safetensors"), back = path("back.safetensors");
  for (const char* coder : {"rans", "tans", "huffman", "auto"}) {
    const json compressed = ask({"compress", model, "-o", packed, "--lossless", "--coder", coder});
    EXPECT_EQ(compressed["format"], "lossless");
    EXPECT_LT(compressed["totals"]["file_bytes"].get<double>(),
              0.8 * compressed["totals"]["input_bytes"].get<double>());
  }
  ask({"compress", model, "-o", packed, "--lossless", "--pairs"});
  const json measured = ask({"verify", packed, "--against", model});
  EXPECT_EQ(measured["identical"], true);
  for (const json& tensor : measured["tensors"]) EXPECT_EQ(tensor["identical"], true) << tensor;
  EXPECT_NE(run({"verify", packed, "--against", model}).out.find("identical"), std::string::npos);
  ask({"decompress", packed, "-o", back});
  EXPECT_NE(run({"inspect", packed}).out.find("exponents"), std::string::npos);
  const json listed = ask({"inspect", back});
  std::map<std::string, json> formats;
  for (const json& tensor : listed["tensors"]) formats[tensor["name"]] = tensor["format"];
  const json original = ask({"inspect", model});
  for (const json& tensor : original["tensors"]) EXPECT_EQ(formats[tensor["name"]], tensor["format"]);
  EXPECT_NE(run({"compress", model, "-o", packed, "--lossless", "--bits", "3"}).exit_code, 0);
}

// A rate that only codes of more than 8 bits before coding would reach.
TEST_F(Tool, SaysWhereAbsMaxTakesFewerBits) {
  ask({"generate", path("model"), "--preset", "tiny"});
  const std::vector<std::string> compress{"compress", path("model"), "-o", path("out"), "--method", "tcq8", "--bits"};
  const auto at = [&](const char* bits, const char* more) {
    std::vector<std::string> arguments = compress;
    arguments.insert(arguments.end(), {bits, more});
    return arguments;
  };
  const json high = ask(at("6.5", "--quiet"));
  EXPECT_EQ(high["totals"]["lambda"], 0);
  EXPECT_TRUE(high["totals"]["below_target"].get<bool>());
  EXPECT_FALSE(ask(at("3", "--quiet"))["totals"]["below_target"].get<bool>());
  EXPECT_NE(run(at("6.5", "--threads=1")).out.find("codes cannot be any finer"), std::string::npos);
  EXPECT_EQ(run(at("3", "--threads=1")).out.find("codes cannot be any finer"), std::string::npos);
}

// Codes made for speed take a little more and decode to the same weights; making them for size changes nothing.
TEST_F(Tool, CompressesForSpeed) {
  const std::string model = generated(), packed = path("packed.safetensors");
  const std::string plain = path("plain.safetensors"), fast = path("fast.safetensors");
  for (const char* coder : {"rans", "auto"}) {
    const json small = ask({"compress", model, "-o", plain, "--lambda", "14.5", "--coder", coder});
    ask({"compress", model, "-o", packed, "--lambda", "14.5", "--coder", coder, "--for", "size"});
    EXPECT_EQ(ecq_test::read_file(packed), ecq_test::read_file(plain));
    ask({"decompress", plain, "-o", path("plain.back")});
    for (const char* goal : {"cpu", "gpu"}) {
      const json quick = ask({"compress", model, "-o", fast, "--lambda", "14.5", "--coder", coder, "--for", goal});
      EXPECT_NE(ecq_test::read_file(fast), ecq_test::read_file(plain)) << goal;
      EXPECT_LT(quick["totals"]["bits_per_weight"].get<double>(),
                small["totals"]["bits_per_weight"].get<double>() + 0.12);
      ask({"verify", fast});
      ask({"decompress", fast, "-o", path("fast.back")});
      EXPECT_EQ(ecq_test::read_file(path("fast.back")), ecq_test::read_file(path("plain.back")));
    }
  }
  for (const char* goal : {"cpu", "gpu"}) {
    const json met = ask({"compress", model, "-o", fast, "--bits", "3", "--for", goal});
    EXPECT_NEAR(met["totals"]["bits_per_weight"].get<double>(), 3, 0.025);
    EXPECT_EQ(met["coder"], goal == std::string_view("gpu") ? "tans" : "rans");
  }
  ask({"compress", model, "-o", fast, "--lossless", "--for", "gpu"});
  ask({"compress", model, "-o", packed, "--lossless", "--for", "gpu", "--pairs", "--coder", "tans"});
  EXPECT_EQ(ecq_test::read_file(fast), ecq_test::read_file(packed));
  ask({"verify", fast, "--against", model});
}

TEST_F(Tool, CompressesToUnsignedIntegersWithOneCode) {
  const std::string model = generated(), packed = path("packed.safetensors"), back = path("back.safetensors");
  for (const char* width : {"8", "4"}) {
    for (const char* coder : {"huffman", "auto"}) {
      const json compressed =
          ask({"compress", model, "-o", packed, "--method", "entrollm", "--width", width, "--coder", coder});
      EXPECT_EQ(compressed["method"], "entrollm");
      EXPECT_EQ(compressed["format"], std::string("uint") + width);
      const json& totals = compressed["totals"];
      EXPECT_EQ(totals["blocks"], compressed["tensors"].size());
      EXPECT_GT(totals["bits_per_weight"].get<double>(), totals["joint_entropy"].get<double>());
      EXPECT_LT(totals["bits_per_weight"].get<double>(), totals["joint_entropy"].get<double>() + 0.5);
      const json inspected = ask({"inspect", packed});
      EXPECT_EQ(inspected["totals"]["bits_per_weight"], totals["bits_per_weight"]);
      ask({"verify", packed, "--against", model});
      ask({"decompress", packed, "-o", back});
      if (std::string(coder) != "huffman") continue;
      const json compared = ask({"compare", model, "--methods", std::string("entrollm-") + width});
      const json& all = compared["rows"].back();
      EXPECT_EQ(all["tensor"], "*");
      EXPECT_NEAR(all["bits_per_weight"].get<double>(), totals["bits_per_weight"].get<double>(), 1e-9);
      EXPECT_NEAR(all["entropy"].get<double>(), totals["joint_entropy"].get<double>(), 1e-9);
    }
  }
  EXPECT_NE(run({"compress", model, "-o", packed, "--method", "entrollm"}).out.find("of all codes together"),
            std::string::npos);
}

TEST_F(Tool, CompressesOnATrellis) {
  const std::string model = generated(), packed = path("packed.safetensors"), back = path("back.safetensors");
  double before = 0;
  for (const char* method : {"tcq4", "tcq8"}) {
    const json compressed = ask({"compress", model, "-o", packed, "--method", method, "--bits", "2.5"});
    EXPECT_EQ(compressed["method"], method);
    EXPECT_EQ(compressed["format"], "int8");
    const json& totals = compressed["totals"];
    EXPECT_NEAR(totals["bits_per_weight"].get<double>(), 2.5, 0.025);
    EXPECT_LT(totals["entropy"], totals["bits_per_weight"]);
    const json inspected = ask({"inspect", packed});
    EXPECT_EQ(inspected["totals"]["bits_per_weight"], totals["bits_per_weight"]);
    ask({"verify", packed, "--against", model});
    ask({"decompress", packed, "-o", back});
    const std::string lambda = run({"lambda", model, "--bits", "2.5", "--method", method}).out;
    EXPECT_GT(std::stod(lambda), 1);
    EXPECT_NE(std::stod(lambda), before);
    before = std::stod(lambda);
  }
}

TEST_F(Tool, DoesTheWholeJob) {
  const std::string model = generated(), packed = path("packed.safetensors"), back = path("back.safetensors");

  const json compressed = ask({"compress", model, "-o", packed, "--bits", "3"});
  expect_keys(compressed, {"input", "output", "format", "tensors", "totals"});
  expect_keys(compressed["totals"], {"weights", "bits_per_weight", "entropy", "compressed_bytes", "file_bytes",
                                     "input_bytes", "lambda", "blocks", "passed_through", "seconds"});
  EXPECT_NEAR(compressed["totals"]["bits_per_weight"].get<double>(), 3.0, 0.02);
  EXPECT_EQ(compressed["totals"]["file_bytes"], std::filesystem::file_size(packed));
  EXPECT_EQ(compressed["totals"]["input_bytes"], std::filesystem::file_size(model));

  const json inspected = ask({"inspect", packed});
  expect_keys(inspected, {"input", "tensors", "totals"});
  ASSERT_GT(inspected["tensors"].size(), 0U);
  std::uint64_t weights = 0;
  for (const json& tensor : inspected["tensors"]) {
    expect_keys(tensor, {"name", "shape", "format", "bits_per_weight", "entropy", "sparsity", "unique_values"});
    if (tensor["format"] == "fp8_e4m3") weights += tensor["weights"].get<std::uint64_t>();
  }
  EXPECT_EQ(weights, compressed["totals"]["weights"].get<std::uint64_t>());
  EXPECT_EQ(inspected["totals"]["weights"], compressed["totals"]["weights"]);
  EXPECT_NEAR(inspected["totals"]["bits_per_weight"].get<double>(), 3.0, 0.02);

  const json checked = ask({"verify", packed});
  expect_keys(checked, {"input", "checksums"});
  EXPECT_GT(checked["checksums"].get<std::size_t>(), 0U);

  const json measured = ask({"verify", packed, "--against", model});
  ASSERT_GT(measured["tensors"].size(), 0U);
  for (const json& tensor : measured["tensors"]) {
    expect_keys(tensor, {"name", "weights", "compressed", "identical", "relative_l1", "sqnr_db", "max_error"});
    EXPECT_TRUE(tensor["compressed"] || tensor["identical"]) << tensor;
  }

  const json restored = ask({"decompress", packed, "-o", back});
  expect_keys(restored, {"input", "output", "totals"});
  const json listed = ask({"inspect", back});
  std::map<std::string, json> shapes;
  for (const json& tensor : listed["tensors"]) shapes[tensor["name"]] = tensor["shape"];
  const json original = ask({"inspect", model});
  for (const json& tensor : original["tensors"]) EXPECT_EQ(shapes[tensor["name"]], tensor["shape"]);

  EXPECT_EQ(files(), (std::vector<std::string>{"back.safetensors", "model.safetensors", "packed.safetensors"}));
}

TEST_F(Tool, TellsWhatExponentsCost) {
  const std::string model = generated(), packed = path("packed.safetensors"), picture = path("plot.svg");
  const json answer = ask({"inspect", model, "--exponents", "--svg", picture});
  expect_keys(answer, {"input", "container", "tensors", "blocks", "total"});
  ASSERT_GT(answer["tensors"].size(), answer["blocks"].size());
  for (const json& row : answer["blocks"]) {
    expect_keys(row,
                {"name", "format", "weights", "exponent_entropy", "lossless_bits", "fp8_exponent_entropy",
                 "rotated_fp8_exponent_entropy", "stable_alpha", "stated_bounds", "fitted_alpha", "fitted_entropy"});
    EXPECT_GT(row["exponent_entropy"].get<double>(), 2.5) << row;
    EXPECT_LT(row["exponent_entropy"].get<double>(), row["fitted_entropy"].get<double>()) << row;
    EXPECT_NEAR(row["rotated_fp8_exponent_entropy"].get<double>(), 2.54, 0.05) << row;
    EXPECT_NEAR(row["lossless_bits"].get<double>(), row["exponent_entropy"].get<double>() + 8, 1e-9) << row;
  }
  const std::string svg = read_text(picture);
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  EXPECT_NE(svg.find("rotated"), std::string::npos);
  EXPECT_NE(svg.find("bits an exponent (fewer is better)"), std::string::npos);

  ask({"compress", model, "-o", packed, "--lossless"});
  const json inside = ask({"inspect", packed, "--exponents"});
  EXPECT_EQ(inside["container"], true);
  std::map<std::string, json> plain;
  for (const json& row : answer["tensors"]) plain[row["name"]] = row["exponent_entropy"];
  ASSERT_GT(inside["tensors"].size(), 0U);
  for (const json& row : inside["tensors"]) EXPECT_EQ(row["exponent_entropy"], plain[row["name"]]) << row;
}

TEST_F(Tool, AnswersPeopleToo) {
  const std::string model = generated(), packed = path("packed.safetensors");
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"compress", model, "-o", packed, "--bits", "2.1"},
                                             {"inspect", packed},
                                             {"inspect", packed, "--exponents"},
                                             {"inspect", model, "--exponents", "--details"},
                                             {"verify", packed},
                                             {"verify", packed, "--against", model},
                                             {"decompress", packed, "-o", path("back.safetensors"), "--dtype", "f32"},
                                             {"compare", model, "--bits", "3"},
                                             {"generate", path("again.safetensors"), "--preset", "tiny"},
                                             {"generate", "--list"}}) {
    const outcome result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "") << arguments[0];
    EXPECT_GT(result.out.size(), 20U) << arguments[0];
  }
}

TEST_F(Tool, IsQuietWhenAsked) {
  const std::string model = path("model.safetensors"), packed = path("packed.safetensors");
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"generate", model, "--preset", "tiny", "-q"},
                                             {"compress", model, "-o", packed, "-q"},
                                             {"verify", packed, "-q"},
                                             {"decompress", packed, "-o", path("back.safetensors"), "-q"}}) {
    const outcome result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out + result.err, "");
  }
}

TEST_F(Tool, ReportsTheDistortionThatThereIs) {
  const std::string model = path("model.safetensors"), packed = path("packed.safetensors"), back = path("back");
  const std::vector<float> weights = some_weights(96 * 200, 7);
  write_safetensors(
      model, {{"a.weight", "F32", {96, 200}, f32_bytes(weights)}, {"a.bias", "F32", {5}, f32_bytes({1, 2, 3, 4, 5})}});
  ask({"compress", model, "-o", packed, "--bits", "4"});
  ask({"decompress", packed, "-o", back});
  EXPECT_EQ(read_values(back, "a.bias"), (std::vector<float>{1, 2, 3, 4, 5}));
  const std::vector<float> restored = read_values(back, "a.weight");
  ASSERT_EQ(restored.size(), weights.size());
  double error_l1 = 0, norm_l1 = 0, error_square = 0, norm_square = 0, worst = 0;
  for (std::size_t index = 0; index < weights.size(); ++index) {
    const double weight = weights[index], error = weight - restored[index];
    error_l1 += std::fabs(error);
    norm_l1 += std::fabs(weight);
    error_square += error * error;
    norm_square += weight * weight;
    worst = (std::max)(worst, std::fabs(error));
  }
  const json measured = ask({"verify", packed, "--against", model});
  const auto row = std::find_if(measured["tensors"].begin(), measured["tensors"].end(),
                                [](const json& tensor) { return tensor["name"] == "a.weight"; });
  ASSERT_NE(row, measured["tensors"].end());
  EXPECT_NEAR((*row)["relative_l1"].get<double>(), error_l1 / norm_l1, 1e-6);
  EXPECT_NEAR((*row)["sqnr_db"].get<double>(), 10 * std::log10(norm_square / error_square), 1e-4);
  EXPECT_NEAR((*row)["max_error"].get<double>(), worst, 1e-9);
  EXPECT_EQ((*row)["weights"], 96 * 200);
}

// JSON has no infinities, so they are strings that say which one.
TEST_F(Tool, NamesNumbersThatAreNotFinite) {
  const std::string model = path("model"), other = path("other"), packed = path("packed");
  const std::vector<float> zeros(64 * 64), weights = some_weights(64 * 64, 2);
  write_safetensors(
      model, {{"a.weight", "F32", {64, 64}, f32_bytes(weights)}, {"b.weight", "F32", {64, 64}, f32_bytes(zeros)}});
  write_safetensors(other,
                    {{"a.weight", "F32", {64, 64}, f32_bytes(zeros)}, {"b.weight", "F32", {64, 64}, f32_bytes(zeros)}});
  ask({"compress", model, "-o", packed, "--lambda", "5"});
  const json measured = ask({"verify", packed, "--against", other});
  std::map<std::string, json> rows;
  for (const json& tensor : measured["tensors"]) rows[tensor["name"]] = tensor;
  EXPECT_EQ(rows["a.weight"]["relative_l1"], "inf");
  EXPECT_EQ(rows["a.weight"]["sqnr_db"], "-inf");
  EXPECT_EQ(rows["b.weight"]["relative_l1"], 0);
  EXPECT_EQ(rows["b.weight"]["sqnr_db"], "inf");
  const json compared = ask({"compare", other, "--bits", "3", "--methods", "rtn"});
  EXPECT_EQ(compared["rows"].back()["sqnr_db"], "inf");

  auto broken = weights;
  broken[64 * 5 + 7] = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(
      other, {{"a.weight", "F32", {64, 64}, f32_bytes(broken)}, {"b.weight", "F32", {64, 64}, f32_bytes(zeros)}});
  tool_test::expect_failure(run({"verify", packed, "--against", other, "--json"}), 1,
                            {"a.weight", "row 5, column 7 is NaN", "original"});
}

TEST_F(Tool, FollowsTheSelection) {
  const std::string model = path("model.safetensors"), packed = path("packed.safetensors");
  write_safetensors(model, {{"embed.weight", "F32", {64, 64}, f32_bytes(some_weights(4096, 1))},
                            {"layers.0.a", "F32", {64, 64}, f32_bytes(some_weights(4096, 2))},
                            {"layers.0.b", "F32", {64, 64}, f32_bytes(some_weights(4096, 3))}});
  const auto chosen = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"compress", model, "-o", packed, "--lambda", "10"});
    std::set<std::string> names;
    const json answer = ask(options);
    for (const json& tensor : answer["tensors"]) names.insert(tensor["name"]);
    return names;
  };
  using names = std::set<std::string>;
  EXPECT_EQ(chosen({}), (names{"layers.0.a", "layers.0.b"}));
  EXPECT_EQ(chosen({"--include", "embed.*"}), (names{"embed.weight", "layers.0.a", "layers.0.b"}));
  EXPECT_EQ(chosen({"--exclude", "*.a", "--exclude", "*.c"}), (names{"layers.0.b"}));
  const json apart = ask({"compress", model, "-o", packed, "--lambda", "10", "--block-pattern", "layers\\.0\\.."});
  EXPECT_EQ(apart["totals"]["blocks"], 2);
  EXPECT_EQ(ask({"compress", model, "-o", packed, "--lambda", "10"})["totals"]["lambda"], 10);
}

TEST_F(Tool, MakesTheSameFileWithAnyNumberOfThreads) {
  const std::string model = generated();
  ask({"compress", model, "-o", path("one"), "--threads", "1"});
  ask({"compress", model, "-o", path("three"), "--threads", "3"});
  EXPECT_TRUE(read_text(path("one")) == read_text(path("three")));
  ask({"generate", path("again"), "--preset", "tiny", "--threads", "3"});
  EXPECT_TRUE(read_text(model) == read_text(path("again")));
  ask({"generate", path("other"), "--preset", "tiny", "--seed", "2"});
  EXPECT_FALSE(read_text(model) == read_text(path("other")));
}

TEST_F(Tool, MeetsTheBitsAskedFor) {
  const std::string model = generated();
  for (const std::string format : {"fp8_e4m3", "fp8_e5m2", "int8"}) {
    for (const std::string bits : {"2.1", "4"}) {
      const json answer = ask({"compress", model, "-o", path("packed"), "--bits", bits, "--format", format});
      EXPECT_NEAR(answer["totals"]["bits_per_weight"].get<double>(), std::stod(bits), 0.02) << format;
      EXPECT_EQ(answer["tensors"][0]["format"], format);
    }
  }
  const json each = ask({"compress", model, "-o", path("packed"), "--bits", "3", "--per-tensor"});
  for (const json& tensor : each["tensors"]) {
    EXPECT_NEAR(tensor["bits_per_weight"].get<double>(), 3, 0.1) << tensor["name"];
  }
}

TEST_F(Tool, CompressesAShardedCheckpoint) {
  write_safetensors(path("model-00001-of-00002.safetensors"),
                    {{"layers.0.a", "F32", {64, 64}, f32_bytes(some_weights(4096, 2))}});
  write_safetensors(
      path("model-00002-of-00002.safetensors"),
      {{"layers.0.b", "F32", {64, 64}, f32_bytes(some_weights(4096, 3))}, {"norm", "F32", {3}, f32_bytes({1, 2, 3})}});
  const std::string index = path("model.safetensors.index.json"), packed = path("packed.safetensors");
  const json map{{"metadata", {{"total_size", 32780}}},
                 {"weight_map",
                  {{"layers.0.a", "model-00001-of-00002.safetensors"},
                   {"layers.0.b", "model-00002-of-00002.safetensors"},
                   {"norm", "model-00002-of-00002.safetensors"}}}};
  tool_test::write_text(index, map.dump());
  const json answer = ask({"compress", index, "-o", packed, "--lambda", "5"});
  EXPECT_EQ(answer["totals"]["blocks"], 1) << "one block, though its matrices come from two files";
  EXPECT_EQ(answer["tensors"].size(), 2U);
  EXPECT_EQ(ask({"verify", packed, "--against", index})["totals"]["weights"], 2 * 4096);
  tool_test::expect_failure(run({"compress", index, "-o", path("model-00001-of-00002.safetensors"), "--lambda", "5"}),
                            1, {"input"});
}

TEST_F(Tool, ComparesWhatIsWithinReach) {
  std::vector<float> values;
  for (std::uint32_t index = 0; index < 64 * 16; ++index) {
    values.push_back(static_cast<float>(index * 2654435761U >> 16) - 32768);
  }
  const std::string narrow = path("narrow.safetensors");
  tool_test::write_safetensors(narrow, {{"w", "F32", {64, 16}, tool_test::f32_bytes(values)}});
  const json answer = ask({"compare", narrow, "--bits", "1.3", "--methods", "entquant,absmax"});
  ASSERT_EQ(answer["out_of_reach"].size(), 1U) << "scales alone take a bit";
  EXPECT_EQ(answer["out_of_reach"][0]["method"], "entquant");
  EXPECT_EQ(answer["out_of_reach"][0]["target_bits"], 1.3);
  ASSERT_EQ(answer["rows"].size(), 2U);
  EXPECT_EQ(answer["rows"].back()["method"], "absmax");
  const auto shown = run({"compare", narrow, "--bits", "1.3", "--methods", "entquant,absmax"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("out of reach: entquant: 1.3"), std::string::npos) << shown.out;
  tool_test::expect_failure(run({"compare", narrow, "--bits", "1.3", "--methods", "entquant"}), 1, {narrow, "1.3"});
}

TEST_F(Tool, ComparesMethods) {
  const std::string model = generated(), picture = path("rate.svg");
  const json answer = ask(
      {"compare", model, "--bits", "4,2.1", "--methods", "entquant,tcq8,absmax,rtn,nf4,nf4-dq,hqq", "--svg", picture});
  ASSERT_TRUE(answer["rows"].is_array());
  EXPECT_EQ(answer["out_of_reach"], json::array());
  std::map<std::string, std::vector<json>> totals;
  std::set<std::string> tensors;
  for (const json& row : answer["rows"]) {
    expect_keys(row, {"tensor", "method", "bits_per_weight", "entropy", "relative_l1", "sqnr_db", "unbiased_sqnr_db",
                      "sparsity", "unique_values"});
    tensors.insert(row["tensor"]);
    if (row["tensor"] == "*") totals[row["method"]].push_back(row);
  }
  EXPECT_GT(tensors.size(), 2U);
  ASSERT_EQ(totals["entquant"].size(), 2U);
  EXPECT_NEAR(totals["entquant"][0]["bits_per_weight"].get<double>(), 4.0, 0.02);
  EXPECT_NEAR(totals["entquant"][1]["bits_per_weight"].get<double>(), 2.1, 0.02);
  EXPECT_GT(totals["entquant"][0]["sqnr_db"], totals["entquant"][1]["sqnr_db"]);
  ASSERT_EQ(totals["tcq8"].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(totals["tcq8"][i]["bits_per_weight"].get<double>(), i == 0 ? 4.0 : 2.1, 0.02);
    for (const char* const noise : {"sqnr_db", "unbiased_sqnr_db"}) {
      EXPECT_GT(totals["tcq8"][i][noise].get<double>(), totals["entquant"][i][noise].get<double>()) << noise;
    }
  }
  ASSERT_EQ(totals["nf4"].size(), 1U);
  EXPECT_NEAR(totals["nf4"][0]["bits_per_weight"].get<double>(), 4.5, 0.01);
  EXPECT_EQ(totals["nf4-dq"].size(), 1U);
  EXPECT_EQ(totals["absmax"].size(), 1U);
  EXPECT_EQ(totals["rtn"].size(), 2U);
  EXPECT_EQ(totals["hqq"].size(), 2U);
  EXPECT_GT(totals["entquant"][0]["sqnr_db"].get<double>(), totals["rtn"][0]["sqnr_db"].get<double>());
  const std::string svg = read_text(picture);
  for (const char* words : {"bits per weight (fewer is better)", "SQNR in dB (more is better)", "</svg>"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }

  const json one = ask({"compare", model, "--tensor", *std::next(tensors.begin()), "--bits", "3", "--methods", "rtn",
                        "--max-weights", "1000"});
  ASSERT_EQ(one["rows"].size(), 2U) << "the tensor and the total";
  tool_test::expect_failure(run({"compare", model, "--tensor", "no.such.tensor"}), 1, {"not found", "no.such.tensor"});
}

}  // namespace
