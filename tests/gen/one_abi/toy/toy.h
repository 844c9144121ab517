/* A library with every construct that the generator must read from a header, and nothing else. Its handles
 * are opaque pointers, its results an enumeration; structures are passed by value in registers, in memory,
 * and as results. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct toy_thing* toy_t;
typedef enum { TOY_OK = 0, TOY_NO_THING = 7, TOY_NOT_OFFERED = 9 } toyResult;
typedef struct {
  int x, y;
} toyPair;
typedef struct {
  double d;
  long n;
} toyMixed;
typedef struct {
  long at[16];
} toyBig;
typedef struct {
  int n;
  toy_t thing;
} toyConfig;
typedef void (*toyFunction)(void*);

toyResult toyMake(toy_t* thing, int n);
toyResult toyMakeFrom(toy_t* thing, toyBig big, toyPair pair);
toyResult toyFree(toy_t thing);
toyResult toySet(toy_t thing, int n);
toyResult toyGet(const toy_t thing, int* n);
toyResult toyPut(toy_t thing, int key, const int* value);
toyResult toyTake(toy_t thing, int key);
toyResult toyPutAll(toy_t thing, const int* values, int count);
toyResult toyLabel(toy_t thing, const char* label);
toyResult toyGetLabel(toy_t thing, const char** label);
toyResult toyWorkspace(toy_t thing, void* memory, size_t bytes);
toyResult toyParent(toy_t thing, toy_t* parent);
toyResult toySum(const toy_t* things, unsigned count, long* sum);
toyResult toyAll(toy_t* things, size_t* count);
toyResult toyMalloc(void** memory, size_t bytes);
toyResult toyShare(toy_t thing, char name[16]);
toyPair toySwap(toyPair pair);
toyMixed toyMix(toyMixed a, toyBig b, toyPair c, toyMixed d);
toyBig toyFill(long value);
const char* toyName(toyResult result);
toyResult toyUse(const void* thing, int* n); /* a thing, or an address */
void toyReset(void);
toyResult toyConfigure(const toyConfig* config);
toyResult toyCall(toyFunction function, void* argument);
toyResult toyShow(int window);
long toyCalls(void);                           /* number of calls that have reached the library */
toyResult toyChild(toy_t thing, toy_t* child); /* a new child, which ends with the thing */
toyResult toyTag(toy_t thing, int key, int value);
toyResult toyUntag(toy_t thing, int key);
toyResult toyGetTag(toy_t thing, int key, int* value); /* 0: none */
toyResult toyPoint(toy_t thing, toy_t at);             /* makes it point to another thing */
toyResult toyGetPoint(toy_t thing, toy_t* at);

#ifdef __cplusplus
}
#endif
