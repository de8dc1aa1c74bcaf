#pragma once
/// \file
/// Everything for matrices in memory, except products with them (ecq/matmul/matmul.hpp). Other headers add files
/// (ecq/checkpoint/*.hpp), trellises (ecq/methods/tcq_method.hpp) and the L-BFGS search (ecq/quantize/lbfgs.hpp,
/// component ecq::lbfgs).

#if defined(__cplusplus) && __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "ecq needs C++20: compile with -std=c++20"
#else  // an older compiler reports only this one line

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/exponent_counts.hpp"
#include "ecq/analysis/exponent_law.hpp"
#include "ecq/analysis/hadamard.hpp"
#include "ecq/analysis/outliers.hpp"
#include "ecq/analysis/unbiased_error.hpp"
#include "ecq/analysis/weight_error.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/compressor.hpp"
#include "ecq/concepts.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/lossless.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rtn.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/version.hpp"

#endif
