#include "cli/session/request.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace bmoe::cli {

namespace {

using nlohmann::json;

// A JSON object whose fields are taken by name. Throws bmoe::Error that names the field.
class Fields {
  public:
    // `what` begins the messages.
    Fields(const json &object, std::string what) : object_(object), what_(std::move(what)) {
        if (!object.is_object()) {
            throw Error(cat(what_, " must be a JSON object, not ", object.type_name()));
        }
    }

    void allow_only(std::initializer_list<std::string_view> names) const {
        for (const auto &[name, value] : object_.items()) {
            if (std::find(names.begin(), names.end(), name) == names.end()) {
                std::string known;
                for (const std::string_view allowed : names) {
                    known += (known.empty() ? "" : ", ") + std::string(allowed);
                }
                throw Error(cat(what_, " has an unknown field '", name, "'; it may have: ", known));
            }
        }
    }

    const json *find(const char *name) const {
        const auto found = object_.find(name);
        return found != object_.end() ? &*found : nullptr;
    }

    std::optional<std::string> text(const char *name) const {
        const json *value = find(name);
        if (value == nullptr) {
            return {};
        }
        if (!value->is_string()) {
            throw Error(cat(what_, ": '", name, "' must be a string, not ", value->type_name()));
        }
        return value->get<std::string>();
    }

    std::string required_text(const char *name) const {
        auto value = text(name);
        if (!value || value->empty()) {
            throw Error(cat(what_, " needs '", name, "', a string that is not empty"));
        }
        return *std::move(value);
    }

    template <typename T>
    std::optional<T> whole_number(const char *name, T least, T most) const {
        const json *value = find(name);
        if (value == nullptr) {
            return {};
        }
        const bool fits = value->is_number_unsigned() && value->get<uint64_t>() >= static_cast<uint64_t>(least) &&
                          value->get<uint64_t>() <= static_cast<uint64_t>(most);
        if (!fits) {
            throw Error(cat(what_, ": '", name, "' must be a whole number from ", least, " to ", most));
        }
        return value->get<T>();
    }

    std::optional<float> number(const char *name, float most) const {
        const json *value = find(name);
        if (value == nullptr) {
            return {};
        }
        if (!value->is_number() || value->get<double>() < 0 || value->get<double>() > most) {
            throw Error(cat(what_, ": '", name, "' must be a number from 0 to ", most));
        }
        return value->get<float>();
    }

    const json *list(const char *name) const {
        const json *value = find(name);
        if (value != nullptr && !value->is_array()) {
            throw Error(cat(what_, ": '", name, "' must be a list, not ", value->type_name()));
        }
        return value;
    }

  private:
    const json &object_;
    std::string what_;
};

std::vector<std::pair<std::string, std::string>> messages_of(const json &list) {
    if (list.empty()) {
        throw Error("generate: 'messages' must not be empty");
    }
    std::vector<std::pair<std::string, std::string>> messages;
    for (const json &entry : list) {
        const Fields fields(entry, cat("generate: message ", messages.size()));
        fields.allow_only({"role", "content"});
        auto content = fields.text("content");
        if (!content) {
            throw Error(cat("generate: message ", messages.size(), " needs 'content', a string"));
        }
        messages.emplace_back(fields.required_text("role"), *std::move(content));
    }
    return messages;
}

std::vector<std::string> stops_of(const json &list) {
    std::vector<std::string> stops;
    for (const json &entry : list) {
        if (!entry.is_string() || entry.get_ref<const std::string &>().empty()) {
            throw Error("generate: 'stop' must be a list of strings that are not empty");
        }
        stops.push_back(entry.get<std::string>());
    }
    return stops;
}

GenerateRequest generate_request(const Fields &fields) {
    fields.allow_only(
        {"op", "id", "prompt", "messages", "max_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "stop"});
    GenerateRequest request;
    request.id = fields.required_text("id");
    const json *messages = fields.list("messages");
    if ((messages != nullptr) == (fields.find("prompt") != nullptr)) {
        throw Error("generate needs either 'prompt' or 'messages'");
    }
    if (messages != nullptr) {
        request.messages = messages_of(*messages);
    } else {
        request.prompt = fields.required_text("prompt");
    }
    request.max_tokens = fields.whole_number<uint32_t>("max_tokens", 1, 1U << 30);
    request.temperature = fields.number("temperature", 100);
    request.top_k = fields.whole_number<int32_t>("top_k", 0, 1 << 30);
    request.top_p = fields.number("top_p", 1);
    request.min_p = fields.number("min_p", 1);
    request.seed = fields.whole_number<uint32_t>("seed", 0, std::numeric_limits<uint32_t>::max());
    if (const json *stops = fields.list("stop")) {
        request.stop = stops_of(*stops);
    }
    return request;
}

template <typename T>
T request_with_id(const Fields &fields) {
    fields.allow_only({"op", "id"});
    return {fields.text("id")};
}

Request request_of(const json &line) {
    const Fields fields(line, "a request");
    const std::string op = fields.required_text("op");
    const Fields named(line, op);
    if (op == "generate") return generate_request(named);
    if (op == "cancel") return request_with_id<CancelRequest>(named);
    if (op == "reset") return request_with_id<ResetRequest>(named);
    if (op == "close") return request_with_id<CloseRequest>(named);
    throw Error(cat("unknown op '", op, "'; there are generate, cancel, reset and close"));
}

std::optional<std::string> id_of(const json &line) {
    if (line.is_object() && line.contains("id") && line["id"].is_string()) {
        return line["id"].get<std::string>();
    }
    return {};
}

}  // namespace

Request parse_request(std::string_view line) {
    json parsed;
    try {
        parsed = json::parse(line);
    } catch (const json::parse_error &error) {
        return BadRequest{{}, cat("the line is not JSON in UTF-8: wrong at byte ", error.byte)};
    } catch (const json::exception &) {
        return BadRequest{{}, "the line holds a number that is too large"};
    }
    try {
        return request_of(parsed);
    } catch (const Error &error) {
        return BadRequest{id_of(parsed), error.what()};
    }
}

}  // namespace bmoe::cli
