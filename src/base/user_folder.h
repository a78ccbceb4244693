// Where a user's files of a kind belong, by the XDG base directory specification.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace bmoe {

// What the environment variable `name` says, or `otherwise` below the home folder, and "bmoe" in it; empty if the environment
// names no absolute path.
inline std::filesystem::path user_folder(const char *name, const std::filesystem::path &otherwise) {
    const auto absolute = [](const char *variable) {
        const char *value = std::getenv(variable);
        const std::filesystem::path path = value != nullptr ? value : "";
        return path.is_absolute() ? path : std::filesystem::path();
    };
    if (const std::filesystem::path folder = absolute(name); !folder.empty()) {
        return folder / "bmoe";
    }
    const std::filesystem::path home = absolute("HOME");
    return home.empty() ? home : home / otherwise / "bmoe";
}

}  // namespace bmoe
