/* row: a table's columns, written once. A list of them makes the fields of the struct, the
 * columns and values of statements, and what binds and reads them:
 *
 *     #define GAP_COLUMNS(F, X) \
 *         F(i64, id)           \
 *         X(text, source)      \
 *         X(flag, late)
 *
 *     struct gap_row { ROW_FIELDS(GAP_COLUMNS) };
 *     "SELECT " ROW_NAMES(GAP_COLUMNS) " FROM gaps WHERE id = ?"
 *     ROW_INSERT("gaps", GAP_COLUMNS)
 *     "UPDATE gaps SET " ROW_SETS(GAP_COLUMNS) " WHERE id = :id"
 *
 *     int i = 0;
 *     ROW_BIND(GAP_COLUMNS, q, i, row);    the parameters behind number i
 *
 *     int i = 0;
 *     ROW_READ(GAP_COLUMNS, q, i, row);    the columns from number i on
 *
 * F is for the first entry, X for the others. An entry is the type, TYPE of bind_TYPE(),
 * col_TYPE() and row_TYPE, and the column, whose name is also the field's; store.sql says
 * what it means. Values are named parameters: SQLite numbers them from 1, in the order in
 * which they first appear in the statement, and the lists are bound in that order. A
 * statement of a few columns is clearer without a list. */
#ifndef STORE_ROW_H
#define STORE_ROW_H

#include "alloc.h"
#include "db.h"
#include <stdlib.h>
#include <string.h>

#define ROW_FIELDS(list)        list(ROW_FIELD_, ROW_FIELD_)
#define ROW_NAMES(list)         list(ROW_NAME_, ROW_NEXT_NAME_)
#define ROW_VALUES(list)        list(ROW_VALUE_, ROW_NEXT_VALUE_)
#define ROW_SETS(list)          list(ROW_SET_, ROW_NEXT_SET_)
#define ROW_INSERT(table, list) ROW_INSERT_WITH(table, list, "", "")
/* Adds columns and their values, each after a comma. */
#define ROW_INSERT_WITH(table, list, names, values) \
    "INSERT INTO " ROW_INTO_(table, list, names, values)
#define ROW_REPLACE_WITH(table, list, names, values) \
    "INSERT OR REPLACE INTO " ROW_INTO_(table, list, names, values)
#define ROW_BIND(list, statement, index, row) \
    do {                                      \
        stmt *row_q = (statement);            \
        int *row_i = &(index);                \
        __typeof__(row) row_p = (row);        \
        list(ROW_BIND_, ROW_BIND_);           \
    } while (0)
#define ROW_READ(list, statement, index, row) \
    do {                                      \
        stmt *row_q = (statement);            \
        int *row_i = &(index);                \
        __typeof__(row) row_p = (row);        \
        list(ROW_READ_, ROW_READ_);           \
    } while (0)
/* Frees what the row owns: fields of the types own, own_or_null and own_blob. */
#define ROW_FREE(list, row)            \
    do {                               \
        __typeof__(row) row_p = (row); \
        list(ROW_FREE_, ROW_FREE_);    \
    } while (0)

/* Whether two rows have the same values in these columns; not for blobs. */
#define ROW_SAME(list, a, b)             \
    __extension__({                      \
        __typeof__(a) row_p = (a);       \
        __typeof__(b) row_b = (b);       \
        list(ROW_SAME_, ROW_NEXT_SAME_); \
    })

#define ROW_INTO_(table, list, names, values) \
    table "(" ROW_NAMES(list) names ") VALUES (" ROW_VALUES(list) values ")"
#define ROW_FIELD_(type, name)      row_##type name;
#define ROW_NAME_(type, name)       #name
#define ROW_NEXT_NAME_(type, name)  ", " #name
#define ROW_VALUE_(type, name)      ":" #name
#define ROW_NEXT_VALUE_(type, name) ", :" #name
#define ROW_SET_(type, name)        #name " = :" #name
#define ROW_NEXT_SET_(type, name)   ", " #name " = :" #name
#define ROW_BIND_(type, name)       bind_##type(row_q, ++*row_i, row_p->name);
#define ROW_READ_(type, name)       row_p->name = col_##type(row_q, (*row_i)++);
#define ROW_FREE_(type, name)       free_##type(row_p->name);
#define ROW_SAME_(type, name)       same_##type(row_p->name, row_b->name)
#define ROW_NEXT_SAME_(type, name)  &&ROW_SAME_(type, name)

typedef int64_t row_i64;
typedef uint64_t row_u64; /* 64 bits that SQLite holds as a signed number */
typedef int row_number;
typedef bool row_flag;
typedef double row_real;
typedef const char *row_text;  /* borrowed until the next step */
typedef struct bytes row_blob; /* borrowed until the next step */
/* NULL in the table for "" and NULL; read as "". */
typedef const char *row_text_or_null;
/* NULL in the table for 0 and false. */
typedef int64_t row_i64_or_null;
typedef uint64_t row_u64_or_null;
typedef bool row_flag_or_null;
/* NULL in the table for -1. */
typedef int64_t row_i64_known;
typedef char *row_own;         /* the row's own copy */
typedef char *row_own_or_null; /* the same; NULL when it is NULL */
typedef struct bytes row_own_blob;
typedef struct bytes row_str; /* text that need not end with 0; only bound */
typedef struct bytes row_str_or_null; /* NULL in the table when it is empty */

static inline void bind_null(stmt *s, int i)
{
    sqlite3_bind_null(s, i);
}

static inline void bind_u64(stmt *s, int i, uint64_t v)
{
    bind_i64(s, i, (int64_t)v);
}

static inline void bind_number(stmt *s, int i, int v)
{
    bind_i64(s, i, v);
}

static inline void bind_flag(stmt *s, int i, bool v)
{
    bind_i64(s, i, v);
}

static inline void bind_real(stmt *s, int i, double v)
{
    sqlite3_bind_double(s, i, v);
}

static inline void bind_text_or_null(stmt *s, int i, const char *v)
{
    bind_text(s, i, v && *v ? v : NULL);
}

static inline void bind_i64_or_null(stmt *s, int i, int64_t v)
{
    if (v)
        bind_i64(s, i, v);
    else
        bind_null(s, i);
}

static inline void bind_i64_known(stmt *s, int i, int64_t v)
{
    if (v < 0)
        bind_null(s, i);
    else
        bind_i64(s, i, v);
}

static inline void bind_u64_or_null(stmt *s, int i, uint64_t v)
{
    bind_i64_or_null(s, i, (int64_t)v);
}

static inline void bind_flag_or_null(stmt *s, int i, bool v)
{
    bind_i64_or_null(s, i, v);
}

static inline void bind_own(stmt *s, int i, const char *v)
{
    bind_text(s, i, v);
}

static inline void bind_own_or_null(stmt *s, int i, const char *v)
{
    bind_text(s, i, v);
}

static inline void bind_str_or_null(stmt *s, int i, struct bytes v)
{
    if (v.n)
        bind_str(s, i, v);
    else
        bind_null(s, i);
}

static inline uint64_t col_u64(stmt *s, int i)
{
    return (uint64_t)col_i64(s, i);
}

static inline int col_number(stmt *s, int i)
{
    return (int)col_i64(s, i);
}

static inline bool col_flag(stmt *s, int i)
{
    return col_i64(s, i) != 0;
}

static inline double col_real(stmt *s, int i)
{
    return sqlite3_column_double(s, i);
}

static inline const char *col_text_or_null(stmt *s, int i)
{
    return col_text(s, i);
}

static inline int64_t col_i64_or_null(stmt *s, int i)
{
    return col_i64(s, i);
}

static inline int64_t col_i64_known(stmt *s, int i)
{
    return col_null(s, i) ? -1 : col_i64(s, i);
}

static inline uint64_t col_u64_or_null(stmt *s, int i)
{
    return col_u64(s, i);
}

static inline bool col_flag_or_null(stmt *s, int i)
{
    return col_flag(s, i);
}

static inline char *col_own(stmt *s, int i)
{
    return gr_strdup(col_text(s, i));
}

static inline char *col_own_or_null(stmt *s, int i)
{
    return col_null(s, i) ? NULL : col_own(s, i);
}

static inline struct bytes col_own_blob(stmt *s, int i)
{
    struct bytes b = col_blob(s, i);
    char *copy = gr_alloc(b.n);

    memcpy(copy, b.p, b.n);
    return (struct bytes){copy, b.n};
}

static inline void free_own(char *v)
{
    free(v);
}

static inline void free_own_or_null(char *v)
{
    free(v);
}

static inline void free_own_blob(struct bytes v)
{
    free((void *)v.p);
}

static inline void free_i64(int64_t v)
{
    (void)v;
}

static inline void free_u64(uint64_t v)
{
    (void)v;
}

static inline void free_flag(bool v)
{
    (void)v;
}

static inline void free_number(int v)
{
    (void)v;
}

static inline bool same_i64(int64_t a, int64_t b)
{
    return a == b;
}

static inline bool same_u64(uint64_t a, uint64_t b)
{
    return a == b;
}

static inline bool same_number(int a, int b)
{
    return a == b;
}

static inline bool same_flag(bool a, bool b)
{
    return a == b;
}

/* "" and NULL are the same, as in ROW_BIND. */
static inline bool same_text_or_null(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static inline bool same_text(const char *a, const char *b)
{
    return same_text_or_null(a, b);
}

static inline bool same_i64_or_null(int64_t a, int64_t b)
{
    return a == b;
}

static inline bool same_u64_or_null(uint64_t a, uint64_t b)
{
    return a == b;
}

static inline bool same_flag_or_null(bool a, bool b)
{
    return a == b;
}

static inline bool same_own(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static inline bool same_own_or_null(const char *a, const char *b)
{
    return a && b ? same_own(a, b) : a == b;
}

#endif
