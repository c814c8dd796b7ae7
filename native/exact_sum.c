/* Add numbers without rounding in between. */
#include "searcher.h"

#include <math.h>

double exact_sum(const double *numbers, size_t count, double *partials) {
    size_t size = 0;
    for (size_t each = 0; each < count; each++) {
        double x = numbers[each];
        size_t kept = 0;
        for (size_t at = 0; at < size; at++) {
            double y = partials[at];
            if (fabs(x) < fabs(y)) {
                double swapped = x;
                x = y;
                y = swapped;
            }
            volatile double high = x + y, rest = high - x;
            double low = y - rest;
            if (low != 0.0)
                partials[kept++] = low;
            x = high;
        }
        partials[kept] = x;
        size = kept + 1;
    }
    if (size == 0)
        return 0.0;
    double high = partials[--size], low = 0.0;
    while (size) {
        double x = high, y = partials[--size];
        high = x + y;
        volatile double rest = high - x;
        low = y - rest;
        if (low != 0.0)
            break;
    }
    /* Half-way cases are decided by what is left, so that the sum is rounded once. */
    if (size
        && ((low < 0.0 && partials[size - 1] < 0.0) || (low > 0.0 && partials[size - 1] > 0.0))) {
        double y = low * 2.0, x = high + y;
        volatile double rest = x - high;
        if (y == rest)
            high = x;
    }
    return high;
}
