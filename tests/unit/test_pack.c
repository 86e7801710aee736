/* Packing of values into one block: small cases whose places are known, and random ones that must not overlap. */
#include "runtime/pack.h"
#include "tests/unit/check.h"

static bool overlap(const RtPack *a, const RtPack *b)
{
    bool time = a->first <= b->last && b->first <= a->last;
    return time && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

static void test_places(void)
{
    RtPack p[] = {{.bytes = 128, .first = 0, .last = 2},
                  {.bytes = 256, .first = 0, .last = 0},
                  {.bytes = 64, .first = 1, .last = 3},
                  {.bytes = 192, .first = 1, .last = 1},
                  {.bytes = 0, .first = 0, .last = 3}};
    check_begin();
    CHECK(rt_pack(p, 5, NULL, 0) == 384);
    CHECK(p[1].at == 0 && p[3].at == 0 && p[0].at == 256 && p[2].at == 192);
    check_end("pack: the largest first, each in the smallest gap");
    check_begin();
    RtPack huge[] = {{.bytes = INT64_MAX - 63}, {.bytes = INT64_MAX - 63}};
    CHECK(rt_pack(huge, 2, NULL, 0) == -1);
    CHECK(rt_pack(huge, 0, NULL, 0) == 0);
    check_end("pack: nothing, and more than there is");
}

/* A smaller gap between others is taken before a larger one below it. */
static void test_best_gap(void)
{
    RtPack p[] = {{.bytes = 640, .first = 0, .last = 0}, {.bytes = 576, .first = 1, .last = 9},
                  {.bytes = 512, .first = 0, .last = 9}, {.bytes = 448, .first = 0, .last = 0},
                  {.bytes = 384, .first = 0, .last = 9}, {.bytes = 320, .first = 3, .last = 3}};
    check_begin();
    int64_t total = rt_pack(p, 6, NULL, 0);
    CHECK(p[1].at == 0 && p[2].at == 640 && p[3].at == 1152 && p[4].at == 1600);
    CHECK(p[5].at == 1152 && total == 1984);
    check_end("pack: a gap between two that stay");
}

static void test_longest(void)
{
    RtPack p[] = {{.bytes = 192, .first = 1, .last = 1},
                  {.bytes = 64, .first = 1, .last = 2},
                  {.bytes = 192, .first = 3, .last = 5},
                  {.bytes = 192, .first = 2, .last = 5}};
    check_begin();
    CHECK(rt_pack_in_order(p, 4, RT_PACK_LARGEST) == 448 && rt_pack_in_order(p, 4, RT_PACK_LONGEST) == 384);
    CHECK(rt_pack(p, 4, NULL, 0) == 384 && p[0].at < 384 && p[1].at < 384);
    check_end("pack: the order that needs less");
}

/* Step 2 of the first case has 448 bytes; step 6 of the second one 256 beside what lies in the room. */
static void test_widest(void)
{
    RtPack p[] = {{.bytes = 128, .first = 2, .last = 4},
                  {.bytes = 128, .first = 2, .last = 3},
                  {.bytes = 192, .first = 0, .last = 0},
                  {.bytes = 192, .first = 0, .last = 2}};
    check_begin();
    rt_pack_widths(p, 4);
    CHECK(rt_pack_in_order(p, 4, RT_PACK_LARGEST) == 512 && rt_pack_in_order(p, 4, RT_PACK_LONGEST) == 512);
    CHECK(rt_pack(p, 4, NULL, 0) == 448);
    check_end("pack: first what lives at the widest step");
    RtPack q[] = {{.bytes = 64, .first = 0, .last = 4, .used = 64},
                  {.bytes = 64, .first = 4, .last = 6, .used = 64},
                  {.bytes = 256, .first = 6, .last = 6}};
    RtPackRoom room = {.bytes = 64, .until = 7};
    check_begin();
    CHECK(rt_pack(q, 3, &room, 1) == 256 && q[1].room == 1 && !q[0].room && !q[2].room);
    check_end("pack: the memory of a result is for what lives at the widest step");
}

static uint64_t next(uint64_t *s) { return *s = *s * 6364136223846793005u + 1442695040888963407u; }

/* A room ends where it does, is another's from a step on, and may have several values in a row. */
static void test_rooms(void)
{
    RtPack p[] = {{.bytes = 128, .first = 0, .last = 2, .used = 100},
                  {.bytes = 128, .first = 3, .last = 3, .used = 101},
                  {.bytes = 64, .first = 3, .last = 4, .used = 36},
                  {.bytes = 64, .first = 3, .last = 5, .used = 36},
                  {.bytes = 128, .first = 2, .last = 4, .used = 0}};
    RtPackRoom rooms[] = {{.bytes = 1000, .until = 3}, {.bytes = 100, .until = 6}, {.bytes = 100, .until = 9}};
    check_begin();
    CHECK(rt_pack(p, 5, rooms, 3) == 256);
    CHECK(p[0].room == 1 && p[0].at == 0);
    CHECK(!p[1].room && !p[4].room && p[1].at != p[4].at);
    CHECK(p[2].room == 2 && p[3].room == 2 && p[2].at != p[3].at);
    check_end("pack: values in the memory of results until these are written");
}

static void test_random(void)
{
    uint64_t s = 7;
    check_begin();
    for (int trial = 0; trial < 300; trial++) {
        RtPack p[40];
        RtPackRoom rooms[4];
        int64_t n = 1 + (int64_t)(next(&s) >> 33) % 40, live = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t first = (int64_t)(next(&s) >> 33) % 20;
            p[i] = (RtPack){.bytes = 64 * ((int64_t)(next(&s) >> 33) % 50),
                            .first = first,
                            .last = first + (int64_t)(next(&s) >> 33) % 8};
            if (trial % 2 && p[i].bytes) p[i].used = p[i].bytes - (int64_t)(next(&s) >> 33) % 64;
        }
        for (int r = 0; r < 4; r++)
            rooms[r] = (RtPackRoom){.bytes = (int64_t)(next(&s) >> 33) % 6000, .until = (int64_t)(next(&s) >> 33) % 25};
        int64_t total = rt_pack(p, n, rooms, 4);
        for (int64_t step = 0; step < 30; step++) {
            int64_t now = 0;
            for (int64_t i = 0; i < n; i++)
                now += p[i].first <= step && step <= p[i].last && !p[i].room ? p[i].bytes : 0;
            if (now > live) live = now;
        }
        check(total >= live && total <= live * 2, "%lld bytes for %lld", (long long)total, (long long)live);
        for (int64_t i = 0; i < n; i++) {
            const RtPackRoom *room = p[i].room ? &rooms[p[i].room - 1] : NULL;
            bool fits = room ? p[i].used && p[i].last < room->until && p[i].at + p[i].used <= room->bytes
                             : p[i].at + p[i].bytes <= total;
            check(p[i].at % RT_PACK_ALIGN == 0 && fits, "place %lld", (long long)i);
            for (int64_t k = 0; k < i; k++)
                check(p[i].room != p[k].room || !overlap(&p[i], &p[k]), "%lld, %lld", (long long)i, (long long)k);
        }
    }
    check_end("pack: nothing overlaps, little is lost");
}

int main(void)
{
    test_places();
    test_best_gap();
    test_longest();
    test_widest();
    test_rooms();
    test_random();
    return check_done();
}
