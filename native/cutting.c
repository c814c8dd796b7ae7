/* Pack the units of a text into passages, at most one of which is open: text/passages.py, for text
 * whose words are parted by spaces, and passages that repeat none. */
#include "cutting.h"

typedef struct {
    const Text *text;
    size_t max_words;
    size_t start, end, words; /* of the open passage */
    int has_body;             /* something besides headings */
    Bytes *stretches;
} Packer;

static int add_body(Packer *packer, Unit unit);

static int close_passage(Packer *packer) {
    Stretch own = {packer->start, packer->end};
    int failed = packer->words ? bytes_add(packer->stretches, &own, sizeof own) : 0;
    packer->words = 0;
    packer->has_body = 0;
    return failed;
}

static void append(Packer *packer, const Unit *unit) {
    if (!packer->words)
        packer->start = unit->start;
    packer->end = unit->end;
    packer->words += unit->words;
}

/* Find where the last sentence ends that fits with all from `start` on; else `start`. */
static size_t find_fitting_end(const Packer *packer, const Unit *unit, size_t start, size_t room) {
    size_t limit = find_word(packer->text, start, unit->end, room);
    if (limit == unit->end)
        return limit;
    return find_last_sentence_end(packer->text, unit->start, limit, start);
}

/* Add the sentences of a paragraph: as many at once as fit, the same as one by one. */
static int add_sentences(Packer *packer, const Unit *unit) {
    int is_full = 0;
    for (size_t start = unit->start, end; start < unit->end; start = end) {
        size_t room = is_full ? 0 : packer->max_words - packer->words;
        end = room ? find_fitting_end(packer, unit, start, room) : start;
        if (end == start && packer->has_body) {
            end = find_fitting_end(packer, unit, start, packer->max_words);
            if (end > start && close_passage(packer) < 0)
                return -1;
        }
        is_full = end > start;
        if (is_full) {
            Unit sentences = trim(packer->text, start, end, SENTENCE);
            append(packer, &sentences);
            packer->has_body = 1;
            continue;
        }
        end = find_sentence_end(packer->text, start, unit->end);
        end = end > start ? end : unit->end;
        if (add_body(packer, trim(packer->text, start, end, SENTENCE)) < 0)
            return -1;
    }
    return 0;
}

/* Add the words of a line: as many at once as fit, the same as one by one. */
static int add_words(Packer *packer, const Unit *unit) {
    for (size_t start = unit->start, end; start < unit->end; start = end) {
        if (packer->words == packer->max_words && close_passage(packer) < 0)
            return -1;
        end = find_word(packer->text, start, unit->end, packer->max_words - packer->words);
        Unit run = trim(packer->text, start, end, LINE);
        append(packer, &run);
        packer->has_body = 1;
    }
    return 0;
}

static int add_lines(Packer *packer, const Unit *unit) {
    const Text *text = packer->text;
    for (size_t start = unit->start, end; start < unit->end; start = end) {
        for (end = start; end < unit->end; end++)
            if (text_at(text, end) == '\n' || text_at(text, end) == '\r')
                break;
        if (end < unit->end)
            end += text_at(text, end) == '\r' && end + 1 < unit->end
                           && text_at(text, end + 1) == '\n'
                       ? 2
                       : 1;
        Unit line = trim(text, start, end, LINE);
        if (line.words && add_body(packer, line) < 0)
            return -1;
    }
    return 0;
}

static int add_body(Packer *packer, Unit unit) {
    int fits = packer->words + unit.words <= packer->max_words;
    if (!fits && packer->has_body && unit.words <= packer->max_words) {
        if (close_passage(packer) < 0)
            return -1;
        fits = 1;
    }
    if (fits) {
        append(packer, &unit);
        packer->has_body = 1;
        return 0;
    }
    return unit.kind == PARAGRAPH ? add_sentences(packer, &unit)
           : unit.kind == LINE    ? add_words(packer, &unit)
                                  : add_lines(packer, &unit);
}

static int add_unit(Packer *packer, Unit unit) {
    if (unit.kind != HEADING)
        return add_body(packer, unit);
    if ((packer->has_body || packer->words + unit.words >= packer->max_words)
        && close_passage(packer) < 0)
        return -1; /* closed also where no word of what follows the headings would fit */
    if (unit.words < packer->max_words) {
        append(packer, &unit);
        return 0;
    }
    unit.kind = PARAGRAPH;
    return add_body(packer, unit);
}

static int cut_blocks(const Text *text, size_t max_words, Bytes *stretches) {
    Packer packer = {text, max_words, 0, 0, 0, 0, stretches};
    Bytes lines = {0};
    int failed = find_lines(text, &lines);
    for (size_t first = 0, after; !failed && first < lines.size / sizeof(Line); first = after) {
        Kind kind = tell_block(text, &lines, first, &after);
        size_t start = ((const Line *)lines.data)[first].start;
        size_t end = ((const Line *)lines.data)[after - 1].end;
        failed = add_unit(&packer, (Unit){start, end, count_words(text, start, end), kind});
    }
    bytes_free(&lines);
    return failed ? -1 : close_passage(&packer);
}

int cut_text(const Text *text, size_t max_words, Bytes *stretches) {
    Look look = look_at(text);
    if (!look.is_plain)
        return 1;
    if (!look.words || look.words > max_words || look.may_have_heading)
        return cut_blocks(text, max_words, stretches);
    Unit only = trim(text, 0, text->size, PARAGRAPH);
    Stretch own = {only.start, only.end};
    return bytes_add(stretches, &own, sizeof own);
}
