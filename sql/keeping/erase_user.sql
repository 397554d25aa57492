SELECT outcome, pseudonym, orders, letters, vouchers FROM erase_user($1)
