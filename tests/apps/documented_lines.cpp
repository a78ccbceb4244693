#include "tests/apps/documented_lines.h"

#include <fstream>
#include <map>
#include <sstream>

namespace bmoe::apps::test {

namespace {

// What stands in angle brackets in the page, as a regular expression.
std::string pattern_of(const std::string &placeholder) {
    static const std::string kReal = "-?[0-9]+(\\.[0-9]+)?(e[-+][0-9]+)?";
    static const std::map<std::string, std::string> kPatterns = {
        {"n", "(-1|[0-9]+)"}, {"x", "(-1(\\.0+)?|[0-9]+(\\.[0-9]+)?)"},
        {"r", kReal},         {"name", "[a-z][a-z0-9_]*"},
        {"text", ".*"},       {"scores", "([0-9]+:" + kReal + "( [0-9]+:" + kReal + ")*)?"},
    };
    const auto it = kPatterns.find(placeholder);
    return it != kPatterns.end() ? it->second : "(" + placeholder + ")";
}

std::regex regex_of(const std::string &form) {
    std::string pattern;
    for (size_t at = 0; at < form.size(); ++at) {
        if (form[at] == '<') {
            const size_t end = form.find('>', at);
            pattern += pattern_of(form.substr(at + 1, end - at - 1));
            at = end;
        } else {
            pattern += std::string("\\^$.|?*+()[]{}").find(form[at]) != std::string::npos ? "\\" : "";
            pattern += form[at];
        }
    }
    return std::regex(pattern);
}

}  // namespace

std::string read_file(const std::string &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::vector<std::string> lines_of(const std::string &text) {
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    return lines;
}

DocumentedLines::DocumentedLines(const std::string &path, const std::string &kind) {
    bool inside = false;
    for (const std::string &line : lines_of(read_file(path))) {
        if (line.starts_with("```")) {
            inside = !inside && line == "```" + kind;
        } else if (inside) {
            forms_.push_back({line, regex_of(line)});
        }
    }
}

std::string DocumentedLines::form_of(const std::string &line) const {
    for (const Form &form : forms_) {
        if (std::regex_match(line, form.pattern)) {
            return form.text;
        }
    }
    return "";
}

}  // namespace bmoe::apps::test
