"""What must be true when a fault is over and everything has settled: of the stores (books.py) and of what users were
told (answers.py). `self_test` shows that each assertion can complain.
"""

from __future__ import annotations

import copy

import answers
import books
from crowd import Event
from world import Fresh, Order, OrderList, Sample, Voucher, World

ASSERTIONS = [
    books.not_oversold,
    books.one_live_order_each,
    books.every_unit_is_somewhere,
    books.units_are_held_meanwhile,
    books.buyers_are_the_orders,
    books.journal_is_empty,
    books.letters_are_accounted_for,
    books.nothing_is_foreign,
    books.rebuilds_are_few,
    books.processes_are_well,
    books.the_audit_had_nothing_to_mend,
    answers.created_is_a_row,
    answers.accepted_ends,
    answers.accepted_is_the_users_own,
    answers.accepted_is_mostly_confirmed,
    answers.accepted_is_never_unknown,
    answers.each_url_tells_the_end,
    answers.lists_are_complete,
    answers.strangers_see_no_order,
    answers.answers_are_for_who_asked,
    answers.refused_left_no_order,
    answers.sold_out_is_true,
    answers.reasons_are_true,
    answers.winners_are_told,
    answers.repeats_name_the_order,
    answers.states_never_go_back,
    answers.unknowns_are_few,
    answers.newcomers_are_served,
]
MADE_UP = "00000000-0000-7000-8000-000000000"  # and the epoch in hex
# What no waiting makes good.
HOPELESS = {
    "the_audit_had_nothing_to_mend",
    "units_are_held_meanwhile",
    "rebuilds_are_few",
    "created_is_a_row",
    "accepted_is_the_users_own",
    "accepted_is_mostly_confirmed",
    "accepted_is_never_unknown",
    "each_url_tells_the_end",
    "lists_are_complete",
    "strangers_see_no_order",
    "answers_are_for_who_asked",
    "sold_out_is_true",
    "states_never_go_back",
    "unknowns_are_few",
    "newcomers_are_served",
}
# What a busy machine may break as well: tried twice.
TIMELY = {"the suite", "unknowns_are_few"}
# Of the processes: asked once more when they have ended.
processes_are_well = books.processes_are_well


def check(world: World) -> dict[str, list[str]]:
    """The complaints, by assertion."""
    found = {assertion.__name__: assertion(world) for assertion in ASSERTIONS}
    return {name: complaints for name, complaints in found.items() if complaints}


# ---- the negative control ----


def heard(began: float, ended: float, what: str, user: str, status: int = 0, code: str = "", order: str = "", state=""):
    """An event of voucher 1 that shows what was asked for."""
    event = Event(began, ended, what, user, "1", 0, status, code, order, state)
    if status in (200, 201, 202):
        event.shown = [order, user, "1"]
    return event


def good_world() -> World:
    """Five units: three live orders, one held by a dead letter, one for sale; a sixth user's grant was lost."""
    orders = [Order(f"o{n}", f"u{n}", "unpaid", "") for n in range(3)] + [Order("o9", "u9", "refused", "GRANT_LOST")]
    voucher = Voucher("1", 5, 2, 3, orders, {"u4": "o4"}, 1, {f"u{n}": f"o{n}" for n in (0, 1, 2, 4)}, 0, rebuilds=1)
    history = [
        heard(1, 2, "buy", "u0", 201, "", "o0", "unpaid"),
        heard(1, 2, "buy", "u1", 202, "", "o1", "pending"),
        heard(3, 4, "look", "u1", 200, "", "o1", "pending"),
        heard(5, 6, "look", "u1", 200, "", "o1", "unpaid"),
        heard(5, 6, "buy", "u0", 409, "ALREADY_ORDERED", "o0"),
        heard(1, 2, "buy", "u2"),  # unknown: it became an order
        heard(1, 2, "buy", "u9", 202, "", "o9", "pending"),
        heard(7, 8, "buy", "u7", 409, "SOLD_OUT"),
        heard(1, 2, "buy", "u4", 202, "", "o4", "pending"),
        heard(30.5, 32, "buy", "u2", 503),  # Redis did not answer then
        *(heard(2, 3, "buy", f"v{n}", 409, "ENDED") for n in range(20)),
    ]
    ends = [heard(20, 21, "end", f"u{n}", 200, "", f"o{n}", state) for n, state in ((0, "unpaid"), (1, "unpaid"))]
    ends += [heard(20, 21, "end", "u4", 200, "", "o4", "pending"), heard(20, 21, "end", "u9", 200, "", "o9", "refused")]
    ends[-1].reason = "GRANT_LOST"
    return World(
        history,
        {"1": voucher},
        letters=1,
        letters_expected=1,
        refused_most=1,
        rebuilds_most=1,
        unknown_most=0.05,
        samples=[Sample("1", "open", 2, 3, "1"), Sample("1", "loading", 9, 9, "2")],
        stalls=[(30, 31)],
        ends=ends,
        strangers=[
            heard(20, 21, "stranger", "zoe", 404, "NOT_FOUND", f"{MADE_UP}002"),
            heard(20, 21, "stranger", "zoe", 503, "UNAVAILABLE", f"{MADE_UP}001"),  # of an earlier epoch
        ],
        lists=[OrderList("u1", 200, True, {"o1"}), OrderList("u4", 200, True, {"o4"})],
        fresh=[Fresh(1, heard(9, 10, "fresh", "new", 201, "", "o5", "unpaid"))],
    )


def corruptions() -> dict[str, list]:
    """For each assertion, ways to break a world so that it must complain."""

    def voucher(change):
        return lambda world: change(world.vouchers["1"])

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

    def roomy(world: World) -> None:
        """More units than anybody can have taken."""
        world.vouchers["1"].units = 6

    return {
        "not_oversold": [voucher(lambda v: v.orders.extend(Order(f"x{n}", f"x{n}", "paid", "") for n in range(4)))],
        "one_live_order_each": [voucher(lambda v: v.orders.append(Order("o7", "u0", "unpaid", "")))],
        "every_unit_is_somewhere": [
            voucher(lambda v: setattr(v, "redis_stock", 2)),
            voucher(lambda v: setattr(v, "pg_stock", 1)),
            voucher(lambda v: setattr(v, "pg_live", 4)),
            voucher(lambda v: setattr(v, "state", "loading")),
            voucher(lambda v: setattr(v, "retired", True)),
        ],
        "units_are_held_meanwhile": [
            lambda world: world.samples.append(Sample("1", "open", 3, 3, "1")),
            lambda world: world.samples.append(Sample("1", "open", -1, 5, "1")),
            lambda world: world.samples.pop(0),
        ],
        "buyers_are_the_orders": [
            voucher(lambda v: v.buyers.update(u0="o8")),
            voucher(lambda v: setattr(v, "retired", True)),
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
        "the_audit_had_nothing_to_mend": [lambda world: world.logs.append('msg="books differ"')],
        "created_is_a_row": [event(1, 2, "buy", "u8", 201, "", "o8", "unpaid")],
        "accepted_ends": [
            voucher(lambda v: v.orders.remove(v.orders[3])),
            voucher(lambda v: setattr(v.orders[3], "reason", "")),
        ],
        "accepted_is_the_users_own": [
            event(1, 2, "buy", "u8", 202, "", "o0", "pending"),
            event(1, 2, "buy", "u8", 202, "", "o4", "pending"),
        ],
        "accepted_is_mostly_confirmed": [lambda world: setattr(world, "refused_most", 0)],
        "accepted_is_never_unknown": [event(3, 4, "look", "u1", 404, "NOT_FOUND", "o1")],
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
            event(3, 4, "look", "u1", 200, "", "o1", "unpaid", shown=["o0", "u1", "1"]),
            event(3, 4, "look", "u1", 200, "", "o1", "unpaid", shown=["o1", "u0", "1"]),
            event(3, 4, "look", "u1", 200, "", "o1", "unpaid", shown=["o1", "u1", "2"]),
        ],
        "refused_left_no_order": [voucher(lambda v: v.orders.append(Order("o7", "u7", "unpaid", "")))],
        "sold_out_is_true": [
            roomy,
            event(0.3, 0.5, "buy", "u8", 409, "SOLD_OUT"),  # before anybody had asked
        ],
        "reasons_are_true": [refused("u8", "ALREADY_ORDERED"), roomy],
        "winners_are_told": [
            event(5, 6, "buy", "u0", 409, "SOLD_OUT"),
            event(5, 6, "buy", "u4", 404, "UNKNOWN_VOUCHER"),
        ],
        "repeats_name_the_order": [
            event(5, 6, "buy", "u0", 409, "ALREADY_ORDERED", "o1"),
            event(5, 6, "buy", "u0", 202, "", "o8", "pending"),
        ],
        "states_never_go_back": [
            event(3, 4, "look", "u0", 200, "", "o0", "pending"),
            lambda world: (
                event(3, 4, "look", "u9", 200, "", "o9", "refused")(world),
                event(5, 6, "look", "u9", 200, "", "o9", "unpaid")(world),
            ),
        ],
        "unknowns_are_few": [
            lambda world: [event(3, 4, "buy", f"w{n}", 503)(world) for n in range(3)],
            lambda world: ([event(3, 4, "buy", f"w{n}", 503)(world) for n in range(3)], world.stalls.append((4.5, 5))),
        ],
        "newcomers_are_served": [
            lambda world: setattr(world.fresh[0], "stock", 0),
            lambda world: world.fresh.append(Fresh(1, heard(9, 10, "fresh", "new", 409, "SOLD_OUT"))),
            lambda world: world.fresh.append(Fresh(1, heard(9, 10, "fresh", "new", 503, "LOADING"))),
        ],
    }


def self_test() -> list[str]:
    """What is wrong with the checker itself."""
    wrong = [f"complains about a good world: {check(good_world())}"] if check(good_world()) else []
    broken = corruptions()
    for assertion in ASSERTIONS:
        for number, corrupt in enumerate(broken[assertion.__name__], 1):
            world = copy.deepcopy(good_world())
            corrupt(world)
            if assertion.__name__ not in check(world):
                wrong.append(f"{assertion.__name__} does not see what it is for ({number})")
    return wrong
