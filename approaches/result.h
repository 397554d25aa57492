// What was found out about one approach.
#ifndef APPROACH_RESULT_H
#define APPROACH_RESULT_H

#include "approach.h"

enum { NOT_TRIED = -1, NEVER = -2, NOTES_SIZE = 200 };

struct result {
    double rate;            // purchases a second while there are units for all
    long lost_updates;      // units sold that the stock has not noticed
    long oversold;          // of the units of the small sale
    long twice;             // orders, or ids, that are one too many
    long unsold;            // units left when all buyers had been told that there are none
    long longest_wait_ms;   // of one purchase in the crowd
    long killed_ms;         // until another bought after the holder was killed; NEVER
    long killed_between_ms; // the same, between two commands
    unsigned measured;      // of enum trouble
    unsigned tried;         // those that an accident was made for, or a crowd
    char notes[NOTES_SIZE];
};

#endif
