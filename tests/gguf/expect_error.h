// EXPECT_ERROR(expression, parts...): throws bmoe::Error whose message holds all parts.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"

namespace bmoe::gguf::test {

template <typename Call>
std::string error_of(const Call &call) {
    try {
        call();
    } catch (const Error &error) {
        return error.what();
    }
    return "(no error)";
}

inline void expect_parts(const std::string &message, std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) {
        EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
    }
}

}  // namespace bmoe::gguf::test

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage)
#define EXPECT_ERROR(expression, ...)                                                                               \
    do {                                                                                                            \
        SCOPED_TRACE(#expression);                                                                                  \
        ::bmoe::gguf::test::expect_parts(::bmoe::gguf::test::error_of([&] { (void)(expression); }), {__VA_ARGS__}); \
    } while (false)
