#pragma once
/// \file
/// The method of trellis-coded quantisation.

#include <memory>

#include "ecq/base/config.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/quantize/tcq.hpp"

namespace ecq::detail {

/// Compresses by `how`; codes are Int8.
std::shared_ptr<const compression_method> make_tcq_method(const tcq& how);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/methods/tcq_method-inl.hpp"
#endif
