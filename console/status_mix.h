/* status_mix: whether an endpoint responds with other statuses than it usually does. Pure: the
 * caller says which responses came. For learned.c, which stores it after each look.
 *
 * Responses are counted by class. The last one to two hours are compared with the past, of which half
 * is forgotten in a week. A class of failures has risen when its share is improbable by the past
 * (Chernoff's bound: at most e^-20), and one and a half times the largest so far, of which half is forgotten
 * in a week, too. So an endpoint that fails now and then, as it always has, is left alone:
 * delivery_failure_rate judges it. A rise that has ended permits up to twice as much. More successes
 * are no alarm. */
#ifndef CONSOLE_STATUS_MIX_H
#define CONSOLE_STATUS_MIX_H

#include <stdbool.h>
#include <stdint.h>

/* The values of the label `class`. */
#define MIX_CLASSES(C) \
    C(2XX, "2xx")      \
    C(3XX, "3xx")      \
    C(4XX, "4xx")      \
    C(5XX, "5xx")      \
    C(NONE, "none")

enum mix_class {
#define C(NAME, word) MIX_##NAME,
    MIX_CLASSES(C)
#undef C
        MIX_COUNT
};
extern const char *const mix_words[MIX_COUNT];

enum { MIX_DAYS = 7 /* before this, nothing is unusual */ };

struct mix {
    double learned_ms; /* observed altogether */
    double hour_ms;    /* observed of the present hour */
    double now[MIX_COUNT], last[MIX_COUNT],
        past[MIX_COUNT]; /* present hour, the one before, all earlier ones */
    /* The largest share in the past; and since then, while an hour or a rise lasts. */
    double peak[MIX_COUNT], worst[MIX_COUNT];
};

struct mix_change {
    bool known; /* false: too few responses to say anything */
    enum mix_class risen;
    double by, was, is; /* shares; `by` 0: nothing has risen */
};

/* These came within the last `span_ms`. */
void mix_take(struct mix *m, int64_t span_ms, const double came[MIX_COUNT]);
/* `at_least`: how many responses of the last one to two hours are enough. */
struct mix_change mix_judge(const struct mix *m, double at_least);

/* Whether changes are judged: it was watched for long enough, and has had enough responses. */
bool mix_has_learned(const struct mix *m);
/* How many responses came before the last one to two hours (of which half is forgotten in a week), and the share
 * of a class among them. */
double mix_past_count(const struct mix *m);
double mix_past_share(const struct mix *m, enum mix_class class);
/* The same of the last one to two hours. */
double mix_recent_count(const struct mix *m);
double mix_recent_share(const struct mix *m, enum mix_class class);

/* false: it is not what mix_take() makes: a damaged row. */
bool mix_is_sane(const struct mix *m);

#endif
