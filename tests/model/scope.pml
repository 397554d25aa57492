/* The other vouchers of the scope, as the environment of this one. Users are alike: only user 0 buys there.
 *
 * Of them the model has only the row in PostgreSQL. Their buyers in Redis need none: see MAY_BE_ELSEWHERE.
 */
#if OTHERS > 0
byte others = OTHERS;

proctype Others()
{
end_rest:
	do
	:: atomic { others > 0 && !elsewhere && !HAS_LIVE(0) -> others--; elsewhere = 1; assert_one_in_scope() }
	:: atomic { others > 0 && elsewhere -> others--; elsewhere = 0 }
	:: atomic { others > 0 -> others = 0 } /* it stays: the judge must see what waits for its end */
	od
}
#endif
