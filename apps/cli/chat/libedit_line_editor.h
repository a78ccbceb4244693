// A line editor by libedit.
#pragma once

#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <cwchar>
#include <memory>
#include <string>

#include "cli/chat/line_editor.h"
#include "cli/chat/terminal_input.h"

namespace bmoe::cli {

struct FreeEditLine {
    void operator()(EditLine *editor) const { el_end(editor); }
};
struct FreeHistory {
    void operator()(HistoryW *history) const { history_wend(history); }
};
struct FreeLocale {
    void operator()(locale_t locale) const { freelocale(locale); }
};
using LocalePtr = std::unique_ptr<std::remove_pointer_t<locale_t>, FreeLocale>;

// Not thread-safe.
class LibeditLineEditor : public LineEditor {
  public:
    // nullptr if `screen` or standard input is no terminal, or the system has no UTF-8 locale.
    static std::unique_ptr<LineEditor> make(const SignalPipe &signals, std::FILE *screen);
    ~LibeditLineEditor() override;

    Input read(const std::string &prompt, std::string &line) override;
    void remember(const std::string &message) override;

  private:
    class Utf8Scope;

    LibeditLineEditor(const SignalPipe &signals, std::FILE *screen, LocalePtr utf8);
    void bind_keys();
    void load_history();
    void save_history();
    Input why_nothing();

    static LibeditLineEditor &of(EditLine *editor);
    static wchar_t *prompt_of(EditLine *editor);
    static int next_character(EditLine *editor, wchar_t *character);
    static unsigned char paste(EditLine *editor, wint_t);

    TerminalInput input_;
    std::FILE *screen_;
    LocalePtr utf8_;
    std::unique_ptr<EditLine, FreeEditLine> editor_;
    std::unique_ptr<HistoryW, FreeHistory> history_;
    std::wstring prompt_;
    std::mbstate_t decoding_ = {};
    TerminalInput::Event last_event_ = TerminalInput::Event::kByte;
    bool drops_text_ = false;  // when the last event came something had been typed
    bool has_new_history_ = false;
};

}  // namespace bmoe::cli
