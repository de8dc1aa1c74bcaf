#pragma once
/// \file
/// Compression method that belongs to a quantiser.

#include <type_traits>

#include "ecq/format/number_format.hpp"
#include "ecq/methods/grid_method.hpp"
#include "ecq/methods/quantizer_method.hpp"
#include "ecq/quantize/quantizer.hpp"

namespace ecq::detail {

/// Specialised for options that are not a quantiser but have a method of their own: `type`.
template <class Format, class Options>
struct own_method {};

template <class Format, class Options>
concept has_own_method = requires { typename own_method<Format, Options>::type; };

template <class Format, class Quantizer>
struct method_of_quantizer {
  static_assert(code_format<Format>, "Format is no number format of one byte a code (ecq/format/number_format.hpp)");
  static_assert(quantizer<Quantizer, Format> || affine_quantizer<Quantizer, Format>,
                "Quantizer makes no codes of Format (ecq/quantize/quantizer.hpp)");
  using type = std::conditional_t<affine_quantizer<Quantizer, Format>, grid_method<Format, Quantizer>,
                                  quantizer_method<Format, Quantizer>>;
};

template <class Format, class Options>
  requires has_own_method<Format, Options>
struct method_of_quantizer<Format, Options> {
  using type = typename own_method<Format, Options>::type;
};

/// Compression method that quantises with `Quantizer` to codes of `Format`.
template <class Format, class Quantizer>
using method_of = typename method_of_quantizer<Format, Quantizer>::type;

}  // namespace ecq::detail
