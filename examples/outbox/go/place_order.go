// place_order stores an order, and the webhook about it, in one transaction (database/sql, lib/pq).
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	_ "github.com/lib/pq"
)

type placed struct {
	Order    int64  `json:"order"`
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

func placeOrder(ctx context.Context, db *sql.DB, order placed, declined bool) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after the commit
	err = tx.QueryRowContext(ctx, "INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id",
		order.Customer, order.Total).Scan(&order.Order)
	if err != nil {
		return 0, err
	}
	payload, err := json.Marshal(order)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO webhook_outbox (id, event_type, workspace, payload)
		VALUES (gen_random_uuid(), 'order.placed', $1, $2)`, order.Customer, string(payload))
	if err != nil {
		return 0, err
	}
	if declined { // each return before the commit rolls both back
		return 0, errors.New("the payment was declined")
	}
	return order.Order, tx.Commit()
}

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	id, err := placeOrder(context.Background(), db, placed{Customer: "acme", Total: 4200}, len(os.Args) > 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("order", id)
}
