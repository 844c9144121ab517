// links: cropdl_handles
// Guarantees of virtual handles and their recipes. Runs in any process: the heap's range is mapped here.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "interpose/handles/heap.h"
#include "interpose/handles/recipe.h"
#include "interpose/handles/table.h"
#include "interpose/seam/layout.h"

using namespace cropdl;
using handles::Handle;

class Recipes : public ::testing::Test {
 protected:
  void SetUp() override {
    mmap(reinterpret_cast<void*>(seam::kHeapBegin), seam::kHeapEnd - seam::kHeapBegin, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    handles::heap_format();
    tables = handles::Tables::format(0, handles::kMaxKinds, 100, 116);
    ASSERT_NE(tables, nullptr);
  }
  Handle make(std::vector<Handle> dependencies, uint64_t payload = 7) {
    const Handle h = tables->create(2, 11);
    EXPECT_NE(h, 0u);
    EXPECT_TRUE(tables->set_recipe(h, dependencies, &payload, sizeof payload));
    return h;
  }
  handles::Tables* tables = nullptr;
  std::vector<Handle> gone;
};

TEST_F(Recipes, IndicesAreReusedAndRunOutCleanly) {
  std::vector<Handle> all;
  for (int i = 0; i < 16; ++i) all.push_back(tables->create(1, 5));
  EXPECT_EQ(tables->create(1, 5), 0u);
  tables->free(all[3], gone);
  EXPECT_EQ(tables->create(1, 5), all[3]);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST_F(Recipes, AFreedObjectStaysUntilNoRecipeNeedsIt) {
  const Handle base = make({});
  const Handle middle = make({base, handles::make_handle(2, 5)});  // 5: a fixed handle
  const Handle top = make({middle, middle});
  tables->free(base, gone);
  tables->free(middle, gone);
  EXPECT_TRUE(gone.empty());
  EXPECT_EQ(tables->in_order(2), (std::vector<Handle>{base, middle, top}));
  EXPECT_FALSE(tables->live(base));
  tables->free(top, gone);
  EXPECT_EQ(gone, (std::vector<Handle>{top, middle, base}));
  EXPECT_TRUE(tables->in_order(2).empty());
}

TEST_F(Recipes, APendingOperationKeepsAFreedObject) {
  const Handle h = make({});
  tables->retain(h);
  tables->free(h, gone);
  EXPECT_TRUE(gone.empty());
  tables->let_go(h, gone);
  EXPECT_EQ(gone, (std::vector<Handle>{h}));
}

TEST_F(Recipes, AChainOfAnyLengthIsFreedOnASmallStack) {
  constexpr uint32_t kLength = 500'000;
  tables = handles::Tables::format(1, handles::kMaxKinds, 100, 1u << 20);
  ASSERT_NE(tables, nullptr);
  const Handle first = make({});
  Handle last = first;
  for (uint32_t i = 1; i < kLength; ++i) {
    const Handle next = make({last});
    tables->free(last, gone);
    last = next;
  }
  EXPECT_TRUE(gone.empty());
  std::thread([&] { tables->free(last, gone); }).join();
  EXPECT_EQ(gone.size(), kLength);
  EXPECT_EQ(gone.front(), last);
  EXPECT_EQ(gone.back(), first);
  EXPECT_EQ(tables->without_recipe(), 0u);
  EXPECT_TRUE(tables->in_order(2).empty());
}

TEST_F(Recipes, ThousandsOfObjectsMadeAndFreedLeaveNoRecords) {
  const uint64_t before = handles::heap_blocks();
  for (int i = 0; i < 5000; ++i) {
    const Handle a = make({});
    const Handle b = make({a});
    tables->free(a, gone);
    tables->free(b, gone);
  }
  EXPECT_EQ(handles::heap_blocks(), before);
  EXPECT_EQ(tables->without_recipe(), 0u);
}

TEST_F(Recipes, AnObjectWithoutRecipeIsNamedWhileItLives) {
  make({});
  EXPECT_EQ(tables->without_recipe(), 0u);
  const Handle w = tables->create(7, 321);
  EXPECT_EQ(tables->without_recipe(), 1u);
  EXPECT_EQ(tables->first_without_recipe(), w);
  EXPECT_EQ(tables->slot(w)->maker, 321u);
  tables->free(w, gone);
  EXPECT_EQ(tables->without_recipe(), 0u);
}

TEST_F(Recipes, CreationOrderAndPayloadSurvive) {
  const Handle a = make({}, 1), b = make({a}, 2);
  tables->free(a, gone);
  const Handle c = make({b}, 3);
  const char* why = nullptr;
  handles::Tables* again = handles::Tables::restored(0, &why);
  ASSERT_NE(again, nullptr);
  uint64_t want = 1;
  for (Handle h : again->in_order(2)) {
    auto* r = reinterpret_cast<const handles::Recipe*>(again->slot(h)->recipe);
    ASSERT_EQ(r->bytes, 8u);
    EXPECT_EQ(*static_cast<const uint64_t*>(r->payload()), want++);
  }
  EXPECT_EQ(want, 4u);
  EXPECT_EQ(again->in_order(2), (std::vector<Handle>{a, b, c}));
}

TEST_F(Recipes, ArgumentsAreReadAsTheyWereWritten) {
  const Handle a = make({}), b = make({});
  const int lengths[3] = {3, -1, 4};
  const int64_t far[2] = {int64_t{1} << 40, -8};
  const Handle types[2] = {b, a};
  handles::RecipeWriter writer;
  writer.value(true);
  writer.array(lengths, 3);
  writer.handle(a);
  writer.array<int>(nullptr, 5);
  writer.array(lengths, 0);
  writer.handles(types, 2);
  writer.array(far, 2);
  writer.value(2.5);
  writer.handle(b);
  const Handle h = tables->create(2, 11);
  ASSERT_TRUE(tables->set_recipe(h, writer.dependencies(), writer.payload().data(), writer.payload().size()));
  handles::RecipeReader reader(*reinterpret_cast<const handles::Recipe*>(tables->slot(h)->recipe));
  EXPECT_TRUE(reader.value<bool>());
  EXPECT_TRUE(std::ranges::equal(std::span(reader.array<int>(), 3), lengths));
  EXPECT_EQ(reader.handle(), a);
  EXPECT_EQ(reader.array<int>(), nullptr);
  EXPECT_NE(reader.array<int>(), nullptr);
  EXPECT_TRUE(std::ranges::equal(std::span(reader.handles(), 2), types));
  EXPECT_TRUE(std::ranges::equal(std::span(reader.array<int64_t>(), 2), far));
  EXPECT_EQ(reader.value<double>(), 2.5);
  EXPECT_EQ(reader.handle(), b);
  // The objects that it depends on stay.
  tables->free(a, gone);
  tables->free(b, gone);
  EXPECT_TRUE(gone.empty());
  tables->free(h, gone);
  EXPECT_EQ(gone.size(), 3u);
}

TEST_F(Recipes, LibrariesHaveTablesOfTheirOwn) {
  const Handle mine = make({});
  handles::Tables* others = handles::Tables::format(1, 3, 10, 20);
  ASSERT_NE(others, nullptr);
  const Handle theirs = others->create(2, 4);
  EXPECT_EQ(handles::index_of(theirs), 10u);
  EXPECT_EQ(others->create(3, 4), 0u);  // a kind that this table does not have
  EXPECT_EQ(tables->without_recipe(), 0u);
  EXPECT_EQ(others->without_recipe(), 1u);
  tables->free(mine, gone);
  EXPECT_TRUE(others->live(theirs));
  const char* why = nullptr;
  EXPECT_EQ(handles::Tables::restored(0, &why), tables);
  EXPECT_EQ(handles::Tables::restored(1, &why), others);
  EXPECT_EQ(handles::Tables::restored(2, &why), nullptr);
  EXPECT_NE(why, nullptr);
}
