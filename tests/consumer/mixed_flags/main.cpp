#include "encode.hpp"

int main() { return encode_plain() == encode_free() ? 0 : 1; }
