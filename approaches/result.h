// What was measured of one approach.
#ifndef APPROACH_RESULT_H
#define APPROACH_RESULT_H

#include "approach.h"

enum { NOT_TRIED = -1, NEVER = -2, NOTES_SIZE = 200 };

struct result {
    double rate;            // purchases a second while there are units for all
    long lost_updates;      // units sold that the stock does not show
    long oversold;          // above the units of the small sale
    long lost_units;        // units taken that nobody has bought
    long turned_away;       // buyers who left without a unit while there were units for all
    long twice;             // orders, or ids, above one each
    long unsold;            // units left when all buyers had got SOLD_OUT
    long longest_wait_ms;   // of one purchase in the crowd
    long killed_ms;         // until another bought after the holder was killed; NEVER
    long killed_between_ms; // the same, between two commands
    unsigned measured;      // of enum trouble
    unsigned tried;         // those that an accident or a crowd has tested
    char notes[NOTES_SIZE];
};

#endif
