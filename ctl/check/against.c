/* against: `grapnel check --against`: what the file would make of archived requests, compared with what
 * happened to them. */
#include "against.h"
#include "clock.h"
#include "conf.h"
#include "config.h"
#include "ctl.h"
#include "json_text.h"
#include "progress.h"
#include "table.h"
#include "when.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXAMPLES_USUAL = 3,
    EXAMPLES_MAX = 1000,
    ERRORS_MAX_BYTES = 1024 * 1024,
};

/* Reads the file; variables that this shell does not have get UNSET_SECRET, so that only what needs their
 * values is left out. NULL: its errors were printed. */
static struct settings *load_file(struct ctl *c, struct string_list *unset)
{
    struct settings *s;
    struct buf errors;

    buf_init(&errors, ERRORS_MAX_BYTES);
    s = settings_load_here(c->config, &errors, unset);
    for (size_t i = 0; i < unset->count && !s; i++)
        if (setenv(unset->items[i], UNSET_SECRET, 1) != 0)
            die(EXIT_STORAGE, "setenv: %s", strerror(errno));
    if (!s && unset->count) {
        buf_reset(&errors);
        s = settings_load(c->config, &errors);
    }
    if (!s && errors.data)
        fwrite(errors.data, 1, errors.len, stderr);
    for (size_t i = 0; i < unset->count && !s; i++)
        complain(0, "%s is not set in this shell", unset->items[i]);
    buf_fini(&errors);
    return s;
}

/* ---- text output ---- */

static void print_difference(const json_t *d)
{
    const json_t *first = json_array_get(json_object_get(d, "examples"), 0);
    const char *endpoint = text_of(d, "endpoint"),
               *before = text_of(first, "before"),
               *after = text_of(first, "after");
    json_t *example;
    size_t i;

    printf("%8lld  %s %s: %s", (long long)integer_of(d, "count"),
           *endpoint ? "endpoint" : "source",
           *endpoint ? endpoint : text_of(d, "source"), text_of(d, "what"));
    if (*before || *after)
        printf(" (%s%s%s)", before, *before && *after ? " → " : "", after);
    printf("\n          ");
    json_array_foreach(json_object_get(d, "examples"), i, example)
        printf("%s%s", i ? " " : "", text_of(example, "id"));
    printf("\n");
}

static void print_report(const json_t *doc)
{
    char *names = join_strings(json_object_get(doc, "archives"), SIZE_MAX);
    json_t *differences = json_object_get(doc, "differences"), *row;
    bool all = !json_array_size(json_object_get(doc, "unjudged")) &&
               !json_array_size(json_object_get(doc, "unverified"));
    size_t i;

    printf("%s: %lld events since %s %s, of the archive of %s\n",
           text_of(doc, "file"), (long long)integer_of(doc, "judged"),
           time_of(doc, "since"), when_zone(), names);
    free(names);
    if (json_array_size(differences))
        printf("\n  EVENTS  DIFFERENCE\n");
    else if (!integer_of(doc, "judged"))
        printf("nothing was compared\n");
    else
        printf("no difference from what happened%s\n",
               all ? "" : ", as far as it was compared");
    json_array_foreach(differences, i, row) print_difference(row);
    json_array_foreach(json_object_get(doc, "unverified"), i, row)
        printf("%ssource %s: the signatures of %lld requests were not "
               "verified: %s\n",
               i ? "" : "\n", text_of(row, "source"),
               (long long)integer_of(row, "count"), text_of(row, "why"));
    json_array_foreach(json_object_get(doc, "unjudged"), i, row)
        printf("%s%lld events were not compared: %s\n", i ? "" : "\n",
               (long long)integer_of(row, "count"), text_of(row, "why"));
}

/* ---- the command ---- */

/* false: the error was printed. */
static bool read_all(struct ctl *c, struct reading *reading,
                     struct judging *judging)
{
    struct archived_request *all;
    struct progress progress;
    bool good = true;
    char why[300];
    size_t count;

    progress_begin(&progress, !c->json && isatty(STDERR_FILENO));
    do {
        good = reading_batch(reading, &all, &count, why) == GR_OK;
        for (size_t i = 0; i < count && good; i++)
            judging_request(judging, &all[i]);
        progress_show(&progress, reading_part(reading), "reading the archive");
    } while (good && count);
    progress_end(&progress);
    if (!good)
        complain(0, "%s", why);
    return good;
}

static int compare(struct ctl *c, int64_t since_ms, size_t examples)
{
    char why[300];
    struct reading *reading = reading_open(c->settings->state_dir, since_ms,
                                           why);
    struct report *report;
    struct judging *judging;
    json_t *doc, *archives = json_array();
    const struct string_list *names;
    bool good;
    int code;

    if (!reading) {
        json_decref(archives);
        return complain(EXIT_STORAGE, "%s", why);
    }
    names = reading_names(reading);
    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(archives, json_text_of(names->items[i]));
    report = report_new(examples);
    judging = judging_new(c->settings, reading, report);
    good = read_all(c, reading, judging);
    doc = report_json(report);
    json_object_set_new(doc, "file", json_text_of(c->settings->path));
    json_object_set_new(doc, "since", json_time(since_ms));
    json_object_set_new(doc, "archives", archives);
    code = !good                                                  ? EXIT_STORAGE
           : json_array_size(json_object_get(doc, "differences")) ? EXIT_REFUSED
           : integer_of(doc, "judged")                            ? 0
                                       : EXIT_UNAVAILABLE;
    if (good && c->json)
        print_json(json_incref(doc));
    else if (good)
        print_report(doc);
    json_decref(doc);
    judging_free(judging);
    report_free(report);
    reading_close(reading);
    return code;
}

int check_against(struct ctl *c, const char *since)
{
    const char *text = parsed_value(&c->parsed, "--examples"), *wrong;
    struct string_list unset = {0};
    int64_t examples = EXAMPLES_USUAL, since_ms;
    char why[200];
    int code;

    if (when_parse(since, now_ms(), &since_ms, why) != GR_OK)
        return complain(EXIT_USAGE, "--against: %s", why);
    if (text && (conf_parse_int(text, &examples, &wrong) != GR_OK ||
                 examples < 0 || examples > EXAMPLES_MAX))
        return complain(EXIT_USAGE,
                        "--examples: \"%s\" is not a number from 0 to %d", text,
                        EXAMPLES_MAX);
    c->settings = load_file(c, &unset);
    string_list_fini(&unset);
    if (!c->settings)
        return EXIT_CONFIG;
    code = compare(c, since_ms, (size_t)examples);
    fflush(stdout);
    return code;
}
