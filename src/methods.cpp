#include "ecq/methods/any_method-inl.hpp"
#include "ecq/methods/joint_code-inl.hpp"
#include "ecq/methods/lambda_search-inl.hpp"
#include "ecq/methods/pack-inl.hpp"
