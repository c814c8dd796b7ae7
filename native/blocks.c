/* Divide a text into lines, and lines into headings, fenced code, list items and paragraphs:
 * text/blocks.py. */
#include "cutting.h"

#define LONGEST_WORD 2000
#define FIRST_UNSPACED 0x2e80
#define LINES(lines) ((const Line *)(lines)->data)
#define NUM_LINES(lines) ((lines)->size / sizeof(Line))

/* Words --------------------------------------------------------------------------------------- */

#define SPACE 1
#define HEADED 2 /* a heading may begin with it, or it ends lines in another way */
#define MARK 4   /* three of them may underline a heading */

/* What the characters of one byte are to a text that is looked at. */
static uint8_t traits[256];

void make_traits(void) {
    for (Py_UCS4 each = 0; each < 256; each++)
        traits[each] = (uint8_t)((Py_UNICODE_ISSPACE(each) ? SPACE : 0)
                                 | (each == '#' || each == '\r' ? HEADED : 0)
                                 | (Py_UNICODE_ISALNUM(each) || Py_UNICODE_ISSPACE(each) ? 0 : MARK));
}

static inline unsigned traits_of(Py_UCS4 each) {
    return each < 256 ? traits[each] : Py_UNICODE_ISSPACE(each) ? SPACE : 0;
}

/* Look at a text whose characters have so many bytes; compiled anew for each. */
static inline Look look_through(const Text *text, int kind) {
    const Text own = {text->data, kind, text->size, text->is_plain};
    unsigned before = SPACE, seen = 0;
    Py_UCS4 last = 0, last_but_one = 0, unspaced = 0;
    size_t words = 0;
    for (size_t at = 0; at < own.size; at++) {
        Py_UCS4 each = text_at(&own, at);
        unsigned found = traits_of(each);
        words += before & ~found & SPACE;
        seen |= found & ((each == last && last == last_but_one ? MARK : 0) | HEADED);
        unspaced |= each >= FIRST_UNSPACED;
        before = found;
        last_but_one = last;
        last = each;
    }
    return (Look){!unspaced, seen != 0, words};
}

static int has_long_word(const Text *text) {
    size_t length = 0;
    for (size_t at = 0; at < text->size && length <= LONGEST_WORD; at++)
        length = Py_UNICODE_ISSPACE(text_at(text, at)) ? 0 : length + 1;
    return length > LONGEST_WORD;
}

Look look_at(const Text *text) {
    Look look = text->kind == 1   ? look_through(text, 1)
                : text->kind == 2 ? look_through(text, 2)
                                  : look_through(text, 4);
    look.is_plain = look.is_plain && !(text->size > LONGEST_WORD && has_long_word(text));
    return look;
}

size_t count_words(const Text *text, size_t start, size_t end) {
    size_t count = 0;
    unsigned before = SPACE;
    for (size_t at = start; at < end; at++) {
        unsigned found = traits_of(text_at(text, at));
        count += before & ~found & SPACE;
        before = found;
    }
    return count;
}

Unit trim(const Text *text, size_t start, size_t end, Kind kind) {
    while (end > start && Py_UNICODE_ISSPACE(text_at(text, end - 1)))
        end--;
    while (start < end && Py_UNICODE_ISSPACE(text_at(text, start)))
        start++;
    return (Unit){start, end, count_words(text, start, end), kind};
}

size_t find_word(const Text *text, size_t start, size_t end, size_t number) {
    unsigned before = SPACE;
    for (size_t at = start; at < end; at++) {
        unsigned found = traits_of(text_at(text, at));
        if ((before & ~found & SPACE) && number-- == 0)
            return at;
        before = found;
    }
    return end;
}

/* Lines --------------------------------------------------------------------------------------- */

static int is_break(Py_UCS4 each) {
    return each == '\n' || each == '\r';
}

int find_lines(const Text *text, Bytes *lines) {
    for (size_t at = 0; at < text->size;) {
        size_t breaks = 0, indent = 0;
        for (; at < text->size && Py_UNICODE_ISSPACE(text_at(text, at)); at++) {
            Py_UCS4 each = text_at(text, at);
            indent = is_break(each) ? 0 : indent + 1;
            breaks += is_break(each) && !(each == '\n' && at && text_at(text, at - 1) == '\r');
        }
        Line line = {at, at, indent, breaks > 1};
        for (; at < text->size && !is_break(text_at(text, at)); at++)
            if (!Py_UNICODE_ISSPACE(text_at(text, at)))
                line.end = at + 1;
        if (line.end > line.start && bytes_add(lines, &line, sizeof line) < 0)
            return -1;
    }
    return 0;
}

/* Return up to where a character is repeated from the beginning of a line on. */
static size_t end_of_marks(const Text *text, const Line *line) {
    size_t at = line->start;
    while (at < line->end && text_at(text, at) == text_at(text, line->start))
        at++;
    return at;
}

static int is_atx_heading(const Text *text, const Line *line) {
    if (text_at(text, line->start) != '#' || line->indent > 3)
        return 0;
    size_t end = end_of_marks(text, line);
    return end - line->start <= 6
           && (end == line->end || Py_UNICODE_ISSPACE(text_at(text, end)));
}

static int is_among(Py_UCS4 each, const char *marks) {
    return each && each < 128 && strchr(marks, (int)each) != NULL;
}

static int is_rule(const Text *text, const Line *line) {
    return is_among(text_at(text, line->start), "=-`:'\"~^_*+#<>.")
           && line->end - line->start >= 3 && end_of_marks(text, line) == line->end;
}

static int is_list_item(const Text *text, const Line *line) {
    size_t at = line->start;
    Py_UCS4 first = text_at(text, at);
    if (is_among(first, "-*+") || first == 0x2022)
        at++;
    else {
        while (at < line->end && is_among(text_at(text, at), "0123456789"))
            at++;
        if (at == line->start || at - line->start > 9 || at == line->end
            || !is_among(text_at(text, at), ".)"))
            return 0;
        at++;
    }
    return at < line->end && Py_UNICODE_ISSPACE(text_at(text, at));
}

/* Return how many marks open a fence; 0 where none does. */
static size_t count_fence(const Text *text, const Line *line) {
    Py_UCS4 mark = text_at(text, line->start);
    size_t end = end_of_marks(text, line);
    if ((mark != '`' && mark != '~') || end - line->start < 3)
        return 0;
    for (size_t at = end; mark == '`' && at < line->end; at++)
        if (text_at(text, at) == '`')
            return 0;
    return end - line->start;
}

/* Blocks -------------------------------------------------------------------------------------- */

static int has_word(const Text *text, const Line *line) {
    for (size_t at = line->start; at < line->end; at++)
        if (Py_UNICODE_ISALNUM(text_at(text, at)) || text_at(text, at) == '_')
            return 1;
    return 0;
}

/* Whether a line is a title over a rule: of = or -, or of another mark and not shorter. */
static int is_underlined(const Text *text, const Bytes *lines, size_t number) {
    if (number + 1 >= NUM_LINES(lines) || LINES(lines)[number + 1].after_blank)
        return 0;
    const Line *title = &LINES(lines)[number], *rule = title + 1;
    if (!is_rule(text, rule) || title->indent > 3 || is_list_item(text, title))
        return 0;
    int is_usual = is_among(text_at(text, rule->start), "=-");
    return (is_usual || rule->end - rule->start >= title->end - title->start)
           && has_word(text, title);
}

static int are_same(const Text *text, const Line *one, const Line *other) {
    size_t size = one->end - one->start;
    if (size != other->end - other->start)
        return 0;
    for (size_t at = 0; at < size; at++)
        if (text_at(text, one->start + at) != text_at(text, other->start + at))
            return 0;
    return 1;
}

/* Count the lines of the heading that begins here: 1 ATX, 2 underlined, 3 also overlined. */
static size_t count_heading_lines(const Text *text, const Bytes *lines, size_t first) {
    const Line *line = &LINES(lines)[first];
    if (is_atx_heading(text, line))
        return 1;
    if (is_underlined(text, lines, first))
        return 2;
    if (is_rule(text, line) && is_underlined(text, lines, first + 1))
        return are_same(text, line, line + 2) && !line[1].after_blank ? 3 : 0;
    return 0;
}

static size_t find_fence_end(const Text *text, const Bytes *lines, size_t first, size_t marks) {
    Py_UCS4 mark = text_at(text, LINES(lines)[first].start);
    for (size_t number = first + 1; number < NUM_LINES(lines); number++) {
        const Line *line = &LINES(lines)[number];
        if (text_at(text, line->start) == mark && line->end - line->start >= marks
            && end_of_marks(text, line) == line->end)
            return number + 1;
    }
    return NUM_LINES(lines);
}

/* Whether a line opens a block even right after a line of a paragraph. */
static int starts_block(const Text *text, const Line *line) {
    return line->after_blank || is_atx_heading(text, line) || is_list_item(text, line)
           || count_fence(text, line);
}

Kind tell_block(const Text *text, const Bytes *lines, size_t first, size_t *after) {
    size_t marks = count_fence(text, &LINES(lines)[first]);
    if (marks) {
        *after = find_fence_end(text, lines, first, marks);
        return CODE;
    }
    size_t heading = count_heading_lines(text, lines, first);
    *after = first + (heading ? heading : 1);
    if (heading)
        return HEADING;
    while (*after < NUM_LINES(lines) && !starts_block(text, &LINES(lines)[*after]))
        ++*after;
    return PARAGRAPH;
}
