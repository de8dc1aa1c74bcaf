#include "ecq/stream/chunk_decoder-inl.hpp"
#include "ecq/stream/chunked_elements-inl.hpp"
#include "ecq/stream/every_coder-inl.hpp"
#include "ecq/stream/narrow_pairs-inl.hpp"
#include "ecq/stream/stream_decoder-inl.hpp"
#include "ecq/stream/stream_encoder-inl.hpp"
#include "ecq/stream/stream_header-inl.hpp"
#include "ecq/stream/stream_view-inl.hpp"

ECQ_INSTANCE_OF_ENCODING(template, encode_by_smallest<ecq::rans, ecq::huffman, ecq::tans>);
