-- Only on a link that wants notifications: each change of the catalogue sends one.
LISTEN seckill_catalogue
