// links: cropdl_handles
// What virtual handles and their recipes promise. Any process: the heap's range is mapped here.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "interpose/handles/heap.h"
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
