// The durable order path as a Go team would build it with the libraries that Debian packages: fasthttp, redigo, pgx.
//
// POST /seckill/<voucher>, the user in X-User-Id. One script call decides in Redis and writes the journal. Then, under
// a lock of the user, one transaction writes the order. 201 follows its COMMIT. No request waits for a batch: each is a
// goroutine that runs all steps on connections from two pools. With PLACE_ORDERS it uses batches instead: see
// batching.go.
//
// It omits these promises of the service, in its own favour: nobody reads the journal after a crash, Redis is never
// rebuilt, and the lock is not renewed.
// never rebuilt, and the lock is not renewed.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v4/pgxpool"
	"github.com/valyala/fasthttp"
)

const (
	userMaxBytes  = 64
	lockTTL       = 10 * time.Second
	storeDeadline = 5 * time.Second
	placeOrder    = `SELECT outcome, coalesce(live_id::text, '')
  FROM place_orders($1, $2, $3, ARRAY[$4::text]::uuid[], ARRAY[$5::text], $6)`
)

var errLocked = errors.New("another request holds the user's lock")

type shop struct {
	redis  *redis.Pool
	pg     *pgxpool.Pool
	place  *redis.Script
	finish *redis.Script

	batches   *counters // nil: no batches
	placeMany *redis.Script
	runID     string
}

// grant is Redis's decision.
type grant struct {
	verdict   string
	journalID string
	epoch     int64
	slot      int32
	orderID   string // the user's earlier order where there is one
}

// ---- the order path ----

func (s *shop) buy(ctx *fasthttp.RequestCtx) {
	voucher, user := ctx.UserValue("voucher").(string), string(ctx.Request.Header.Peek("X-User-Id"))
	voucherID, err := strconv.ParseInt(voucher, 10, 64)
	if err != nil || voucherID <= 0 {
		problem(ctx, fasthttp.StatusBadRequest, "BAD_VOUCHER_ID")
		return
	}
	if user == "" || len(user) > userMaxBytes {
		problem(ctx, fasthttp.StatusUnauthorized, "UNAUTHENTICATED")
		return
	}
	order := newOrderID()
	if s.batches != nil {
		verdict, err := s.batches.buy(voucher, voucherID, user, order)
		s.answer(ctx, verdict, err, order, voucher, user)
		return
	}
	granted, err := s.grant(voucher, user, order)
	if err != nil {
		unavailable(ctx, err)
		return
	}
	if granted.verdict != "PLACED" {
		refuse(ctx, granted.verdict)
		return
	}
	verdict, err := s.write(voucher, voucherID, user, order, granted)
	s.answer(ctx, verdict, err, order, voucher, user)
}

func (s *shop) answer(ctx *fasthttp.RequestCtx, verdict string, err error, order, voucher, user string) {
	switch {
	case err != nil:
		unavailable(ctx, err)
	case verdict != "PLACED":
		refuse(ctx, verdict)
	default:
		placed(ctx, order, voucher, user)
	}
}

func (s *shop) grant(voucher, user, order string) (grant, error) {
	conn := s.redis.Get()
	defer conn.Close()
	reply, err := redis.Strings(s.place.Do(conn, key(voucher, "voucher"), key(voucher, "buyers"),
		key(voucher, "journal"), user, order))
	if err != nil {
		return grant{}, err
	}
	g := grant{verdict: reply[0]}
	if g.verdict == "PLACED" {
		g.journalID = reply[1]
		if g.epoch, err = strconv.ParseInt(reply[2], 10, 64); err != nil {
			return grant{}, err
		}
		slot, err := strconv.ParseInt(reply[3], 10, 32)
		if err != nil {
			return grant{}, err
		}
		g.slot = int32(slot)
	}
	return g, nil
}

// write writes the order under the user's lock. After an error its outcome is unknown: the journal keeps the entry, and
// the lock expires by its TTL.
func (s *shop) write(voucher string, voucherID int64, user, order string, g grant) (string, error) {
	lock, token := key(voucher, "lock:"+user), order
	if err := s.lock(lock, token); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeDeadline)
	defer cancel()
	var outcome, live string
	// A single statement is a transaction: it is committed when its row arrives.
	if err := s.pg.QueryRow(ctx, placeOrder, g.slot, voucherID, g.epoch, order, user, g.journalID).Scan(&outcome, &live); err != nil {
		return "", err
	}
	verdict := verdictOf(outcome)
	if verdict == "" {
		return "", errors.New("PostgreSQL: " + outcome)
	}
	conn := s.redis.Get()
	defer conn.Close()
	_, err := s.finish.Do(conn, lock, key(voucher, "voucher"), key(voucher, "buyers"), key(voucher, "journal"),
		token, g.journalID, user, order, verdict)
	return verdict, err
}

func (s *shop) lock(lock, token string) error {
	conn := s.redis.Get()
	defer conn.Close()
	_, err := redis.String(conn.Do("SET", lock, token, "NX", "PX", lockTTL.Milliseconds()))
	if err == redis.ErrNil {
		return errLocked
	}
	return err
}

// verdictOf returns "" if the outcome is not one of a new order.
func verdictOf(outcome string) string {
	switch outcome {
	case "placed", "already_placed":
		return "PLACED"
	case "duplicate":
		return "ALREADY_ORDERED"
	case "sold_out":
		return "SOLD_OUT"
	}
	return ""
}

func key(voucher, part string) string { return "seckill:{" + voucher + "}:" + part }

// newOrderID makes a UUIDv7: ids grow with time, so index writes go to its right edge.
func newOrderID() string {
	var id [16]byte
	var text [36]byte
	if _, err := rand.Read(id[6:]); err != nil {
		log.Fatal(err)
	}
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint32(id[0:], uint32(ms>>16))
	binary.BigEndian.PutUint16(id[4:], uint16(ms))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// ---- answers ----

func placed(ctx *fasthttp.RequestCtx, order, voucher, user string) {
	ctx.SetStatusCode(fasthttp.StatusCreated)
	ctx.SetContentType("application/json")
	ctx.Response.Header.Set("Location", "/orders/"+order)
	ctx.SetBodyString(`{"id":"` + order + `","voucher_id":"` + voucher + `","user_id":` + strconv.Quote(user) +
		`,"status":"unpaid"}`)
}

func refuse(ctx *fasthttp.RequestCtx, verdict string) {
	if verdict == "UNKNOWN_VOUCHER" {
		problem(ctx, fasthttp.StatusNotFound, verdict)
		return
	}
	problem(ctx, fasthttp.StatusConflict, verdict)
}

func unavailable(ctx *fasthttp.RequestCtx, err error) {
	log.Print(err)
	problem(ctx, fasthttp.StatusServiceUnavailable, "UNAVAILABLE")
}

func problem(ctx *fasthttp.RequestCtx, status int, code string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/problem+json")
	ctx.SetBodyString(`{"status":` + strconv.Itoa(status) + `,"code":"` + code + `"}`)
}

// ---- the process ----

func (s *shop) handle(ctx *fasthttp.RequestCtx) {
	const prefix = "/seckill/"
	path := string(ctx.Path())
	switch {
	case ctx.IsPost() && strings.HasPrefix(path, prefix):
		ctx.SetUserValue("voucher", path[len(prefix):])
		s.buy(ctx)
	case path == "/ready":
		ctx.SetBodyString("ready\n")
	default:
		problem(ctx, fasthttp.StatusNotFound, "NOT_FOUND")
	}
}

func setting(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("%s is not set", name)
	}
	return value
}

func poolSize(name string) int {
	size, err := strconv.Atoi(setting(name))
	if err != nil || size < 1 {
		log.Fatalf("%s is not a number of connections", name)
	}
	return size
}

func script(name string, keys int) *redis.Script {
	text, err := os.ReadFile(filepath.Join(setting("SCRIPTS"), name))
	if err != nil {
		log.Fatal(err)
	}
	return redis.NewScript(keys, string(text))
}

// Connections stay open: a pool that closes idle ones would reopen them during the rush.
func openRedis() *redis.Pool {
	url, size := setting("REDIS_URL"), poolSize("REDIS_POOL")
	return &redis.Pool{
		MaxIdle: size, MaxActive: size, Wait: true,
		Dial: func() (redis.Conn, error) {
			return redis.DialURL(url, redis.DialReadTimeout(storeDeadline), redis.DialWriteTimeout(storeDeadline))
		},
	}
}

func openPostgres() *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(setting("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = int32(poolSize("PG_POOL"))
	config.MinConns = config.MaxConns
	pool, err := pgxpool.ConnectConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	return pool
}

func main() {
	s := &shop{redis: openRedis(), pg: openPostgres(), place: script("place_one.lua", 3), finish: script("finish_one.lua", 4)}
	s.batches = newCounters(s)
	server := &fasthttp.Server{Handler: s.handle, NoDefaultServerHeader: true}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		os.Exit(0) // the bench has waited until no request is in progress
	}()
	log.Fatal(server.ListenAndServe(setting("LISTEN")))
}
