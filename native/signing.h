/* Signatures of texts, as text/signatures.py defines them. */
#ifndef QUOTH_SIGNING_H
#define QUOTH_SIGNING_H

#include "cutting.h"

typedef struct {
    size_t run, size, least, most_characters;
} SignatureForm;

/* Room for the words of texts, and for hashes of them; used again and again. */
typedef struct {
    Bytes words, starts, ends, hashes;
    int is_in_word;
} Signer;

void signer_free(Signer *signer);
void sort_hashes(uint32_t *hashes, uint32_t *scratch, size_t count);
/* Add the signature of some texts together; 0, 1 where their lower case is left to Python, or -1
 * without memory. */
int sign(Signer *signer, const Text *texts, size_t count, const SignatureForm *form, Bytes *out);

#endif
