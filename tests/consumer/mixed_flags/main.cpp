#include "compress.hpp"

int main() {
  const auto plain = compress_plain();
  return !plain.empty() && plain == compress_free() ? 0 : 1;
}
