-- Only on a link that wants to be told: each change of the catalogue sends one notification.
LISTEN seckill_catalogue
