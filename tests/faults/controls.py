"""The negative controls: the product with one guard broken, in a copy. The suite must detect it.

Each control names the guard, the change (a text that must occur exactly once), and the fault under which the change
must be detected. The other half of the proof is that the fault holds with the guard in place: those runs are in the
table of `./dev faults`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Callable

import soak
from driver import run_fault
from fault import Result
from faults import FAULTS
from stack import ROOT, Broken, Stack


TRIES, LUCKY_TRIES = 3, 6  # lucky: of a guard that chance alone puts to the test


@dataclass(frozen=True)
class Control:
    name: str
    guard: str
    file: str
    old: str
    new: str
    fault: str
    by: str = ""  # an assertion that must be among those that catch it
    more: tuple[tuple[str, ...], ...] = ()  # further changes, in that file or a named one, when a guard has two places
    tries: int = TRIES
    shows: Callable[[soak.Round], bool] = lambda drawn: True  # of soak: whether the round, as it is drawn, can show it

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """The files, and in each a text with its replacement."""
        return [(self.file, self.old, self.new), *((self.file, *one)[-3:] for one in self.more)]


CONTROLS = [
    Control(
        "able",
        "work left to a living session that cannot do it",
        "src/recovery/assignment.c",
        "    if (!sk_session_is_able(session, shard)) {\n        if (count > 0)\n            return false;",
        "    if (true) {",
        "66a",
        "expiry_is_in_time",
    ),
    Control(
        "never",
        "work left to a session that has never been able to do it",
        "src/recovery/assignment.c",
        "        if (count > 0)\n            return false;",
        "",
        "66c",
        "expiry_is_in_time",
        more=(("    if (!sk_session_is_able(session, shard)) {", "    if (true) {"),),
    ),
    Control(
        "fallback",
        "work of nobody while no session is able to do it",
        "src/recovery/assignment.c",
        "        if (count > 0)\n            return false;",
        "        return false;",
        "67d",
        "expiry_is_in_time",
    ),
    Control(
        "alone",
        "ready without PostgreSQL while another instance has it",
        "src/app/shop.c",
        "           !sk_assignments_is_alone(shop->recovery.assignments) &&\n",
        "",
        "66a",
        "seen_meanwhile",
    ),
    Control(
        "together",
        "not ready because nobody has PostgreSQL",
        "src/recovery/assignment.c",
        "sk_session_held(session) && sk_session_able_elsewhere(session, shard)",
        "sk_session_held(session)",
        "66d",
        "seen_meanwhile",
    ),
    Control(
        "crash-loop",
        "work given to a session that has just begun",
        "src/recovery/assignment.h",
        "enum { SK_ABLE_AFTER_MS = 2000 };",
        "enum { SK_ABLE_AFTER_MS = 0 };",
        "67a",
        "expiry_is_in_time",
        more=(("lua/session_keep.lua", "local able_ms = 1500", "local able_ms = 3000"),),
    ),
    Control(
        "beat",
        "a shard that was restored from an older copy sells",
        "src/recovery/shard_heartbeats.c",
        "bool restored = heartbeat < known;",
        "bool restored = false && heartbeat < known;",
        "65b",
    ),
    Control(
        "half",
        "orders of a shard that is away or hangs take all the room",
        "src/sale/order.c",
        "pool->out_of[shard] < left",
        "pool->out_of[shard] <= pool->most",
        "65c",
    ),
    Control(
        "unique",
        "no unique index on live orders",
        "sql/migrations/040_waiting.sql",
        "CREATE UNIQUE INDEX voucher_order_live",
        "CREATE INDEX voucher_order_live",
        "1o",
    ),
    Control(
        "epoch",
        "no epoch check in PostgreSQL",
        "sql/migrations/041_promotion.sql",
        "IF NOT FOUND OR p_epoch <> v_epoch THEN",
        "IF NOT FOUND THEN",
        "6f",
    ),
    Control(
        "compensation",
        "compensation without the order-id condition",
        "lua/settle_entry.lua",
        "local is_here = held and string.sub(held, 1, 36) == order",
        "held = held or ''\n  local is_here = true",
        "1n",
    ),
    Control(
        "journal",
        "journal entry cleared before COMMIT",
        "lua/place_orders.lua",
        "  redis.call('HSET', KEYS[2], unpack(winners))",
        "  redis.call('XDEL', KEYS[3], journal_id)\n  redis.call('HSET', KEYS[2], unpack(winners))",
        "1c",
    ),
    Control(
        "session",
        "a session judged dead while it lives",
        "src/recovery/journal_sweep.c",
        "    if (sk_session_lives(sale->session, found->session))\n        return SWEEP_HELD;",
        "    if (sk_session_lives(sale->session, found->session))\n        return SWEEP_SETTLE;",
        "16b",
        "seen_meanwhile",
    ),
    Control(
        "answer",
        "201 answered before COMMIT",
        "src/sale/writer.c",
        '        SK_FAILPOINT("writer.sent");',
        "        for (size_t i = 0; i < writer->batch.n; i++)\n"
        "            sk_sale_report(writer->sale, writer->batch.rows[i], SK_PURCHASE_PLACED, writer->batch.rows[i]->id, 0);",
        "16b",
    ),
    Control(
        "run",
        "no comparison of Redis's run id, nor of what was seen before",
        "lua/place_orders.lua",
        "if voucher[7] ~= ARGV[2] or not",
        "ARGV[4] = '0'\nif not",
        "7c",
    ),
    Control(
        "run_of_node",
        "the same, and a node of a cluster is replaced by one that lags",
        "lua/place_orders.lua",
        "if voucher[7] ~= ARGV[2] or not",
        "ARGV[4] = '0'\nif not",
        "64b",
        more=(("lua/read_voucher.lua", "voucher[5] == ARGV[1] and", "ARGV[1] ~= '' and"),),
        tries=LUCKY_TRIES,  # writes that count must be lost
    ),
    Control(
        "sessions_away",
        "no sale at other nodes while that of the sessions is away",
        "src/sale/lock.c",
        "(sk_session_away(session) &&\n",
        "(false && sk_session_away(session) &&\n",
        "64e",
    ),
    Control(
        "again",
        "fenced-off orders simply written under the new epoch",
        "src/recovery/regrant.c",
        "    regrant->open++;\n    regrant_wait(regrant, voucher, order);",
        "    order->epoch = voucher->maintenance->lost.stale_epoch + 1;\n    sk_writer_resume(order);",
        "6f",
    ),
    Control(
        "buyers",
        "a voucher opened while buyers are missing",
        "lua/rebuild_open.lua",
        "if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[3]) then",
        "if false then",
        "6e",
    ),
    Control(
        "filter",
        "a filter of the buyers believed though they went meanwhile",
        "src/sale/admit.c",
        "    const char *version = sk_reply_text(sk_reply_at(reply, 1), NULL);",
        '    const char *version = reading->version;\n    state = "open";',
        "6g",
        more=(
            ("    (void)sk_trust_number(sk_reply_at(reply, 2), SK_TRUST_MAX, &reading->cache_ms);", "    reading->cache_ms = 60000;"),
            (
                "    bool same_epoch = sk_trust_number(sk_reply_at(reply, 3), SK_TRUST_MAX, &epoch) && epoch == reading->epoch;",
                "    epoch = reading->epoch;\n    bool same_epoch = epoch == reading->epoch;",
            ),
        ),
        tries=LUCKY_TRIES,
    ),
    Control(
        "last-unit",
        "SOLD_OUT said while one unit is left",
        "lua/place_orders.lua",
        "elseif stock == 0 then",
        "elseif stock <= 1 then",
        "3a",
        "newcomers_are_served",
    ),
    Control(
        "again-refused",
        "orders granted again refused as if there were no unit",
        "src/recovery/regrant.c",
        "        char result = grant->results[i];",
        "        char result = grant->results[i] == SK_GRANT_PLACED ? SK_GRANT_SOLD_OUT : grant->results[i];",
        "6f",
        "reasons_are_true",
    ),
    Control(
        "swapped",
        "a 202 with the order of the one before",
        "src/sale/batcher.c",
        "            sk_sale_report(batcher->sale, order, SK_PURCHASE_ACCEPTED, order->id, 0);",
        "            static char before[SK_UUID_SIZE];\n"
        "            sk_sale_report(batcher->sale, order, SK_PURCHASE_ACCEPTED, before[0] ? before : order->id, 0);\n"
        "            memcpy(before, order->id, sizeof before);",
        "3a",
        "accepted_is_the_users_own",
    ),
    Control(
        "claim",
        "no claim: a winner who asks again granted once more",
        "lua/place_orders.lua",
        "local order = bought[i] or seen[user]",
        "local order = again and bought[i] or seen[user]",
        "3a",
        "repeats_name_the_order",
    ),
    Control(
        "unit",
        "two units given back for one",
        "lua/settle_entry.lua",
        "redis.call('HINCRBY', KEYS[1], 'stock', units) == units",
        "redis.call('HINCRBY', KEYS[1], 'stock', 2 * units) == 2 * units",
        "1o",
        "units_are_held_meanwhile",
    ),
    Control(
        "unknown",
        "an order given up because its commit was not answered",
        "src/sale/writer.c",
        "    else if (rows == NULL || !sk_batch_is_answered(batch, rows))",
        "    else if (rows == NULL) {\n"
        "        for (size_t i = 0; i < batch->n; i++)\n"
        "            writer_settle(writer, batch->rows[i], SK_SETTLEMENT_ENDED, &(struct sk_settlement_more){0});\n"
        "        writer_end_batch(writer);\n"
        "    } else if (!sk_batch_is_answered(batch, rows))",
        "19d",
    ),
    Control(
        "storm",
        "a voucher rebuilt though nothing is wrong",
        "src/recovery/voucher_books.c",
        "    if (books_is_behind(account, now))",
        "    if (books_is_behind(account, now) || now->epoch < 9)",
        "3a",
        "rebuilds_are_few",
    ),
    Control(
        "url",
        "a committed order shown as pending",
        "sql/migrations/004_orders.sql",
        "THEN order_details_json(own.o) END",
        "THEN json_build_object('id', p_id, 'voucher_id', (own.o).voucher_id::text, 'user_id', p_user, 'status', 'pending') END",
        "3a",
        "each_url_tells_the_end",
    ),
    Control(
        "owner",
        "an order shown to other users",
        "sql/migrations/004_orders.sql",
        "CASE WHEN own.user_id = p_user THEN",
        "CASE WHEN p_user IS NOT NULL THEN",
        "3a",
        "strangers_see_no_order",
    ),
    Control(
        "leak",
        "a query that is not freed",
        "src/api/query.c",
        "    free(query);",
        "",
        "30",
        "processes_are_well",
    ),
    Control(
        "too-soon",
        "a session judged dead within a TTL of the judge's reconnect",
        "src/sale/lock.c",
        "sk_monotonic_ms() >= since_ms + session->ttl_ms",
        "sk_monotonic_ms() >= since_ms",
        "33i",
        "seen_meanwhile",
    ),
    Control(
        "sessionless",
        "sold without a session in the journal",
        "lua/place_orders.lua",
        "table.concat(journal_orders, ','),\n    'session', ARGV[6], 'offer'",
        "table.concat(journal_orders, ','),\n    'offer'",
        "16b",
        "seen_meanwhile",
    ),
    Control(
        "orphan",
        "an order forgotten whose script was not answered",
        "src/sale/batcher.c",
        "        batcher->sale->orphaned(batcher->sale->recovery, voucher); // it may still be carried out",
        "",
        "33k",
        "seen_meanwhile",
    ),
    Control(
        "away",
        "404 though an instance may hold the order",
        "src/sale/order_id.c",
        "    return low < now || epoch >= EPOCHS;",
        "    return false;",
        "6h",
        "accepted_is_never_unknown",
    ),
    Control(
        "keep",
        "Redis closed to find out that a sale cannot be retired",
        "src/recovery/rebuild.c",
        "rebuild_end(rebuild, SK_REBUILD_KEPT);",
        "rebuild_fence(rebuild);",
        "56a",
        "seen_meanwhile",
    ),
    Control(
        "retired",
        "retired, and lost orders of it asked for again for ever",
        "src/recovery/regrant.c",
        "(regrant->gives_up || voucher->left)",
        "regrant->gives_up",
        "46",
        "seen_meanwhile",
    ),
    Control(
        "ends",
        "an instance that ends and leaves its session",
        "lua/session_end.lua",
        "redis.call('ZREM', KEYS[2], ARGV[2])",
        "",
        "33h",
        "seen_meanwhile",
    ),
    Control(
        "clock",
        "a dead session prolonged by a clock that is set back",
        "lua/session_keep.lua",
        "local back_ms = math.max(0, seen_ms - now_ms)",
        "local back_ms = 0",
        "23c",
        "seen_meanwhile",
        more=(("local longest_ms = 600000", "local longest_ms = 6000000"),),  # else an hour is too long for a session
    ),
    Control(
        "unheard",
        "404 for a voucher that the instance has not heard of yet",
        "src/api/purchase.c",
        "    sk_query_find_later(query, ((struct late_purchase *)query)->wish.voucher_id, purchase_on_found);",
        "    purchase_on_found(query, SK_FOUND_NONE);",
        "45a",
        "seen_meanwhile",
    ),
    Control(
        "late-winner",
        "a winner of a retired voucher told that it has ended",
        "src/api/purchase.c",
        "    else if (answer.order_id != NULL)",
        "    else if (answer.order_id == query->key)",
        "44",
        "seen_meanwhile",
    ),
    Control(
        "shared",
        "a batch of several vouchers that failed tried again as it is",
        "src/sale/write_queue.c",
        "void sk_write_queue_part(struct sk_voucher *voucher)\n{\n    voucher->granted.alone = true;",
        "void sk_write_queue_part(struct sk_voucher *voucher)\n{\n    voucher->granted.alone = false;",
        "16c",
        "seen_meanwhile",
        more=(
            (
                "voucher->granted.alone = true;\n    if (why == SK_PAUSE_LOCKED && grows)",
                "voucher->granted.alone = false;\n    if (why == SK_PAUSE_LOCKED && grows)",
            ),
        ),
    ),
    Control(
        "parts",
        "of several vouchers in a batch the orders mixed up",
        "sql/migrations/037_scopes.sql",
        "SELECT o.id, p_slots[o.i], o.user_id, p_vouchers[o.i]",
        "SELECT o.id, p_slots[1], o.user_id, p_vouchers[1]",
        "1p",
    ),
    Control(
        "return-id",
        "a return settled though its order is not the buyer's any more",
        "lua/settle_entry.lua",
        "local is_here = held and string.sub(held, 1, 36) == order",
        "local is_here = held",
        "34k",
        "units_are_held_meanwhile",
    ),
    Control(
        "return-epoch",
        "a return of an older epoch carried out",
        "sql/migrations/041_promotion.sql",
        "           AND e.epoch IS NOT DISTINCT FROM CASE WHEN v.state <> 'retired' THEN s.epoch END\n",
        "",
        "34l",
        "seen_meanwhile",
    ),
    Control(
        "return-status",
        "a return whatever the order is by now",
        "sql/migrations/041_promotion.sql",
        "AND v.id = p_vouchers[a.batch] AND o.status = ANY (v_from)\n",
        "AND v.id = p_vouchers[a.batch]\n",
        "34a",
        "moves_are_allowed",
    ),
    Control(
        "expiry-time",
        "orders that expire before their time",
        "sql/migrations/041_promotion.sql",
        "                IF v_at <= now() THEN",
        "                IF v_at IS NOT NULL THEN",
        "34a",
        "ends_were_asked_for",
        more=(
            (
                "sql/migrations/041_promotion.sql",
                "           AND (v_status <> 'expired'\n"
                "                OR (due_at(o.created_at, v.pay_within_s, o.due_at) <= now() AND NOT expiry_is_held(v.id)))\n",
                "",
            ),
        ),
    ),
    Control(
        "return-quantity",
        "one unit returned, whatever the order's quantity",
        "lua/settle_entry.lua",
        "redis.call('HINCRBY', KEYS[1], 'stock', units) == units",
        "redis.call('HINCRBY', KEYS[1], 'stock', 1) == 1",
        "34k",
        "the_audit_had_nothing_to_mend",
    ),
    Control(
        "key-index",
        "no unique index on Idempotency-Keys",
        "sql/migrations/001_tables.sql",
        "CREATE UNIQUE INDEX voucher_order_key",
        "CREATE INDEX voucher_order_key",
        "34q",
        "keys_made_one_order",
    ),
    Control(
        "key-ended",
        "an Idempotency-Key forgotten when its order ends",
        "lua/settle_entry.lua",
        "    if key then",
        "    if false then",
        "34q",
        "seen_meanwhile",
    ),
    Control(
        "clocks",
        "orders that expire though the clocks differ",
        "src/recovery/expiry.c",
        "    bool apart = apart_ms > APART_MOST_MS;",
        "    bool apart = apart_ms > UINT64_MAX / 2;",
        "23d",
        "seen_meanwhile",
    ),
    Control(
        "feed",
        "a feed that does not wait for transactions under way",
        "sql/migrations/041_promotion.sql",
        "                    AND w.tx < pg_snapshot_xmin(pg_current_snapshot())\n",
        "",
        "34r",
        "feed_tells_each_event_once",
    ),
    Control(
        "if-match",
        "a change made although it was meant for another version",
        "sql/migrations/010_terms.sql",
        " WHEN p_if_match NOT IN (0, v_change) THEN 'changed' END;",
        " END;",
        "35e",
        "seen_meanwhile",
    ),
    Control(
        "added-twice",
        "units added again under the same change number",
        "lua/apply_change.lua",
        "if voucher[2] == ARGV[2] and change >= tonumber(ARGV[4]) then",
        "if false then",
        "35a",
        more=(("if voucher[2] ~= ARGV[2] or voucher[3] ~= ARGV[3] then", "if voucher[2] ~= ARGV[2] then"),),
        tries=LUCKY_TRIES,
    ),
    Control(
        "soak",
        "one unit returned, whatever the order's quantity",
        "lua/settle_entry.lua",
        "redis.call('HINCRBY', KEYS[1], 'stock', units) == units",
        "redis.call('HINCRBY', KEYS[1], 'stock', 1) == 1",
        "soak",
        "the_audit_had_nothing_to_mend",
        tries=LUCKY_TRIES,
        # Orders of several units, and no trouble that has Redis rebuilt, which mends it before the audit checks it.
        shows=lambda drawn: drawn.fault.habits.limit > 1 and "redis" not in drawn.lanes,
    ),
    Control(
        "reopened-terms",
        "a sale that is resumed or extended sells at once",
        "lua/apply_change.lua",
        "if was and (not is or is == 'n') and differs or stock == 0 and units > 0 then",
        "if stock == 0 and units > 0 then",
        "38b",
        "winners_are_told",
        tries=LUCKY_TRIES,
    ),
    Control(
        "reopened-units",
        "units that return after sell-out sell at once",
        "lua/settle_entry.lua",
        "      reopen(KEYS[1], clock_ms())",
        "      units = 0",
        "38f",
        "winners_are_told",
        tries=LUCKY_TRIES,
    ),
    Control(
        "reopened-rebuild",
        "a sale that is rebuilt sells at once",
        "lua/rebuild_open.lua",
        "if tonumber(ARGV[9]) > 0 then",
        "if false then",
        "38g",
        "winners_are_told",
    ),
    Control(
        "rate",
        "a rate that refuses nobody",
        "src/base/rates.c",
        "    if (free_at - now_ns > SECOND_NS - cost_ns)\n        return false;",
        "    if (free_at - now_ns > SECOND_NS - cost_ns)\n        return true;",
        "50a",
        "seen_meanwhile",
    ),
    Control(
        "one-rate",
        "one rate for all users together",
        "src/base/rates.c",
        "sk_siphash(&rates->key, client, len);",
        "sk_siphash(&rates->key, client, len * 0);",
        "50a",
        "seen_meanwhile",
    ),
    Control(
        "connections",
        "connections of an address counted, and not refused",
        "src/base/tally.c",
        "bool may = place->count < tally->most &&",
        "bool may = (place->count < tally->most || true) &&",
        "50b",
        "seen_meanwhile",
    ),
    Control(
        "second-secret",
        "tickets good under the first secret alone",
        "src/identity/ticket.c",
        "i < tickets->secrets && !good",
        "i < 1 && !good",
        "50c",
        "seen_meanwhile",
    ),
    Control(
        "watchdog",
        "the manager told that all is well though a loop hangs",
        "src/app/supervisor.c",
        "        if (turning && (notify->",
        "        if ((turning || stuck < SK_SUPERVISED_MAX) && (notify->",
        "50d",
        "seen_meanwhile",
    ),
    Control(
        "refunds",
        "a repeated refund settles what was noted since",
        "sql/migrations/031_paid_twice.sql",
        "IF NOT v_done AND 'to_refund' = ANY (v_states) THEN",
        "IF 'to_refund' = ANY (v_states) THEN",
        "34w",
        by="refunds_settle_what_they_name",
    ),
    Control(
        "offer",
        "sold under an offer that the voucher has no more",
        "lua/place_orders.lua",
        "local offer, other = voucher[10], not again and voucher[10] ~= ARGV[8]",
        "local offer, other = voucher[10], false",
        "58b",
        "seen_meanwhile",
    ),
    Control(
        "offer-of-order",
        "an order that costs what the voucher costs now",
        "sql/migrations/002_documents.sql",
        "ORDER BY f.offer <> p_offer, f.offer LIMIT 1",
        "ORDER BY f.offer DESC LIMIT 1",
        "58a",
    ),
    Control(
        "long-share",
        "streams and long polls without a share of their own",
        "src/wire/request.c",
        "    if (pool->held >= pool->held_most)",
        "    if (pool->held >= pool->count)",
        "51a",
        "seen_meanwhile",
    ),
    Control(
        "last-tenth",
        "the last connections for whoever comes",
        "src/wire/server.c",
        "    return server->connections.in_phase[SK_PHASE_FREE] < server->connections.count / RESERVED_PART;",
        "    return server->connections.count == 0;",
        "51b",
        "seen_meanwhile",
    ),
    Control(
        "orders",
        "no bound of a user's orders",
        "lua/place_orders.lua",
        "(number(had[i]) or 0) >= most then",
        "(number(had[i]) or 0) < 0 then",
        "59a",
        "orders_are_bounded",
    ),
    Control(
        "majority",
        "the master that most sentinels name, though they are no majority",
        "src/store/sentinels.c",
        "    if (2 * votes <= all || ",
        "    if (votes == 0 || ",
        "62d",
        "unknowns_are_few",
    ),
    Control(
        "unreplicated",
        "a commit believed whose synchronous wait was cancelled",
        "src/store/pg_link.c",
        "    pg->unreplicated = pg->unreplicated || pg_link_is_unreplicated(notice);",
        "    (void)pg_link_is_unreplicated;",
        "61c",
        "created_is_a_row",
    ),
    Control(
        "first_answers",
        "a first answer repeated that no standby has",
        "sql/migrations/020_first_answers.sql",
        "    IF FOUND AND current_setting",
        "    IF false AND current_setting",
        "61c",
        "seen_meanwhile",
    ),
    Control(
        "numbers",
        "a rebuild that forgets who has had all orders",
        "sql/migrations/007_rebuild.sql",
        "           CASE WHEN o.ended_nth >= p_bound THEN o.ended_nth END\n",
        "           NULL::smallint\n",
        "59b",
        "seen_meanwhile",
    ),
    Control(
        "extended",
        "an order expires by the time that it had when it was found",
        "sql/migrations/041_promotion.sql",
        "(due_at(o.created_at, v.pay_within_s, o.due_at) <= now()",
        "(expires_at(o.created_at, v.pay_within_s) <= now()",
        "34x",
        "ends_were_asked_for",
    ),
    Control(
        "held",
        "expiry that is held by no one",
        "sql/migrations/036_extend.sql",
        "    SELECT EXISTS (SELECT FROM expiry_hold h WHERE h.voucher_id IN (0, p_voucher))",
        "    SELECT false",
        "34y",
        "seen_meanwhile",
    ),
    Control(
        "scope",
        "one live order for each voucher, whatever its scope",
        "sql/migrations/040_waiting.sql",
        "ON voucher_order (user_id, (coalesce(scope, voucher_id)), slot)",
        "ON voucher_order (user_id, voucher_id, slot)",
        "68a",
        "rows_are_right",
        more=(("lua/place_orders.lua", "for k = 6, #KEYS do", "for k = 6, 5 do"),),
    ),
    Control(
        "line",
        "a return that forgets the line",
        "sql/migrations/041_promotion.sql",
        "        IF v_line.waiting > 0 AND v_line.ids",
        "        IF false AND v_line.ids",
        "69a",
        "seen_meanwhile",
    ),
]


class Copy:
    """The sources in a scratch folder, where they can be broken and restored."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="seckill-broken.", dir="/var/tmp"))
        self.folder.chmod(0o755)
        for name in ("src", "lua", "sql", "loadtest", "deploy", "web", "tests/sim", "CMakeLists.txt"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name)
            elif source.exists():  # the web folder may be missing
                shutil.copy(source, self.folder)
        self._quietly("cmake", "-S", ".", "-B", "build", "-DSK_FAILPOINTS=ON", "-DSK_TESTS=OFF")

    def _quietly(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken(f"{command[0]}: {done.stdout[-800:]}{done.stderr[-800:]}")

    def build(self, control: Control, *targets: str) -> Path:
        try:
            for name, old, new in control.changes:
                file = self.folder / name
                text = file.read_text()
                if text.count(old) != 1:
                    raise Broken(f"control {control.name}: what it changes is not, or not once, in {name}")
                file.write_text(text.replace(old, new))
            self._quietly("cmake", "--build", "build", "-j2", "--target", "seckill", *targets)
        finally:
            for name, _, _ in control.changes:
                shutil.copyfile(ROOT / name, self.folder / name)  # newer than its build products
        binary = self.folder / f"seckill-{control.name}"
        shutil.copy(self.folder / "build" / "seckill", binary)
        return binary

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def catch(control: Control, build: Future[Path], seed: int) -> Result:
    """A guard may be needed only in rare moments, which other seeds produce."""
    stack = Stack(build.result())
    try:
        numbers = count(1) if control.fault != "soak" else (n for n in count(1) if control.shows(soak.drawn(seed, n)))
        for number in islice(numbers, control.tries):
            if control.fault == "soak":
                result = soak.run_round(stack, seed, number)
            else:
                fault = next(fault for fault in FAULTS if fault.name == control.fault)
                result = run_fault(stack, fault, seed + number - 1)
            if caught_by(control, result):
                break
        return result
    finally:
        stack.close()


def caught_by(control: Control, result: Result) -> list[str]:
    """The assertions that caught it; none unless the required one is among them, or if the run shows nothing."""
    caught = [name for name in result.complaints if name != "the suite"]
    good = control.by in caught if control.by else not result.shows_nothing
    return caught if good else []


def run_all(only: str | None, seed: int) -> int:
    """The next builds are made while broken ones are tested."""
    chosen = [control for control in CONTROLS if only is None or control.name in only.split(",")]
    if not chosen:
        raise Broken(f"there is no broken guard {only}")
    print(f"seed {seed}\n\n{'broken guard':<62}{'fault':<7}{'caught by'}")
    copy, missed = Copy(), 0
    try:
        with ThreadPoolExecutor(1) as maker, ThreadPoolExecutor(2) as judges:
            builds = [maker.submit(copy.build, control) for control in chosen]
            tries = [judges.submit(catch, control, build, seed) for control, build in zip(chosen, builds)]
            for control, one in zip(chosen, tries):
                try:
                    missed += not show(control, one.result())
                except Broken as broken:
                    missed += 1
                    print(f"{control.guard}: {broken}", flush=True)
    finally:
        copy.remove()
    print(f"\n{len(chosen) - missed} of {len(chosen)} broken guards caught")
    return 1 if missed else 0


def show(control: Control, result: Result) -> bool:
    """Whether it is caught."""
    caught = caught_by(control, result)
    missed = f"NOT CAUGHT by {control.by or 'any'} in {control.tries} tries: {result.complaints or result.why}"
    print(f"{control.guard:<62}{control.fault:<7}{', '.join(caught) or missed}", flush=True)
    return bool(caught)
