/* quoth.native: what Python would do too slowly. Each part has a reference in Python that it is
 * tested against, and Quoth works without this module, only slower. */
#include "analysis_type.h"
#include "postings_type.h"
#include "preparing.h"
#include "records.h"
#include "showing.h"
#include "texts.h"
#include "words_type.h"

#define INTERFACE 3 /* what compiled.py asks for; count on whenever a call or a file changes */

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "quoth.native",
    .m_doc = "Compiled parts of Quoth; see native/ in its sources.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    if (add_builder_type(module) < 0 || add_segments_type(module) < 0
        || add_record_functions(module) < 0 || add_showing_functions(module) < 0
        || add_text_functions(module) < 0 || add_words_type(module) < 0
        || add_analysis_type(module) < 0 || add_preparing_functions(module) < 0
        || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
