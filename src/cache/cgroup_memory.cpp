#include "cache/cgroup_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace bmoe::cache {

namespace {

// A hierarchy as this process sees it.
struct Mount {
    int version;
    std::string group;  // the cgroup that is mounted, as /proc/self/cgroup names it
    std::string point;  // where
};

// File names of the two versions.
struct Files {
    std::initializer_list<const char *> limits;
    const char *usage;
    std::initializer_list<std::string_view> reclaimable;  // entries of memory.stat that count all groups below, too
};

const Files kFiles[] = {
    {{"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}},
    // Above memory.high the kernel stalls a group's processes: no place to run in.
    {{"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}},
};

// v1 says "no limit" with the largest number of pages it can count.
constexpr uint64_t kUnlimited = uint64_t{1} << 60;

bool has_word(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        const size_t comma = list.find(',');
        if (list.substr(0, comma) == word) return true;
        list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    }
    return false;
}

// mountinfo writes blanks and backslashes in paths as \ooo.
std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        unsigned code = 0;
        if (text[i] == '\\' && i + 3 < text.size() &&
            std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr == text.data() + i + 4) {
            out += static_cast<char>(code);
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::vector<Mount> read_mounts(const std::string &root) {
    std::vector<Mount> mounts;
    std::ifstream file(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
        // id parent device root point options [optional fields] - type source options
        const size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
        std::string id, parent, device, group, point, type, source, options;
        if (!(before >> id >> parent >> device >> group >> point) || !(after >> type >> source >> options)) continue;
        if (type == "cgroup2") mounts.push_back({2, unescape(group), unescape(point)});
        if (type == "cgroup" && has_word(options, "memory")) mounts.push_back({1, unescape(group), unescape(point)});
    }
    return mounts;
}

// This process's group in the memory hierarchy of the version; empty if it has none.
std::string own_group(const std::string &root, int version) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        // number:controllers:path; version 2 is number 0 without controllers
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
        const bool match =
            version == 2 ? line.starts_with("0:") && controllers.empty() : has_word(controllers, "memory");
        if (match) return line.substr(second + 1);
    }
    return {};
}

// `group` seen from the mount, "" being the group that is mounted. In a container, the group that is mounted is often the
// process's own while its name is that outside of the container: a group that is not below the mount counts as that.
std::string below_mount(const Mount &mount, const std::string &group) {
    if (group.find("/..") != std::string::npos) return "";
    const std::string prefix = mount.group == "/" ? "" : mount.group;
    if (!group.starts_with(prefix)) return "";
    std::string rest = group.substr(prefix.size());
    if (rest == "/" || (!rest.empty() && rest.front() != '/')) return "";
    return rest;
}

std::optional<uint64_t> read_number(const std::string &path) {
    std::ifstream file(path);
    uint64_t value = 0;
    if (file >> value) return value;
    return std::nullopt;  // not there, or "max"
}

uint64_t read_reclaimable(const std::string &path, const Files &files) {
    std::ifstream file(path);
    uint64_t sum = 0, value = 0;
    for (std::string name; file >> name >> value;) {
        if (std::find(files.reclaimable.begin(), files.reclaimable.end(), name) != files.reclaimable.end())
            sum += value;
    }
    return sum;
}

// Bytes left in one group; empty if it has no limit.
std::optional<uint64_t> free_in(const std::string &folder, const Files &files) {
    uint64_t limit = kUnlimited;
    for (const char *name : files.limits)
        limit = std::min(limit, read_number(folder + "/" + name).value_or(kUnlimited));
    if (limit >= kUnlimited) return std::nullopt;
    const uint64_t charged = read_number(folder + "/" + files.usage).value_or(0);
    const uint64_t used = charged - std::min(charged, read_reclaimable(folder + "/memory.stat", files));
    return limit - std::min(limit, used);
}

// v1 groups from before Linux 5.11 may leave the groups below them alone.
bool limits_groups_below(const std::string &folder) {
    return read_number(folder + "/memory.use_hierarchy").value_or(1) != 0;
}

}  // namespace

std::optional<CgroupMemory> tightest_memory_cgroup(const std::string &root) {
    std::optional<CgroupMemory> tightest;
    for (const Mount &mount : read_mounts(root)) {
        const std::string group = own_group(root, mount.version);
        if (group.empty()) continue;
        const Files &files = kFiles[mount.version - 1];
        // A group that is named but cannot be seen has no files; the search goes on with the one above.
        const std::string own = below_mount(mount, group);
        for (std::string path = own;; path.erase(path.rfind('/'))) {
            const std::string folder = cat(root, mount.point, path);
            const auto free = path == own || limits_groups_below(folder) ? free_in(folder, files) : std::nullopt;
            if (free && (!tightest || *free < tightest->free)) {
                tightest = CgroupMemory{*free, path.empty() ? "/" : path, mount.version};
            }
            if (path.empty()) break;
        }
    }
    return tightest;
}

}  // namespace bmoe::cache
