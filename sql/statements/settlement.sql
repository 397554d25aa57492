SELECT * FROM settlement($1)
