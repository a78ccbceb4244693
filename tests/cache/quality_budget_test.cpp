#include "cache/quality_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>

namespace bmoe::cache {
namespace {

constexpr int kLayers = 24;

// A made-up token stream: a layer would forgo up to `demand()` of mass if the limits were widest, and as much less as they are
// narrower.
class Stream {
  public:
    explicit Stream(double share) : budget_(share), share_(share) {}

    // Returns the mass forgone, as a share of the token's.
    double token(const std::function<double()> &demand) {
        const LossyLimits limits = budget_.next_token();
        const double wide = limits.substitute > 0 ? 1 - limits.substitute + limits.drop : 0;
        double total = 0;
        for (int layer = 0; layer < kLayers; ++layer) {
            budget_.count_layer();
            const double wanted = demand() * wide;
            Forgone forgone;
            forgone.refused = wanted > budget_.allowance();
            forgone.mass_dropped = forgone.refused ? 0 : wanted;
            budget_.forgo(forgone);
            total += forgone.mass();
        }
        past_.push_back(total / kLayers);
        if (past_.size() > QualityBudget::kWindow) {
            past_.pop_front();
        }
        double average = 0;
        for (const double forgone : past_) {
            average += forgone / static_cast<double>(past_.size());
        }
        EXPECT_LE(average, share_ + 1e-12);
        EXPECT_NEAR(average, budget_.average(), 1e-12);
        return total / kLayers;
    }

    QualityBudget &budget() { return budget_; }

  private:
    QualityBudget budget_;
    double share_;
    std::deque<double> past_;
};

TEST(QualityBudget, NothingToSpendGivesNeutralLimits) {
    QualityBudget budget(0);
    for (int i = 0; i < 10; ++i) {
        const LossyLimits limits = budget.next_token();
        EXPECT_EQ(limits.drop, 0);
        EXPECT_EQ(limits.substitute, 0);
        budget.count_layer();
        EXPECT_EQ(budget.allowance(), 0);
    }
}

TEST(QualityBudget, SubstitutesBeforeItDrops) {
    Stream stream(0.02);
    double substitute = 1;
    double drop = 0;
    for (int i = 0; i < 100; ++i) {
        const LossyLimits limits = stream.budget().next_token();
        stream.budget().count_layer();
        EXPECT_LE(limits.substitute, substitute);
        EXPECT_GE(limits.drop, drop);
        EXPECT_TRUE(limits.drop == 0 || limits.substitute == substitute) << "both at once";
        substitute = limits.substitute;
        drop = limits.drop;
    }
    EXPECT_LT(substitute, 0.5) << "nothing was spent: it is as wide as it gets";
    EXPECT_EQ(drop, 1);
}

TEST(QualityBudget, SpendsWhatThereIs) {
    std::mt19937 random(3);
    std::exponential_distribution<double> demand(10);
    Stream stream(0.02);
    double spent = 0;
    for (int i = 0; i < 2000; ++i) {
        const double mass = stream.token([&] { return demand(random); });
        spent += i >= 1000 ? mass / 1000 : 0;
    }
    EXPECT_GT(spent, 0.017);
    EXPECT_LE(spent, 0.02 + 1e-9);
}

TEST(QualityBudget, NarrowsWhenTokensForgoMore) {
    Stream stream(0.02);
    for (int i = 0; i < 300; ++i) {
        stream.token([] { return 0.0; });
    }
    const double before = stream.budget().next_token().drop;
    for (int i = 0; i < 40; ++i) {
        stream.token([] { return 0.5; });
    }
    EXPECT_EQ(before, 1);
    EXPECT_EQ(stream.budget().next_token().drop, 0);
}

// Stream::token holds the average against the budget after every token.
TEST(QualityBudget, IsNeverExceeded) {
    std::mt19937 random(7);
    for (const double share : {0.001, 0.01, 0.05, 0.3, 1.0}) {
        for (int run = 0; run < 8; ++run) {
            Stream stream(share);
            double level = 0;
            for (int i = 0; i < 1200; ++i) {
                if (random() % 60 == 0) {
                    level = std::uniform_real_distribution<double>(0, 1)(random) * (random() % 3);  // calm and storms
                }
                stream.token([&] { return std::min(1.0, level * std::uniform_real_distribution<double>()(random)); });
            }
        }
    }
}

}  // namespace
}  // namespace bmoe::cache
