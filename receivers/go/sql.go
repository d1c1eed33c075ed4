package receiver

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
)

// Schema has the statements of CreateTables. The libraries of other languages have the same tables.
var Schema = []string{
	`CREATE TABLE IF NOT EXISTS grapnel_events (
  id TEXT PRIMARY KEY, received_s BIGINT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS grapnel_series (
  workspace TEXT NOT NULL, series TEXT NOT NULL,
  floor BIGINT, announced INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (workspace, series))`,
	`CREATE TABLE IF NOT EXISTS grapnel_numbers (
  workspace TEXT NOT NULL, series TEXT NOT NULL, sequence BIGINT NOT NULL,
  previous BIGINT NOT NULL, id TEXT NOT NULL, received_s BIGINT NOT NULL,
  PRIMARY KEY (workspace, series, sequence))`,
	`CREATE INDEX IF NOT EXISTS grapnel_numbers_previous
  ON grapnel_numbers (workspace, series, previous)`,
	`CREATE INDEX IF NOT EXISTS grapnel_numbers_received ON grapnel_numbers (received_s)`,
	`CREATE INDEX IF NOT EXISTS grapnel_events_received ON grapnel_events (received_s)`,
}

const (
	takeID    = `INSERT INTO grapnel_events (id, received_s) VALUES (?, ?) ON CONFLICT DO NOTHING`
	getSeries = `SELECT floor, announced FROM grapnel_series WHERE workspace = ? AND series = ?`
	addSeries = `INSERT INTO grapnel_series (workspace, series) VALUES (?, ?)
ON CONFLICT DO NOTHING`
	setSeries = `UPDATE grapnel_series SET floor = ?, announced = ?
WHERE workspace = ? AND series = ?`
	addNumber = `INSERT INTO grapnel_numbers
  (workspace, series, sequence, previous, id, received_s)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	here     = `FROM grapnel_numbers WHERE workspace = ? AND series = ?`
	others   = `FROM grapnel_series s WHERE s.workspace = ? AND s.series <> ?`
	getFacts = `SELECT (SELECT id ` + here + ` AND sequence = ?) AS holder,
  (SELECT max(sequence) ` + here + `) AS highest,
  EXISTS (SELECT 1 ` + here + ` AND sequence = ?) AS has_previous,
  (SELECT max(sequence) ` + here + ` AND sequence < ?) AS below,
  EXISTS (SELECT 1 ` + here + ` AND previous = ?) AS named,
  EXISTS (SELECT 1 ` + others + ` AND s.floor IS NOT NULL) AS earlier,
  EXISTS (SELECT 1 ` + others + ` AND EXISTS (SELECT 1 FROM grapnel_numbers n
    WHERE n.workspace = s.workspace AND n.series = s.series AND n.sequence = ?)) AS in_other`
	getMissing = `SELECT n.series, n.workspace, n.previous, min(n.received_s) AS since_s,
  EXISTS (SELECT 1 FROM grapnel_numbers o WHERE o.workspace = n.workspace
          AND o.sequence = n.previous AND o.series <> n.series) AS in_other
FROM grapnel_numbers n JOIN grapnel_series s ON s.workspace = n.workspace AND s.series = n.series
WHERE n.previous > s.floor AND NOT EXISTS (SELECT 1 FROM grapnel_numbers p
  WHERE p.workspace = n.workspace AND p.series = n.series AND p.sequence = n.previous)
GROUP BY n.series, n.workspace, n.previous HAVING min(n.received_s) <= ?
ORDER BY min(n.received_s), n.previous`
	// Numbers up to the highest deleted one count as arrived.
	raiseFloor = `UPDATE grapnel_series SET floor = (
  SELECT max(n.sequence) FROM grapnel_numbers n WHERE n.workspace = grapnel_series.workspace
  AND n.series = grapnel_series.series AND n.received_s < ?)
WHERE floor < (SELECT max(n.sequence) FROM grapnel_numbers n
  WHERE n.workspace = grapnel_series.workspace AND n.series = grapnel_series.series
  AND n.received_s < ?)`
)

// SQLStore stores an event, its number and your work in one transaction.
type SQLStore struct {
	db       *sql.DB
	postgres bool
}

// NewPostgresStore is for PostgreSQL, with any driver of database/sql. Isolation is READ COMMITTED, the
// default; with a stricter one some transactions fail, and Grapnel sends their events again.
func NewPostgresStore(db *sql.DB) *SQLStore { return &SQLStore{db, true} }

// NewSQLiteStore is for SQLite, with any driver of database/sql. Set a busy timeout: else a
// transaction fails when another one writes.
func NewSQLiteStore(db *sql.DB) *SQLStore { return &SQLStore{db, false} }

func (s *SQLStore) sql(text string) string {
	if !s.postgres {
		return text
	}
	var out strings.Builder
	n := 0
	for _, c := range text {
		if c != '?' {
			out.WriteRune(c)
			continue
		}
		n++
		out.WriteString("$" + strconv.Itoa(n))
	}
	return out.String()
}

// CreateTables creates what is not there yet.
func (s *SQLStore) CreateTables(ctx context.Context) error {
	return s.transaction(ctx, func(tx *sql.Tx) error {
		for _, statement := range Schema {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *SQLStore) transaction(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // also when work panics; after a commit it does nothing
	if err = work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Process implements Store.
func (s *SQLStore) Process(ctx context.Context, e *Event, nowS int64, order bool, handle Handler) (Check, error) {
	var c Check
	err := s.transaction(ctx, func(tx *sql.Tx) (err error) {
		if c, err = s.check(ctx, e, nowS, order, tx); err != nil || !c.First() {
			return err
		}
		return handle(ctx, e, c, tx)
	})
	return c, err
}

func (s *SQLStore) change(ctx context.Context, tx *sql.Tx, text string, values ...any) (int64, error) {
	done, err := tx.ExecContext(ctx, s.sql(text), values...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (s *SQLStore) check(ctx context.Context, e *Event, nowS int64, order bool, tx *sql.Tx) (Check, error) {
	// Waits for a transaction that has the same id, until that one has ended.
	added, err := s.change(ctx, tx, takeID, e.ID, nowS)
	if err != nil || !order || !e.Numbered {
		return plain(added == 1), err
	}
	f, err := s.facts(ctx, e, tx)
	if err != nil {
		return Check{}, err
	}
	c, floor, announced := decide(e, added == 1, f)
	_, err = s.change(ctx, tx, addNumber, e.Workspace, e.Series, e.Sequence, e.Previous, e.ID, nowS)
	if err == nil && (floor != f.floor || announced != f.announced) {
		flag := 0
		if announced {
			flag = 1
		}
		_, err = s.change(ctx, tx, setSeries, floor, flag, e.Workspace, e.Series)
	}
	return c, err
}

// facts locks the row of the series. Both events of a pair would else be OK although the later one
// was processed first.
func (s *SQLStore) facts(ctx context.Context, e *Event, tx *sql.Tx) (facts, error) {
	var f facts
	var floor, highest, below sql.NullInt64
	var holder sql.NullString
	lock := ""
	if s.postgres {
		lock = " FOR UPDATE"
	}
	get := func() error {
		return tx.QueryRowContext(ctx, s.sql(getSeries+lock), e.Workspace, e.Series).Scan(
			&floor, &f.announced)
	}
	err := get()
	if errors.Is(err, sql.ErrNoRows) {
		if _, err = s.change(ctx, tx, addSeries, e.Workspace, e.Series); err == nil {
			err = get()
		}
	}
	if err != nil {
		return f, err
	}
	w, n := e.Workspace, e.Series
	err = tx.QueryRowContext(ctx, s.sql(getFacts), w, n, e.Sequence, w, n, w, n, e.Previous, w, n,
		e.Previous, w, n, e.Sequence, w, n, w, n, e.Previous).Scan(
		&holder, &highest, &f.hasPrevious, &below, &f.named, &f.earlier, &f.inOther)
	if floor.Valid {
		f.floor = &floor.Int64
	}
	f.holder, f.highest, f.below = holder.String, highest.Int64, below.Int64
	return f, err
}

// Missing implements Store.
func (s *SQLStore) Missing(ctx context.Context, beforeS int64) ([]Missing, error) {
	rows, err := s.db.QueryContext(ctx, s.sql(getMissing), beforeS)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := []Missing{}
	for rows.Next() {
		var m Missing
		if err = rows.Scan(&m.Series, &m.Workspace, &m.Number, &m.Since, &m.Unsure); err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, rows.Err()
}

// Forget implements Store.
func (s *SQLStore) Forget(ctx context.Context, beforeS int64) error {
	return s.transaction(ctx, func(tx *sql.Tx) error {
		_, err := s.change(ctx, tx, raiseFloor, beforeS, beforeS)
		for _, table := range []string{"grapnel_numbers", "grapnel_events"} {
			if err == nil {
				_, err = s.change(ctx, tx, "DELETE FROM "+table+" WHERE received_s < ?", beforeS)
			}
		}
		return err
	})
}
