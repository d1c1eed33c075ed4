//go:build drivers

package receiver

import (
	"database/sql"

	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"
)

func init() {
	openPostgres = func(uri string) (*sql.DB, error) { return sql.Open("postgres", uri) }
	openSQLite = func(path string) (*sql.DB, error) {
		return sql.Open("sqlite3", "file:"+path+"?_busy_timeout=30000&_journal_mode=WAL")
	}
}
