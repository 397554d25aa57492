// The same path in batches, as in the service: requests that arrive during a call share the next one. A few goroutines
// call the service's own script for many users, and others write many orders in one transaction.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

const (
	batchMax     = 512 // orders in a call
	grantLoops   = 2   // concurrent calls to Redis
	journalMax   = "1000000"
	session      = "018bcfe5-6800-7000-8000-00000000005e"
	ordersEach   = "20"
	offer        = "1"
	placeBatches = `SELECT coalesce(n, 0), outcome
  FROM place_batches($1, $2, $3, $4, $5::text[]::uuid[], $6, $7)`
)

var verdicts = map[byte]string{
	'a': "ALREADY_ORDERED", 's': "SOLD_OUT", 'm': "SOLD_OUT", 'n': "NOT_STARTED", 'e': "ENDED", 'u': "PAUSED",
}

// purchase waits for its verdict; empty: unavailable.
type purchase struct {
	user, order string
	verdict     chan string
}

// entry is the result of one call to Redis: the orders it granted.
type entry struct {
	epoch     int64
	journalID string
	purchases []*purchase
}

// counter sells one voucher.
type counter struct {
	shop    *shop
	voucher string
	id      int64
	slot    int32
	asked   chan *purchase
	granted chan *entry
}

// counters has one for each voucher that was requested.
type counters struct {
	shop *shop
	all  sync.Map
	lock sync.Mutex
}

func (cs *counters) of(voucher string, id int64) (*counter, error) {
	if found, ok := cs.all.Load(voucher); ok {
		return found.(*counter), nil
	}
	cs.lock.Lock()
	defer cs.lock.Unlock()
	if found, ok := cs.all.Load(voucher); ok {
		return found.(*counter), nil
	}
	conn := cs.shop.redis.Get()
	defer conn.Close()
	slot, err := redis.Int(conn.Do("HGET", key(voucher, "voucher"), "slot"))
	if err != nil {
		return nil, err
	}
	c := &counter{shop: cs.shop, voucher: voucher, id: id, slot: int32(slot),
		asked: make(chan *purchase, 4*batchMax), granted: make(chan *entry, batchMax)}
	for i := 0; i < grantLoops; i++ {
		go c.grantAll()
	}
	for i := 0; i < poolSize("PG_POOL"); i++ {
		go c.writeAll()
	}
	cs.all.Store(voucher, c)
	return c, nil
}

func (cs *counters) buy(voucher string, id int64, user, order string) (string, error) {
	c, err := cs.of(voucher, id)
	if err != nil {
		return "", err
	}
	p := &purchase{user: user, order: order, verdict: make(chan string, 1)}
	c.asked <- p
	if verdict := <-p.verdict; verdict != "" {
		return verdict, nil
	}
	return "", errors.New("a store has not answered")
}

// ---- Redis ----

func (c *counter) grantAll() {
	for first := range c.asked {
		batch := []*purchase{first}
		for more := true; more && len(batch) < batchMax; {
			select {
			case p := <-c.asked:
				batch = append(batch, p)
			default:
				more = false
			}
		}
		if err := c.grant(batch); err != nil {
			log.Print(err)
			end(batch, "")
		}
	}
}

func (c *counter) grant(batch []*purchase) error {
	args := make([]interface{}, 0, 14+2*len(batch))
	for _, part := range []string{"voucher", "buyers", "journal", "repeats", "ended"} {
		args = append(args, key(c.voucher, part))
	}
	args = append(args, journalMax, c.shop.runID, "new", "0", "0-0", session, "-", offer, ordersEach)
	for _, p := range batch {
		args = append(args, p.user, p.order)
	}
	conn := c.shop.redis.Get()
	defer conn.Close()
	reply, err := redis.Values(c.shop.placeMany.Do(conn, args...))
	if err != nil {
		return err
	}
	if len(reply) < 7 {
		return errors.New("Redis does not sell the voucher")
	}
	granted := &entry{}
	var status, nowMs, beginMs, last interface{}
	var letters string
	if _, err := redis.Scan(reply, &status, &nowMs, &beginMs, &granted.epoch, &last, &granted.journalID, &letters); err != nil {
		return err
	}
	if len(letters) != len(batch) {
		return errors.New("Redis answers for others")
	}
	for i, p := range batch {
		if letter := letters[i]; letter == 'p' {
			granted.purchases = append(granted.purchases, p)
		} else {
			p.verdict <- verdicts[letter]
		}
	}
	if len(granted.purchases) > 0 {
		c.granted <- granted
	}
	return nil
}

// ---- PostgreSQL ----

func (c *counter) writeAll() {
	var next *entry // of another epoch
	for {
		first := next
		if next = nil; first == nil {
			first = <-c.granted
		}
		entries, count := []*entry{first}, len(first.purchases)
		for more := true; more && count < batchMax; {
			select {
			case e := <-c.granted:
				if e.epoch != first.epoch {
					next, more = e, false
					break
				}
				entries, count = append(entries, e), count+len(e.purchases)
			default:
				more = false
			}
		}
		if err := c.write(entries); err != nil {
			log.Print(err) // unknown outcome: the journal keeps the entries
			for _, e := range entries {
				end(e.purchases, "")
			}
		}
	}
}

// write puts all orders of all entries, which share an epoch, into one transaction.
func (c *counter) write(entries []*entry) error {
	var ids, users []string
	for _, e := range entries {
		for _, p := range e.purchases {
			ids, users = append(ids, p.order), append(users, p.user)
		}
	}
	newest := entries[len(entries)-1]
	ctx, cancel := context.WithTimeout(context.Background(), storeDeadline)
	defer cancel()
	rows, err := c.shop.pg.Query(ctx, placeBatches, []int32{c.slot}, []int64{c.id}, []int64{newest.epoch},
		[]int32{int32(len(ids))}, ids, users, []string{newest.journalID})
	if err != nil {
		return err
	}
	defer rows.Close()
	outcomes := map[int32]string{} // of each order; 0: of all
	for rows.Next() {
		var n int32
		var outcome string
		if err := rows.Scan(&n, &outcome); err != nil {
			return err
		}
		outcomes[n] = outcome
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return c.settle(entries, outcomes)
}

// settle removes the entries from the journal, returns the units that PostgreSQL has refused, and answers.
func (c *counter) settle(entries []*entry, outcomes map[int32]string) error {
	conn := c.shop.redis.Get()
	defer conn.Close()
	drop := redis.Args{}.Add(key(c.voucher, "journal"))
	for _, e := range entries {
		drop = drop.Add(e.journalID)
	}
	if _, err := conn.Do("XDEL", drop...); err != nil {
		return err
	}
	n := int32(0)
	for _, e := range entries {
		for _, p := range e.purchases {
			n++
			outcome, all := outcomes[0]
			if !all {
				outcome = outcomes[n]
			}
			verdict := verdictOf(outcome)
			if verdict != "PLACED" {
				_, err := c.shop.finish.Do(conn, key(c.voucher, "lock:"+p.user), key(c.voucher, "voucher"), key(c.voucher, "buyers"),
					key(c.voucher, "journal"), p.order, e.journalID, p.user, p.order, verdict)
				if err != nil {
					return err
				}
			}
			p.verdict <- verdict
		}
	}
	return nil
}

func end(purchases []*purchase, verdict string) {
	for _, p := range purchases {
		select {
		case p.verdict <- verdict:
		default: // already answered
		}
	}
}

// ---- the process ----

func newCounters(s *shop) *counters {
	path := os.Getenv("PLACE_ORDERS") // the service's script; empty: no batches
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	conn := s.redis.Get()
	defer conn.Close()
	info, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		log.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "run_id:")
	s.runID, _, _ = strings.Cut(after, "\r")
	s.placeMany = redis.NewScript(5, string(text))
	return &counters{shop: s}
}
