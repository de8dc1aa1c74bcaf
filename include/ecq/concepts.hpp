#pragma once
/// \file
/// The map of the library: every policy concept, in the order the data flows.
///
///   weights -> quantizer (number_format, granularity, scale_search of distortion + regularizer) -> codes
///   codes   -> symbol_map -> entropy_coder -> stream of chunks -> container
///
/// and back, on any backend the coder is decodable_on; a baseline is a method to compare with. A policy is a type that
/// models one of these concepts. A static_assert follows each shipped policy, and tests/laws runs the same laws over
/// all of them.
///
/// | concept | promises | header |
/// |---|---|---|
/// | number_format, code_format, affine_format | codes and the numbers they stand for | format/number_format.hpp |
/// | granularity | which weights share a scale | quantize/granularity.hpp |
/// | distortion | how far weights may be from the real ones | quantize/distortion.hpp |
/// | regularizer | a surrogate for the entropy of the codes | quantize/regularizer.hpp |
/// | scale_search | a scale for every group | quantize/scale_search.hpp |
/// | quantizer, affine_quantizer | a matrix into codes and scales | quantize/quantizer.hpp |
/// | row_weighted | a quantiser with a lambda for each row | quantize/quantizer.hpp |
/// | baseline | a method to compare with, its bits counted | quantize/baseline.hpp |
/// | element_split | elements into symbols and raw bits | entropy/symbol_map.hpp |
/// | entropy_coder | symbols into words, chunk by chunk | entropy/entropy_coder.hpp |
/// | stream_coder | one or several coders that make a stream | stream/stream_encoder.hpp |
/// | backend, decodable_on | where verbs run | entropy/entropy_coder.hpp |
/// | coder_names | the coders that a decoding verb is told | stream/coder_set.hpp |
/// | weight_output | what weights are decoded to | block_decoder.hpp |
/// | activation | what coded weights are multiplied with | matmul/matmul_input.hpp |
/// | exponent_format | weights that are coded without loss | lossless.hpp |
/// | lambda_search | a scale search with one parameter, which a rate decides | quantize/entquant.hpp |
/// | rate_targeted | a quantiser that meets bits per weight | methods/quantizer_method.hpp |
/// | compression_method, prepared_method (classes) | all matrices of a model, one after another | methods/method.hpp |
/// | thread_group, stepped_group, lockstep_warp | threads that run one body | base/threads.hpp |
/// | warp_step, warp_sink | what decodes one symbol per lane, and what takes four | entropy/chunk_warp.hpp |
/// | gap_group, limited_sink | threads that decode a stretch of a gap array, and what takes it | entropy/huffman_gaps |
/// | row_group, row_sink | threads that quantise a row, and what takes its codes | quantize/row_group.hpp |
/// | device_output, chunk_user | what a device decodes to, and into | cuda/decompress.cuh, cuda/chunk_user.cuh |

#include "ecq/base/threads.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/quantize/baseline.hpp"
#include "ecq/quantize/distortion.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/regularizer.hpp"
#include "ecq/quantize/scale_search.hpp"
#include "ecq/stream/stream_encoder.hpp"
