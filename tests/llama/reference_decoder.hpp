#pragma once
// A second decoder, written as plainly as possible from the definition of the architecture, in double precision. It
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

  /// Returns the logits of every position.
  std::vector<vector> logits(const std::vector<std::uint32_t>& tokens) const;

 private:
  const std::vector<float>& weights(const std::string& name) const;
  /// Returns the product of a matrix and `in`, plus the matrix's bias if there is one.
  vector product(const std::string& name, const vector& in) const;
  vector normalized(const vector& state, const std::string& name) const;
  /// Normalises each head by itself if the model has such a norm.
  vector normalized_heads(const vector& heads, const std::string& name) const;
  static void add(vector& to, const vector& what);

  /// Returns one head of `all`, rotated by its position: elements j and j + width / 2 are a point in the plane.
  static vector rotated_head(const vector& all, std::size_t head, std::size_t position);

  /// Returns the output of a network whose matrices have these names for a normalised state.
  vector network(const std::string& gate, const std::string& up, const std::string& down, const vector& normed) const;

  /// Returns the sum of the outputs of the most probable experts, weighted by their probabilities.
  vector mixture(const std::string& prefix, bool mixtral, const vector& normed) const;

  void attend(const std::string& prefix, std::vector<vector>& states) const;

  const tiny_model& model_;
};

}  // namespace llama_test
