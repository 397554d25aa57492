// Pseudo-random numbers, the same in each run. Included by one source of a program.
#ifndef UNIT_DRAW_H
#define UNIT_DRAW_H

#include <stdint.h>

static uint64_t draw_seed; // set before the first draw, to anything but 0

// xorshift (Marsaglia)
static uint64_t draw(uint64_t below)
{
    draw_seed ^= draw_seed << 13;
    draw_seed ^= draw_seed >> 7;
    draw_seed ^= draw_seed << 17;
    return draw_seed % below;
}

#endif
