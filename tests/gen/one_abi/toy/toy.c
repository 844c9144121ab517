/* See toy.h. Foreign handles give TOY_NO_THING, as far as tests need it. */
#include "toy.h"

#include <stdlib.h>
#include <string.h>

struct toy_thing {
  int n;
  char label[16];
  int tags[4];
  struct toy_thing* parent;
  struct toy_thing* at;
  int is_child;
};
static struct toy_thing* things[64];
static long calls;

static int is_thing(struct toy_thing* t) {
  ++calls;
  for (size_t i = 0; i < 64; ++i) {
    if (t && things[i] == t) return 1;
  }
  return 0;
}
static toyResult make(toy_t* thing, int n, struct toy_thing* parent) {
  ++calls;
  for (size_t i = 0; i < 64; ++i) {
    if (things[i]) continue;
    things[i] = *thing = calloc(1, sizeof **thing);
    things[i]->n = n;
    things[i]->parent = parent;
    return TOY_OK;
  }
  return TOY_NO_THING;
}

toyResult toyMake(toy_t* thing, int n) { return thing ? make(thing, n, NULL) : TOY_NO_THING; }
toyResult toyMakeFrom(toy_t* thing, toyBig big, toyPair pair) {
  return make(thing, (int)(big.at[0] + big.at[15]) + pair.x - pair.y, things[0]);
}
toyResult toyFree(toy_t thing) {
  if (!is_thing(thing)) return TOY_NO_THING;
  for (size_t i = 0; i < 64; ++i) {
    struct toy_thing* t = things[i];
    if (t && (t == thing || (t->is_child && t->parent == thing))) {
      things[i] = NULL;
      if (t != thing) free(t);
    }
  }
  free(thing);
  return TOY_OK;
}
toyResult toySet(toy_t thing, int n) {
  if (!is_thing(thing)) return TOY_NO_THING;
  thing->n = n;
  return TOY_OK;
}
toyResult toyGet(const toy_t thing, int* n) {
  if (!is_thing(thing)) return TOY_NO_THING;
  *n = thing->n;
  return TOY_OK;
}
toyResult toyPut(toy_t thing, int key, const int* value) { return toySet(thing, key + *value); }
toyResult toyTake(toy_t thing, int key) { return toySet(thing, -key); }
toyResult toyPutAll(toy_t thing, const int* values, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return toySet(thing, sum);
}
toyResult toyLabel(toy_t thing, const char* label) {
  if (!is_thing(thing)) return TOY_NO_THING;
  strncpy(thing->label, label, sizeof thing->label - 1);
  return TOY_OK;
}
toyResult toyGetLabel(toy_t thing, const char** label) {
  if (!is_thing(thing)) return TOY_NO_THING;
  *label = thing->label;
  return TOY_OK;
}
toyResult toyWorkspace(toy_t thing, void* memory, size_t bytes) {
  return memory && bytes ? toySet(thing, 0) : TOY_NO_THING;
}
toyResult toyUse(const void* thing, int* n) { return toyGet((toy_t)thing, n); }
toyResult toyGet_twin(const toy_t thing, int* n) {
  const toyResult r = toyGet(thing, n);
  *n += 1000;
  return r;
}
toyResult toyParent(toy_t thing, toy_t* parent) {
  if (!is_thing(thing)) return TOY_NO_THING;
  *parent = thing->parent;
  return TOY_OK;
}
toyResult toySum(const toy_t* all, unsigned count, long* sum) {
  *sum = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (!is_thing(all[i])) return TOY_NO_THING;
    *sum += all[i]->n;
  }
  return TOY_OK;
}
toyResult toyAll(toy_t* all, size_t* count) {
  size_t n = 0;
  for (size_t i = 0; i < 64; ++i) {
    if (things[i] && n < *count) all[n++] = things[i];
  }
  *count = n;
  return TOY_OK;
}
toyResult toyMalloc(void** memory, size_t bytes) {
  *memory = malloc(bytes);
  return TOY_OK;
}
toyResult toyShare(toy_t thing, char name[16]) {
  if (!is_thing(thing)) return TOY_NO_THING;
  name[0] = 's';
  name[1] = 0;
  return TOY_OK;
}
toyPair toySwap(toyPair pair) { return (toyPair){pair.y, pair.x}; }
toyMixed toyMix(toyMixed a, toyBig b, toyPair c, toyMixed d) {
  return (toyMixed){a.d + d.d, a.n + b.at[3] + c.x * c.y + d.n};
}
toyBig toyFill(long value) {
  toyBig big;
  for (int i = 0; i < 16; ++i) big.at[i] = value + i;
  return big;
}
const char* toyName(toyResult result) { return result == TOY_OK ? "ok" : "no such thing"; }
void toyReset(void) { calls = 0; }
toyResult toyConfigure(const toyConfig* config) { return toySet(config->thing, config->n); }
toyResult toyCall(toyFunction function, void* argument) {
  ++calls;
  function(argument);
  return TOY_OK;
}
toyResult toyShow(int window) {
  ++calls;
  return window ? TOY_OK : TOY_NO_THING;
}
long toyCalls(void) { return calls; }
toyResult toyChild(toy_t thing, toy_t* child) {
  const toyResult r = is_thing(thing) ? make(child, 0, thing) : TOY_NO_THING;
  if (r == TOY_OK) (*child)->is_child = 1;
  return r;
}
toyResult toyTag(toy_t thing, int key, int value) {
  if (!is_thing(thing) || key < 0 || key > 3) return TOY_NO_THING;
  thing->tags[key] = value;
  return TOY_OK;
}
toyResult toyUntag(toy_t thing, int key) { return toyTag(thing, key, 0); }
toyResult toyGetTag(toy_t thing, int key, int* value) {
  if (!is_thing(thing)) return TOY_NO_THING;
  *value = thing->tags[key];
  return TOY_OK;
}
toyResult toyPoint(toy_t thing, toy_t at) {
  if (!is_thing(thing) || !is_thing(at)) return TOY_NO_THING;
  thing->at = at;
  return TOY_OK;
}
toyResult toyGetPoint(toy_t thing, toy_t* at) {
  if (!is_thing(thing)) return TOY_NO_THING;
  *at = thing->at;
  return TOY_OK;
}
