#include "cli/chat/libedit_line_editor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/user_folder.h"

namespace bmoe::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kMostEntries = 1000;

// Terminals put these around what is pasted, once asked to: its line ends are no Enter then.
constexpr const char *kMarkPastes = "\033[?2004h";
constexpr const char *kDoNotMarkPastes = "\033[?2004l";
constexpr const wchar_t *kPasteBegin = L"\033[200~";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// Empty if the environment names no place.
fs::path history_file() {
    const fs::path folder = user_folder("XDG_STATE_HOME", fs::path(".local") / "state");
    return folder.empty() ? folder : folder / "history";
}

LocalePtr utf8_locale() {
    for (const char *name : {"C.UTF-8", "C.utf8", "en_US.UTF-8"}) {
        if (LocalePtr locale{newlocale(LC_CTYPE_MASK, name, nullptr)}) {
            return locale;
        }
    }
    return nullptr;
}

// Both in the locale of the thread.
std::wstring widen(const std::string &text) {
    std::wstring wide(text.size() + 1, L'\0');
    const size_t n = std::mbstowcs(wide.data(), text.c_str(), wide.size());
    wide.resize(n == static_cast<size_t>(-1) ? 0 : n);
    return wide;
}

std::string narrow(const wchar_t *wide) {
    std::string text(std::wcslen(wide) * MB_CUR_MAX + 1, '\0');
    const size_t n = std::wcstombs(text.data(), wide, text.size());
    text.resize(n == static_cast<size_t>(-1) ? 0 : n);
    return text;
}

}  // namespace

// libedit asks the locale what bytes mean and how wide characters are. Of this thread only, and only meanwhile: llama.cpp is to
// see what it always sees.
class LibeditLineEditor::Utf8Scope {
  public:
    explicit Utf8Scope(locale_t locale) : old_(uselocale(locale)) {}
    ~Utf8Scope() { uselocale(old_); }
    Utf8Scope(const Utf8Scope &) = delete;
    Utf8Scope &operator=(const Utf8Scope &) = delete;

  private:
    locale_t old_;
};

std::unique_ptr<LineEditor> LibeditLineEditor::make(const SignalPipe &signals, std::FILE *screen) {
    LocalePtr utf8 = utf8_locale();
    if (utf8 == nullptr || isatty(STDIN_FILENO) == 0 || isatty(fileno(screen)) == 0) {
        return nullptr;
    }
    return std::unique_ptr<LineEditor>(new LibeditLineEditor(signals, screen, std::move(utf8)));
}

LibeditLineEditor::LibeditLineEditor(const SignalPipe &signals, std::FILE *screen, LocalePtr utf8)
    : input_(signals), screen_(screen), utf8_(std::move(utf8)) {
    const Utf8Scope scope(utf8_.get());
    editor_.reset(el_init("bmoe-cli", stdin, screen, screen));
    history_.reset(history_winit());
    HistEventW event;
    history_w(history_.get(), &event, H_SETSIZE, kMostEntries);
    history_w(history_.get(), &event, H_SETUNIQUE, 1);
    load_history();
    el_wset(editor_.get(), EL_CLIENTDATA, this);
    el_wset(editor_.get(), EL_PROMPT, prompt_of);
    el_wset(editor_.get(), EL_GETCFN, next_character);
    el_wset(editor_.get(), EL_HIST, history_w, history_.get());
    el_wset(editor_.get(), EL_SIGNAL, 0);
    bind_keys();
}

LibeditLineEditor::~LibeditLineEditor() {
    const Utf8Scope scope(utf8_.get());
    if (has_new_history_) {
        save_history();
    }
    editor_.reset();
    history_.reset();
}

void LibeditLineEditor::bind_keys() {
    el_wset(editor_.get(), EL_EDITOR, L"emacs");
    // Letters of Latin-1 are no commands.
    for (wchar_t letter = 0x80; letter <= 0xFF; ++letter) {
        const wchar_t key[] = {letter, L'\0'};
        el_wset(editor_.get(), EL_BIND, key, L"ed-insert", nullptr);
    }
    el_wset(editor_.get(), EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
    el_wset(editor_.get(), EL_ADDFN, L"paste", L"Insert what is pasted", paste);
    el_wset(editor_.get(), EL_BIND, kPasteBegin, L"paste", nullptr);
}

Input LibeditLineEditor::read(const std::string &prompt, std::string &line) {
    const Utf8Scope scope(utf8_.get());
    prompt_ = widen(prompt);
    last_event_ = TerminalInput::Event::kByte;
    decoding_ = {};
    el_resize(editor_.get());
    // Before there is a prompt: libedit does it after, and a Ctrl-D typed in between would be lost.
    el_wset(editor_.get(), EL_PREP_TERM, 1);
    std::fputs(kMarkPastes, screen_);
    int length = 0;
    const wchar_t *typed = el_wgets(editor_.get(), &length);
    std::fputs(kDoNotMarkPastes, screen_);
    if (typed == nullptr) {
        std::fputc('\n', screen_);
    }
    std::fflush(screen_);
    if (typed == nullptr) {
        return why_nothing();
    }
    line = narrow(typed);
    if (line.ends_with('\n')) {
        line.pop_back();
    }
    return Input::kLine;
}

Input LibeditLineEditor::why_nothing() {
    if (last_event_ != TerminalInput::Event::kSignal) {
        return Input::kEnd;
    }
    return ended_by(input_.signal(), drops_text_);
}

void LibeditLineEditor::remember(const std::string &message) {
    const Utf8Scope scope(utf8_.get());
    HistEventW event;
    history_w(history_.get(), &event, H_ENTER, widen(message).c_str());
    has_new_history_ = true;
}

void LibeditLineEditor::load_history() {
    if (const fs::path file = history_file(); !file.empty()) {
        HistEventW event;
        history_w(history_.get(), &event, H_LOAD, file.c_str());
    }
}

// Of no importance: a history that cannot be written is left unwritten.
void LibeditLineEditor::save_history() {
    const fs::path file = history_file();
    if (file.empty()) {
        return;
    }
    std::error_code failed;
    if (fs::create_directories(file.parent_path(), failed); failed) {
        return;
    }
    const std::string temporary = file.string() + "." + std::to_string(getpid());
    HistEventW event;
    if (history_w(history_.get(), &event, H_SAVE, temporary.c_str()) < 0) {
        fs::remove(temporary, failed);
        return;
    }
    fs::rename(temporary, file, failed);
}

LibeditLineEditor &LibeditLineEditor::of(EditLine *editor) {
    void *self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<LibeditLineEditor *>(self);
}

wchar_t *LibeditLineEditor::prompt_of(EditLine *editor) { return of(editor).prompt_.data(); }

int LibeditLineEditor::next_character(EditLine *editor, wchar_t *character) {
    LibeditLineEditor &self = of(editor);
    for (;;) {
        char byte = 0;
        self.last_event_ = self.input_.next(byte);
        if (self.last_event_ != TerminalInput::Event::kByte) {
            const LineInfoW *typed = el_wline(editor);  // nothing is left of it once this has returned
            self.drops_text_ = typed->lastchar != typed->buffer;
            return self.last_event_ == TerminalInput::Event::kEnd ? 0 : -1;
        }
        const size_t n = std::mbrtowc(character, &byte, 1, &self.decoding_);
        if (n == static_cast<size_t>(-2)) {
            continue;
        }
        if (n == static_cast<size_t>(-1)) {
            self.decoding_ = {};
            *character = L'\uFFFD';
        }
        return 1;
    }
}

unsigned char LibeditLineEditor::paste(EditLine *editor, wint_t) {
    std::wstring text;
    while (!text.ends_with(kPasteEnd)) {
        wchar_t character = 0;
        if (el_wgetc(editor, &character) != 1) {
            return CC_EOF;
        }
        if (character != L'\0') {
            text += character == L'\r' ? L'\n' : character;  // terminals paste line ends as Enter
        }
    }
    text.resize(text.size() - kPasteEnd.size());
    return el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

}  // namespace bmoe::cli
