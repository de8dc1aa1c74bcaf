#include "ecq/cuda/encode.cuh"

ECQ_INSTANCE_OF_DEVICE_ENCODING(template, ecq::rans);
ECQ_INSTANCE_OF_DEVICE_ENCODING(template, ecq::rans_direct);
