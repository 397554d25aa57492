"""What must hold when a fault is over and everything has settled, in the stores (books.py) and in the answers to users
(answers.py). `self_test` shows that each assertion can fail.
"""

from __future__ import annotations

import copy

import answers
import books
import lives
from forged import corruptions, good_world
from world import World

ASSERTIONS = [
    books.rows_are_right,
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
    lives.moves_are_allowed,
    lives.ends_were_asked_for,
    lives.moves_answered_are_done,
    lives.refusals_of_moves_are_true,
    lives.payments_are_accounted_for,
    lives.refunds_settle_what_they_name,
    lives.extensions_are_answered,
    lives.nothing_is_overdue,
    lives.expiry_is_in_time,
    lives.keys_made_one_order,
    lives.feed_tells_each_event_once,
    lives.quantities_are_as_asked,
    lives.not_enough_is_true,
    lives.orders_are_bounded,
]
# Complaints that more waiting cannot resolve.
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
    "moves_are_allowed",
    "ends_were_asked_for",
    "refusals_of_moves_are_true",
    "payments_are_accounted_for",
    "extensions_are_answered",
    "expiry_is_in_time",
    "keys_made_one_order",
    "quantities_are_as_asked",
    "not_enough_is_true",
    "orders_are_bounded",
}
# About the processes: checked again after they have ended.
processes_are_well = books.processes_are_well


def check(world: World) -> dict[str, list[str]]:
    """The complaints, by assertion."""
    found = {assertion.__name__: assertion(world) for assertion in ASSERTIONS}
    return {name: complaints for name, complaints in found.items() if complaints}


# ---- the negative control ----


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
