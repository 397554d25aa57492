SELECT count(*) FROM approaches.bought WHERE user_id = $1
