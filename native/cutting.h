/* Where the passages of texts begin and end, as text/passages.py defines it. */
#ifndef QUOTH_CUTTING_H
#define QUOTH_CUTTING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "segment.h"

typedef struct {
    const void *data;
    int kind; /* bytes of a character */
    size_t size;
    int is_plain; /* ASCII */
} Text;

static inline Py_UCS4 text_at(const Text *text, size_t at) {
    return text->kind == 1   ? ((const uint8_t *)text->data)[at]
           : text->kind == 2 ? ((const uint16_t *)text->data)[at]
                             : ((const uint32_t *)text->data)[at];
}

typedef struct {
    size_t start, end;
} Stretch;

/* A line that is not blank, without the white space around it. */
typedef struct {
    size_t start, end, indent;
    int after_blank;
} Line;

typedef enum { HEADING, CODE, PARAGRAPH, SENTENCE, LINE } Kind;

/* A trimmed, non-empty stretch of a text. */
typedef struct {
    size_t start, end, words;
    Kind kind;
} Unit;

/* What a look at all of a text tells. */
typedef struct {
    int is_plain; /* spaces part its words, and each counts once */
    int may_have_heading;
    size_t words;
} Look;

/* Once, before anything is looked at. */
void make_traits(void);
Look look_at(const Text *text);
size_t count_words(const Text *text, size_t start, size_t end);
/* Make a unit of a stretch, without the white space around it. */
Unit trim(const Text *text, size_t start, size_t end, Kind kind);
/* Where the word begins that has `number` words before it; `end` where none has. */
size_t find_word(const Text *text, size_t start, size_t end, size_t number);

/* blocks.c: lines that are not blank, and the block that begins at one of them. */
int find_lines(const Text *text, Bytes *lines);
Kind tell_block(const Text *text, const Bytes *lines, size_t first, size_t *after);

/* sentences.c: ends of sentences in a stretch; `start` where none is found. */
size_t find_sentence_end(const Text *text, size_t start, size_t end);
size_t find_last_sentence_end(const Text *text, size_t start, size_t limit, size_t since);

/* Cut a text: its passages are added as stretches; 0, 1 where that is left to Python, or -1 without
 * memory. */
int cut_text(const Text *text, size_t max_words, Bytes *stretches);

#endif
