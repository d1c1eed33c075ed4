/* place_order: stores an order, and the webhook about it, in one transaction (libpq). */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if the statement fails. Then the server rolls the transaction back. */
static PGresult *query(PGconn *db, const char *sql, int n,
                       const char *const *values)
{
    PGresult *result = PQexecParams(db, sql, n, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fprintf(stderr, "place_order: %s", PQerrorMessage(db));
        exit(1);
    }
    return result;
}

/* Returns the id of the order, in the only column of the result. */
static PGresult *place_order(PGconn *db, const char *customer,
                             const char *total)
{
    const char *values[] = {customer, total, NULL};
    PGresult *id = query(db,
                         "INSERT INTO orders (customer, total) "
                         "VALUES ($1, $2) RETURNING id",
                         2, values);

    values[2] = PQgetvalue(id, 0, 0);
    PQclear(
        query(db,
              "INSERT INTO webhook_outbox (id, event_type, workspace, payload) "
              "VALUES (gen_random_uuid(), 'order.placed', $1::text, "
              "json_build_object('order', $3::bigint, 'customer', $1::text, "
              "'total', $2::int))",
              3, values));
    return id;
}

int main(int argc, char **argv)
{
    PGconn *db = PQconnectdb(getenv("DATABASE_URL"));
    PGresult *id;

    (void)argv;
    if (PQstatus(db) != CONNECTION_OK) {
        fprintf(stderr, "place_order: %s", PQerrorMessage(db));
        return 1;
    }
    PQclear(query(db, "BEGIN", 0, NULL));
    id = place_order(db, "acme", "4200");
    if (argc > 1) { /* any reason not to go on, such as a payment that fails */
        PQclear(query(db, "ROLLBACK", 0, NULL));
        fprintf(stderr, "place_order: the payment was declined\n");
        return 1;
    }
    PQclear(query(db, "COMMIT", 0, NULL));
    printf("order %s\n", PQgetvalue(id, 0, 0));
    PQclear(id);
    PQfinish(db);
    return 0;
}
