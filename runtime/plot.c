/* Braille plots (see plot.h): each character is a grid of 2 x 4 dots. */
#include "runtime/plot.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { DOTS_X = RT_PLOT_WIDTH * 2, DOTS_Y = RT_PLOT_HEIGHT * 4 };

typedef struct Canvas {
    uint8_t cell[RT_PLOT_HEIGHT][RT_PLOT_WIDTH];
} Canvas;

static void set_dot(Canvas *c, int x, int y) /* y = 0 at the bottom */
{
    static const uint8_t bits[4][2] = {{0x40, 0x80}, {0x04, 0x20}, {0x02, 0x10}, {0x01, 0x08}};
    if (x < 0 || x >= DOTS_X || y < 0 || y >= DOTS_Y) return;
    c->cell[RT_PLOT_HEIGHT - 1 - y / 4][x / 2] |= bits[y % 4][x % 2];
}

static void range_of(const double *v, int64_t n, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) continue;
        *lo = fmin(*lo, v[i]);
        *hi = fmax(*hi, v[i]);
    }
}

static int dot_y(double v, double lo, double hi)
{
    return hi > lo ? (int)lround((v - lo) / (hi - lo) * (DOTS_Y - 1)) : DOTS_Y / 2;
}

/* One dot column: the values that fall into it, joined to the column before. */
static void draw_columns(Canvas *c, const double *v, int64_t n, double lo, double hi)
{
    int last = -1;
    for (int x = 0; x < DOTS_X; x++) {
        int64_t i = n < 2 ? 0 : (int64_t)((double)x * (double)(n - 1) / (DOTS_X - 1) + 0.5);
        assert(i >= 0 && i < n);
        if (!isfinite(v[i])) continue;
        int y = dot_y(v[i], lo, hi), from = last < 0 ? y : last;
        for (int k = from < y ? from : y; k <= (from < y ? y : from); k++) set_dot(c, x, k);
        last = y;
    }
}

static void put_cell(FILE *out, uint8_t bits)
{
    unsigned code = 0x2800u + bits; /* U+2800: braille patterns, in UTF-8 */
    fprintf(out, "%c%c%c", (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)), (char)(0x80 | (code & 63)));
}

void rt_plot(FILE *out, const char *title, const double *values, int64_t n)
{
    double lo, hi;
    Canvas c;
    memset(&c, 0, sizeof c);
    range_of(values, n, &lo, &hi);
    if (n < 1 || !(lo <= hi)) return;
    draw_columns(&c, values, n, lo, hi);
    fprintf(out, "\n  %s\n", title);
    for (int y = 0; y < RT_PLOT_HEIGHT; y++) {
        if (y == 0) fprintf(out, "  %8.4g \u2524", hi);
        else if (y == RT_PLOT_HEIGHT - 1) fprintf(out, "  %8.4g \u2524", lo);
        else fprintf(out, "           \u2502");
        for (int x = 0; x < RT_PLOT_WIDTH; x++) put_cell(out, c.cell[y][x]);
        fputc('\n', out);
    }
    fprintf(out, "            epoch 1%*s%lld\n", RT_PLOT_WIDTH - 7, "", (long long)n);
}
