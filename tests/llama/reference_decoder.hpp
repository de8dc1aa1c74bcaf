#pragma once
// A second decoder, written from the definition of the architecture in double precision and as plainly as can be. It
// shares no code with the one under test.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tiny_model.hpp"

namespace llama_test {

using vector = std::vector<double>;

class reference_decoder {
 public:
  explicit reference_decoder(const tiny_model& model) : model_(model) {}

  /// The logits of every position.
  std::vector<vector> logits(const std::vector<std::uint32_t>& tokens) const;

 private:
  const std::vector<float>& weights(const std::string& name) const;
  /// With the bias that belongs to the matrix.
  vector product(const std::string& name, const vector& in) const;
  vector normalized(const vector& state, const std::string& name) const;
  /// Each head by itself, where the model has such a norm.
  vector normalized_heads(const vector& heads, const std::string& name) const;
  static void add(vector& to, const vector& what);

  /// One head of `all`, turned by its position: elements j and j + width / 2 are a point in the plane.
  static vector rotated_head(const vector& all, std::size_t head, std::size_t position);

  /// What a network whose matrices have these names makes of a normed state.
  vector network(const std::string& gate, const std::string& up, const std::string& down, const vector& normed) const;

  /// The experts of the largest probabilities, weighted by them.
  vector mixture(const std::string& prefix, bool mixtral, const vector& normed) const;

  void attend(const std::string& prefix, std::vector<vector>& states) const;

  const tiny_model& model_;
};

}  // namespace llama_test
