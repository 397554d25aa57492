SELECT list_vouchers()
