-- What the approaches buy from: one voucher, and two tables of orders, of which one knows no double.
DROP SCHEMA IF EXISTS approaches CASCADE;
CREATE SCHEMA approaches;
CREATE TABLE approaches.stock (stock int NOT NULL, version int NOT NULL) WITH (fillfactor = 10);
INSERT INTO approaches.stock VALUES (0, 0);
CREATE TABLE approaches.bought (user_id text NOT NULL);
CREATE INDEX bought_by_user ON approaches.bought (user_id);
CREATE TABLE approaches.bought_once (user_id text PRIMARY KEY);
