// Compresses a whole checkpoint and shows progress: compress_checkpoint [model.safetensors packed.safetensors]
// Without arguments, it makes a small model in the folder where it runs.

#include <cstddef>
#include <cstdio>
#include <ecq/checkpoint/compress_checkpoint.hpp>
#include <ecq/checkpoint/verify_checkpoint.hpp>
#include <ecq/io/safetensors_writer.hpp>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

/// Writes a model of two layers of 512 x 512 weights.
ecq::result<void> write_model(const std::filesystem::path& path) {
  const std::vector<ecq::tensor_declaration> tensors{{"model.layers.0.mlp.weight", "BF16", {{512, 512}}},
                                                     {"model.layers.1.mlp.weight", "BF16", {{512, 512}}}};
  ECQ_TRY(writer, ecq::safetensors_writer::create(path, tensors));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<ecq::bf16> weights(std::size_t{512} * 512);
  for (const ecq::tensor_declaration& tensor : tensors) {
    for (ecq::bf16& weight : weights) weight = ecq::bf16(normal(random));
    ECQ_CHECK(writer.write(tensor.name, std::as_bytes(std::span(weights))));
  }
  return writer.commit();
}

int main(int count, char** arguments) {
  const std::filesystem::path model = count == 3 ? arguments[1] : "example_model.safetensors";
  const std::filesystem::path packed = count == 3 ? arguments[2] : "example_model.ecq.safetensors";
  if (count != 3) {
    if (auto written = write_model(model); !written) return report(written.error());
  }

  const ecq::cpu backend{.threads = 2};
  ecq::compress_options options{.method = ecq::entquant{.target_bits = 3.0}};
  options.selection.exclude = {"*.router.*"};  // stays as it is, as norms, biases and embeddings do
  const auto show = [](const ecq::progress& now) {
    std::printf("%s %s: %3.0f %%\n", std::string(now.stage).c_str(), std::string(now.current).c_str(),
                100.0 * static_cast<double>(now.done) / static_cast<double>(now.total));
    return true;  // false stops the work and leaves nothing behind
  };
  auto made = ecq::compress_checkpoint(backend, model, packed, options, show);
  if (!made) return report(made.error());

  auto verified = ecq::verify_checkpoint(backend, packed, model);
  if (!verified) return report(verified.error());
  std::printf("%zu blocks, %.2f bits per weight\n", made->blocks, made->bits_per_weight);
  return 0;
}
