// Text that is in normal form C, and text that may not be.

#include "../../examples/llama/normal_form.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace {

using llama::may_normalize;

TEST(LlamaNormalForm, PassesComposedText) {
  for (const char* const text :
       {"", "plain", "\u00E9t\u00E9", "\u4F60\u597D", "\uD55C\uAE00", "\u0939\u093F\u0928\u094D", "\u05D1\u05BC",
        "\U0001F600", "\xFF\xCC", "\u0E01\u0E38"}) {
    EXPECT_EQ(may_normalize(text), std::nullopt) << text;
  }
}

TEST(LlamaNormalForm, NamesWhatItMayChange) {
  EXPECT_EQ(may_normalize("e\u0301"), 0x301U);        // becomes U+00E9
  EXPECT_EQ(may_normalize("ab\u212B"), 0x212BU);      // becomes U+00C5
  EXPECT_EQ(may_normalize("\u1100\u1161"), 0x1161U);  // becomes U+AC00
  EXPECT_EQ(may_normalize("x\u0305\u0332"), 0x332U);  // is reordered
  EXPECT_EQ(may_normalize("\U0002F800"), 0x2F800U);   // becomes U+4E3D
  EXPECT_EQ(may_normalize("\u0305x\u0332"), std::nullopt);
}

}  // namespace
