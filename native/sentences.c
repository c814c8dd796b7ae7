/* Tell the stops that end sentences from others, in text with spaces: text/sentences.py. */
#include "cutting.h"

#define LONGEST_ABBREVIATION 12

static const char *const abbreviations[] = {"al", "approx", "bzw", "ca", "cf", "co", "corp", "dept",
    "dipl", "dr", "ed", "eds", "eq", "eqs", "esp", "est", "etc", "fig", "figs", "gen", "gov", "hr",
    "inc", "jr", "lt", "ltd", "mr", "mrs", "ms", "mt", "ph.d", "prof", "resp", "rev", "sen", "sgt",
    "sr", "st", "tab", "usw", "vgl", "viz", "vs", NULL};
static const char *const before_numbers[] = {
    "abs", "art", "ch", "no", "nos", "nr", "p", "pp", "sec", "vol", NULL};

static int is_stop(Py_UCS4 each) {
    return each == '.' || each == '!' || each == '?'
           || (each > 127
               && (each == 0x2026 || each == 0x61f || each == 0x6d4 || each == 0x964));
}

static int is_closer(Py_UCS4 each) {
    return each == '"' || each == '\'' || each == ')' || each == ']' || each == '}'
           || (each > 127 && (each == 0x201d || each == 0x2019 || each == 0xbb));
}

static int is_opener(Py_UCS4 each) {
    return each == '(' || each == '[' || each == '{' || each == '"' || each == '\''
           || each == 0x201c || each == 0x2018 || each == 0xab;
}

/* The word before a stop, in lower case, as far as an abbreviation can be long. */
typedef struct {
    Py_UCS4 letters[LONGEST_ABBREVIATION];
    size_t size;
    int is_longer; /* İ becomes two letters */
} Word;

static Word word_before(const Text *text, size_t start, size_t stop) {
    Word word = {{0}, 0, 0};
    size_t low = stop - start > LONGEST_ABBREVIATION ? stop - LONGEST_ABBREVIATION : start;
    while (stop > low && Py_UNICODE_ISSPACE(text_at(text, stop - 1)))
        stop--;
    size_t first = stop;
    while (first > low && !Py_UNICODE_ISSPACE(text_at(text, first - 1)))
        first--;
    while (first < stop && is_opener(text_at(text, first)))
        first++;
    for (; first < stop; first++) {
        word.is_longer |= text_at(text, first) == 0x130;
        word.letters[word.size++] = Py_UNICODE_TOLOWER(text_at(text, first));
    }
    return word;
}

static int is_among(const Word *word, const char *const *known) {
    for (; *known; known++) {
        size_t at = 0;
        while (at < word->size && (*known)[at] && (Py_UCS4)(*known)[at] == word->letters[at])
            at++;
        if (at == word->size && !(*known)[at])
            return 1;
    }
    return 0;
}

/* Whether a word is single letters between stops. */
static int is_initials(const Word *word) {
    for (size_t at = 0; at < word->size; at++)
        if (at % 2 ? word->letters[at] != '.' : !Py_UNICODE_ISALPHA(word->letters[at]))
            return 0;
    return word->size % 2 == 1;
}

static int is_short_number(const Word *word) {
    for (size_t at = 0; at < word->size; at++)
        if (!Py_UNICODE_ISDIGIT(word->letters[at]))
            return 0;
    return word->size == 1 || word->size == 2;
}

/* Whether the stop at `stop` ends a sentence, given that the next begins at `after`. */
static int ends_sentence(const Text *text, size_t start, size_t stop, size_t after) {
    Py_UCS4 next = text_at(text, after);
    if (Py_UNICODE_ISLOWER(next))
        return 0;
    if (text_at(text, stop) != '.' || !Py_UNICODE_ISSPACE(text_at(text, stop + 1)))
        return 1;
    Word word = word_before(text, start, stop);
    if (is_among(&word, before_numbers))
        return !Py_UNICODE_ISDIGIT(next);
    int is_short = is_initials(&word) || is_among(&word, abbreviations) || is_short_number(&word);
    return word.is_longer || !is_short;
}

size_t find_sentence_end(const Text *text, size_t start, size_t end) {
    for (size_t at = start; at < end; at++) {
        if (!is_stop(text_at(text, at)) || (at && is_stop(text_at(text, at - 1))))
            continue;
        size_t after = at;
        while (after < end && is_stop(text_at(text, after)))
            after++;
        while (after < end && is_closer(text_at(text, after)))
            after++;
        size_t spaces = after;
        while (after < end && Py_UNICODE_ISSPACE(text_at(text, after)))
            after++;
        if (after > spaces && after < end && ends_sentence(text, start, at, after))
            return after;
    }
    return start;
}

/* Return where the stops begin that stand, with closers, before white space at `spaces`. */
static size_t stops_before(const Text *text, size_t since, size_t spaces) {
    size_t last = spaces;
    while (last > since && is_closer(text_at(text, last - 1)))
        last--;
    size_t first = last;
    while (first > since && is_stop(text_at(text, first - 1)))
        first--;
    return first < last ? first : spaces;
}

size_t find_last_sentence_end(const Text *text, size_t start, size_t limit, size_t since) {
    for (size_t after = limit; after > since;) {
        size_t spaces = after;
        while (spaces > since && Py_UNICODE_ISSPACE(text_at(text, spaces - 1)))
            spaces--;
        if (spaces < after) {
            size_t stop = stops_before(text, since, spaces);
            if (stop < spaces && ends_sentence(text, start, stop, after))
                return after;
        }
        after = spaces;
        while (after > since && !Py_UNICODE_ISSPACE(text_at(text, after - 1)))
            after--;
    }
    return since;
}
