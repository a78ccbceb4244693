#include "gguf/ggml_types.h"

#include <gtest/gtest.h>

namespace bmoe::gguf {
namespace {

TEST(GgmlTypes, KnowsTypesInUse) {
    const auto q4_k = type_traits(12);
    ASSERT_TRUE(q4_k);
    EXPECT_EQ(q4_k->name, "q4_K");
    EXPECT_EQ(q4_k->block, 256U);
    EXPECT_EQ(q4_k->block_bytes, 144U);
}

TEST(GgmlTypes, RetiredAndUnknownIdsAreNone) {
    for (const uint32_t type : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U, 43U, 1000U, ~0U})
        EXPECT_FALSE(type_traits(type)) << type;
}

}  // namespace
}  // namespace bmoe::gguf
