#include "ecq/entropy/tans/tans-inl.hpp"
#include "ecq/stream/stream_encoder.hpp"

ECQ_INSTANCE_OF_ENCODING(template, encode_by<ecq::tans>);
