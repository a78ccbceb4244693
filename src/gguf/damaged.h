// What to do about a model file that is not as it was written.
#pragma once

namespace bmoe::gguf {

// The end of a message that says what is wrong with it.
inline constexpr const char *kDamaged =
    "; the file is damaged or was not downloaded completely: compare its size with that at its source, or download it "
    "again";

}  // namespace bmoe::gguf
