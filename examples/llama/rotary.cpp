// Frequencies of rotary embeddings, and the members of config.json that scale them.

#include "rotary.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string_view>

namespace llama {

double rotary_embedding::frequency(std::size_t pair, std::size_t width) const noexcept {
  const double plain = std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
  const double wavelength = 2 * std::numbers::pi / plain;
  if (wavelength < kept_wavelength) return plain;
  if (wavelength >= divided_wavelength) return plain / factor;
  // The plain share: 1 where frequencies stay, 0 where they are divided, linear in the frequency between.
  const double kept = (1 / wavelength - 1 / divided_wavelength) / (1 / kept_wavelength - 1 / divided_wavelength);
  return kept * plain + (1 - kept) * plain / factor;
}

namespace {

/// Returns the object that holds the parameters. rope_scaling, of older programs, takes precedence over
/// rope_parameters.
const json& parameters_in(const json& config) {
  static const json none = json::object();
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    if (const json* found = find_member(config, name); found != nullptr && !found->empty()) return *found;
  }
  return none;
}

/// Rejects parameters that not all layers share.
ecq::result<void> check_shared(const json& parameters) {
  for (const auto& [name, value] : parameters.items()) {
    if (value.is_object()) return ecq::error(ecq::errc::unsupported, "rotary embeddings for '", name, "' alone");
  }
  return {};
}

/// Rejects heads that are rotated only in part.
ecq::result<void> check_whole(const json& object) {
  const json* part = find_member(object, "partial_rotary_factor");
  if (part == nullptr || *part == 1.0) return {};
  return ecq::error(ecq::errc::unsupported, "partial_rotary_factor ", part->dump());
}

/// Returns the context that the frequencies were made for: the member beside the parameters, else that among them, else
/// the model's own context.
ecq::result<double> original_context(const json& config, const json& parameters) {
  constexpr const char* name = "original_max_position_embeddings";
  if (find_member(config, name) != nullptr) return positive_member(config, name, 1);
  ECQ_TRY(own, positive_member(config, "max_position_embeddings", 2048));
  return positive_member(parameters, name, own);
}

}  // namespace

ecq::result<rotary_embedding> parse_rotary_embedding(const json& config, double usual_theta) {
  rotary_embedding rotary;
  const json& parameters = parameters_in(config);
  ECQ_CHECK(check_whole(config));
  ECQ_CHECK(check_whole(parameters));
  ECQ_CHECK(check_shared(parameters));
  const bool inside = find_member(parameters, "rope_theta") != nullptr;
  ECQ_TRY(theta, positive_member(inside ? parameters : config, "rope_theta", usual_theta));
  rotary.theta = theta;
  const char* const name = find_member(parameters, "rope_type") != nullptr ? "rope_type" : "type";
  const bool is_default = parameters.is_object() && find_member(parameters, name) == nullptr;
  const std::string_view type = is_default ? "default" : text_member(parameters, name);
  if (type == "default") return rotary;
  if (type != "linear" && type != "llama3") {
    return ecq::error(ecq::errc::unsupported, "rotary embeddings of type '", type, "'");
  }
  const auto number = [&](const json& from, const char* member) -> ecq::result<double> {
    if (find_member(from, member) == nullptr) return ecq::error(ecq::errc::not_found, member, " is missing");
    return positive_member(from, member, 1);
  };
  ECQ_TRY(factor, number(parameters, "factor"));
  rotary.factor = factor;
  if (type == "linear") return rotary;
  ECQ_TRY(low, number(parameters, "low_freq_factor"));
  ECQ_TRY(high, number(parameters, "high_freq_factor"));
  ECQ_TRY(context, original_context(config, parameters));
  if (low >= high) return ecq::error(ecq::errc::corrupt, "low_freq_factor: not below high_freq_factor");
  rotary.kept_wavelength = context / high;
  rotary.divided_wavelength = context / low;
  return rotary;
}

}  // namespace llama
