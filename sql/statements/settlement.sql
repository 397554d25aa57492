SELECT s.*, a.*, p.* FROM settlement($1) s, settlement_account($1) a, settlement_payments($1) p
