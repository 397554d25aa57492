SELECT s.*, a.* FROM settlement($1) s, settlement_account($1) a
