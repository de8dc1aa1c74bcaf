#include "ecq/entropy/huffman/code_lengths-inl.hpp"
#include "ecq/entropy/huffman/huffman-inl.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps-inl.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq {

template class huffman::lut_decoder<huffman_wide>;
template huffman::lut_decoder<huffman_cascade>::lut_decoder(const table&, split_map);
template errc huffman::lut_decoder<huffman_cascade>::decode(const chunk_bytes&, std::uint8_t*) const;

}  // namespace ecq

ECQ_INSTANCE_OF_ENCODING(template, encode_by<ecq::huffman>);
ECQ_INSTANCE_OF_ENCODING(template, encode_by<ecq::huffman_gaps>);
