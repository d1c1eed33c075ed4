/* top: `grapnel top`: the loop around top_feed (input), top_data (numbers) and top_view (lines). */
#include "clock.h"
#include "top_feed.h"
#include "top_screen.h"
#include <czmq.h>
#include <sys/ioctl.h>

enum {
    DRAW_MS = 1000,
    COMPLETE_POLL_MS = 20,
    WIDTH_USUAL = 80,
    WIDTH_MAX = 1000,
    ALL_ROWS = 1000000,
};

struct top {
    struct feed *feed;
    struct top_data facts;
    struct top_options options;
    bool still, quit;
};

static volatile sig_atomic_t ended;

static void on_signal(int signo)
{
    (void)signo;
    ended = 1;
}

static void look(struct top *t)
{
    struct top_input in;

    if (t->still)
        return;
    feed_input(t->feed, &in);
    top_data_fini(&t->facts);
    top_data_build(&t->facts, &in);
}

static void draw(struct top *t)
{
    struct top_page page;

    screen_size(&t->options.width, &t->options.height);
    if (t->options.width < 1 || t->options.height < 1)
        return;
    t->options.note = t->still ? "paused; space continues" : feed_from(t->feed);
    top_view(&t->facts, &t->options, &page);
    t->options.first = page.first;
    screen_draw(&page);
    top_page_fini(&page);
}

static void scroll_by(struct top *t, int rows)
{
    if (rows < 0 && (size_t)-rows > t->options.first)
        t->options.first = 0;
    else
        t->options.first += (size_t)rows; /* the view knows the end */
}

static void take_key(struct top *t, int key)
{
    if (t->options.help && key != 'q') {
        t->options.help = false;
        return;
    }
    switch (key) {
    case 'q':
        t->quit = true;
        break;
    case 'h':
    case '?':
        t->options.help = true;
        break;
    case ' ':
        t->still = !t->still;
        break;
    case KEY_UPWARDS:
        scroll_by(t, -1);
        break;
    case KEY_DOWNWARDS:
        scroll_by(t, 1);
        break;
    case KEY_PAGE_UP:
        scroll_by(t, -t->options.height / 2);
        break;
    case KEY_PAGE_DOWN:
        scroll_by(t, t->options.height / 2);
        break;
    case KEY_TO_BEGIN:
        t->options.first = 0;
        break;
    default:
        if (top_sort_of(key, &t->options.sort))
            t->options.first = 0;
    }
}

/* Draws until a key or a signal ends it, or the terminal has gone. Waits for a key, a frame, a
 * reply, or the next drawing. */
static void show(struct top *t)
{
    zmq_pollitem_t items[FEED_POLL_MAX + 1] = {
        {.fd = STDIN_FILENO, .events = ZMQ_POLLIN | ZMQ_POLLERR}};
    zsock_t *sockets[FEED_POLL_MAX];
    int64_t due_ms = 0;

    while (!t->quit && !ended) {
        bool fresh = feed_run(t->feed);
        int64_t wait_ms;
        int key, n;

        while ((key = screen_key()) != KEY_NONE) {
            take_key(t, key);
            fresh = true;
        }
        if (fresh || mono_ms() >= due_ms) {
            look(t);
            draw(t);
            due_ms = mono_ms() + DRAW_MS;
        }
        if (t->quit)
            break;
        n = feed_sockets(t->feed, sockets);
        for (int i = 0; i < n; i++)
            items[i + 1] = (zmq_pollitem_t){.socket = zsock_resolve(sockets[i]),
                                            .events = ZMQ_POLLIN};
        wait_ms = due_ms - mono_ms();
        if (zmq_poll(items, n + 1, wait_ms > 0 ? (long)wait_ms : 0) > 0 &&
            items[0].revents & ZMQ_POLLERR)
            t->quit = true;
    }
}

/* ---- one page ---- */

/* Prints one page as wide as $COLUMNS, or as the terminal; shells do not export COLUMNS. */
static void print_page(struct ctl *c, struct top *t)
{
    const char *columns = getenv("COLUMNS");
    int width = columns ? (int)strtol(columns, NULL, 10) : 0;
    struct top_page page;
    struct winsize size;

    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    t->options.width = width > 0 && width <= WIDTH_MAX ? width : WIDTH_USUAL;
    t->options.height = ALL_ROWS;
    t->options.keys = false;
    t->options.note = feed_from(t->feed);
    top_view(&t->facts, &t->options, &page);
    for (size_t i = 0; i < page.count; i++) {
        char *text = page.lines[i].text;
        size_t n = strlen(text);

        while (n > 0 && text[n - 1] == ' ')
            n--;
        printf("%s%.*s%s\n", colour_on(page.lines[i].colour, c->colour), (int)n,
               text, colour_off(page.lines[i].colour, c->colour));
    }
    top_page_fini(&page);
}

/* Prints one page when the numbers are complete. Returns the exit code: 69 if a process
 * publishes no metrics. */
static int once(struct ctl *c, struct top *t)
{
    json_t *rows = json_array();
    int code;

    while (!ended && !feed_complete(t->feed)) {
        feed_run(t->feed);
        zclock_sleep(COMPLETE_POLL_MS);
    }
    look(t);
    if (c->json)
        print_json(top_data_json(&t->facts));
    else
        print_page(c, t);
    fflush(stdout);
    for (size_t i = 0; i < t->facts.process_count; i++) {
        const struct top_process *p = &t->facts.processes[i];

        json_array_append_new(
            rows, json_pack("{s:s,s:b,s:s}", "process", p->name, "up",
                            p->state == TOP_UP, "error",
                            p->state == TOP_DOWN ? "not running"
                                                 : "it publishes no metrics"));
    }
    code = complain_all_away(c, rows, "up");
    json_decref(rows);
    return code;
}

int run_top(struct ctl *c)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    struct top t = {.options = {.keys = true, .note = ""}};
    bool look_once = c->json || parsed_value(&c->parsed, "--once");
    char why[200];
    int code = 0;

    need_run_dir(c);
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        sigaction(signals[i], &action, NULL); /* before curses sets its own */
    if (!look_once && screen_open(c->colour, why) != GR_OK)
        return complain(EXIT_USAGE, "%s", why);
    t.feed = feed_open(c);
    if (look_once)
        code = once(c, &t);
    else
        show(&t);
    screen_close();
    feed_close(t.feed);
    top_data_fini(&t.facts);
    return code;
}
