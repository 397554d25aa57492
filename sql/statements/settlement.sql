SELECT s.*, a.* FROM settlement($1) s, voucher_account($1) a
