#include "cli/chat/saved_chat.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/replace_file.h"

namespace bmoe::cli {

namespace {

using nlohmann::json;

constexpr const char *kFormat = "bmoe-chat";
constexpr int kVersion = 1;
constexpr size_t kMostBytes = size_t{64} << 20;  // of a file; no context holds as much

json to_json(const SavedChat &chat) {
    json messages = json::array();
    for (const engine::ChatMessage &message : chat.messages) {
        json entry = {{"role", message.role}, {"content", message.content}};
        if (!message.reasoning.empty()) {
            entry["reasoning"] = message.reasoning;
        }
        messages.push_back(std::move(entry));
    }
    return {{"format", kFormat}, {"version", kVersion}, {"model", chat.model}, {"messages", std::move(messages)}};
}

// `key` of `object`; `what` names the latter.
std::string text_of(const json &object, const char *key, const std::string &what) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) {
        throw Error(cat(what, " has no text '", key, "'"));
    }
    return *found;
}

engine::ChatMessage message_of(const json &entry, size_t number) {
    const std::string what = cat("message ", number);
    if (!entry.is_object()) {
        throw Error(what + " is no object");
    }
    engine::ChatMessage message{text_of(entry, "role", what), text_of(entry, "content", what)};
    if (entry.contains("reasoning")) {
        message.reasoning = text_of(entry, "reasoning", what);
    }
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
        throw Error(cat(what, " has the role '", message.role, "'; there are system, user and assistant"));
    }
    return message;
}

SavedChat from_json(const json &file) {
    if (!file.is_object() || file.value("format", json()) != kFormat) {
        throw Error(cat("is no saved conversation: its 'format' is not '", kFormat, "'"));
    }
    if (file.value("version", json()) != kVersion) {
        throw Error(cat("was saved by another version of bmoe: its 'version' is not ", kVersion));
    }
    const auto messages = file.find("messages");
    if (messages == file.end() || !messages->is_array()) {
        throw Error("has no list 'messages'");
    }
    SavedChat chat{text_of(file, "model", "it"), {}};
    for (const json &entry : *messages) {
        chat.messages.push_back(message_of(entry, chat.messages.size() + 1));
    }
    if (!chat.messages.empty() && chat.messages.back().role == "user") {
        throw Error("ends with a message of the user; the last one must be the assistant's");
    }
    return chat;
}

// Nothing but an earlier conversation is replaced.
void check_replaceable(const std::string &path) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (!fs::exists(path, error)) {
        return;
    }
    if (!fs::is_regular_file(path, error)) {
        throw Error(cat("cannot write ", path, ": it is no regular file; give another name"));
    }
    char begin[256] = {};
    std::ifstream in(path, std::ios::binary);
    in.read(begin, sizeof(begin));
    const std::string_view head(begin, static_cast<size_t>(in.gcount()));
    if (!head.empty() && head.find(kFormat) == std::string_view::npos) {
        throw Error(cat("cannot write ", path, ": it exists and is no saved conversation; give another name"));
    }
}

// Of a regular file: others may have no end, or wait for something to be written to them.
std::string text_in(const std::string &path) {
    std::error_code error;
    if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
        throw Error(cat("cannot read ", path, ": it is no regular file"));
    }
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    std::string text;
    char piece[1 << 16];
    while (in && text.size() <= kMostBytes) {
        in.read(piece, sizeof(piece));
        text.append(piece, static_cast<size_t>(in.gcount()));
    }
    if (text.size() > kMostBytes) {
        throw Error(cat(path, ": is no saved conversation: it has more than ", kMostBytes, " bytes"));
    }
    if (text.empty() || in.bad()) {
        throw Error(cat("cannot read ", path, ": ", errno != 0 ? std::strerror(errno) : "it is empty"));
    }
    return text;
}

}  // namespace

void write_chat(const std::string &path, const SavedChat &chat) {
    check_replaceable(path);
    // An answer that was stopped may end within a character.
    const std::string text = to_json(chat).dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    replace_file(path, std::as_bytes(std::span(text)));
}

SavedChat read_chat(const std::string &path) {
    const std::string text = text_in(path);
    try {
        return from_json(json::parse(text));
    } catch (const json::parse_error &error) {
        throw Error(cat(path, ": is not JSON at byte ", error.byte));
    } catch (const json::exception &error) {
        throw Error(cat(path, ": is no saved conversation: ", error.what()));
    } catch (const Error &error) {
        throw Error(cat(path, ": ", error.what()));
    }
}

}  // namespace bmoe::cli
