// Frequencies of rotary embeddings, and the members of config.json that scale them.

#include "rotary.hpp"

#include <cmath>
#include <numbers>
#include <string_view>

namespace llama {

double rotary_embedding::frequency(std::size_t pair, std::size_t width) const noexcept {
  const double plain = std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
  const double wavelength = 2 * std::numbers::pi / plain;
  if (wavelength < kept_wavelength) return plain;
  if (wavelength >= divided_wavelength) return plain / factor;
  // 1 where frequencies stay and 0 where they are divided, linear in the frequency.
  const double kept = (1 / wavelength - 1 / divided_wavelength) / (1 / kept_wavelength - 1 / divided_wavelength);
  return kept * plain + (1 - kept) * plain / factor;
}

ecq::result<rotary_embedding> parse_rotary_embedding(const json& config) {
  rotary_embedding rotary;
  const json* const parameters = find_member(config, "rope_parameters");
  const json* const scaling = parameters != nullptr ? parameters : find_member(config, "rope_scaling");
  ECQ_TRY(theta, positive_member(parameters != nullptr ? *parameters : config, "rope_theta", rotary.theta));
  rotary.theta = theta;
  if (scaling == nullptr) return rotary;
  const char* const name = find_member(*scaling, "rope_type") != nullptr ? "rope_type" : "type";
  const std::string_view type = text_member(*scaling, name);
  if (type == "default") return rotary;
  if (type != "linear" && type != "llama3") {
    return ecq::error(ecq::errc::unsupported, "rotary embeddings of type '", type, "'");
  }
  const auto number = [&](const char* member) -> ecq::result<double> {
    if (find_member(*scaling, member) == nullptr) return ecq::error(ecq::errc::not_found, member, " is missing");
    return positive_member(*scaling, member, 1);
  };
  ECQ_TRY(factor, number("factor"));
  rotary.factor = factor;
  if (type == "linear") return rotary;
  ECQ_TRY(low, number("low_freq_factor"));
  ECQ_TRY(high, number("high_freq_factor"));
  ECQ_TRY(context, number("original_max_position_embeddings"));
  if (low >= high) return ecq::error(ecq::errc::corrupt, "low_freq_factor: not below high_freq_factor");
  rotary.kept_wavelength = context / high;
  rotary.divided_wavelength = context / low;
  return rotary;
}

}  // namespace llama
