/* A line plot of one series as text, for the end of a training run. */
#pragma once
#include <stdint.h>
#include <stdio.h>

enum { RT_PLOT_WIDTH = 60, RT_PLOT_HEIGHT = 8 };

/* Draws values[n] (NaN is skipped) under a title: RT_PLOT_HEIGHT lines of braille dots with a scale
   at the left and the first and last x below. */
void rt_plot(FILE *out, const char *title, const double *values, int64_t n);
