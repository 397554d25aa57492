-- The time to pay is part of an offer, too. The answer to a purchase shows when the order expires, and an instance that
-- has not read a change yet would show the old time. Redis and the table of offers need only the number.

-- As in 003_catalogue.sql, with pay_within_s.
CREATE OR REPLACE FUNCTION number_voucher_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE seckill_catalogue SET change = change + 1 RETURNING change INTO NEW.change;
    IF TG_OP = 'UPDATE'
       AND (NEW.price_cents, NEW.currency, NEW.user_limit, NEW.pay_within_s, NEW.ticket, NEW.work_bits)
           <> (OLD.price_cents, OLD.currency, OLD.user_limit, OLD.pay_within_s, OLD.ticket, OLD.work_bits) THEN
        NEW.offer := OLD.offer + 1;
    END IF;
    PERFORM pg_notify('seckill_catalogue', '');
    RETURN NEW;
END
$$;
