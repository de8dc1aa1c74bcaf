#include "ecq/block_decoder-inl.hpp"

namespace ecq {

template result<void> block_decoder::decode(const cpu&, std::span<const segment<float>>);
template result<void> block_decoder::decode(const cpu&, std::span<const segment<bf16>>);
template result<void> block_decoder::decode(const cpu&, std::span<const segment<fp16>>);

}  // namespace ecq
#include "ecq/packed-inl.hpp"
#include "ecq/packed_check-inl.hpp"
