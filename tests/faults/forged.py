"""A sound world, and for each assertion ways to corrupt it so that the assertion must fail."""

from __future__ import annotations

from crowd import Event
from machine import Delays
from world import Fresh, Move, Order, OrderList, Payment, Sample, Voucher, World

MADE_UP = "00000000-0000-7000-8000-000000000"  # and the epoch in hex
def heard(
    began: float, ended: float, what: str, user: str, status: int = 0, code: str = "", order: str = "", state="", voucher="1",
    **more,
):
    """An event with the requested ids in its answer."""
    event = Event(began, ended, what, user, voucher, 0, status, code, order, state, **more)
    if status in (200, 201, 202):
        event.shown = [order, user, voucher]
    return event


def lived(*fields, **more) -> Event:
    """An event of voucher 2."""
    return heard(*fields, voucher="2", **more)


def lives() -> tuple[Voucher, list[Event], list[Move], list[Payment]]:
    """Ten units, up to three for each user: one order paid, and paid twice more, one cancelled and bought again, one expired
    and paid too late, two refunded, of which one returned its units. Of the expired one Redis had lost the grant for a while, and had
    another one in its place."""
    orders = [
        Order("p1", "u20", "paid", "", 2, due=100),
        Order("c1", "u21", "cancelled", "", 1, key="f1", due=100),
        Order("n1", "u21", "unpaid", "", 1, due=100),
        Order("e1", "u22", "expired", "", 3, key="f2", due=10),
        Order("b1", "u22", "refused", "ALREADY_ORDERED", 1),
        Order("k1", "u23", "refunded", "KEPT", 1, due=100),
        Order("s1", "u24", "refunded", "RESTOCKED", 2, due=100),
    ]
    history = [
        lived(1, 2, "buy", "u20", 201, "", "p1", "unpaid", quantity=2),
        lived(1, 2, "buy", "u21", 201, "", "c1", "unpaid", key="k"),
        lived(1, 2, "buy", "u22", 202, "", "e1", "pending", key="k2", quantity=3),
        lived(3, 4, "buy", "u22", 409, "ALREADY_ORDERED", "b1", key="k2", quantity=3),
        lived(1, 2, "buy", "u23", 201, "", "k1", "unpaid"),
        lived(1, 2, "buy", "u24", 201, "", "s1", "unpaid", quantity=2),
        lived(3, 4, "pay", "u20", 200, "", "p1", "paid", reference="r1", amount=10),
        lived(4, 5, "cancel", "u20", 409, "WRONG_STATE", "p1"),
        lived(3, 4, "cancel", "u21", 200, "", "c1", "cancelled"),
        lived(5, 6, "buy", "u21", 201, "", "c1", "cancelled", key="k"),
        lived(5, 6, "buy", "u21", 422, "IDEMPOTENCY_KEY_REUSED", key="k", quantity=2),
        lived(7, 8, "buy", "u21", 201, "", "n1", "unpaid"),
        lived(11, 12, "pay", "u22", 200, "", "e1", "expired", reference="r2", amount=15),
        lived(3, 4, "pay", "u23", 200, "", "k1", "paid", reference="r3", amount=5),
        lived(4, 5, "refund", "u23", 200, "", "k1", "refunded"),
        lived(3, 4, "pay", "u24", 200, "", "s1", "paid", reference="r4", amount=10),
        lived(4, 5, "refund", "u24", 200, "", "s1", "refunded", restock=True),
        lived(11, 12, "pay", "u24", 200, "", "s1", "refunded", reference="r5", amount=10),
        lived(12, 13, "pay", "u24", 200, "", "s1", "refunded", reference="r6", amount=10),
        lived(13, 14, "refund", "u24", 200, "", "s1", "refunded", restock=True, reference="r5"),
        lived(14, 15, "refund", "u24", 200, "", "s1", "refunded", restock=True),
        lived(14, 15, "pay", "u20", 409, "ALREADY_PAID", "p1", reference="r9", amount=10),
        lived(15, 16, "pay", "u20", 409, "ALREADY_PAID", "p1", reference="r10", amount=9),
        lived(16, 17, "refund", "u20", 200, "", "p1", "paid", reference="r10"),
        lived(2, 3, "extend", "u20", 200, "", "p1", "unpaid", reference="r1"),
        lived(2, 3, "extend", "u20", 409, "ALREADY_EXTENDED", "p1", reference="r9"),
        lived(15, 16, "buy", "u25", 409, "NOT_ENOUGH", quantity=3, left=2),
    ]
    moves = [
        Move("p1", "paid", "shop", 3.5),
        Move("c1", "cancelled", "user", 3.5),
        Move("k1", "paid", "shop", 3.5),
        Move("s1", "paid", "shop", 3.5),
        Move("k1", "refunded", "olga", 4.5),
        Move("s1", "refunded", "olga", 4.5),
        Move("e1", "expired", "expiry", 10.5),
        Move("e1", "expired", "shop", 11.5, "PAYMENT_TO_REFUND"),
        Move("s1", "refunded", "shop", 11.5, "PAYMENT_TO_REFUND"),
        Move("s1", "refunded", "shop", 12.5, "PAYMENT_TO_REFUND"),
        Move("s1", "refunded", "olga", 13.5, "sent"),
        Move("p1", "paid", "shop", 14.5, "PAYMENT_TO_REFUND"),
        Move("p1", "paid", "shop", 15.5, "PAYMENT_TO_REFUND"),
        Move("p1", "paid", "olga", 16.5, "PAYMENT_REFUNDED"),
    ]
    payments = [
        Payment("r1", "p1", "accepted", 10, 3.5),
        Payment("r2", "e1", "to_refund", 15, 11.5),
        Payment("r3", "k1", "refunded", 5, 3.5),
        Payment("r4", "s1", "refunded", 10, 3.5),
        Payment("r5", "s1", "refunded", 10, 11.5),
        Payment("r6", "s1", "to_refund", 10, 12.5),
        Payment("r9", "p1", "to_refund", 10, 14.5),
        Payment("r10", "p1", "refunded", 9, 15.5),
    ]
    buyers = {"u20": "p1", "u21": "n1"}
    return Voucher("2", 10, orders, {}, 6, buyers, 0, limit=3, price=5), history, moves, payments


def good_world() -> World:
    """Five units: three live orders, one held by a dead letter, one for sale; a sixth user's grant was lost."""
    orders = [Order(f"o{n}", f"u{n}", "unpaid", "") for n in range(3)] + [Order("o9", "u9", "refused", "GRANT_LOST")]
    voucher = Voucher("1", 5, orders, {"u4": "o4"}, 1, {f"u{n}": f"o{n}" for n in (0, 1, 2, 4)}, 0, rebuilds=1)
    history = [
        heard(-8.6, -8.5, "buy", "u7", 409, "SOLD_OUT"),  # an operator was taking all of them away
        heard(1, 2, "buy", "u0", 201, "", "o0", "unpaid"),
        heard(1, 2, "buy", "u1", 202, "", "o1", "pending"),
        heard(2.5, 2.6, "buy", "u0", 409, "SOLD_OUT"),  # from a cache that the machine kept too long
        heard(3, 4, "read", "u1", 200, "", "o1", "pending"),
        heard(5, 6, "read", "u1", 200, "", "o1", "unpaid"),
        heard(5, 6, "buy", "u0", 409, "ALREADY_ORDERED", "o0"),
        heard(1, 2, "buy", "u2"),  # unknown: it became an order
        heard(1, 2, "buy", "u9", 202, "", "o9", "pending"),
        heard(7, 8, "buy", "u7", 409, "SOLD_OUT"),
        heard(1, 2, "buy", "u4", 202, "", "o4", "pending"),
        heard(30.5, 32, "buy", "u2", 503),  # Redis did not answer then
        *(heard(2, 3, "buy", f"v{n}", 409, "ENDED") for n in range(20)),
    ]
    ends = [heard(20, 21, "end", f"u{n}", 200, "", f"o{n}", state) for n, state in ((0, "unpaid"), (1, "unpaid"))]
    other, told, moves, payments = lives()
    ends += [lived(20, 21, "end", o.user, 200, "", o.id, o.status, reason=o.reason) for o in other.orders]
    ends += [heard(20, 21, "end", "u4", 200, "", "o4", "pending"), heard(20, 21, "end", "u9", 200, "", "o9", "refused")]
    ends[-1].reason = "GRANT_LOST"
    return World(
        history + told,
        {"1": voucher, "2": other},
        delays=Delays([(2.1, 2.4)]),
        taken={"2"},
        withdrawn={"1": [(-9.0, -8.0, 5)]},
        cut={"2"},
        logs=[
            'msg="books differ" voucher=2 finding=differ epoch=1/1 stock=1/3 buyers=4/4',
            'msg="books differ" voucher=2 finding=differ epoch=1/1 stock=1/3 buyers=5/4',
        ],
        letters=1,
        letters_expected=1,
        refused_most=1,
        rebuilds_most=1,
        unknown_most=0.05,
        samples=[Sample("1", "open", 2, 3, "1"), Sample("1", "loading", 9, 9, "2")],
        stalls=[(30, 31)],
        holds=[("1", 3, 3.2)],
        ends=ends,
        strangers=[
            heard(20, 21, "stranger", "zoe", 404, "NOT_FOUND", f"{MADE_UP}002"),
            heard(20, 21, "stranger", "zoe", 503, "UNAVAILABLE", f"{MADE_UP}001"),  # of an earlier epoch
        ],
        lists=[OrderList("u1", 200, True, {"o1"}), OrderList("u4", 200, True, {"o4"})],
        fresh=[Fresh(1, heard(9, 10, "fresh", "new", 201, "", "o5", "unpaid"))],
        moves=moves,
        payments=payments,
        extended=[("p1", "r1")],
        late_s=1.0,
        events=[("o1", "order.placed"), *((move.order, f"order.{move.status}") for move in moves)],
        feed=[("o1", "order.placed"), *((move.order, f"order.{move.status}") for move in moves)],
    )


def corruptions() -> dict[str, list]:
    """For each assertion, ways to corrupt a world so that it must fail."""

    def voucher(change):
        return lambda world: change(world.vouchers["1"])

    def differs(line: str, taken: str, cut: str = ""):
        def change(world: World) -> None:
            world.logs.append(f'msg="books differ" {line}')
            world.taken.add(taken)
            world.cut.add(cut)

        return change

    def event(*fields, **more):
        def add(world: World) -> None:
            world.history.append(heard(*fields))
            for name, value in more.items():
                setattr(world.history[-1], name, value)

        return add

    def end(n: int, **more):
        return lambda world: [setattr(world.ends[n], name, value) for name, value in more.items()]

    def refused(user: str, reason: str):
        return voucher(lambda v: v.orders.append(Order("o8", user, "refused", reason)))

    def told_wrong(breaks: str):
        """What rows alone can show: the simulation's self-test spoils the rows (tests/sim/run --self-test)."""
        return lambda world: world.told_wrong[breaks].append("a complaint")

    def roomy(world: World) -> None:
        """More units than could have been taken."""
        world.vouchers["1"].units = world.vouchers["1"].units_least = 6

    def retired(world: World) -> None:
        """Retired in PostgreSQL alone, with no loss that could excuse it."""
        world.vouchers["1"].retired, world.refused_most = True, 0

    def half_retired(state: str):
        """Its last step may be missing; but this is more than that."""

        def change(world: World) -> None:
            world.vouchers["1"].retired, world.vouchers["1"].state = True, state
            world.refused_most, world.retirement_may_stop = 0, True

        return change

    def order(id: str, **more):
        return lambda world: [setattr(world.orders()[id], name, value) for name, value in more.items()]

    def moved(*fields):
        return lambda world: world.moves.append(Move(*fields))

    def other(*fields, **more):
        return lambda world: world.history.append(lived(*fields, **more))

    def unasked(what: str, id: str):
        """Each such request for that order was refused."""

        def change(world: World) -> None:
            for event in world.history:
                if (event.what, event.order) == (what, id):
                    event.status, event.code = 409, "PENDING"

        return change

    def unnamed(reference: str):
        def change(world: World) -> None:
            for event in world.history:
                if (event.what, event.reference) == ("refund", reference):
                    event.reference = ""

        return change

    def unmoved(id: str):
        return lambda world: world.moves.__setitem__(slice(None), [move for move in world.moves if move.order != id])

    def payment(n: int, **more):
        return lambda world: [setattr(world.payments[n], name, value) for name, value in more.items()]

    return {
        "rows_are_right": [lambda world: world.rows_wrong.append("P1")],
        "every_unit_is_somewhere": [
            voucher(lambda v: setattr(v, "redis_stock", 2)),
            voucher(lambda v: setattr(v, "state", "loading")),
            voucher(lambda v: setattr(v, "due_state", "paused")),
            order("e1", status="unpaid"),
            order("k1", reason="RESTOCKED"),
            order("s1", reason="KEPT"),
            lambda world: setattr(world.vouchers["2"], "redis_stock", 7),
            retired,
            half_retired("open"),
            half_retired("loading"),
        ],
        "units_are_held_meanwhile": [
            lambda world: world.samples.append(Sample("1", "open", 3, 3, "1")),
            lambda world: world.samples.append(Sample("1", "open", -1, 5, "1")),
            lambda world: world.samples.pop(0),
            lambda world: world.samples.clear(),
        ],
        "buyers_are_the_orders": [
            voucher(lambda v: v.buyers.update(u0="o8")),
            retired,
            half_retired("loading"),
        ],
        "journal_is_empty": [voucher(lambda v: setattr(v, "journal", 1))],
        "letters_are_accounted_for": [lambda world: setattr(world, "letters", 2)],
        "nothing_is_foreign": [lambda world: world.foreign.append("an order of voucher 99")],
        "rebuilds_are_few": [voucher(lambda v: setattr(v, "rebuilds", 2))],
        "processes_are_well": [
            lambda world: world.logs.append("level=fatal msg=x"),
            lambda world: world.logs.append("==1==ERROR: LeakSanitizer: detected memory leaks"),
            lambda world: world.exits.append("instance 0 ended with 86"),
            lambda world: world.leaks.append("instance 0: 17 descriptors, 16 at start"),
        ],
        "the_audit_had_nothing_to_mend": [
            lambda world: world.logs.append('msg="books differ"'),
            differs("voucher=1 finding=differ epoch=1/1 stock=1/3 buyers=4/4", taken="2"),
            differs("voucher=1 finding=differ epoch=1/1 stock=3/1 buyers=4/4", taken="1"),
            differs("voucher=1 finding=differ epoch=1/1 stock=1/3 buyers=4/5", taken="1"),
            differs("voucher=1 finding=differ epoch=1/1 stock=1/3 buyers=5/4", taken="1", cut="2"),
            differs("voucher=1 finding=differ epoch=1/1 stock=3/1 buyers=5/4", taken="2", cut="1"),
            differs("voucher=1 finding=differ epoch=1/1 stock=1/3 buyers=4/5", taken="2", cut="1"),
        ],
        "created_is_a_row": [told_wrong("created_is_a_row")],
        "accepted_ends": [told_wrong("accepted_ends")],
        "accepted_is_the_users_own": [told_wrong("accepted_is_the_users_own")],
        "accepted_is_mostly_confirmed": [lambda world: setattr(world, "refused_most", 0)],
        "accepted_is_never_unknown": [event(3, 4, "read", "u1", 404, "NOT_FOUND", "o1")],
        "each_url_tells_the_end": [
            end(0, state="pending"),
            end(0, status=503, state="", code="UNAVAILABLE"),
            end(-1, reason="SOLD_OUT"),
            lambda world: world.ends.pop(),
        ],
        "lists_are_complete": [
            lambda world: setattr(world.lists[0], "orders", set()),
            lambda world: setattr(world.lists[1], "orders", set()),
            lambda world: setattr(world.lists[0], "status", 503),
            lambda world: setattr(world.lists[0], "complete", False),
        ],
        "strangers_see_no_order": [
            lambda world: setattr(world.strangers[0], "status", 200),
            lambda world: setattr(world.strangers[0], "status", 503),
            lambda world: setattr(world.vouchers["1"], "rebuilds", 0),
        ],
        "answers_are_for_who_asked": [
            event(3, 4, "read", "u1", 200, "", "o1", "unpaid", shown=["o0", "u1", "1"]),
            event(3, 4, "read", "u1", 200, "", "o1", "unpaid", shown=["o1", "u0", "1"]),
            event(3, 4, "read", "u1", 200, "", "o1", "unpaid", shown=["o1", "u1", "2"]),
        ],
        "refused_left_no_order": [told_wrong("refused_left_no_order")],
        "sold_out_is_true": [
            roomy,
            event(0.3, 0.5, "buy", "u8", 409, "SOLD_OUT"),  # before anybody had asked
        ],
        "reasons_are_true": [
            refused("u8", "ALREADY_ORDERED"),
            roomy,
            lambda world: (roomy(world), refused("u8", "GRANT_LOST")(world), setattr(world, "given_up", 1)),
        ],
        "winners_are_told": [
            event(5, 6, "buy", "u0", 409, "SOLD_OUT"),
            lambda world: (
                event(5, 6, "buy", "u4", 404, "UNKNOWN_VOUCHER")(world),
                setattr(world, "refused_most", 0),  # only accepted so far
            ),
            lambda world: setattr(world, "refused_most", 0),  # nothing was lost: no cached refusal is that old
        ],
        "repeats_name_the_order": [
            event(5, 6, "buy", "u0", 409, "ALREADY_ORDERED", "o1"),
            event(5, 6, "buy", "u0", 202, "", "o8", "pending"),
            lambda world: (
                voucher(lambda v: v.orders.append(Order("x0", "u0", "cancelled", "")))(world),
                event(5, 6, "buy", "u0", 201, "", "x0", "unpaid")(world),
            ),
        ],
        "states_never_go_back": [
            event(3, 4, "read", "u0", 200, "", "o0", "pending"),
            other(9, 10, "read", "u21", 200, "", "c1", "unpaid"),
            other(13, 14, "read", "u22", 200, "", "e1", "paid"),
            lambda world: (
                event(3, 4, "read", "u9", 200, "", "o9", "refused")(world),
                event(5, 6, "read", "u9", 200, "", "o9", "unpaid")(world),
            ),
        ],
        "unknowns_are_few": [
            lambda world: [event(3, 4, "buy", f"w{n}", 503)(world) for n in range(3)],
            lambda world: ([event(3, 4, "buy", f"w{n}", 503)(world) for n in range(3)], world.stalls.append((4.5, 5))),
            lambda world: [event(3, 4, "buy", f"w{n}", 503, "UNAVAILABLE")(world) for n in range(3)],
            lambda world: [event(4, 5, "buy", f"w{n}", 503, "LOADING")(world) for n in range(3)],
        ],
        "newcomers_are_served": [
            lambda world: setattr(world.fresh[0], "stock", 0),
            lambda world: world.fresh.append(Fresh(1, heard(9, 10, "fresh", "new", 409, "SOLD_OUT"))),
            lambda world: world.fresh.append(Fresh(1, heard(9, 10, "fresh", "new", 503, "LOADING"))),
            lambda world: world.fresh.append(Fresh(6, lived(9, 10, "buy", "u22", 409, "ALREADY_ORDERED", "e1"))),
        ],
        "moves_are_allowed": [
            moved("e1", "paid", "shop", 12),
            moved("c1", "unpaid", "user", 12),
            moved("n1", "paid", "shop", 12),
            moved("o9", "paid", "shop", 12),
            moved("x9", "paid", "shop", 12),
            order("p1", status="expired"),
            unmoved("p1"),
        ],
        "ends_were_asked_for": [
            lambda world: setattr(world.moves[6], "at", 9.0),
            order("e1", due=0.0),
            unasked("cancel", "c1"),
            unasked("refund", "k1"),
            unasked("pay", "p1"),
            order("k1", reason="RESTOCKED"),
            order("s1", reason="KEPT"),
        ],
        "moves_answered_are_done": [
            told_wrong("moves_answered_are_done"),
            order("p1", status="unpaid"),
            order("k1", status="paid"),
            payment(2, state="accepted"),
            payment(1, state="accepted"),
            payment(7, state="to_refund"),
            other(3, 4, "cancel", "u26", 200, "", "x1", "cancelled"),
        ],
        "refusals_of_moves_are_true": [
            other(9, 10, "cancel", "u21", 409, "WRONG_STATE", "n1"),
            other(9, 10, "cancel", "u21", 409, "WRONG_STATE", "c1"),
            other(9, 10, "refund", "u20", 409, "WRONG_STATE", "p1"),
            other(9, 10, "pay", "u21", 409, "ALREADY_PAID", "n1", reference="r8"),
            other(9, 10, "cancel", "u21", 404, "NOT_FOUND", "n1"),
        ],
        "payments_are_accounted_for": [
            payment(0, state="to_refund"),
            payment(0, state="refunded"),
            payment(0, amount=9),
            payment(1, state="accepted"),
            payment(0, reference="r8"),
            payment(0, order="x1"),
            payment(6, state="accepted"),
            lambda world: world.payments.pop(6),  # a second payment that is not recorded
            lambda world: world.payments.append(Payment("r2", "p1", "accepted", 10)),
            lambda world: world.payments.pop(0),
            unmoved("p1"),
        ],
        "refunds_settle_what_they_name": [
            payment(5, state="refunded"),  # the repeated refund has settled a later payment
            payment(6, state="refunded"),  # no refund names this second payment
            payment(1, state="refunded"),  # no refund at all
            unnamed("r5"),
            lambda world: world.payments.append(Payment("r7", "k1", "refunded", 5, 9.5)),
            lambda world: [world.moves.remove(move) for move in world.moves if move.order == "k1" and move.by == "olga"],
        ],
        "extensions_are_answered": [
            lambda world: world.extended.clear(),
            lambda world: world.extended.append(("n1", "r8")),
            lambda world: world.extended.append(("p1", "r1")),
            other(2, 3, "extend", "u21", 409, "ALREADY_EXTENDED", "n1", reference="r8"),
            other(2, 3, "extend", "u21", 200, "", "n1", "unpaid", reference="r8"),
        ],
        "nothing_is_overdue": [lambda world: world.overdue.append("n1")],
        "expiry_is_in_time": [lambda world: setattr(world.moves[6], "at", 11.5)],
        "keys_made_one_order": [
            order("n1", key="f1"),
            other(9, 10, "buy", "u21", 201, "", "n1", "unpaid", key="k"),
            other(9, 10, "buy", "u21", 409, "ALREADY_ORDERED", "c1", key="k"),
            lambda world: setattr(world, "refused_most", 0),
            other(9, 10, "buy", "u21", 201, "", "c1", "unpaid", key="k", quantity=2),
        ],
        "feed_tells_each_event_once": [
            lambda world: world.feed.pop(),
            lambda world: world.feed.pop(0),
            lambda world: world.feed.append(("o1", "order.placed")),
            lambda world: world.feed.append(("p1", "order.paid")),
            lambda world: world.feed.append(("x1", "order.paid")),
            lambda world: world.feed.reverse(),
        ],
        "quantities_are_as_asked": [
            told_wrong("quantities_are_as_asked"),
            order("e1", quantity=0),
            lambda world: setattr(world.vouchers["2"], "limit", 2),
        ],
        "orders_are_bounded": [
            told_wrong("orders_are_bounded"),
            other(9, 10, "buy", "u25", 409, "TOO_MANY_ORDERS"),
            other(9, 10, "buy", "u21", 409, "TOO_MANY_ORDERS"),
        ],
        "not_enough_is_true": [
            other(15, 16, "buy", "u25", 409, "NOT_ENOUGH", quantity=3, left=3),
            other(15, 16, "buy", "u25", 409, "NOT_ENOUGH", quantity=3, left=0),
            other(0.5, 0.9, "buy", "u25", 409, "NOT_ENOUGH", quantity=3, left=1),
            lambda world: setattr(world.vouchers["2"], "units_least", 14),
        ],
    }


