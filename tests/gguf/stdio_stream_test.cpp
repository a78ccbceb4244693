#include "gguf/stdio_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>

#include "tests/gguf/expect_error.h"
#include "tests/gguf/library_reader.h"
#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

constexpr std::byte kPattern{0xa5};

class StdioStreamTest : public testing::Test {
  protected:
    void SetUp() override {
        test::moe_model().write(path_);
        whole_ = test::read_bytes(path_);
        model_ = ModelFile::open(path_, io::DirectIo::kVerified);
    }

    bmoe::test::Scratch scratch_;
    std::string path_ = scratch_.file("m.gguf");
    std::vector<std::byte> whole_;
    std::unique_ptr<ModelFile> model_;
    io::BulkReader reader_{1, 4096};
};

TEST_F(StdioStreamTest, ReadsTheModel) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr file = open_stream(source);
    std::vector<std::byte> bytes(whole_.size());
    ASSERT_EQ(std::fread(bytes.data(), 1, bytes.size(), file.get()), bytes.size());
    EXPECT_EQ(bytes, whole_);
    EXPECT_EQ(ftello(file.get()), off_t(whole_.size()));
}

TEST_F(StdioStreamTest, CallsFromALibraryAreServedToo) {
    bool asked_with_dst = false;
    std::vector<std::byte> bytes(whole_.size(), kPattern);
    VirtualGguf source(*model_, reader_, [&](const Tensor &tensor, const void *dst) {
        asked_with_dst = dst == bytes.data() + tensor.info.offset;
        return true;
    });
    const FilePtr file = open_stream(source);
    ASSERT_EQ(library_fread(bytes.data(), bytes.size(), 1, file.get()), 1U);
    EXPECT_TRUE(asked_with_dst) << "fread was not wrapped";
    for (const Tensor &tensor : model_->tensors()) {
        const auto begin = bytes.begin() + long(tensor.info.offset);
        EXPECT_EQ(std::count(begin, begin + long(tensor.info.bytes), kPattern), long(tensor.info.bytes));
    }
}

TEST_F(StdioStreamTest, ForeignStreamsReadAsEver) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr ours = open_stream(source);
    const FilePtr foreign(std::fopen(path_.c_str(), "rb"));
    std::vector<std::byte> bytes(whole_.size() + 1);
    EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), foreign.get()), whole_.size());
    EXPECT_TRUE(std::equal(whole_.begin(), whole_.end(), bytes.begin()));
    EXPECT_TRUE(std::feof(foreign.get()));
    EXPECT_EQ(ftello(ours.get()), 0);
}

TEST_F(StdioStreamTest, CountsWholeItems) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr file = open_stream(source);
    std::vector<std::byte> bytes(whole_.size() + 100);
    EXPECT_EQ(std::fread(bytes.data(), 10, 3, file.get()), 3U);
    EXPECT_EQ(ftello(file.get()), 30);
    EXPECT_EQ(std::fread(bytes.data(), 0, 3, file.get()), 0U);
    EXPECT_EQ(std::fread(bytes.data(), 3, 0, file.get()), 0U);
    EXPECT_EQ(ftello(file.get()), 30);
    EXPECT_FALSE(std::feof(file.get()));

    ASSERT_EQ(fseeko(file.get(), -25, SEEK_END), 0);
    EXPECT_EQ(std::fread(bytes.data(), 10, 4, file.get()), 2U) << "the third item is cut";
    EXPECT_TRUE(std::equal(whole_.end() - 25, whole_.end(), bytes.begin()));
    EXPECT_TRUE(std::feof(file.get()));
    EXPECT_FALSE(std::ferror(file.get()));
    EXPECT_EQ(ftello(file.get()), off_t(whole_.size()));
    EXPECT_EQ(std::fread(bytes.data(), 1, 1, file.get()), 0U);

    ASSERT_EQ(fseeko(file.get(), 0, SEEK_SET), 0);
    EXPECT_FALSE(std::feof(file.get()));
    EXPECT_EQ(std::fread(bytes.data(), whole_.size(), 1, file.get()), 1U);
}

TEST_F(StdioStreamTest, AProductOfSizeAndCountThatOverflowsReadsTheRest) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr file = open_stream(source);
    std::vector<std::byte> bytes(whole_.size());
    volatile size_t huge = std::numeric_limits<size_t>::max() / 2;
    EXPECT_EQ(library_fread(bytes.data(), 4, huge, file.get()), whole_.size() / 4);
    EXPECT_EQ(bytes, whole_);
}

TEST_F(StdioStreamTest, SeeksTellsAndReadsInAnyOrder) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr file = open_stream(source);
    const auto size = off_t(whole_.size());
    std::mt19937 random(7);
    off_t pos = 0;
    std::vector<std::byte> bytes(3000);
    for (int i = 0; i < 5000; ++i) {
        const auto target = off_t(random() % whole_.size());
        switch (random() % 7) {
            case 0:
                ASSERT_EQ(fseeko(file.get(), target, SEEK_SET), 0);
                pos = target;
                break;
            case 1:
                ASSERT_EQ(fseeko(file.get(), target - pos, SEEK_CUR), 0);
                pos = target;
                break;
            case 2:
                ASSERT_EQ(fseeko(file.get(), target - size, SEEK_END), 0);
                pos = target;
                break;
            case 3:
                ASSERT_EQ(std::fgetc(file.get()), pos < size ? int(whole_[size_t(pos)]) : EOF);
                pos = std::min(pos + 1, size);
                break;
            default: {
                const size_t n = random() % bytes.size();
                const size_t expected = std::min(n, size_t(size - pos));
                ASSERT_EQ(std::fread(bytes.data(), 1, n, file.get()), expected);
                ASSERT_TRUE(std::equal(bytes.begin(), bytes.begin() + long(expected), whole_.begin() + pos));
                pos += off_t(expected);
            }
        }
        if (random() % 2 == 0) {
            ASSERT_EQ(ftello(file.get()), pos);
        }
    }
}

TEST_F(StdioStreamTest, SeeksBeyondTheEndsAsFilesDo) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr file = open_stream(source);
    ASSERT_EQ(fseeko(file.get(), 10, SEEK_SET), 0);
    EXPECT_EQ(fseeko(file.get(), -11, SEEK_CUR), -1);
    EXPECT_EQ(ftello(file.get()), 10);
    EXPECT_EQ(fseeko(file.get(), std::numeric_limits<off_t>::max(), SEEK_END), -1);
    EXPECT_EQ(ftello(file.get()), 10);
    ASSERT_EQ(fseeko(file.get(), 5, SEEK_END), 0);
    char none = 0;
    EXPECT_EQ(std::fread(&none, 1, 1, file.get()), 0U);
    EXPECT_TRUE(std::feof(file.get()));
}

TEST_F(StdioStreamTest, AFailedReadIsAnErrorOfTheStream) {
    VirtualGguf source(*model_, reader_, nullptr);
    const FilePtr file = open_stream(source);
    std::filesystem::resize_file(path_, model_->metadata().data_offset);
    std::vector<std::byte> bytes(whole_.size());
    EXPECT_EQ(std::fread(bytes.data(), bytes.size(), 1, file.get()), 0U);
    EXPECT_TRUE(std::ferror(file.get()));
    EXPECT_FALSE(std::feof(file.get()));
    test::expect_parts(source.error(), {"token_embd.weight", "m.gguf"});
}

TEST_F(StdioStreamTest, ClosedStreamsLeaveNothingBehind) {
    VirtualGguf source(*model_, reader_, nullptr);
    for (int i = 0; i < 100; ++i) {
        const FilePtr file = open_stream(source);
        const FilePtr other = open_stream(source);
        std::byte byte{};
        ASSERT_EQ(std::fread(&byte, 1, 1, other.get()), 1U);
        ASSERT_EQ(byte, whole_[0]);
        ASSERT_EQ(ftello(file.get()), 0);
    }
    // The C library may give its memory to the next FILE.
    const FilePtr foreign(std::fopen(path_.c_str(), "rb"));
    std::vector<std::byte> bytes(whole_.size());
    EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), foreign.get()), bytes.size());
    EXPECT_EQ(bytes, whole_);
}

TEST_F(StdioStreamTest, ThreadsReadTheirOwnStreams) {
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([this, t] {
            io::BulkReader reader(1, 4096);
            VirtualGguf source(*model_, reader, nullptr);
            for (int i = 0; i < 20; ++i) {
                const FilePtr file = t % 2 == 0 ? open_stream(source) : FilePtr(std::fopen(path_.c_str(), "rb"));
                std::vector<std::byte> bytes(whole_.size());
                EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), file.get()), bytes.size());
                EXPECT_EQ(bytes, whole_);
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
}

}  // namespace
}  // namespace bmoe::gguf
