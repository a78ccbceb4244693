// The forms of lines that docs/telemetry.md promises.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace bmoe::apps::test {

std::string read_file(const std::string &path);
std::vector<std::string> lines_of(const std::string &text);

class DocumentedLines {
  public:
    // Of the blocks of the page at `path` that are fenced as `kind`.
    DocumentedLines(const std::string &path, const std::string &kind);

    // The form that the line has, as it stands in the page; empty if it has none.
    std::string form_of(const std::string &line) const;
    size_t forms() const { return forms_.size(); }

  private:
    struct Form {
        std::string text;
        std::regex pattern;
    };
    std::vector<Form> forms_;
};

}  // namespace bmoe::apps::test
