/* top_view: lays numbers out as lines of text that fit a window. */
#include "top_view.h"
#include "clock.h"
#include "when.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers in few characters; "-" for unknown ones ---- */

enum { SHORT_BYTES = 32 };
typedef char short_text[SHORT_BYTES];

/* Such as 0.3, 12, 1204, 12.3k, 4.5M. */
static const char *count(double v, short_text out)
{
    if (!isfinite(v))
        snprintf(out, SHORT_BYTES, "-");
    else if (v < 10 && v != floor(v))
        snprintf(out, SHORT_BYTES, "%.1f", v);
    else if (v < 10000)
        snprintf(out, SHORT_BYTES, "%.0f", v);
    else if (v < 1e6)
        snprintf(out, SHORT_BYTES, "%.1fk", v / 1e3);
    else
        snprintf(out, SHORT_BYTES, "%.1fM", v / 1e6);
    return out;
}

static const char *seconds(double v, short_text out)
{
    if (!isfinite(v) || v < 0)
        snprintf(out, SHORT_BYTES, "-");
    else if (v < 0.01)
        snprintf(out, SHORT_BYTES, "%.1fms", v * 1e3);
    else if (v < 1)
        snprintf(out, SHORT_BYTES, "%.0fms", v * 1e3);
    else if (v < 10)
        snprintf(out, SHORT_BYTES, "%.1fs", v);
    else
        human_ms((int64_t)v * SECOND_MS, out);
    return out;
}

static const char *percent(double v, short_text out)
{
    if (!isfinite(v))
        snprintf(out, SHORT_BYTES, "-");
    else
        snprintf(out, SHORT_BYTES, v > 0 && v < 0.0995 ? "%.1f%%" : "%.0f%%",
                 v * 100);
    return out;
}

static const char *bytes(double v, short_text out)
{
    if (!isfinite(v))
        snprintf(out, SHORT_BYTES, "-");
    else
        human_bytes((int64_t)v, out);
    return out;
}

/* ---- lines ---- */

struct screen_page {
    struct top_data *f;
    const struct top_options *w;
    struct top_page *out;
};

static void put_line(struct screen_page *p, enum colour colour, bool bar,
                     const char *fmt, ...) GR_PRINTF(4, 5);

static void put_line(struct screen_page *p, enum colour colour, bool bar,
                     const char *fmt, ...)
{
    struct top_page *o = p->out;
    char *text = NULL, *safe, *cut;
    va_list ap;
    int n = 0;

    if (o->count == (size_t)p->w->height)
        return;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die(EXIT_STORAGE, "out of memory");
    va_end(ap);
    safe = harmless(text);
    for (cut = safe; *cut; cut++) /* at `width` characters */
        if (((unsigned char)*cut & 0xc0) != 0x80 && n++ == p->w->width)
            break;
    *cut = 0;
    free(text);
    if (o->count == o->capacity) {
        o->capacity = o->capacity ? 2 * o->capacity : 64;
        o->lines = gr_realloc(o->lines, o->capacity * sizeof *o->lines);
    }
    o->lines[o->count++] = (struct top_line){safe, colour, bar};
}

/* ---- the head ---- */

static void put_title(struct screen_page *p)
{
    size_t states[TOP_DOWN + 1] = {0};
    char at[WHEN_BYTES], others[64] = "";

    for (size_t i = 0; i < p->f->process_count; i++)
        states[p->f->processes[i].state]++;
    when_print(at, p->f->now_ms);
    if (states[TOP_SILENT] || states[TOP_DOWN])
        snprintf(others, sizeof others, ", %zu silent, %zu down",
                 states[TOP_SILENT], states[TOP_DOWN]);
    put_line(p, *others ? RED : PLAIN, true,
             "grapnel top  %.8s %s  %zu up%s  %zu alert%s  %s%*s", at + 11,
             when_zone(), states[TOP_UP], others, p->f->alert_count,
             p->f->alert_count == 1 ? "" : "s", p->w->note, p->w->width, "");
}

static void put_totals(struct screen_page *p)
{
    const struct top_data *f = p->f;
    short_text a, b, c, d, e, g, h, i;

    put_line(p, PLAIN, false,
             "in %s/s  refused %s/s  duplicates %s   delivered %s/s  dead %s/s",
             count(f->accepted, a), count(f->refused, b),
             percent(f->duplicates, c), count(f->delivered, d),
             count(f->dead, e));
    put_line(p, PLAIN, false,
             "end to end p50 %s p95 %s p99 %s   attempts %s/s  failed %s",
             seconds(f->p50_s, a), seconds(f->p95_s, b), seconds(f->p99_s, c),
             count(f->attempts, d), percent(f->failed, e));
    put_line(
        p, PLAIN, false,
        "ingress %s > sequencer %s > held %s > waiting %s > out %s > retry %s "
        "| "
        "dead %s",
        count(f->at_ingress, a), count(f->to_sequencer, b), count(f->held, c),
        count(f->waiting, d), count(f->out, e), count(f->retrying, g),
        count(f->dead_letters, h));
    put_line(p, PLAIN, false, "oldest undelivered %s", seconds(f->oldest_s, i));
}

/* ---- sections: a heading, and as many rows as fit ---- */

struct section {
    size_t rows;  /* all */
    size_t shown; /* rows that fit */
    bool head;    /* the heading fits */
    size_t share; /* rows that it gets in each round */
    void (*put_head)(struct screen_page *p, const struct section *s);
    void (*put_row)(struct screen_page *p, size_t i);
};

static void put_process_head(struct screen_page *p, const struct section *s)
{
    char name[64] = "PROCESS";

    if (s->shown < s->rows)
        snprintf(name, sizeof name, "PROCESS %zu/%zu", s->shown, s->rows);
    put_line(p, BOLD, true, "  %-16.16s %-12s %-9s %8s %8s %9s %9s%*s", name,
             "STATE", "UP FOR", "BACKLOG", "COMMIT99", "STORE", "FREE",
             p->w->width, "");
}

/* "sequencer", or "sequencer@hub-2" of an instance on another host. */
static const char *process_label(const struct top_process *s, char out[64])
{
    const char *end = strstr(s->host, " (");

    snprintf(out, 64, "%.31s%s%.*s", s->name, end ? "@" : "",
             end ? (int)(end - s->host) : 0, s->host);
    return out;
}

static void put_process(struct screen_page *p, size_t i)
{
    const struct top_process *s = &p->f->processes[i];
    char state[64], silent[32], label[64];
    short_text up, backlog, commit, store, disk_free;

    if (s->state == TOP_SILENT)
        snprintf(state, sizeof state, "silent %s",
                 human_ms(s->silent_ms / SECOND_MS * SECOND_MS, silent));
    else
        snprintf(state, sizeof state, "%s", top_state_name(s->state));
    put_line(p, s->state == TOP_UP ? PLAIN : RED, false,
             "%c %-16.16s %-12s %-9s %8s %8s %9s %9s",
             s->state == TOP_UP ? ' ' : '!', process_label(s, label), state,
             seconds(s->up_s, up), count(s->backlog, backlog),
             seconds(s->commit_p99_s, commit), bytes(s->store_bytes, store),
             bytes(s->free_bytes, disk_free));
}

static const char *const sort_names[] = {
    [SORT_TROUBLE] = "trouble", [SORT_RATE] = "rate",
    [SORT_LATENCY] = "latency", [SORT_WAITING] = "waiting",
    [SORT_NAME] = "name",
};

/* The heading of the column by which rows are sorted begins with *. */
static const char *column(const struct screen_page *p, enum top_sort sort,
                          const char *name, short_text out)
{
    snprintf(out, SHORT_BYTES, "%s%s", p->w->sort == sort ? "*" : "", name);
    return out;
}

/* A window of more than 80 characters gives its additional width to the names. */
static int name_width(const struct screen_page *p)
{
    int more = p->w->width - 80;

    return 18 + (more > 45 ? 45 : more > 0 ? more : 0);
}

static void put_endpoint_head(struct screen_page *p, const struct section *s)
{
    short_text name, rate, p95, waiting, trouble, of = "";

    if (s->shown < s->rows)
        snprintf(of, sizeof of, " %zu-%zu/%zu", p->out->first + 1,
                 p->out->first + s->shown, s->rows);
    snprintf(name, sizeof name, "%sENDPOINT%.20s",
             p->w->sort == SORT_NAME ? "*" : "", of);
    put_line(p, BOLD, true, "  %-*s %7s %5s %7s %6s %8s %6s %s%*s",
             name_width(p), name, column(p, SORT_RATE, "TRY/s", rate), "FAIL",
             column(p, SORT_LATENCY, "P95", p95), "FLIGHT",
             column(p, SORT_WAITING, "WAITING", waiting), "RETRY",
             column(p, SORT_TROUBLE, "STATE", trouble), p->w->width, "");
}

static void put_endpoint(struct screen_page *p, size_t i)
{
    static const enum colour colours[] = {
        [MARK_NONE] = PLAIN, [MARK_WARNING] = YELLOW, [MARK_TROUBLE] = RED};
    const struct top_endpoint *e = &p->f->endpoints[p->out->first + i];
    int width = name_width(p);
    short_text rate, fail, p95, flight, waiting, retry;

    count(e->waiting, waiting);
    put_line(p, colours[e->mark], false,
             "%c %-*.*s %7s %5s %7s %6s %7s%s %6s %s", " *!"[e->mark], width,
             width, e -> name, count(e->rate, rate), percent(e->failed, fail),
             seconds(e->p95_s, p95), count(e->in_flight, flight), waiting,
             e -> waiting_more ? "+" : " ", count(e->retrying, retry),
             *e->trouble ? e->trouble
             : *e->state ? e->state
                         : "-");
}

static void put_gap_head(struct screen_page *p, const struct section *s)
{
    short_text n;

    (void)s;
    if (*p->f->sequencer_why)
        put_line(p, BOLD, true,
                 "  GAPS: the sequencer cannot be reached: %s%*s",
                 p->f->sequencer_why, p->w->width, "");
    else
        put_line(p, BOLD, true, "  GAPS  %s open%*s", count(p->f->gaps_open, n),
                 p->w->width, "");
}

static void put_gap(struct screen_page *p, size_t i)
{
    const struct top_gap *g = &p->f->gaps[i];
    char age[32];

    put_line(p, YELLOW, false, "* %-10s source %s, workspace %s: %s, for %s",
             g->id, g->source, g->workspace, g->numbers,
             human_ms(g->age_ms / SECOND_MS * SECOND_MS, age));
}

static void put_alert_head(struct screen_page *p, const struct section *s)
{
    if (*p->f->console_why)
        put_line(p, BOLD, true,
                 "  ALERTS are not evaluated: the console is %s%*s",
                 p->f->console_why, p->w->width, "");
    else
        put_line(p, BOLD, true, "  ALERTS  %zu firing%*s", s->rows, p->w->width,
                 "");
}

static void put_alert(struct screen_page *p, size_t i)
{
    const struct top_alert *a = &p->f->alerts[i];
    bool critical = strcmp(a->severity, "critical") == 0;
    /* Most summaries contain it. */
    const char *subject = strstr(a->summary, a->subject) ? "" : a->subject;
    char age[32];

    put_line(p, critical ? RED : YELLOW, false, "%c %s %s%s%s: %s, for %s",
             critical ? '!' : '*', a->severity, a->name, *subject ? " " : "",
             subject, a->summary,
             human_ms(a->age_ms / SECOND_MS * SECOND_MS, age));
}

/* Gives space to every heading first, in order of urgency, then to rows in rounds. */
static void share_out(struct section *s, size_t n, size_t capacity)
{
    bool any = true;

    for (size_t i = 0; i < n && capacity > 0; i++, capacity--)
        s[i].head = true;
    while (capacity > 0 && any) {
        any = false;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < s[i].share && capacity > 0; k++)
                if (s[i].head && s[i].shown < s[i].rows) {
                    s[i].shown++;
                    capacity--;
                    any = true;
                }
    }
}

/* ---- order ---- */

static int by(double a, double b)
{
    a = isfinite(a) ? a : -1;
    b = isfinite(b) ? b : -1;
    return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_endpoints(const void *x, const void *y, void *arg)
{
    const struct top_endpoint *a = x, *b = y;
    int c = 0;

    switch (*(const enum top_sort *)arg) {
    case SORT_TROUBLE:
        c = by(a->weight, b->weight);
        if (!c)
            c = by(a->waiting, b->waiting);
        break;
    case SORT_RATE:
        c = by(a->rate, b->rate);
        break;
    case SORT_LATENCY:
        c = by(a->p95_s, b->p95_s);
        break;
    case SORT_WAITING:
        c = by(a->waiting, b->waiting);
        break;
    case SORT_NAME:
    case SORT_COUNT:
        break;
    }
    return c ? c : strcmp(a->name, b->name);
}

/* Processes that are not up first; else the order stays. */
static void sort_processes(struct top_data *f)
{
    struct top_process *sorted = gr_alloc((f->process_count + 1) *
                                          sizeof *sorted);
    size_t n = 0;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < f->process_count; i++)
            if ((f->processes[i].state != TOP_UP) == !pass)
                sorted[n++] = f->processes[i];
    free(f->processes);
    f->processes = sorted;
}

/* Critical alerts first; else the order stays. */
static void sort_alerts(struct top_data *f)
{
    struct top_alert *sorted = gr_alloc((f->alert_count + 1) * sizeof *sorted);
    size_t n = 0;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < f->alert_count; i++)
            if ((strcmp(f->alerts[i].severity, "critical") == 0) == !pass)
                sorted[n++] = f->alerts[i];
    free(f->alerts);
    f->alerts = sorted;
}

bool top_sort_of(int key, enum top_sort *out)
{
    for (int i = 0; i < SORT_COUNT; i++)
        if (sort_names[i][0] == key) {
            *out = (enum top_sort)i;
            return true;
        }
    return false;
}

/* ---- the page ---- */

static void put_help(struct screen_page *p)
{
    static const char *const lines[] = {
        "Rates, shares and latencies are of the last 10 seconds, or of the",
        "last two frames if metrics.interval is longer. - means unknown.",
        "",
        "  t r l w n   sort endpoints by trouble, rate, p95, waiting, name",
        "  up down     scroll; also page up, page down, home",
        "  space       pause, continue",
        "  h ?         this help; any key closes it",
        "  q           quit",
        "",
        "ingress     read by ingress, not yet on disk",
        "sequencer   accepted, not yet processed by the sequencer",
        "held        waiting for earlier events; `grapnel gaps --open`",
        "waiting, out, retry   deliveries; `grapnel deliveries --status open`",
        "dead        dead letters that need a decision; `grapnel dlq`",
        "COMMIT99    99 of 100 commits took at most this time",
        "! trouble   * warning   silent: runs, but publishes no metrics",
    };

    for (size_t i = 0; i < COUNT_OF(lines); i++)
        put_line(p, PLAIN, false, "%s", lines[i]);
}

static void put_sections(struct screen_page *p)
{
    struct section s[] = {
        {.rows = p->f->endpoint_count,
         .share = 2,
         .put_head = put_endpoint_head,
         .put_row = put_endpoint},
        {.rows = p->f->process_count,
         .share = 2,
         .put_head = put_process_head,
         .put_row = put_process},
        {.rows = p->f->alert_count,
         .share = 1,
         .put_head = put_alert_head,
         .put_row = put_alert},
        {.rows = p->f->gap_count,
         .share = 1,
         .put_head = put_gap_head,
         .put_row = put_gap},
    };
    static const int order[] = {1, 0, 3, 2};
    size_t used = p->out->count + p->w->keys, height = (size_t)p->w->height;
    size_t last;

    share_out(s, COUNT_OF(s), height > used ? height - used : 0);
    last = s[0].rows - s[0].shown;
    p->out->first = p->w->first < last ? p->w->first : last;
    for (size_t i = 0; i < COUNT_OF(s); i++) {
        const struct section *at = &s[order[i]];

        if (at->head)
            at->put_head(p, at);
        for (size_t k = 0; k < at->shown; k++)
            at->put_row(p, k);
    }
}

void top_view(struct top_data *f, const struct top_options *w,
              struct top_page *out)
{
    struct screen_page p = {f, w, out};
    enum top_sort sort = w->sort;

    *out = (struct top_page){0};
    if (f->endpoint_count)
        qsort_r(f->endpoints, f->endpoint_count, sizeof *f->endpoints,
                compare_endpoints, &sort);
    sort_processes(f);
    sort_alerts(f);
    put_title(&p);
    if (w->help) {
        put_help(&p);
        return;
    }
    put_totals(&p);
    put_sections(&p);
    while (w->keys && out->count + 1 < (size_t)w->height)
        put_line(&p, PLAIN, false, "%s", "");
    if (w->keys)
        put_line(&p, PLAIN, true,
                 "q quit  h help  sort by: t trouble  r rate  l latency  w "
                 "waiting  n name%*s",
                 w->width, "");
}

void top_page_fini(struct top_page *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->lines[i].text);
    free(p->lines);
    *p = (struct top_page){0};
}
