#include "ecq/base/backend-inl.hpp"
#include "ecq/base/checksum-inl.hpp"
#include "ecq/base/text-inl.hpp"
