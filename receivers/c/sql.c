/* sql.c: what the SQL stores have in common: tables, statements, and the check of one event. The
 * libraries of other languages have the same tables. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

const char *grapnel_schema(void)
{
    return "CREATE TABLE IF NOT EXISTS grapnel_events (\n"
           "  id TEXT PRIMARY KEY, received_s BIGINT NOT NULL);\n"
           "CREATE TABLE IF NOT EXISTS grapnel_series (\n"
           "  workspace TEXT NOT NULL, series TEXT NOT NULL,\n"
           "  floor BIGINT, announced INTEGER NOT NULL DEFAULT 0,\n"
           "  PRIMARY KEY (workspace, series));\n"
           "CREATE TABLE IF NOT EXISTS grapnel_numbers (\n"
           "  workspace TEXT NOT NULL, series TEXT NOT NULL,\n"
           "  sequence BIGINT NOT NULL, previous BIGINT NOT NULL,\n"
           "  id TEXT NOT NULL, received_s BIGINT NOT NULL,\n"
           "  PRIMARY KEY (workspace, series, sequence));\n"
           "CREATE INDEX IF NOT EXISTS grapnel_numbers_previous\n"
           "  ON grapnel_numbers (workspace, series, previous);\n"
           "CREATE INDEX IF NOT EXISTS grapnel_numbers_received\n"
           "  ON grapnel_numbers (received_s);\n"
           "CREATE INDEX IF NOT EXISTS grapnel_events_received\n"
           "  ON grapnel_events (received_s);\n";
}

#define HERE          "FROM grapnel_numbers WHERE workspace = $1 AND series = $2"
#define OTHERS        "FROM grapnel_series s WHERE s.workspace = $1 AND s.series <> $2"
#define IF(condition) "CASE WHEN " condition " THEN 1 ELSE 0 END"

static const char take_id[] =
    "INSERT INTO grapnel_events (id, received_s) VALUES ($1, $2) "
    "ON CONFLICT DO NOTHING";
static const char get_series[] = "SELECT floor, announced FROM grapnel_series "
                                 "WHERE workspace = $1 AND series = $2";
static const char add_series[] =
    "INSERT INTO grapnel_series (workspace, series) VALUES ($1, $2) "
    "ON CONFLICT DO NOTHING";
static const char set_series[] =
    "UPDATE grapnel_series SET floor = $1, announced = $2 "
    "WHERE workspace = $3 AND series = $4";
static const char add_number[] =
    "INSERT INTO grapnel_numbers "
    "(workspace, series, sequence, previous, id, received_s) "
    "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
static const char get_facts[] =
    "SELECT (SELECT id " HERE " AND sequence = $3), "
    "(SELECT max(sequence) " HERE "), " IF(
        "EXISTS (SELECT 1 " HERE
        " AND sequence = $4)") ", "
                               "(SELECT max(sequence) " HERE
                               " AND sequence < $4), " IF(
                                   "EXISTS (SELECT "
                                   "1 " HERE " AND "
                                   "previo"
                                   "us = "
                                   "$3)") ", " IF("EXISTS (SELECT 1 " OTHERS
                                                  " AND s.floor IS NOT "
                                                  "NULL)") ", " IF("EX"
                                                                   "IS"
                                                                   "TS"
                                                                   " ("
                                                                   "SE"
                                                                   "LE"
                                                                   "CT"
                                                                   " 1"
                                                                   " " OTHERS
                                                                   " A"
                                                                   "ND"
                                                                   " E"
                                                                   "XI"
                                                                   "ST"
                                                                   "S "
                                                                   "("
                                                                   "SE"
                                                                   "LE"
                                                                   "CT"
                                                                   " 1"
                                                                   " F"
                                                                   "RO"
                                                                   "M "
                                                                   "gr"
                                                                   "ap"
                                                                   "ne"
                                                                   "l_"
                                                                   "nu"
                                                                   "mb"
                                                                   "er"
                                                                   "s "
                                                                   "n "
                                                                   "WH"
                                                                   "ER"
                                                                   "E "
                                                                   "n."
                                                                   "wo"
                                                                   "rk"
                                                                   "sp"
                                                                   "ac"
                                                                   "e "
                                                                   "= "
                                                                   "s."
                                                                   "wo"
                                                                   "rk"
                                                                   "sp"
                                                                   "ac"
                                                                   "e "
                                                                   "AN"
                                                                   "D "
                                                                   "n."
                                                                   "se"
                                                                   "ri"
                                                                   "es"
                                                                   " ="
                                                                   " s"
                                                                   ".s"
                                                                   "er"
                                                                   "ie"
                                                                   "s "
                                                                   "AN"
                                                                   "D "
                                                                   "n."
                                                                   "se"
                                                                   "qu"
                                                                   "en"
                                                                   "ce"
                                                                   " ="
                                                                   " $"
                                                                   "4)"
                                                                   ")");
static const char get_missing[] =
    "SELECT n.series, n.workspace, n.previous, min(n.received_s), " IF(
        "EXISTS (SELECT 1 FROM grapnel_numbers o "
        "WHERE o.workspace = n.workspace AND o.sequence = n.previous "
        "AND o.series <> n.series)") " FROM grapnel_numbers n JOIN "
                                     "grapnel_series s "
                                     "ON s.workspace = n.workspace AND "
                                     "s.series = n.series "
                                     "WHERE n.previous > s.floor AND NOT "
                                     "EXISTS ("
                                     "SELECT 1 FROM grapnel_numbers p WHERE "
                                     "p.workspace = n.workspace "
                                     "AND p.series = n.series AND p.sequence = "
                                     "n.previous) "
                                     "GROUP BY n.series, n.workspace, "
                                     "n.previous "
                                     "HAVING min(n.received_s) <= $1 ORDER BY "
                                     "min(n.received_s), n.previous";
/* Numbers up to the highest deleted one count as arrived. */
#define DELETED                                       \
    "(SELECT max(n.sequence) FROM grapnel_numbers n " \
    "WHERE n.workspace = grapnel_series.workspace "   \
    "AND n.series = grapnel_series.series AND n.received_s < $1)"
static const char raise_floor[] = "UPDATE grapnel_series SET floor = " DELETED
                                  " WHERE floor < " DELETED;

static int64_t cell_number(const char *cell)
{
    return cell ? strtoll(cell, NULL, 10) : 0; /* the database made the text */
}

struct series {
    bool found, has_floor, announced;
    int64_t floor;
};

static bool on_series(void *arg, const char *const *cells)
{
    struct series *s = arg;

    *s = (struct series){true, cells[0], cell_number(cells[1]) != 0,
                         cell_number(cells[0])};
    return true;
}

static bool on_facts(void *arg, const char *const *cells)
{
    struct grapnel_facts *f = arg;

    grapnel_copy(f->holder, sizeof f->holder, cells[0] ? cells[0] : "");
    f->highest = cell_number(cells[1]);
    f->has_previous = cell_number(cells[2]) != 0;
    f->below = cell_number(cells[3]);
    f->named = cell_number(cells[4]) != 0;
    f->earlier = cell_number(cells[5]) != 0;
    f->in_other = cell_number(cells[6]) != 0;
    return true;
}

/* The row of the series, locked: else both events of a pair would be `ok` although the later
 * one was processed first. */
static enum grapnel_status lock_series(const struct sql *sql,
                                       const struct grapnel_event *e,
                                       struct series *s,
                                       struct grapnel_error *error)
{
    const struct sql_value values[] = {{.text = e->workspace},
                                       {.text = e->series}};
    char text[sizeof get_series + 32];
    enum grapnel_status status;

    grapnel_copy(text, sizeof text, get_series);
    grapnel_copy(text + sizeof get_series - 1, 32, sql->lock);
    for (int attempt = 0;; attempt++) {
        *s = (struct series){false, false, false, 0};
        status = sql->run(sql->connection, text, values, 2, NULL, on_series, s,
                          error);
        if (status || s->found)
            return status;
        if (attempt)
            return grapnel_say(error, GRAPNEL_FAILED,
                               "the row of a series disappeared from "
                               "grapnel_series");
        status = sql->run(sql->connection, add_series, values, 2, NULL, NULL,
                          NULL, error);
        if (status)
            return status;
    }
}

static enum grapnel_status read_facts(const struct sql *sql,
                                      const struct grapnel_event *e,
                                      struct grapnel_facts *f,
                                      struct grapnel_error *error)
{
    const struct sql_value values[] = {{.text = e->workspace},
                                       {.text = e->series},
                                       {.number = e->sequence},
                                       {.number = e->previous}};
    struct series s;
    enum grapnel_status status = lock_series(sql, e, &s, error);

    *f = (struct grapnel_facts){.has_floor = false};
    if (!status)
        status = sql->run(sql->connection, get_facts, values, 4, NULL, on_facts,
                          f, error);
    f->has_floor = s.has_floor;
    f->floor = s.floor;
    f->announced = s.announced;
    return status;
}

static enum grapnel_status write_state(const struct sql *sql,
                                       const struct grapnel_arrival *a,
                                       const struct grapnel_facts *before,
                                       const struct grapnel_state *after,
                                       struct grapnel_error *error)
{
    const struct grapnel_event *e = a->event;
    const struct sql_value number[] = {
        {.text = e->workspace},  {.text = e->series}, {.number = e->sequence},
        {.number = e->previous}, {.text = e->id},     {.number = a->now_s}};
    const struct sql_value series[] = {
        {.number = after->floor, .null = !after->has_floor},
        {.number = after->announced},
        {.text = e->workspace},
        {.text = e->series}};
    enum grapnel_status status = sql->run(sql->connection, add_number, number,
                                          6, NULL, NULL, NULL, error);

    if (status || (after->has_floor == before->has_floor &&
                   after->announced == before->announced))
        return status;
    return sql->run(sql->connection, set_series, series, 4, NULL, NULL, NULL,
                    error);
}

enum grapnel_status grapnel_sql_check(const struct sql *sql,
                                      const struct grapnel_arrival *a,
                                      struct grapnel_check *check,
                                      struct grapnel_error *error)
{
    const struct sql_value values[] = {{.text = a->event->id},
                                       {.number = a->now_s}};
    struct grapnel_facts facts;
    struct grapnel_state state;
    int64_t added = 0;
    /* Waits for a transaction that has the same id, until that one has ended. */
    enum grapnel_status status = sql->run(sql->connection, take_id, values, 2,
                                          &added, NULL, NULL, error);

    if (status)
        return status;
    grapnel_plain(added == 1, check);
    if (!a->numbered)
        return GRAPNEL_DONE;
    status = read_facts(sql, a->event, &facts, error);
    if (status)
        return status;
    grapnel_decide(a->event, added == 1, &facts, check, &state);
    return write_state(sql, a, &facts, &state, error);
}

static bool on_missing(void *arg, const char *const *cells)
{
    return grapnel_missing_add(arg, cells[0], cells[1], cell_number(cells[2]),
                               cell_number(cells[3]),
                               cell_number(cells[4]) != 0);
}

enum grapnel_status grapnel_sql_missing(const struct sql *sql, int64_t before_s,
                                        struct grapnel_missing_list *list,
                                        struct grapnel_error *error)
{
    const struct sql_value before = {.number = before_s};

    return sql->run(sql->connection, get_missing, &before, 1, NULL, on_missing,
                    list, error);
}

enum grapnel_status grapnel_sql_forget(const struct sql *sql, int64_t before_s,
                                       struct grapnel_error *error)
{
    static const char *const statements[] = {
        raise_floor, "DELETE FROM grapnel_numbers WHERE received_s < $1",
        "DELETE FROM grapnel_events WHERE received_s < $1"};
    const struct sql_value before = {.number = before_s};
    enum grapnel_status status = GRAPNEL_DONE;

    for (size_t i = 0; !status && i < 3; i++)
        status = sql->run(sql->connection, statements[i], &before, 1, NULL,
                          NULL, NULL, error);
    return status;
}
