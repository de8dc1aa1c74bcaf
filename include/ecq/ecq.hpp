#pragma once
/// \file
/// Everything for matrices in memory. Files: ecq/checkpoint/*.hpp; the L-BFGS search: ecq/quantize/lbfgs.hpp (component
/// ecq::lbfgs).

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/exponent_counts.hpp"
#include "ecq/analysis/exponent_law.hpp"
#include "ecq/analysis/hadamard.hpp"
#include "ecq/analysis/weight_error.hpp"
#include "ecq/compressor.hpp"
#include "ecq/concepts.hpp"
#include "ecq/decompress.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/lossless.hpp"
#include "ecq/matrix_view.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rtn.hpp"
#include "ecq/result.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/version.hpp"
#include "ecq/weights_view.hpp"
