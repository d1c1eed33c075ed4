/* conf_print: prints the tables as effective YAML, and as documentation. */
#include "conf.h"
#include <stdlib.h>

void conf_print(const struct conf_section *s, const void *target,
                struct buf *out, int indent, bool comments)
{
    for (const struct conf_key *k = s->keys; k->name; k++) {
        const void *value = (const char *)target + k->offset;

        if ((k->type->unset && k->type->unset(k, value)) ||
            !conf_has_effect(s, k, target))
            continue;
        if (comments && k->help)
            buf_printf(out, "%*s# %s\n", indent, "", k->help);
        buf_printf(out, "%*s%s:", indent, "", k->name);
        k->type->print(out, k, value, indent);
    }
}

/* ---- documentation ---- */

void conf_document(const struct conf_section *s, const char *path,
                   struct buf *out)
{
    if (s->help)
        buf_printf(out, "%s\n\n", s->help);
    buf_puts(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (const struct conf_key *k = s->keys; k->name; k++) {
        buf_printf(out, "| `%s` | ", k->name);
        if (k->form)
            buf_puts(out, k->form);
        else if (!k->choices)
            buf_puts(out, k->type->name);
        for (size_t i = 0; !k->form && k->choices && k->choices[i]; i++)
            buf_printf(out, "%s`%s`", i ? ", " : "", k->choices[i]);
        buf_puts(out, " | ");
        if (k->flags & CONF_REQUIRED)
            buf_puts(out, "required");
        else if (k->fallback)
            buf_printf(out, "`%s`", k->fallback);
        buf_printf(out, " | %s |\n", k->help ? k->help : "");
    }
    for (const struct conf_key *k = s->keys; k->name; k++)
        if (k->section) {
            char *deeper = gr_printf("%s%s%s%s", path, *path ? "." : "",
                                     k->name,
                                     k->type == &conf_as_maps ? "[]" : "");

            buf_printf(out, "\n## `%s`\n\n", deeper);
            conf_document(k->section, deeper, out);
            free(deeper);
        }
}
