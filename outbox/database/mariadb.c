/* mariadb: takes rows of a table of MariaDB or MySQL (InnoDB) by libmariadb.
 *
 * A batch takes two round trips of several statements each: the first ends the transaction of the batch
 * before, writes outcomes and locks new rows, whose sizes it returns; the second marks those that
 * fit into a batch, and reads them. One would have to transfer payloads to know how large they are. */
#include "alloc.h"
#include "clock.h"
#include "driver.h"
#include "network.h"
#include "relay_table.h"
#include "relay_uri.h"
#include "settings.h"
#include <errmsg.h>
#include <errno.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCK_WAIT_S = 5,
    STATEMENT_S = 20,
    PACKET_MAX_BYTES = 12 * 1024 * 1024, /* max_allowed_packet is 16 MiB */
    /* The oldest with SKIP LOCKED. */
    MARIADB_MIN = 100600,
    MYSQL_MIN = 80001,
    /* MySQL closes a connection that has been idle: not in the header of MariaDB. */
    ER_INACTIVE_MYSQL = 4031,
    ID_ESCAPE = 1,
};

/* What the second round trip returns of each row, in this order. */
enum taken {
    TAKEN_ID,
    TAKEN_PAYLOAD,
    TAKEN_BYTES,
    TAKEN_URL,
    TAKEN_TYPE,
    TAKEN_WORKSPACE,
    TAKEN_ENDPOINT,
    TAKEN_ORDERING_KEY,
    TAKEN_ATTEMPTED,
    TAKEN_AGE,
};

enum type_kind { TYPE_TEXT, TYPE_NUMBER, TYPE_BINARY, TYPE_TIME, TYPE_OTHER };

/* A column that the table has. */
struct my_column {
    char *name; /* quoted; NULL: it has none */
    char type[64];
    enum type_kind kind;
    unsigned long width; /* characters of a text; 0: unknown */
    bool nullable;
};

struct locked {
    char *id;
    int64_t bytes;
};

struct driver {
    struct relay_table table;
    char *quoted_table;
    bool deletes;
    MYSQL *conn;
    bool is_mysql; /* and not MariaDB */
    bool in_transaction;
    struct my_column columns[COLUMN_COUNT];
    struct buf sql;
    MYSQL_RES *taken;
    MYSQL_ROW *rows;         /* of `taken`, in the order of the table */
    char **ids;              /* of the rows, as id_text() writes them */
    unsigned long **lengths; /* of their columns */
    unsigned long *all_lengths;
    size_t count;
};

static struct driver *my_open(const struct relay *r, const char *process,
                              int64_t max_payload_bytes)
{
    struct driver *d = gr_alloc(sizeof *d);

    mysql_library_init(0, NULL, NULL); /* before there are threads */
    relay_table_init(&d->table, r, process, max_payload_bytes);
    d->deletes = r->delete_after_ms > 0;
    buf_init(&d->sql, PACKET_MAX_BYTES);
    return d;
}

static void forget_rows(struct driver *d)
{
    mysql_free_result(d->taken);
    for (size_t i = 0; i < d->count; i++)
        free(d->ids[i]);
    free(d->ids);
    free(d->rows);
    free(d->lengths);
    free(d->all_lengths);
    d->taken = NULL;
    d->ids = NULL;
    d->rows = NULL;
    d->lengths = NULL;
    d->all_lengths = NULL;
    d->count = 0;
}

static void disconnect(struct driver *d)
{
    forget_rows(d);
    if (d->conn)
        mysql_close(d->conn);
    d->conn = NULL;
    d->in_transaction = false;
    for (int c = 0; c < COLUMN_COUNT; c++)
        free(d->columns[c].name);
    memset(d->columns, 0, sizeof d->columns);
    free(d->quoted_table);
    d->quoted_table = NULL;
}

static void my_close(struct driver *d)
{
    disconnect(d);
    relay_table_fini(&d->table);
    buf_fini(&d->sql);
    free(d);
}

/* ---- statements ---- */

/* What a statement of a packet is about. */
enum part { PART_END, PART_WRITES, PART_WRITE, PART_NEW, PART_TAKE, PART_ROWS };

/* Several statements that are sent together. */
struct packet {
    enum part *parts;
    size_t count, cap;
    size_t write_n; /* of PART_WRITE that were read */
    struct driver_work *work;
    MYSQL_RES *fresh, *rows; /* of PART_NEW, and of PART_TAKE or PART_ROWS */
    enum part failed;
};

static void packet_fini(struct packet *p)
{
    free(p->parts);
    mysql_free_result(p->fresh);
    mysql_free_result(p->rows);
}

/* Begins a statement; the caller writes it to d->sql. */
static struct buf *begin(struct driver *d, struct packet *p, enum part part)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->parts = gr_realloc(p->parts, p->cap * sizeof *p->parts);
    }
    if (p->count)
        buf_puts(&d->sql, "; ");
    else
        buf_reset(&d->sql);
    p->parts[p->count++] = part;
    return &d->sql;
}

static gr_rc refuse(struct driver *d, const char *what,
                    char why[DRIVER_WHY_BYTES])
{
    return relay_table_refuse(why, what, mysql_error(d->conn));
}

static void note_result(struct driver *d, struct packet *p, enum part part,
                        MYSQL_RES *result)
{
    if (part == PART_WRITE && p->work && p->write_n < p->work->write_count)
        p->work->writes[p->write_n++].written = mysql_affected_rows(d->conn)
                                                    ? DRIVER_APPLIED
                                                    : DRIVER_NOT_WRITTEN;
    else if (part == PART_NEW && !p->fresh)
        p->fresh = result, result = NULL;
    else if ((part == PART_TAKE || part == PART_ROWS) && result && !p->rows)
        p->rows = result, result = NULL;
    mysql_free_result(result);
}

/* Sends the statements, and reads all results. After an error the server does not execute the rest. */
static gr_rc exchange(struct driver *d, struct packet *p,
                      char why[DRIVER_WHY_BYTES])
{
    size_t at = 0;
    int more;

    if (d->sql.failed)
        return relay_table_refuse(why, "the statements are too long", "");
    /* -1 means "no more results" below, and "not sent" here */
    more = mysql_real_query(d->conn, d->sql.data, d->sql.len) ? 1 : 0;
    while (more == 0) {
        MYSQL_RES *result = mysql_store_result(d->conn);

        if (!result && mysql_errno(d->conn)) {
            more = 1;
            break;
        }
        if (at < p->count)
            note_result(d, p, p->parts[at], result);
        else
            mysql_free_result(result);
        at++;
        more = mysql_next_result(d->conn);
    }
    if (more < 0)
        return GR_OK;
    p->failed = p->parts[at < p->count ? at : p->count - 1];
    return refuse(d, "the database refused a statement", why);
}

static gr_rc run(struct driver *d, const char *sql, char why[DRIVER_WHY_BYTES])
{
    struct packet p = {0};
    gr_rc rc;

    buf_puts(begin(d, &p, PART_END), sql);
    rc = exchange(d, &p, why);
    packet_fini(&p);
    return rc;
}

/* Errors of the server, of what it has, and of the statement itself. */
static const unsigned general_errors[] = {
    ER_DISK_FULL,
    ER_OUTOFMEMORY,
    ER_OUT_OF_SORTMEMORY,
    ER_CON_COUNT_ERROR,
    ER_OUT_OF_RESOURCES,
    ER_DBACCESS_DENIED_ERROR,
    ER_ACCESS_DENIED_ERROR,
    ER_NO_DB_ERROR,
    ER_UNKNOWN_COM_ERROR,
    ER_BAD_DB_ERROR,
    ER_BAD_TABLE_ERROR,
    ER_SERVER_SHUTDOWN,
    ER_BAD_FIELD_ERROR,
    ER_PARSE_ERROR,
    ER_UNKNOWN_ERROR,
    ER_GET_ERRNO,
    ER_CANT_LOCK,
    ER_CANT_CREATE_FILE,
    ER_ERROR_ON_WRITE,
    ER_ERROR_ON_READ,
    ER_FILSORT_ABORT,
    ER_FILE_NOT_FOUND,
    ER_CANT_OPEN_FILE,
    ER_NOT_KEYFILE,
    ER_UNKNOWN_TABLE,
    ER_RECORD_FILE_FULL,
    ER_STACK_OVERRUN,
    ER_STACK_OVERRUN_NEED_MORE,
    ER_TABLEACCESS_DENIED_ERROR,
    ER_COLUMNACCESS_DENIED_ERROR,
    ER_SPECIFIC_ACCESS_DENIED_ERROR,
    ER_PROCACCESS_DENIED_ERROR,
    ER_MUST_CHANGE_PASSWORD,
    ER_NO_SUCH_TABLE,
    ER_SP_DOES_NOT_EXIST,
    ER_VIEW_INVALID,
    ER_TABLE_DEF_CHANGED,
    ER_NEED_REPREPARE,
    ER_ABORTING_CONNECTION,
    ER_NEW_ABORTING_CONNECTION,
    ER_CONNECTION_KILLED,
    ER_QUERY_INTERRUPTED,
    ER_NET_PACKET_TOO_LARGE,
    ER_NET_READ_ERROR,
    ER_NET_READ_INTERRUPTED,
    ER_NET_ERROR_ON_WRITE,
    ER_NET_WRITE_INTERRUPTED,
    ER_NET_PACKETS_OUT_OF_ORDER,
    ER_NET_UNCOMPRESS_ERROR,
    ER_ERROR_DURING_COMMIT,
    ER_ERROR_DURING_ROLLBACK,
    ER_TRANS_CACHE_FULL,
    ER_LOCK_TABLE_FULL,
    ER_TOO_MANY_CONCURRENT_TRXS,
    ER_USER_LIMIT_REACHED,
    ER_OPTION_PREVENTS_STATEMENT,
    ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
    ER_READ_ONLY_MODE,
    ER_OPEN_AS_READONLY,
    ER_INNODB_READ_ONLY,
    ER_CRASHED_ON_USAGE,
    ER_CRASHED_ON_REPAIR,
    ER_TABLE_CORRUPT,
    ER_INDEX_CORRUPT,
    ER_TABLESPACE_MISSING,
    ER_TABLESPACE_DISCARDED,
    ER_TEMP_FILE_WRITE_FAILURE,
    ER_INACTIVE_MYSQL,
};

/* Whether the reason may be the contents of rows, a lock on them, or their number: neither the connection,
 * nor the server and what it has, nor the statement itself. A trigger may give any other error. */
static bool is_refused(struct driver *d)
{
    unsigned error = mysql_errno(d->conn);

    if (strcmp(mysql_sqlstate(d->conn), "45000") == 0)
        return true; /* SIGNAL of a trigger, which may have any number */
    if ((error >= CR_MIN_ERROR && error <= CR_MAX_ERROR) ||
        (error >= CER_MIN_ERROR && error <= CER_MAX_ERROR))
        return false;
    for (size_t i = 0; i < COUNT_OF(general_errors); i++)
        if (error == general_errors[i])
            return false;
    return error != 0;
}

static void put_name(struct buf *sql, const char *name, size_t n)
{
    buf_puts(sql, "`");
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '`')
            buf_puts(sql, "`");
        buf_put(sql, name + i, 1);
    }
    buf_puts(sql, "`");
}

static void put_bytes(struct driver *d, struct buf *sql, const char *text,
                      size_t n)
{
    char *escaped = gr_alloc(2 * n + 1);

    buf_puts(sql, "'");
    buf_put(sql, escaped, mysql_real_escape_string(d->conn, escaped, text, n));
    buf_puts(sql, "'");
    free(escaped);
}

static void put_text(struct driver *d, struct buf *sql, const char *text)
{
    put_bytes(d, sql, text, strlen(text));
}

/* A text cannot have NUL, so an id that has one would be another row's id. It is written as ID_ESCAPE and
 * 0, and ID_ESCAPE itself as ID_ESCAPE and 1. No event may have such an id: it has a control
 * character. The caller's. */
static char *id_text(const char *id, size_t n)
{
    char *text = gr_alloc(2 * n + 1), *to = text;

    for (size_t i = 0; i < n; i++) {
        bool escapes = !id[i] || id[i] == ID_ESCAPE;

        *to++ = escapes ? ID_ESCAPE : id[i];
        if (escapes)
            *to++ = id[i] ? '1' : '0';
    }
    return text;
}

/* The reverse of id_text(). */
static void put_id_text(struct driver *d, struct buf *sql, const char *text)
{
    char *id = gr_strdup(text);
    size_t n = 0;

    for (; *text; text++) {
        bool escapes = *text == ID_ESCAPE && text[1];

        text += escapes;
        id[n++] = !escapes ? *text : *text == '0' ? '\0' : ID_ESCAPE;
    }
    put_bytes(d, sql, id, n);
    free(id);
}

/* An id as row() returns it. One that cannot be an id of this column becomes NULL, which no row has. */
static void put_id(struct driver *d, struct buf *sql, const char *id)
{
    size_t digits = strspn(id, "0123456789ABCDEF");

    switch (d->columns[COLUMN_id].kind) {
    case TYPE_NUMBER:
        digits = strspn(*id == '-' ? id + 1 : id, "0123456789");
        buf_puts(sql, digits && !id[digits + (*id == '-')] ? id : "NULL");
        break;
    case TYPE_BINARY:
        if (!id[digits] && digits % 2 == 0)
            buf_printf(sql, "X'%s'", id);
        else
            buf_puts(sql, "NULL");
        break;
    default:
        put_id_text(d, sql, id);
    }
}

/* Binary ids, such as UUIDs of 16 bytes, are read as hexadecimal digits. */
static void put_id_read(struct driver *d, struct buf *sql)
{
    const struct my_column *id = &d->columns[COLUMN_id];

    buf_printf(sql, id->kind == TYPE_BINARY ? "HEX(%s)" : "%s", id->name);
}

static void put_column(struct driver *d, struct buf *sql, enum column c)
{
    buf_puts(sql, d->columns[c].name ? d->columns[c].name : "NULL");
}

static void put_is_new(struct driver *d, struct buf *sql)
{
    buf_printf(sql, " FROM %s WHERE %s = ", d->quoted_table,
               d->columns[COLUMN_status].name);
    put_text(d, sql, d->table.statuses[RELAY_STATUS_NEW]);
    if (d->table.where)
        buf_printf(sql, " AND (%s)", d->table.where);
    if (d->columns[COLUMN_id]
            .nullable) /* else it would be one more range for the optimizer */
        buf_printf(sql, " AND %s IS NOT NULL", d->columns[COLUMN_id].name);
}

static void put_order(struct driver *d, struct buf *sql)
{
    buf_puts(sql, " ORDER BY ");
    if (d->columns[COLUMN_created_at].name)
        buf_printf(sql, "%s, ", d->columns[COLUMN_created_at].name);
    buf_puts(sql, d->columns[COLUMN_id].name);
}

/* In ms, since created_at. */
static void put_age(struct driver *d, struct buf *sql)
{
    const struct my_column *c = &d->columns[COLUMN_created_at];

    if (c->name && c->kind == TYPE_TIME)
        buf_printf(sql, "TIMESTAMPDIFF(MICROSECOND, %s, NOW(6)) DIV 1000",
                   c->name);
    else
        buf_puts(sql, "NULL");
}

static void put_time(struct driver *d, struct buf *sql, enum column c,
                     int64_t ms)
{
    const struct my_column *column = &d->columns[c];

    if (!column->name)
        return;
    buf_printf(sql, ", %s = ", column->name);
    if (ms <= 0)
        buf_puts(sql, "NULL");
    else
        buf_printf(sql,
                   column->kind == TYPE_TIME ? "FROM_UNIXTIME(%lld.%03d)"
                                             : "%lld%03d",
                   (long long)(ms / 1000), (int)(ms % 1000));
}

static void put_error(struct driver *d, struct buf *sql, const char *text)
{
    const struct my_column *column = &d->columns[COLUMN_error];

    if (!column->name)
        return;
    buf_printf(sql, ", %s = ", column->name);
    if (!*text) {
        buf_puts(sql, "NULL");
        return;
    }
    buf_puts(sql, "LEFT(");
    put_text(d, sql, text);
    buf_printf(sql, ", %lu)", column->width ? column->width : 65535);
}

static void put_update(struct driver *d, struct buf *sql, const char *status)
{
    buf_printf(sql, "UPDATE %s SET %s = ", d->quoted_table,
               d->columns[COLUMN_status].name);
    put_text(d, sql, status);
}

/* ---- the connection ---- */

static const char *const time_types[] = {"datetime", "timestamp", NULL};
static const char *const number_types[] = {"tinyint", "smallint", "mediumint",
                                           "int",     "bigint",   NULL};
static const char *const binary_types[] = {
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", NULL};
static const char *const text_types[] = {
    "char",     "varchar", "tinytext", "text", "mediumtext",
    "longtext", "enum",    "uuid",     "json", NULL};

static bool is_in(const char *const *words, const char *word)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

static enum type_kind kind_of(const char *type)
{
    return is_in(time_types, type)     ? TYPE_TIME
           : is_in(number_types, type) ? TYPE_NUMBER
           : is_in(binary_types, type) ? TYPE_BINARY
           : is_in(text_types, type)   ? TYPE_TEXT
                                       : TYPE_OTHER;
}

/* Times are written to columns that can have them. Another one is not used, unless it is configured. */
static gr_rc judge_time(struct driver *d, enum column c,
                        char why[DRIVER_WHY_BYTES])
{
    struct my_column *column = &d->columns[c];

    if (!column->name || column->kind == TYPE_TIME ||
        strcmp(column->type, "bigint") == 0)
        return GR_OK;
    if (d->table.columns[c]) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "column %s of table %s is %s: times are written to columns of "
                 "type DATETIME, TIMESTAMP, and BIGINT (ms since 1970)",
                 column->name, d->table.name, column->type);
        return GR_REFUSE;
    }
    free(column->name);
    *column = (struct my_column){0};
    return GR_OK;
}

static void note_column(struct my_column *column, MYSQL_ROW row)
{
    struct buf name;

    buf_init(&name, TABLE_SQL_BYTES);
    put_name(&name, row[0], strlen(row[0]));
    *column = (struct my_column){
        .name = buf_take(&name),
        .kind = kind_of(row[1]),
        .width = row[2] ? strtoul(row[2], NULL, 10) : 0,
        .nullable = strcmp(row[3], "YES") == 0,
    };
    snprintf(column->type, sizeof column->type, "%s", row[1]);
}

/* The database of the table, as a text. */
static void put_schema(struct driver *d, struct buf *sql)
{
    const char *dot = strchr(d->table.name, '.');
    char *schema;

    if (!dot) {
        buf_puts(sql, "DATABASE()");
        return;
    }
    schema = gr_strndup(d->table.name, (size_t)(dot - d->table.name));
    put_text(d, sql, schema);
    free(schema);
}

static gr_rc find_columns(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    const char *dot = strchr(d->table.name, '.');
    struct packet p = {0};
    struct buf *sql = begin(d, &p, PART_ROWS);
    int at[COLUMN_COUNT];
    char **names;
    size_t count;
    gr_rc rc;

    buf_puts(sql,
             "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, "
             "IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_NAME = ");
    put_text(d, sql, dot ? dot + 1 : d->table.name);
    buf_puts(sql, " AND TABLE_SCHEMA = ");
    put_schema(d, sql);
    rc = exchange(d, &p, why);
    count = rc == GR_OK ? (size_t)mysql_num_rows(p.rows) : 0;
    if (rc == GR_OK && !count) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "there is no table %s, or the user may not read it: "
                 "`grapnel outbox init` prints the SQL for both",
                 d->table.name);
        rc = GR_REFUSE;
    }
    names = gr_alloc((count + 1) * sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = gr_strdup(mysql_fetch_row(p.rows)[0]);
    if (rc == GR_OK)
        rc = relay_table_find(&d->table, names, count, true, at, why);
    for (int c = 0; rc == GR_OK && c < COLUMN_COUNT; c++)
        if (at[c] >= 0) {
            mysql_data_seek(p.rows, (unsigned long long)at[c]);
            note_column(&d->columns[c], mysql_fetch_row(p.rows));
        }
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    packet_fini(&p);
    if (rc == GR_OK)
        rc = judge_time(d, COLUMN_last_attempt, why);
    return rc == GR_OK ? judge_time(d, COLUMN_next_attempt, why) : rc;
}

/* Without transactions two processes would take the same rows, and marks would not be undone: rows that
 * were not stored would never be taken again. */
static gr_rc judge_engine(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    const char *dot = strchr(d->table.name, '.');
    struct packet p = {0};
    struct buf *sql = begin(d, &p, PART_ROWS);
    MYSQL_ROW row;
    gr_rc rc;

    buf_puts(sql, "SELECT t.ENGINE FROM information_schema.TABLES t JOIN "
                  "information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE "
                  "e.TRANSACTIONS <> 'YES' AND t.TABLE_NAME = ");
    put_text(d, sql, dot ? dot + 1 : d->table.name);
    buf_puts(sql, " AND t.TABLE_SCHEMA = ");
    put_schema(d, sql);
    rc = exchange(d, &p, why);
    if (rc == GR_OK && (row = mysql_fetch_row(p.rows))) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "table %s is of engine %s: this engine has no transactions, "
                 "so rows would be lost; make it InnoDB",
                 d->table.name, row[0]);
        rc = GR_REFUSE;
    }
    packet_fini(&p);
    return rc;
}

static void quote_table(struct driver *d)
{
    const char *dot = strchr(d->table.name, '.');
    const char *alone = dot ? dot + 1 : d->table.name;
    struct buf name;

    buf_init(&name, TABLE_SQL_BYTES);
    if (dot) {
        put_name(&name, d->table.name, (size_t)(dot - d->table.name));
        buf_puts(&name, ".");
    }
    put_name(&name, alone, strlen(alone));
    d->quoted_table = buf_take(&name);
}

/* The authorities of the server's certificate. */
static const char *authorities(const struct relay_uri *u)
{
    return u->ssl_ca ? u->ssl_ca : "/etc/ssl/certs/ca-certificates.crt";
}

static void set_options(struct driver *d, const struct relay_uri *u)
{
    const unsigned connect_s = DRIVER_CONNECT_S, local_files = 0;
    const unsigned reply_s = DRIVER_REPLY_MS / 1000;
    const char *host = u->host ? u->host : "";
    const my_bool verify = u->ssl_ca || !host_is_local(host, strlen(host));
    char *name = gr_printf("grapnel-%s %s", d->table.process, d->table.relay);

    mysql_optionsv(d->conn, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_optionsv(d->conn, MYSQL_OPT_READ_TIMEOUT, &reply_s);
    mysql_optionsv(d->conn, MYSQL_OPT_WRITE_TIMEOUT, &reply_s);
    /* A server must not ask for files of ours. */
    mysql_optionsv(d->conn, MYSQL_OPT_LOCAL_INFILE, &local_files);
    mysql_optionsv(d->conn, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_optionsv(d->conn, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", name);
    mysql_optionsv(d->conn, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (verify) {
        mysql_optionsv(d->conn, MYSQL_OPT_SSL_ENFORCE, &verify);
        mysql_optionsv(d->conn, MYSQL_OPT_SSL_CA, authorities(u));
    }
    free(name);
}

/* libmariadb says of a wrong name only that the certificate could not be validated. */
static gr_rc refuse_connection(struct driver *d, const struct relay_uri *u,
                               char why[DRIVER_WHY_BYTES])
{
    char *what;

    if (mysql_errno(d->conn) != CR_SSL_CONNECTION_ERROR)
        return refuse(d, "cannot connect", why);
    what = gr_printf("cannot connect: the server must use TLS, with a "
                     "certificate that names %.200s and is signed by an "
                     "authority of %.100s",
                     u->host ? u->host : "its host", authorities(u));
    (void)refuse(d, what, why);
    free(what);
    return GR_REFUSE;
}

static gr_rc log_in(struct driver *d, const struct relay_uri *u,
                    char why[DRIVER_WHY_BYTES])
{
    char password[TABLE_PASSWORD_BYTES + 1] = "";
    bool connected;

    d->conn = mysql_init(NULL);
    if (!d->conn)
        die(EXIT_UNAVAILABLE, "out of memory");
    set_options(d, u);
    if (d->table.password_file &&
        relay_table_password(&d->table, password, why) != GR_OK)
        return GR_REFUSE;
    connected = mysql_real_connect(d->conn, u->host, u->user, password,
                                   u->database, u->port, u->socket,
                                   CLIENT_MULTI_STATEMENTS |
                                       CLIENT_FOUND_ROWS) != NULL;
    explicit_bzero(password, sizeof password);
    return connected ? GR_OK : refuse_connection(d, u, why);
}

/* READ COMMITTED: a lock is on a row, not on the gap before it, in which the application wants to insert.
 * wait_timeout: when our machine loses power, the server closes its connection then, and be_alone() of
 * the next one succeeds. It is above the longest `poll`. */
static gr_rc set_session(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    unsigned long version = mysql_get_server_version(d->conn);
    char *sql;
    gr_rc rc;

    d->is_mysql = !strstr(mysql_get_server_info(d->conn), "MariaDB");
    if (version < (d->is_mysql ? MYSQL_MIN : MARIADB_MIN)) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "the server's version is %s: a relay needs SKIP LOCKED, which "
                 "MariaDB has since 10.6 and MySQL since 8.0.1",
                 mysql_get_server_info(d->conn));
        return GR_REFUSE;
    }
    sql = gr_printf(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION "
        "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = "
        "1, innodb_lock_wait_timeout = %d, lock_wait_timeout = %d, "
        "wait_timeout = 310, %s",
        LOCK_WAIT_S, LOCK_WAIT_S,
        d->is_mysql ? "max_execution_time = 20000"
                    : "max_statement_time = 20, idle_transaction_timeout = 10");
    rc = run(d, sql, why);
    free(sql);
    return rc;
}

/* A server may notice late that a process has died, or a machine is gone. Until then the rows that it took
 * are locked, and those behind them would be taken first. So there is one connection of a process, relay
 * and table at a time. */
static gr_rc be_alone(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    struct packet p = {0};
    struct buf *sql = begin(d, &p, PART_ROWS);
    MYSQL_ROW row;
    gr_rc rc;

    buf_puts(sql, "SELECT GET_LOCK(MD5(CONCAT_WS(' ', 'grapnel', DATABASE(), ");
    put_text(d, sql, d->table.process);
    buf_puts(sql, ", ");
    put_text(d, sql, d->table.relay);
    buf_puts(sql, ", ");
    put_text(d, sql, d->table.name);
    buf_puts(sql, ")), 0)");
    rc = exchange(d, &p, why);
    if (rc == GR_OK && (row = mysql_fetch_row(p.rows)) && row[0] &&
        strcmp(row[0], "0") == 0)
        rc = relay_table_refuse(why,
                                "an earlier connection of this process and "
                                "relay is still open in the server",
                                "");
    packet_fini(&p);
    return rc;
}

static gr_rc connect_to(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    struct relay_uri u;
    gr_rc rc = relay_uri_parse(&u, d->table.database)
                   ? relay_table_refuse(why, "the URI is wrong", "")
                   : log_in(d, &u, why);

    relay_uri_fini(&u);
    if (rc == GR_OK)
        rc = set_session(d, why);
    if (rc == GR_OK)
        rc = find_columns(d, why);
    if (rc == GR_OK)
        quote_table(d);
    return rc;
}

static gr_rc make_ready(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    gr_rc rc;

    if (d->conn)
        return GR_OK;
    rc = connect_to(d, why);
    if (rc == GR_OK)
        rc = judge_engine(d, why);
    if (rc == GR_OK)
        rc = be_alone(d, why);
    if (rc != GR_OK)
        disconnect(d);
    return rc;
}

/* ---- the first round trip: ends, writes, locks ---- */

static void add_refusals(struct driver *d, struct packet *p,
                         const struct driver_work *work)
{
    for (size_t i = 0; i < work->refusal_count; i++) {
        struct buf *sql = begin(d, p, PART_END);

        put_update(d, sql, d->table.statuses[DRIVER_FAILED]);
        put_error(d, sql, work->refusals[i].why);
        buf_printf(sql, " WHERE %s = ", d->columns[COLUMN_id].name);
        put_id(d, sql, work->refusals[i].id);
    }
}

/* The final status of the row is of a later attempt: another process has written it (driver.h). */
static void put_not_older(struct driver *d, struct buf *sql, int64_t last_ms)
{
    const struct my_column *last = &d->columns[COLUMN_last_attempt];
    int64_t ms = last_ms + DRIVER_NEWER_MS;

    if (!last->name || last_ms <= 0)
        return;
    buf_printf(sql, " AND (%s IN (", d->columns[COLUMN_status].name);
    put_text(d, sql, d->table.statuses[DRIVER_DELIVERED]);
    buf_puts(sql, ", ");
    put_text(d, sql, d->table.statuses[DRIVER_FAILED]);
    buf_printf(sql,
               last->kind == TYPE_TIME
                   ? ") AND %s > FROM_UNIXTIME(%lld.%03d) AND %s <= NOW(6)"
                   : ") AND %s > %lld%03d AND %s <= UNIX_TIMESTAMP(NOW(3)) * "
                     "1000",
               last->name, (long long)(ms / 1000), (int)(ms % 1000),
               last->name);
    buf_puts(sql, ") IS NOT TRUE");
}

static void put_write(struct driver *d, struct buf *sql,
                      const struct driver_write *w)
{
    put_update(d, sql, d->table.statuses[w->status]);
    if (d->columns[COLUMN_retry_count].name)
        buf_printf(sql, ", %s = %lld", d->columns[COLUMN_retry_count].name,
                   (long long)w->retries);
    put_time(d, sql, COLUMN_last_attempt, w->last_ms);
    put_time(d, sql, COLUMN_next_attempt, w->next_ms);
    put_error(d, sql, w->error);
    if (d->columns[COLUMN_event_id].name) {
        buf_printf(sql, ", %s = ", d->columns[COLUMN_event_id].name);
        put_text(d, sql, w->event_id);
    }
    buf_printf(sql, " WHERE %s = ", d->columns[COLUMN_id].name);
    put_id(d, sql, w->row_id);
    buf_printf(sql, " AND %s <> ", d->columns[COLUMN_status].name);
    put_text(d, sql, d->table.statuses[RELAY_STATUS_NEW]);
    put_not_older(d, sql, w->last_ms);
}

/* SELECT the ids of those of the written rows that are new. */
static void put_new_of(struct driver *d, struct buf *sql,
                       const struct driver_write *writes, size_t count)
{
    buf_puts(sql, "SELECT ");
    put_id_read(d, sql);
    buf_printf(sql, " FROM %s WHERE %s IN (", d->quoted_table,
               d->columns[COLUMN_id].name);
    for (size_t i = 0; i < count; i++) {
        buf_puts(sql, i ? ", " : "");
        put_id(d, sql, writes[i].row_id);
    }
    buf_printf(sql, ") AND %s = ", d->columns[COLUMN_status].name);
    put_text(d, sql, d->table.statuses[RELAY_STATUS_NEW]);
}

static void add_writes(struct driver *d, struct packet *p,
                       const struct driver_work *work)
{
    buf_puts(begin(d, p, PART_WRITES), "START TRANSACTION");
    for (size_t i = 0; i < work->write_count; i++)
        put_write(d, begin(d, p, PART_WRITE), &work->writes[i]);
    put_new_of(d, begin(d, p, PART_NEW), work->writes, work->write_count);
    buf_puts(begin(d, p, PART_WRITES), "COMMIT");
}

static void note_new(struct driver_work *work, MYSQL_RES *fresh)
{
    MYSQL_ROW row;

    while (fresh && (row = mysql_fetch_row(fresh)))
        for (size_t i = 0; i < work->write_count; i++)
            if (work->writes[i].written == DRIVER_NOT_WRITTEN &&
                strcmp(work->writes[i].row_id, row[0]) == 0)
                work->writes[i].written = DRIVER_IS_NEW;
}

static void add_lock(struct driver *d, struct packet *p,
                     const struct driver_work *work)
{
    struct buf *sql;

    buf_puts(begin(d, p, PART_TAKE), "START TRANSACTION");
    sql = begin(d, p, PART_TAKE);
    buf_puts(sql, "SELECT ");
    put_id_read(d, sql);
    buf_printf(sql, ", OCTET_LENGTH(%s)", d->columns[COLUMN_payload].name);
    put_is_new(d, sql);
    for (size_t i = 0; i < work->except_count; i++) {
        if (i == 0)
            buf_printf(sql, " AND %s NOT IN (", d->columns[COLUMN_id].name);
        else
            buf_puts(sql, ", ");
        put_id(d, sql, work->except[i]);
    }
    buf_puts(sql, work->except_count ? ")" : "");
    put_order(d, sql);
    buf_printf(sql, " LIMIT %d FOR UPDATE SKIP LOCKED", work->max);
}

/* Which of the locked rows fit into a batch. The others are unlocked by the commit. */
static size_t choose(struct driver *d, MYSQL_RES *rows, struct locked **chosen)
{
    size_t count = 0;
    int64_t bytes = 0;
    MYSQL_ROW row;

    *chosen = gr_alloc(((size_t)mysql_num_rows(rows) + 1) * sizeof **chosen);
    while (bytes < DRIVER_BATCH_BYTES && (row = mysql_fetch_row(rows))) {
        struct locked *l = &(*chosen)[count++];

        *l = (struct locked){
            .id = id_text(row[0], mysql_fetch_lengths(rows)[0]),
            .bytes = row[1] ? strtoll(row[1], NULL, 10) : 0};
        if (l->bytes <= d->table.max_payload_bytes)
            bytes += l->bytes;
    }
    return count;
}

/* ---- the second round trip: marks and reads ---- */

static void put_chosen(struct driver *d, struct buf *sql,
                       const struct locked *chosen, size_t count)
{
    buf_printf(sql, " WHERE %s IN (", d->columns[COLUMN_id].name);
    for (size_t i = 0; i < count; i++) {
        buf_puts(sql, i ? ", " : "");
        put_id(d, sql, chosen[i].id);
    }
    buf_puts(sql, ")");
}

static void add_read(struct driver *d, struct packet *p,
                     const struct locked *chosen, size_t count)
{
    const char *payload = d->columns[COLUMN_payload].name;
    struct buf *sql = begin(d, p, PART_TAKE);

    put_update(d, sql, d->table.statuses[DRIVER_RETRYING]);
    put_time(d, sql, COLUMN_next_attempt, 0);
    put_chosen(d, sql, chosen, count);
    sql = begin(d, p, PART_ROWS);
    buf_puts(sql, "SELECT ");
    put_id_read(d, sql);
    buf_printf(
        sql, ", IF(OCTET_LENGTH(%s) <= %lld, %s, NULL), OCTET_LENGTH(%s)",
        payload, (long long)d->table.max_payload_bytes, payload, payload);
    for (int c = COLUMN_url; c <= COLUMN_ordering_key; c++) {
        buf_puts(sql, ", LEFT(");
        put_column(d, sql, (enum column)c);
        buf_printf(sql, ", %d)", relay_table_chars((enum column)c));
    }
    buf_puts(sql, ", (");
    put_column(d, sql, COLUMN_last_attempt);
    buf_puts(sql, " IS NOT NULL OR ");
    put_column(d, sql, COLUMN_error);
    buf_puts(sql, " IS NOT NULL), ");
    put_age(d, sql);
    buf_printf(sql, " FROM %s", d->quoted_table);
    put_chosen(d, sql, chosen, count);
}

static int compare_locked(const void *a, const void *b)
{
    return strcmp((*(const struct locked *const *)a)->id,
                  (*(const struct locked *const *)b)->id);
}

/* Keeps the rows in the order in which they were locked. */
static void keep_rows(struct driver *d, MYSQL_RES *rows, struct locked *chosen,
                      size_t count)
{
    unsigned fields = mysql_num_fields(rows);
    size_t read = (size_t)mysql_num_rows(rows), kept = 0;
    struct locked **sorted = gr_alloc((count + 1) * sizeof *sorted);
    MYSQL_ROW row;

    d->taken = rows;
    d->ids = gr_alloc((count + 1) * sizeof *d->ids);
    d->rows = gr_alloc((count + 1) * sizeof *d->rows);
    d->lengths = gr_alloc((count + 1) * sizeof *d->lengths);
    d->all_lengths = gr_alloc((read + 1) * fields * sizeof *d->all_lengths);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &chosen[i];
    qsort(sorted, count, sizeof *sorted, compare_locked);
    for (size_t n = 0; (row = mysql_fetch_row(rows)); n++) {
        unsigned long *lengths = &d->all_lengths[n * fields];
        struct locked key, *p = &key, **found;

        memcpy(lengths, mysql_fetch_lengths(rows), fields * sizeof *lengths);
        key.id = id_text(row[TAKEN_ID], lengths[TAKEN_ID]);
        found = bsearch(&p, sorted, count, sizeof *sorted, compare_locked);
        free(key.id);
        if (!found)
            continue;
        d->rows[*found - chosen] = row;
        d->lengths[*found - chosen] = lengths;
    }
    free(sorted);
    for (size_t i = 0; i < count; i++)
        if (d->rows[i]) {
            d->rows[kept] = d->rows[i];
            d->ids[kept] = chosen[i].id;
            chosen[i].id = NULL;
            d->lengths[kept++] = d->lengths[i];
        }
    d->count = kept;
}

static void note_refused(struct driver *d, struct driver_work *work,
                         enum part failed)
{
    if (!is_refused(d))
        return;
    work->refused = failed == PART_END ? DRIVER_END_REFUSED
                    : failed == PART_WRITES || failed == PART_WRITE ||
                            failed == PART_NEW
                        ? DRIVER_WRITES_REFUSED
                        : DRIVER_TAKE_REFUSED;
}

static gr_rc take(struct driver *d, struct driver_work *work, MYSQL_RES *locks,
                  char why[DRIVER_WHY_BYTES])
{
    struct packet p = {.work = work};
    struct locked *chosen;
    size_t count = choose(d, locks, &chosen);
    gr_rc rc;

    if (count) {
        add_read(d, &p, chosen, count);
        rc = exchange(d, &p, why);
        if (rc == GR_OK) {
            keep_rows(d, p.rows, chosen, count);
            p.rows = NULL;
        } else {
            note_refused(d, work, PART_TAKE);
            if (work->refused == DRIVER_TAKE_REFUSED && work->max == 1)
                work->row_id = gr_strdup(chosen[0].id);
        }
    } else { /* no transaction stays open while there is nothing to do */
        rc = run(d, "COMMIT", why);
        d->in_transaction = false;
    }
    packet_fini(&p);
    for (size_t i = 0; i < count; i++)
        free(chosen[i].id);
    free(chosen);
    return rc;
}

/* Each write by itself, without waiting for a lock. */
static gr_rc write_alone(struct driver *d, struct driver_work *work,
                         char why[DRIVER_WHY_BYTES])
{
    int64_t end_ms = mono_ms() + DRIVER_ALONE_MS;
    gr_rc rc = run(d,
                   d->is_mysql ? "SET innodb_lock_wait_timeout = 1"
                               : "SET innodb_lock_wait_timeout = 0",
                   why);
    char *sql;

    for (size_t i = 0; rc == GR_OK && i < work->write_count; i++) {
        struct driver_write *w = &work->writes[i];
        struct driver_work one = {.writes = w, .write_count = 1};
        struct packet p = {.work = &one};

        w->written = DRIVER_NOT_TRIED;
        if (mono_ms() >= end_ms)
            continue;
        put_write(d, begin(d, &p, PART_WRITE), w);
        put_new_of(d, begin(d, &p, PART_NEW), w, 1);
        rc = exchange(d, &p, why);
        if (rc == GR_OK) {
            note_new(&one, p.fresh);
        } else if (is_refused(d)) {
            w->written = DRIVER_WRITE_REFUSED;
            w->why = gr_strdup(why);
            rc = GR_OK;
        }
        packet_fini(&p);
    }
    if (rc != GR_OK)
        return rc;
    sql = gr_printf("SET innodb_lock_wait_timeout = %d", LOCK_WAIT_S);
    rc = run(d, sql, why);
    free(sql);
    return rc;
}

static gr_rc do_step(struct driver *d, struct driver_work *work,
                     char why[DRIVER_WHY_BYTES])
{
    struct packet p = {.work = work};
    bool commits = work->end == DRIVER_COMMIT;
    gr_rc rc = GR_OK;

    if (d->in_transaction && commits)
        add_refusals(d, &p, work);
    if (d->in_transaction)
        buf_puts(begin(d, &p, PART_END), commits ? "COMMIT" : "ROLLBACK");
    if (work->write_count && !work->alone)
        add_writes(d, &p, work);
    if (work->write_count && work->alone) {
        if (p.count)
            rc = exchange(d, &p, why);
        if (rc == GR_OK) {
            d->in_transaction = false;
            rc = write_alone(d, work, why);
            p.count = 0;
        }
    }
    if (rc == GR_OK && work->max > 0)
        add_lock(d, &p, work);
    if (rc == GR_OK && p.count)
        rc = exchange(d, &p, why);
    if (rc == GR_OK) {
        d->in_transaction = work->max > 0;
        if (work->max > 0)
            rc = take(d, work, p.rows, why);
    } else if (p.count) {
        note_refused(d, work, p.failed);
    }
    if (!work->alone) /* the writes may be done although no row is taken */
        note_new(work, p.fresh);
    packet_fini(&p);
    return rc;
}

static gr_rc my_step(struct driver *d, struct driver_work *work,
                     char why[DRIVER_WHY_BYTES])
{
    char ignored[DRIVER_WHY_BYTES];
    bool hopeless;

    work->refused = DRIVER_NOTHING_REFUSED;
    work->row_id = NULL;
    forget_rows(d);
    if (work->max <= 0 && !work->write_count && !d->in_transaction)
        return GR_OK;
    if (make_ready(d, why) != GR_OK)
        return GR_REFUSE;
    if (do_step(d, work, why) == GR_OK)
        return GR_OK;
    forget_rows(d);
    d->in_transaction = false;
    /* Fewer rows cannot be tried: perhaps the table has changed, and is read again. */
    hopeless = work->refused == DRIVER_TAKE_REFUSED && work->max == 1 &&
               !work->row_id;
    if (work->refused == DRIVER_NOTHING_REFUSED || hopeless ||
        run(d, "ROLLBACK", ignored) != GR_OK)
        disconnect(d);
    return GR_REFUSE;
}

static size_t my_count(const struct driver *d)
{
    return d->count;
}

static const char *value(const struct driver *d, size_t i, enum taken c)
{
    return d->rows[i][c] ? d->rows[i][c] : "";
}

static void my_row(const struct driver *d, size_t i, struct driver_row *row)
{
    *row = (struct driver_row){
        .id = d->ids[i],
        .url = value(d, i, TAKEN_URL),
        .type = value(d, i, TAKEN_TYPE),
        .workspace = value(d, i, TAKEN_WORKSPACE),
        .endpoint = value(d, i, TAKEN_ENDPOINT),
        .ordering_key = value(d, i, TAKEN_ORDERING_KEY),
        .payload = {value(d, i, TAKEN_PAYLOAD), d->lengths[i][TAKEN_PAYLOAD]},
        .payload_bytes = strtoll(value(d, i, TAKEN_BYTES), NULL, 10),
        .has_payload = d->rows[i][TAKEN_BYTES] != NULL,
        .attempted = *value(d, i, TAKEN_ATTEMPTED) == '1',
        .age_ms = d->rows[i][TAKEN_AGE]
                      ? strtoll(d->rows[i][TAKEN_AGE], NULL, 10)
                      : -1,
    };
}

/* The server does not tell of new rows: only `poll` finds them. */
static bool my_wait(struct driver *d, int wake_fd, int64_t ms)
{
    struct pollfd fd = {.fd = wake_fd, .events = POLLIN};

    (void)d;
    (void)!poll(&fd, 1, (int)ms);
    return false;
}

/* The column that says how old a delivered row is; NULL: the table has none. */
static const struct my_column *age_column(const struct driver *d)
{
    const struct my_column *when = &d->columns[COLUMN_last_attempt];

    if (!when->name)
        when = &d->columns[COLUMN_created_at];
    return when->name && (when->kind == TYPE_TIME ||
                          strcmp(when->type, "bigint") == 0)
               ? when
               : NULL;
}

/* false: the table has no column for the age of rows. */
static bool put_purge(struct driver *d, struct buf *sql, int64_t age_ms,
                      int max)
{
    const struct my_column *when = age_column(d);

    if (!when)
        return false;
    buf_printf(sql, "DELETE FROM %s WHERE %s = ", d->quoted_table,
               d->columns[COLUMN_status].name);
    put_text(d, sql, d->table.statuses[DRIVER_DELIVERED]);
    if (d->table.where) /* the other rows belong to somebody else */
        buf_printf(sql, " AND (%s)", d->table.where);
    buf_printf(sql,
               when->kind == TYPE_TIME
                   ? " AND %s < NOW(6) - INTERVAL %lld SECOND LIMIT %d"
                   : " AND %s < (UNIX_TIMESTAMP() - %lld) * 1000 LIMIT %d",
               when->name, (long long)(age_ms / 1000), max);
    return true;
}

static gr_rc my_purge(struct driver *d, int64_t age_ms, int max,
                      int64_t *deleted, char why[DRIVER_WHY_BYTES])
{
    struct packet p = {0};
    gr_rc rc = GR_OK;

    *deleted = 0;
    if (make_ready(d, why) != GR_OK)
        return GR_REFUSE;
    if (put_purge(d, begin(d, &p, PART_END), age_ms, max)) {
        rc = exchange(d, &p, why);
        if (rc == GR_OK)
            *deleted = (int64_t)mysql_affected_rows(d->conn);
        else
            disconnect(d);
    }
    packet_fini(&p);
    return rc;
}

/* The number in the only row; -1: there is none. */
static int64_t number(MYSQL_RES *result)
{
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;

    return row && row[0] ? strtoll(row[0], NULL, 10) : -1;
}

static gr_rc my_look(struct driver *d, struct driver_look *look,
                     char why[DRIVER_WHY_BYTES])
{
    struct packet p = {0};
    struct buf *sql;
    gr_rc rc;

    if (make_ready(d, why) != GR_OK)
        return GR_REFUSE;
    buf_puts(begin(d, &p, PART_END), d->is_mysql
                                         ? "SET max_execution_time = 2000"
                                         : "SET max_statement_time = 2");
    sql = begin(d, &p, PART_ROWS);
    buf_puts(sql, "SELECT COUNT(*) FROM (SELECT 1");
    put_is_new(d, sql);
    buf_printf(sql, " LIMIT %d) few", DRIVER_COUNT_MAX);
    sql = begin(d, &p, PART_NEW);
    buf_puts(sql, "SELECT ");
    put_age(d, sql);
    put_is_new(d, sql);
    put_order(d, sql);
    buf_puts(sql, " LIMIT 1");
    buf_puts(begin(d, &p, PART_END), d->is_mysql
                                         ? "SET max_execution_time = 20000"
                                         : "SET max_statement_time = 20");
    rc = exchange(d, &p, why);
    if (rc == GR_OK) {
        look->waiting = number(p.rows);
        look->oldest_ms = look->waiting ? number(p.fresh) : 0;
    } else {
        disconnect(d);
    }
    packet_fini(&p);
    return rc;
}

static void check_statuses(struct driver *d, driver_finding *found, void *self)
{
    const struct my_column *status = &d->columns[COLUMN_status];
    char *what;

    for (int i = 0; i < RELAY_STATUS_COUNT; i++) {
        if (!status->width || strlen(d->table.statuses[i]) <= status->width)
            continue;
        what = gr_printf("status %s is longer than column %s",
                         d->table.statuses[i], status->name);
        found(self, true, what, "make the column longer, or set `statuses`");
        free(what);
    }
}

/* What EXPLAIN says of the statement in d->sql: whether an index is used, and nothing is sorted. GR_REFUSE: it
 * cannot be executed, perhaps because a privilege is missing. */
static gr_rc explain(struct driver *d, struct packet *p, bool *indexed,
                     char why[DRIVER_WHY_BYTES])
{
    gr_rc rc = exchange(d, p, why);
    MYSQL_ROW row;

    *indexed = rc == GR_OK && p->rows;
    while (*indexed && (row = mysql_fetch_row(p->rows))) {
        unsigned n = mysql_num_fields(p->rows);
        MYSQL_FIELD *fields = mysql_fetch_fields(p->rows);

        for (unsigned i = 0; i < n; i++)
            if ((strcmp(fields[i].name, "key") == 0 && !row[i]) ||
                (strcmp(fields[i].name, "Extra") == 0 && row[i] &&
                 strstr(row[i], "filesort")))
                *indexed = false;
    }
    packet_fini(p);
    return rc;
}

static void check_take(struct driver *d, driver_finding *found, void *self)
{
    char why[DRIVER_WHY_BYTES];
    struct packet p = {0};
    struct buf *sql = begin(d, &p, PART_ROWS);
    bool indexed;

    buf_puts(sql, "EXPLAIN SELECT ");
    put_id_read(d, sql);
    put_is_new(d, sql);
    put_order(d, sql);
    buf_puts(sql, " LIMIT 1");
    if (explain(d, &p, &indexed, why) != GR_OK)
        found(self, true, why, "correct `where`");
    else if (!indexed)
        found(self, false, "no index finds new rows in their order",
              "create the index that `grapnel outbox init` prints");
}

/* Such a row is never taken. */
static void check_ids(struct driver *d, driver_finding *found, void *self)
{
    const char *id = d->columns[COLUMN_id].name;
    char why[DRIVER_WHY_BYTES];
    struct packet p = {0};
    struct buf *sql;

    if (!d->columns[COLUMN_id].nullable)
        return;
    sql = begin(d, &p, PART_ROWS);
    buf_printf(sql,
               "SELECT 1 FROM %s WHERE %s IS NULL AND %s = ", d->quoted_table,
               id, d->columns[COLUMN_status].name);
    put_text(d, sql, d->table.statuses[RELAY_STATUS_NEW]);
    buf_puts(sql, " LIMIT 1");
    if (exchange(d, &p, why) == GR_OK && mysql_num_rows(p.rows))
        found(self, false, "a new row has no id: it is never taken",
              "give it an id, and make the column NOT NULL");
    packet_fini(&p);
}

static void check_write(struct driver *d, driver_finding *found, void *self)
{
    const struct driver_write write = {
        .row_id = "0", .error = "", .status = DRIVER_DELIVERED};
    char why[DRIVER_WHY_BYTES];
    struct packet p = {0};
    bool indexed;

    buf_puts(begin(d, &p, PART_ROWS), "EXPLAIN ");
    put_write(d, &d->sql, &write);
    if (explain(d, &p, &indexed, why) != GR_OK)
        found(self, true, why,
              "grant UPDATE, as `grapnel outbox init` prints it");
    else if (!indexed)
        found(self, true, "the column of ids has no index",
              "make it the primary key");
}

/* Whether an index begins with the status and the age. EXPLAIN of a small table does not say it. */
static bool has_age_index(struct driver *d, const struct my_column *age)
{
    static const char quoted[] = "CONCAT('`', REPLACE(%s.COLUMN_NAME, '`', "
                                 "'``'), '`') = ";
    const char *dot = strchr(d->table.name, '.');
    char why[DRIVER_WHY_BYTES];
    struct packet p = {0};
    struct buf *sql = begin(d, &p, PART_ROWS);
    bool has;

    buf_puts(sql, "SELECT 1 FROM information_schema.STATISTICS a JOIN "
                  "information_schema.STATISTICS b USING (TABLE_SCHEMA, "
                  "TABLE_NAME, INDEX_NAME) WHERE a.SEQ_IN_INDEX = 1 AND "
                  "b.SEQ_IN_INDEX = 2 AND TABLE_NAME = ");
    put_text(d, sql, dot ? dot + 1 : d->table.name);
    buf_puts(sql, " AND TABLE_SCHEMA = ");
    put_schema(d, sql);
    buf_puts(sql, " AND ");
    buf_printf(sql, quoted, "a");
    put_text(d, sql, d->columns[COLUMN_status].name);
    buf_puts(sql, " AND ");
    buf_printf(sql, quoted, "b");
    put_text(d, sql, age->name);
    has = exchange(d, &p, why) == GR_OK && mysql_num_rows(p.rows) > 0;
    packet_fini(&p);
    return has;
}

static void check_purge(struct driver *d, driver_finding *found, void *self)
{
    const struct my_column *age = age_column(d);
    char why[DRIVER_WHY_BYTES];
    struct packet p = {0};
    bool indexed;

    if (!d->deletes)
        return;
    if (!age) {
        found(self, true,
              "the table has no column for the age of delivered rows",
              "add `last_attempt_at`, or set `after_success: keep`");
        return;
    }
    buf_puts(begin(d, &p, PART_ROWS), "EXPLAIN ");
    put_purge(d, &d->sql, 3600 * 1000, 1);
    if (explain(d, &p, &indexed, why) != GR_OK)
        found(self, true, why,
              "grant DELETE, as `grapnel outbox init` prints it");
    if (!has_age_index(d, age))
        found(self, false,
              "no index finds delivered rows that are to be deleted",
              "create the index that `grapnel outbox init` prints");
}

static void check_engine(struct driver *d, driver_finding *found, void *self)
{
    char why[DRIVER_WHY_BYTES];

    if (judge_engine(d, why) != GR_OK)
        found(self, true, why, "ALTER TABLE … ENGINE = InnoDB");
}

static void my_check(const struct relay *relay, driver_finding *found,
                     void *self)
{
    struct driver *d = my_open(relay, "check", 0);
    char why[DRIVER_WHY_BYTES];

    if (connect_to(d, why) != GR_OK) {
        found(self, true, why,
              strstr(why, "must use TLS")
                  ? "set `?ssl_ca=FILE` in `database`, and a host that the "
                    "certificate names; or give the server such a certificate"
                  : "correct `database`, `password_file`, `table` or "
                    "`columns`, or create what is missing");
    } else {
        check_engine(d, found, self);
        check_statuses(d, found, self);
        check_ids(d, found, self);
        check_take(d, found, self);
        check_write(d, found, self);
        check_purge(d, found, self);
    }
    my_close(d);
}

const struct driver_ops mariadb_driver = {
    .open = my_open,
    .close = my_close,
    .step = my_step,
    .count = my_count,
    .row = my_row,
    .wait = my_wait,
    .purge = my_purge,
    .look = my_look,
    .check = my_check,
};
